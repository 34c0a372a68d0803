"""One model takes the same steps in every training loop; and one seed draws the same batches."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec.datasets import tree_batches
from kerasrec.layers import SchemaEncoder, TopDownTreeLSTMCell, TreeDecoder, TreeGRU, TreeLSTM
from kerasrec.training import Model, TreeCrossentropy, TreeNegativeLogLikelihood, fit
from tests.parameters import few_of

TOKENS = np.random.default_rng(0).integers(1, 6, [8, 7]).astype("int32")
CHILDREN = np.tile(np.array([[1, 2], [3, 4], [5, 6]] + [[-1, -1]] * 4, "int32"), [8, 1, 1])
LABELS = np.where(np.arange(7) > 0, TOKENS, -1)
SCHEMA = kerasrec.Schema.infer([{"color": color, "tags": ["a b", "b"]} for color in "xyz"])
INPUTS = SCHEMA.inputs()
DOCUMENTS = [{"color": "xyz"[i % 3], "tags": ["a b", "b a b", "b"][: i % 4]} for i in range(8)]


class Rows(keras.layers.Layer):
    """The sum of the rows of a table from 0 to a number, by a recursive function."""

    def build(self, numbers_shape, children_shape):
        self.table = self.add_weight(shape=[6, 4], name="table")

    def call(self, numbers, children):
        table = self.table.value

        @kerasrec.recursive
        def total(number):
            row = tf.gather(table, number)
            return kerasrec.cond(number < 1, lambda: row, lambda: row + total(number - 1))

        return tf.reshape(total(tf.reshape(numbers, [-1])), [-1, 7, 4])

    def compute_output_shape(self, numbers_shape, children_shape):
        return (*numbers_shape, 4)


def of_trees(outputs, loss):
    inputs = [keras.Input([7], dtype="int32"), keras.Input([7, 2], dtype="int32")]
    model = inputs, outputs(*inputs), loss
    return model, ((TOKENS, CHILDREN), LABELS)


def decoder():
    cell = TopDownTreeLSTMCell(6, arity=2)
    return of_trees(TreeDecoder(cell, 6, 5, max_depth=3), TreeNegativeLogLikelihood())


def tree_lstm(embedding=lambda: keras.layers.Embedding(6, 4)):
    layer = TreeLSTM(5, read_inner_inputs=True, embedding=embedding(), return_sequences=True)
    return of_trees(lambda *x: keras.layers.Dense(6)(layer(*x)), TreeCrossentropy())


def with_more_layers():
    return tree_lstm(
        lambda: keras.Sequential([keras.layers.Embedding(6, 4), keras.layers.Dense(4)])
    )


def two_trees():
    """One layer reads two trees, so words of both meet in one gradient."""
    layer = TreeLSTM(5, read_inner_inputs=True, embedding=keras.layers.Embedding(6, 4))
    outputs = keras.layers.Dense(6)
    return of_roots(lambda x, links: outputs(layer(x, links) * layer(x[:, ::-1], links)))


def two_layers():
    """Two layers have one embedding."""
    embedding = keras.layers.Embedding(6, 4)
    layers = [of(5, read_inner_inputs=True, embedding=embedding) for of in (TreeLSTM, TreeGRU)]
    outputs = keras.layers.Dense(6)
    return of_roots(lambda *x: outputs(layers[0](*x) * layers[1](*x)))


def of_roots(outputs):
    (inputs, found, _), (x, _) = of_trees(outputs, None)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return (inputs, found, loss), (x, np.arange(8) % 6)


def several_unknown_words():
    """Different words have one number."""
    return tree_lstm(
        lambda: keras.Sequential(
            [
                keras.layers.IntegerLookup(vocabulary=[1, 2, 3], mask_token=0),
                keras.layers.Embedding(5, 4),
            ]
        )
    )


def recursive_function():
    return of_trees(lambda *inputs: keras.layers.Dense(6)(Rows()(*inputs)), TreeCrossentropy())


def schema_encoder():
    outputs = keras.layers.Dense(2)(SchemaEncoder(SCHEMA, 3, num_hash_bins=4)(INPUTS))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return (INPUTS, outputs, loss), (SCHEMA.encode(DOCUMENTS), np.arange(8) % 2)


def steps_of(make, loop, strategy):
    """The weights after two epochs."""
    with strategy.scope():
        keras.utils.set_random_seed(3)
        (inputs, outputs, loss), data = make()
        model = keras.Model(inputs, outputs)
        model.compile(keras.optimizers.Adam(0.01), loss)
    loop(model, tf.data.Dataset.from_tensor_slices(data).batch(4))
    return model.get_weights()


def of_keras(model, data):
    model.fit(data, epochs=2, shuffle=False, verbose=0)


def ours(model, data):
    fit(model, data, epochs=2, verbose=0)


def dense(model, data):
    """By hand, where the gradients of tables are dense."""

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = model.loss(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply(list(map(tf.convert_to_tensor, gradients)))

    model.optimizer.build(model.trainable_variables)
    for _ in range(2):
        for batch in data:
            step(*batch)


ALONE = tf.distribute.get_strategy()
MODELS = [tree_lstm, decoder, recursive_function, schema_encoder, two_trees]
MODELS += [two_layers, several_unknown_words, with_more_layers]


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, 1e-4, 1e-6)


@functools.cache
def expected_of(make):
    return steps_of(make, dense, ALONE)


@pytest.mark.parametrize(
    "make", few_of(MODELS, many=[tree_lstm, recursive_function, schema_encoder, two_trees])
)
def test_one_model_takes_the_same_steps_in_every_loop(make):
    """Adam squares gradients, so a word that is read twice must have one gradient."""
    assert_same(steps_of(make, of_keras, ALONE), expected_of(make))
    assert_same(steps_of(make, ours, ALONE), expected_of(make))


@pytest.mark.parametrize("make", few_of([*MODELS[:3], *MODELS[4:7]], many=MODELS[:1]))
def test_replicas_of_a_plain_model_take_the_same_steps(make, two_replicas):
    assert_same(steps_of(make, of_keras, two_replicas), expected_of(make))


@pytest.mark.slow
def test_replicas_warn_of_embeddings_that_keras_cannot_follow(two_replicas):
    with pytest.warns(UserWarning, match="Train with kerasrec.training.Model"):
        steps_of(with_more_layers, of_keras, two_replicas)
    expected = steps_of(with_more_layers, dense, ALONE)
    assert_same(steps_of(with_more_layers, ours, two_replicas), expected)


class Seen(keras.layers.Layer):
    """Notes what it reads first."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def call(self, x, children):
        return tf.ensure_shape(tf.py_function(self._note, [x], tf.float32), x.shape)

    def _note(self, x):
        self.seen.append(x.numpy().ravel().tolist())
        return tf.cast(x, tf.float32)

    def compute_output_shape(self, x_shape, children_shape):
        return x_shape


