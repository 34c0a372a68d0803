"""Models whose training step XLA compiles with a tree layer in it: the same as without XLA."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec.layers import ChildSumTreeLSTM, Recursive, RecursiveCell, TopDownTreeLSTM, TreeRNN
from tests.layers.helpers import READY, random_children, with_random_weights
from tests.layers.test_engine import inputs_of
from tests.parameters import few_of


def model_of(name, takes_words, engine):
    arity = READY[name].arity
    children = keras.Input([None, arity], dtype="int32")
    if takes_words:
        x = keras.Input([None], dtype="int32")
        layer = READY[name].make(engine=engine, embedding=keras.layers.Embedding(20, 4))
    else:
        x, layer = keras.Input([None, 4]), READY[name].make(engine=engine)
    outputs = keras.layers.Dense(5)(layer(x, children))
    return with_random_weights(keras.Model([x, children], outputs))


CASES = [(name, takes_words) for name in sorted(READY) for takes_words in (True, False)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "takes_words"), few_of(CASES, many=[("TreeLSTM", True)]))
def test_fit_evaluate_and_predict(name, takes_words):
    """Adagrad squares each row of an embedding's gradient: a word has one row, then."""
    children = random_children(6, 7, READY[name].arity, seed=3)
    x = inputs_of(children, takes_words)
    labels = np.random.default_rng(4).integers(0, 5, children.shape[:2])
    found = []
    for engine, jit_compile in (("waves", False), ("compiled", True)):
        model = model_of(name, takes_words, engine)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adagrad(0.1), loss, jit_compile=jit_compile)
        history = model.fit((x, children), labels, batch_size=3, epochs=2, shuffle=False, verbose=0)
        assert model.jit_compile == jit_compile
        found.append(
            [
                np.array(history.history["loss"]),
                *model.get_weights(),
                np.array(model.evaluate((x, children), labels, batch_size=3, verbose=0)),
                model.predict((x, children), batch_size=3, verbose=0),
            ]
        )
    for without, within in zip(*found, strict=True):
        np.testing.assert_allclose(within, without, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("wrap", [lambda layer: layer, lambda layer: keras.Sequential([layer])])
def test_a_second_derivative_through_words(wrap):
    """A table of words is read row by row in XLA, unless a layer stands before or after it."""
    children = random_children(4, 7, 2, seed=3)
    words = inputs_of(children, True)
    embedding = wrap(keras.layers.Embedding(20, 4, dtype="float64"))
    layers = [
        READY["TreeLSTM"].make(engine=engine, embedding=embedding, dtype="float64")
        for engine in ("waves", "compiled")
    ]
    for layer in layers:
        layer.build((None, None), (None, None, 2))
    with_random_weights(layers[0])
    layers[1].set_weights(layers[0].get_weights())

    def penalty_and_slopes(layer):
        weights = layer.trainable_variables
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                loss = tf.reduce_sum(tf.sin(layer(words, children, training=True)))
            slopes = [tf.convert_to_tensor(one) for one in inner.gradient(loss, weights)]
            penalty = tf.add_n([tf.reduce_sum(one**2) for one in slopes])
        slopes += [tf.convert_to_tensor(one) for one in outer.gradient(penalty, weights)]
        return [penalty, *slopes]

    expected = tf.function(penalty_and_slopes, autograph=False)(layers[0])
    found = tf.function(penalty_and_slopes, jit_compile=True, autograph=False)(layers[1])
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.many
def test_an_embedding_that_adds_a_loss_is_an_error():
    embedding = keras.layers.Embedding(20, 4, activity_regularizer="l2")
    layer = TreeRNN(3, embedding=embedding, engine="compiled")
    children = random_children(2, 3, 2)
    layer.build((None, None), (None, None, 2))
    with pytest.raises(kerasrec.TraceError, match="adds a loss"):
        within_xla(layer, inputs_of(children, True), children)


@functools.cache
def layer_and_gradient():
    """A layer, and its outputs and a gradient as one function that is compiled once."""
    layer = TreeRNN(3)
    layer.build((None, None, 4), (None, None, 2))

    def run(x, children):
        with tf.GradientTape() as tape:
            outputs = layer(x, children)
        return outputs, tape.gradient(outputs, layer.cell.recurrent_kernel.value)

    return layer, tf.function(run, jit_compile=True, autograph=False)


def within_xla(layer, x, children):
    return tf.function(layer, jit_compile=True, autograph=False)(x, children)


CHILDREN = np.array([[[1, 2], [3, 4], [-1, -1], [-1, -1], [-1, -1]]], np.int32)
WRONG = {
    "out of range": [[1, 5], [3, 4], [-1, -1], [-1, -1], [-1, -1]],
    "negative": [[1, -2], [3, 4], [-1, -1], [-1, -1], [-1, -1]],
    "two parents": [[1, 2], [2, 4], [-1, -1], [-1, -1], [-1, -1]],
    "root as a child": [[1, 0], [3, 4], [-1, -1], [-1, -1], [-1, -1]],
    "two roots": [[-1, -1], [3, 4], [-1, -1], [-1, -1], [-1, -1]],
    "cycle": [[1, 2], [-1, -1], [-1, -1], [4, -1], [3, -1]],
}


@pytest.mark.parametrize("name", few_of(WRONG))
def test_wrong_trees_give_not_a_number(name):
    (layer, compiled), x = layer_and_gradient(), tf.ones([2, 5, 4])
    children = tf.constant(np.stack([CHILDREN[0], WRONG[name]]), tf.int32)
    for found in compiled(x, children):
        assert np.isnan(found).all()
    for found in compiled(x, tf.constant(np.stack([CHILDREN[0], CHILDREN[0]]))):
        assert np.isfinite(found).all()
    with pytest.raises(tf.errors.InvalidArgumentError, match="children"):
        layer(x, children)


@pytest.mark.slow
def test_another_number_of_nodes_gives_not_a_number():
    layer = TreeRNN(3)
    shapes = [tf.TensorSpec([None, None, 4]), tf.TensorSpec([None, None, 2], tf.int32)]
    run = tf.function(layer, input_signature=shapes, jit_compile=True, autograph=False)
    assert np.isfinite(run(tf.ones([1, 5, 4]), CHILDREN)).all()
    assert np.isnan(run(tf.ones([1, 6, 4]), CHILDREN)).all()


@pytest.mark.slow
def test_a_word_without_a_vector_gives_not_a_number():
    layer = TreeRNN(3, embedding=keras.layers.Embedding(5, 4))
    right, wrong = tf.constant([[0, 0, 4, 3, 2]]), tf.constant([[0, 0, 5, 3, 2]])
    assert np.isfinite(within_xla(layer, right, CHILDREN)).all()
    assert np.isnan(within_xla(layer, wrong, CHILDREN)).all()


@pytest.mark.slow
def test_children_may_stand_before_their_parents():
    layer, x = TreeRNN(3), tf.random.stateless_normal([1, 5, 4], [1, 2])
    children = tf.constant([[[4, 2], [-1, -1], [-1, -1], [-1, -1], [1, 3]]])
    np.testing.assert_allclose(within_xla(layer, x, children), layer(x, children), rtol=1e-5)


CHAINS = [(layer, arity) for layer in (TreeRNN, TopDownTreeLSTM) for arity in (2, 3)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "arity"), few_of(CHAINS, many=[(TreeRNN, 3), (TopDownTreeLSTM, 2)])
)
def test_missing_children_are_calls_too(layer, arity):
    """A chain: each inner node has one child, and the others are missing."""
    children = np.full([1, 12, arity], -1)
    children[0, :-1, 0] = np.arange(1, 12)
    layer, x = layer(3, arity=arity), tf.ones([1, 12, 4])
    np.testing.assert_allclose(
        within_xla(layer, x, tf.constant(children)), layer(x, children), rtol=1e-5
    )


