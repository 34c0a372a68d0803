"""`Recursive(cell)` with a cell of the user's own."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.layers import Recursive, RecursiveCell, TreeLSTM, TreeLSTMCell
from tests.layers import reference
from tests.layers.helpers import features, random_children, treebank_batch
from tests.layers.own_cell import GatedCell
from tests.parameters import few_of


def eager_states(cell, x, children):
    """States of all nodes, by Python recursion over the cell's own methods."""

    def node(inputs, below):
        if all(states is None for states in below):
            return cell.call_leaf(inputs)
        zeros = [tf.zeros([1, size], cell.compute_dtype) for size in cell.state_sizes]
        return cell.call(inputs, [zeros if states is None else states for states in below])

    return [
        reference.recursion(node, tf.unstack(tree_x[:, None]), tree, cell.inner_inputs)
        for tree_x, tree in zip(x, children, strict=True)
    ]


@pytest.mark.parametrize("arity", few_of([2, 3], many=[2]))
def test_values_and_gradients_equal_eager_recursion(arity):
    children = random_children(5, 7, arity, seed=arity)
    x = tf.constant(features(children))
    cell = GatedCell(3, arity=arity, dtype="float64")
    layer = Recursive(cell, return_sequences=True, return_state=True, dtype="float64")
    sequence, hidden, count = layer(x, children)
    variables = layer.trainable_variables
    assert len(variables) == 6
    weights = tf.constant(np.random.default_rng(0).normal(size=sequence.shape))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(weights * layer(x, children)[0])
    gradients = tape.gradient(loss, variables)
    with tf.GradientTape() as tape:
        found = eager_states(layer.cell, x, children)
        loss = tf.add_n(
            [
                tf.reduce_sum(weights[row, number] * states[0])
                for row, tree in enumerate(found)
                for number, states in tree.items()
            ]
        )
    for one, two in zip(gradients, tape.gradient(loss, variables), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-9)
    for row, tree in enumerate(found):
        for number, states in tree.items():
            np.testing.assert_allclose(sequence[row, number], states[0][0], atol=1e-9)
        np.testing.assert_allclose(hidden[row], tree[0][0][0], atol=1e-9)
        np.testing.assert_allclose(count[row], tree[0][1][0])


# test_saving.py has such a model, too, and test_keras_layer.py its configuration.
@pytest.mark.slow
def test_fit():
    tokens, children, labels = treebank_batch(20)
    inputs = keras.Input((None,), dtype="int32"), keras.Input((None, 2), dtype="int32")
    layer = Recursive(GatedCell(8), return_sequences=True)
    hidden = layer(keras.layers.Embedding(500, 6)(inputs[0]), inputs[1])
    assert hidden.shape == (None, None, 8)
    assert layer.num_traces == 0
    model = keras.Model(inputs, keras.layers.Dense(5)(hidden))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    model.compile(keras.optimizers.Adam(0.05), loss)
    history = model.fit((tokens, children), labels, batch_size=5, epochs=4, verbose=0).history
    assert history["loss"][-1] < 0.8 * history["loss"][0]
    assert layer.num_traces == 1


@pytest.mark.many
def test_graph_of_a_built_layer_that_was_never_called():
    layer = Recursive(GatedCell(3))
    layer.build((None, None, 4), (None, None, 2))
    assert "CALL_" in str(layer.tagged_graph())
    assert "gradient of" in str(layer.extended_graph())


@pytest.mark.slow
def test_layer_with_a_given_cell_equals_the_ready_one():
    children = random_children(5, 7, 2)
    x = features(children)
    ready = TreeLSTM(3, dtype="float32")
    given = Recursive(TreeLSTMCell(3))
    wanted = ready(x, children)
    given.build(x.shape, children.shape)
    given.set_weights(ready.get_weights())
    np.testing.assert_allclose(given(x, children), wanted, atol=1e-6)


@pytest.mark.slow
def test_two_layers_may_share_a_cell():
    children = random_children(5, 7, 2)
    cell = TreeLSTMCell(3)
    nodes, roots = Recursive(cell, return_sequences=True), Recursive(cell)
    x = features(children)
    np.testing.assert_allclose(nodes(x, children)[:, 0], roots(x, children), atol=1e-6)
    assert nodes.weights[0] is roots.weights[0]


class Wrong(RecursiveCell):
    """A cell whose `call` returns something else than the states it announces."""

    def __init__(self, result, **kwargs):
        super().__init__(**kwargs)
        self.state_size = 4
        self.result = result

    def build(self, input_shape):
        self.built = True

    def call(self, inputs, states):
        return self.result(states[0][0])

    def call_leaf(self, inputs):
        return [inputs]


class Nothing(RecursiveCell):
    """A cell without `call`."""

    state_size = 4

    def build(self, input_shape):
        self.built = True


@pytest.mark.parametrize(
    ("cell", "error", "message"),
    [
        (Nothing(), NotImplementedError, "Nothing must implement `call`"),
        (Wrong(lambda state: [state, state]), Exception, "structure|states|state_size"),
        (Wrong(lambda state: [state[:, :2]]), Exception, r"\[2\]|state_size"),
        (Wrong(lambda state: None), Exception, "None"),
    ],
    ids=["no call", "two states", "other size", "None"],
)
def test_wrong_cells_are_told_what_is_wrong(cell, error, message):
    children = random_children(2, 5, 2)
    with pytest.raises(error, match=message):
        Recursive(cell)(features(children), children)
