"""Half precision: of arithmetic on float32 weights, and also of weights."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.graph.interpreter import interpret
from kerasrec._src.ops.table import adds_halves
from kerasrec.layers import ChildSumTreeLSTM, Recursive, RecursiveCell, SchemaEncoder, TreeRNN
from tests.layers.helpers import (
    any_layer,
    features,
    random_children,
    treebank_batch,
)
from tests.layers.own_cell import GatedCell

each_policy = pytest.mark.parametrize(
    "policy", ["mixed_float16", pytest.param("mixed_bfloat16", marks=pytest.mark.slow)]
)


@pytest.fixture
def global_policy(policy):
    keras.config.set_dtype_policy(policy)
    yield policy
    keras.config.set_dtype_policy("float32")


@any_layer
@each_policy
@pytest.mark.slow
def test_fit_under_a_global_policy(layer_class, global_policy):
    tokens, children, labels = treebank_batch(20)
    inputs = keras.Input((None,), dtype="int32"), keras.Input((None, 2), dtype="int32")
    layer = layer_class(8, return_sequences=True, dropout=0.1, recurrent_dropout=0.1)
    hidden = layer(keras.layers.Embedding(500, 6)(inputs[0]), inputs[1])
    assert hidden.dtype == layer.compute_dtype
    assert layer.compute_dtype == layer.cell.compute_dtype == global_policy.removeprefix("mixed_")
    model = keras.Model(inputs, keras.layers.Dense(5, dtype="float32")(hidden))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    model.compile(keras.optimizers.Adam(0.05), loss)
    fitted = model.fit((tokens, children), labels, batch_size=5, epochs=4, verbose=0)
    assert fitted.history["loss"][-1] < 0.8 * fitted.history["loss"][0]
    assert all(weight.dtype == "float32" for weight in layer.weights)
    assert "bf16" in str(layer.tagged_graph()) or "f16" in str(layer.tagged_graph())


@pytest.mark.slow
@each_policy
def test_cell_with_layers_of_its_own(global_policy):
    children = random_children(4, 5, 2)
    layer = Recursive(GatedCell(3))
    x = tf.constant(features(children), "float32")
    with tf.GradientTape() as tape:
        output = layer(x, children)
        loss = tf.reduce_sum(tf.cast(output, "float32"))
    assert output.dtype == layer.compute_dtype != "float32"
    assert all(gradient.dtype == "float32" for gradient in tape.gradient(loss, layer.weights[:6]))


@keras.saving.register_keras_serializable("tests")
class DenseCell(RecursiveCell):
    """Its layer is made in the dtype of the process."""

    state_size = 3

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(3)

    def build(self, input_shape):
        self.dense.build(input_shape)

    def call_leaf(self, inputs):
        hidden = self.dense(inputs)
        return hidden, [hidden]

    def call(self, inputs, states):
        hidden = self.dense(states[0][0]) - states[1][0]
        return hidden, [hidden]


@each_policy
def test_a_saved_cell_loads_under_another_policy(global_policy):
    layer = Recursive(DenseCell())
    x, children = tf.ones([1, 3, 3]), np.array([[[1, 2], [-1, -1], [-1, -1]]])
    root = layer(x, children)
    config = keras.saving.serialize_keras_object(layer)
    keras.config.set_dtype_policy("float32")
    loaded = keras.saving.deserialize_keras_object(config)
    assert keras.config.dtype_policy().name == "float32"
    assert loaded.cell.dense.dtype_policy.name == global_policy
    loaded.build(x.shape, children.shape)
    loaded.set_weights(layer.get_weights())
    np.testing.assert_array_equal(loaded(x, children), root)
    kernel, leaf = layer.cell.dense.kernel.numpy(), layer.cell.dense.kernel.numpy().sum(0)
    np.testing.assert_allclose(tf.cast(root, "float32")[0], leaf @ kernel - leaf, atol=0.05)


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_a_layer_of_another_dtype_than_its_cell(shift):
    class ShiftedCell(DenseCell):
        def call_leaf(self, inputs):
            hidden = self.dense(inputs)
            hidden = hidden + shift * inputs if shift else hidden
            return hidden, [hidden]

    layer = Recursive(ShiftedCell(dtype="mixed_bfloat16"))
    match = r"computes in bfloat16, and `dense\w*` in it in float32: .*dtype=self.dtype_policy"
    with pytest.raises(kerasrec.TraceError, match=match):
        layer(tf.ones([1, 1, 3]), tf.fill([1, 1, 2], -1))


@pytest.mark.many
@any_layer
@each_policy
def test_graph_before_the_first_call(layer_class, policy):
    layer = layer_class(3, dtype=policy)
    layer.build((None, None, 4), (None, None, 2))
    assert "MatMul" in str(layer.tagged_graph())
    children = random_children(4, 5, 2)
    assert layer(features(children), children).dtype == layer.compute_dtype


# Sums of many numbers, which TensorFlow adds in half precision until they stop growing.

MANY = 4000
each_half = pytest.mark.parametrize(
    "dtype", [pytest.param("float16", marks=pytest.mark.many), "bfloat16"]
)
mostly_bfloat16 = pytest.mark.parametrize(
    "dtype", [pytest.param("float16", marks=pytest.mark.slow), "bfloat16"]
)


@pytest.mark.many
@each_half
@pytest.mark.parametrize("engine", ["waves", pytest.param("compiled", marks=pytest.mark.slow)])
def test_gradients_of_many_leaves(dtype, engine):
    """The gradient of a mean over trees that are all alike, of a leaf each, is that of a few."""
    policy = f"mixed_{dtype}"
    for options in ({"bias_initializer": "ones"}, {"dropout": 0.0}, {"dropout": 1e-9}):
        if "dropout" in options:
            options["embedding"] = keras.layers.Embedding(2, 3, "ones", dtype=policy)
        layer = TreeRNN(3, dtype=policy, engine=engine, **options)

        def gradients(size, layer=layer):
            x = tf.ones([size, 1], tf.int32) if layer.embedding else tf.ones([size, 1, 3])
            with tf.GradientTape() as tape:
                y = layer(x, tf.fill([size, 1, 2], -1), training=True)
                mean = tf.reduce_mean(tf.cast(y, tf.float32))
            found = tape.gradient(mean, layer.trainable_weights, unconnected_gradients="zero")
            return [tf.convert_to_tensor(gradient).numpy() for gradient in found]

        few, many = gradients(4), gradients(MANY)
        assert len(few) == 3 + ("dropout" in options)
        for given, wanted in zip(many, few, strict=True):
            np.testing.assert_allclose(given, wanted, atol=0.02 * np.abs(wanted).max())


@mostly_bfloat16
@pytest.mark.many
def test_a_node_with_many_children(dtype):
    """Their sums are not those of half precision: all children are alike."""
    num_children = MANY if dtype == "float16" else MANY // 8
    children = np.full([1, num_children + 1, num_children], -1)
    children[0, 0] = 1 + np.arange(num_children)
    layer = ChildSumTreeLSTM(2, dtype=f"mixed_{dtype}", return_state=True)
    x = tf.ones([1, num_children + 1, 1])
    found = layer(x, children)
    exact = ChildSumTreeLSTM(2, return_state=True)
    exact.build((None, None, 1), (None, None, None))
    exact.set_weights(layer.get_weights())
    for given, wanted in zip(found[1:], exact(x, children)[1:], strict=True):
        wanted = wanted.numpy()
        np.testing.assert_allclose(
            tf.cast(given, tf.float32), wanted, atol=0.03 * np.abs(wanted).max()
        )


@mostly_bfloat16
@pytest.mark.many
def test_pooling_of_many_documents(dtype):
    document = {"x": 1.0}
    schema = kerasrec.Schema.infer([{"parts": [{"x": 1.5}, {"x": 2.5}]}])
    for pooling in ("mean", "attention"):
        layer = SchemaEncoder(schema, 3, dtype=f"mixed_{dtype}", pooling=pooling)
        one, many = (layer(schema.encode([{"parts": [document] * n}])) for n in (1, MANY))
        np.testing.assert_allclose(tf.cast(one, tf.float32), tf.cast(many, tf.float32), atol=0.02)


@each_half
def test_gradients_of_what_a_function_closes_over(dtype):
    bias, kernel = (tf.Variable(tf.ones([2], dtype)) for _ in range(2))
    table = tf.ones([3, 2], dtype)

    @kerasrec.recursive
    def f(x, n):
        return kerasrec.cond(
            n < 1,
            lambda: tf.nn.bias_add(x * kernel, bias) + tf.gather(table, n),
            lambda: f(x, n - 1),
        )

    x, n = tf.ones([MANY, 2], dtype), tf.zeros([MANY], tf.int32)
    with tf.GradientTape() as tape:
        tape.watch(table)
        y = f(x, n)
    *found, of_table = tape.gradient(y, [bias, kernel, table])
    for gradient in [*found, tf.convert_to_tensor(of_table)[0]]:
        np.testing.assert_allclose(tf.cast(gradient, tf.float32), [MANY] * 2, rtol=0.01)


DEPTH = 600
ONES = tf.ones([2, 2], "bfloat16")
PER_LEVEL = {
    "products": lambda x, kernel: x * kernel[0],
    "matrices": lambda x, kernel: tf.matmul(x, kernel),
    "einsum": lambda x, kernel: tf.einsum("bi,ij->bj", x, kernel),
}


@pytest.mark.many
@pytest.mark.parametrize("options", [{}, {"recompute": True}], ids=["kept", "recomputed"])
@pytest.mark.parametrize(
    "name", ["products", pytest.param("matrices", marks=pytest.mark.slow), "einsum"]
)
def test_gradients_of_a_long_chain(name, options):
    """Each level adds 1 to the gradient; a bfloat16 sum of ones ends at 256."""
    kernel = tf.Variable(tf.eye(2, dtype="bfloat16") if name != "products" else ONES)

    @kerasrec.recursive(**options)
    def f(n, x):
        return kerasrec.cond(n < 1, lambda: x, lambda: f(n - 1, PER_LEVEL[name](x, kernel)))

    with tf.GradientTape() as tape:
        y = f([DEPTH], tf.ones([1, 2], "bfloat16"))
    found = tf.convert_to_tensor(tape.gradient(y, kernel))[0]
    np.testing.assert_allclose(tf.cast(found, tf.float32), [DEPTH] * 2, rtol=0.01)


@pytest.mark.many
@pytest.mark.parametrize("engine", ["waves", pytest.param("compiled", marks=pytest.mark.slow)])
def test_a_row_of_a_table_that_many_calls_write(engine):
    @kerasrec.recursive(engine=engine)
    def f(n):
        kerasrec.collect("ones", tf.ones_like(n, "bfloat16"), tf.zeros_like(n), 1)
        return kerasrec.cond(n < 1, lambda: n, lambda: f(n - 1))

    _, collected = f.with_collected([DEPTH])
    np.testing.assert_allclose(tf.cast(collected["ones"], tf.float32), [DEPTH + 1], rtol=0.01)


@pytest.mark.many
def test_what_a_graph_means_is_summed_in_float32():
    """The interpreter, which the passes are checked against, adds no halves either."""
    leaf, kernel = tf.Variable(ONES[0]), tf.Variable(ONES[0])

    @kerasrec.recursive(memo=True)
    def f(n):
        one = tf.ones([tf.shape(n)[0], 2], "bfloat16")
        kerasrec.collect("ones", one, tf.zeros_like(n), 1)
        return kerasrec.cond(
            n < 1, lambda: one * leaf, lambda: f(n - 1) * f(tf.zeros_like(n)) * kernel
        )

    start, cotangent = np.array([270], "int32"), ONES[0][np.newaxis]
    found = interpret(f.extended_graph(start), [start], [cotangent])
    assert len(found.shared_gradients) == 2
    for sum_of_ones in [*found.tables.values(), *found.shared_gradients.values()]:
        np.testing.assert_allclose(sum_of_ones.astype("float32").ravel(), [270] * 2, rtol=0.01)


@pytest.mark.many
def test_products_within_a_token_stay_in_half_precision():
    kernel = tf.Variable(ONES)

    @kerasrec.recursive
    def f(x):
        return tf.einsum("bi,ij->bj", x, kernel)

    (product,) = (node for node in f.tagged_graph(ONES).nodes if node.op == "Einsum")
    assert not adds_halves(product.operation)


@pytest.mark.many
@pytest.mark.parametrize("engine", ["waves", pytest.param("compiled", marks=pytest.mark.slow)])
def test_the_gradient_of_a_call_with_many_callers(engine):
    leaf = tf.Variable(ONES[0])

    @kerasrec.recursive(memo=True, engine=engine)
    def f(n):
        one = tf.ones([tf.shape(n)[0], 2], "bfloat16")
        return kerasrec.cond(n < 1, lambda: one * leaf, lambda: f(n - 1) * f(tf.zeros_like(n)))

    with tf.GradientTape() as tape:
        y = f([DEPTH])
    found = tape.gradient(y, leaf)
    np.testing.assert_allclose(tf.cast(found, tf.float32), [DEPTH + 1] * 2, rtol=0.01)