@pytest.mark.many
def test_states_of_roots():
    layer, x, children = TopDownTreeLSTM(3), tf.ones([2, 2, 4]), np.array([[[1], [-1]]] * 2)

    @tf.function(input_signature=[tf.TensorSpec([None, 3])], jit_compile=True, autograph=False)
    def run(state):
        return layer(x, children, initial_state=[state, state])

    expected = layer(x, children, initial_state=[tf.ones([2, 3])] * 2)
    np.testing.assert_allclose(run(tf.ones([2, 3])), expected, rtol=1e-5)
    assert not np.allclose(expected, run(tf.zeros([2, 3])))
    assert np.isnan(run(tf.ones([1, 3]))).all()


class ProductCell(RecursiveCell):
    """A cell of a user's own."""

    state_size = 4

    def call_leaf(self, inputs):
        return inputs, [inputs]

    def call(self, inputs, states):
        (left,), (right,) = states
        product = left * right
        return product, [product]


def compiled_model(layer):
    x, children = keras.Input([None, 4]), keras.Input([None, 2], dtype="int32")
    model = keras.Model([x, children], layer(x, children))
    model.compile("sgd", "mse", jit_compile=True)
    return model


@pytest.mark.slow
def test_what_xla_may_not_take_is_left_out_by_keras():
    for layer in (
        Recursive(ProductCell(), engine="compiled"),
        ChildSumTreeLSTM(4, engine="compiled", shared_nodes=True),
        TreeRNN(4),
    ):
        with pytest.warns(UserWarning, match="doesn't support `jit_compile=True`"):
            model = compiled_model(layer)
        assert not model.jit_compile


@pytest.mark.slow
def test_a_cell_of_a_user_may_say_that_xla_takes_it():
    cell = ProductCell()
    cell.supports_jit = True
    model = compiled_model(Recursive(cell, engine="compiled"))
    assert model.jit_compile
    x = np.array([[[0.0], [0.0], [2.0], [3.0], [5.0]]], np.float32).repeat(4, -1)
    np.testing.assert_array_equal(model.predict((x, CHILDREN), verbose=0), [[30.0] * 4])


def wide_trees():
    """Two trees: a root with 30 children, of which one has children; and a chain."""
    children = np.full([2, 40, 30], -1, np.int32)
    children[0, 0] = np.arange(1, 31)
    children[0, 9, :9] = np.arange(31, 40)
    children[1, :39, 0] = np.arange(1, 40)
    return children


@pytest.mark.slow
@pytest.mark.parametrize(
    "children", [wide_trees(), np.zeros([2, 1, 0], np.int32)], ids=["wide", "leaves"]
)
@pytest.mark.parametrize("share_weights", few_of([False, True]))
def test_any_number_of_children(share_weights, children):
    x = tf.random.stateless_normal([*children.shape[:2], 4], [1, 2])
    layer = ChildSumTreeLSTM(3)
    if share_weights:
        layer = TopDownTreeLSTM(3, share_weights=True)
    layer.build(x.shape, children.shape)

    def run(x, children):
        with tf.GradientTape() as tape:
            outputs = layer(x, children)
        return outputs, *tape.gradient(outputs, layer.trainable_weights)

    inside = tf.function(run, jit_compile=True, autograph=False)(x, children)
    for mine, theirs in zip(inside, run(x, children), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6)