def shuffled():
    """Batches of trees of one node, whose word is the number of the tree."""
    trees = [(np.array([i]), np.array([[-1, -1]]), np.array([i])) for i in range(1, 41)]
    return tree_batches(trees, 4, shuffle=True, seed=11, bucket_by_size=True)


def seen_by(model_class, train):
    """The batches that a model gets, of three epochs."""
    keras.utils.set_random_seed(2)
    inputs = [keras.Input([1], dtype="int32"), keras.Input([1, 2], dtype="int32")]
    layer = Seen()
    model = model_class(inputs, keras.layers.Dense(1)(layer(*inputs)))
    model.compile("sgd", "mse")
    train(model)
    return np.reshape(layer.seen, [3, -1])


OPTIONS = {"epochs": 3, "verbose": 0}
ON_ONE = tf.distribute.OneDeviceStrategy("CPU:1")


def test_one_seed_draws_the_same_batches_in_every_loop(tmp_path):
    keras.utils.set_random_seed(2)
    data = shuffled().unbatch().map(lambda x, _: x[0][0])
    expected = [list(data.as_numpy_iterator()) for _ in range(3)]
    assert len({tuple(epoch) for epoch in expected}) == 3
    for model_class, train in [
        (keras.Model, lambda model: model.fit(shuffled(), shuffle=False, **OPTIONS)),
        (Model, lambda model: model.fit(shuffled(), **OPTIONS)),
        (Model, lambda model: model.fit(shuffled(), backup_dir=tmp_path, **OPTIONS)),
        (Model, lambda model: fit(model, shuffled(), **OPTIONS)),
    ]:
        np.testing.assert_array_equal(seen_by(model_class, train), expected)
    with ON_ONE.scope():
        found = seen_by(Model, lambda model: model.fit(shuffled(), **OPTIONS))
    np.testing.assert_array_equal(found, expected)


def test_one_seed_draws_the_same_batches_of_arrays(tmp_path):
    x = [np.arange(40)[:, None], np.full([40, 1, 2], -1)]

    def train(model, **options):
        model.fit(x, x[0], 8, **OPTIONS, **options)

    first = seen_by(Model, train)
    for options in {"backup_dir": tmp_path / "alone"}, {}, {"backup_dir": tmp_path / "on"}:
        scope = tf.distribute.get_strategy() if "alone" in str(options) else ON_ONE
        with scope.scope():
            found = seen_by(Model, functools.partial(train, **options))
        np.testing.assert_array_equal(found, first)
    assert len({tuple(epoch) for epoch in first}) == 3
    np.testing.assert_array_equal(np.sort(first), [np.arange(40)] * 3)
