"""`Recursive(cell)` with a cell of the user's own."""

import re
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec import TraceError
from kerasrec.layers import (
    Recursive,
    RecursiveCell,
    TopDown,
    TopDownCell,
    TreeLSTM,
    TreeLSTMCell,
)
from tests.layers import reference
from tests.layers.helpers import features, random_children, treebank_batch
from tests.layers.own_cell import GatedCell
from tests.parameters import few_of


def eager_states(cell, x, children):
    """States of all nodes, by Python recursion over the cell's own methods."""

    def node(inputs, below):
        if all(states is None for states in below):
            return cell.call_leaf(inputs)[1]
        zeros = [tf.zeros([1, size], cell.compute_dtype) for size in cell.state_sizes]
        return cell.call(inputs, [zeros if states is None else states for states in below])[1]

    return [
        reference.recursion(node, tf.unstack(tree_x[:, None]), tree, cell.read_inner_inputs)
        for tree_x, tree in zip(x, children, strict=True)
    ]


@pytest.mark.parametrize("arity", few_of([2, 3], many=[2]))
def test_values_and_gradients_equal_eager_recursion(arity):
    children = random_children(3, 7, arity, seed=arity, sizes=[7, 1, 4])
    x = tf.constant(features(children))
    cell = GatedCell(3, arity=arity, dtype="float64")
    layer = Recursive(cell, return_sequences=True, return_state=True, dtype="float64")
    weights = tf.constant(np.random.default_rng(0).normal(size=(*children.shape[:2], 3)))
    with tf.GradientTape() as tape:
        sequence, hidden, count = layer(x, children)
        loss = tf.reduce_sum(weights * sequence)
    variables = layer.trainable_variables
    assert len(variables) == 6
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


# test_saving.py also has such a model, and test_keras_layer.py its configuration.
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


@pytest.mark.slow
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
        return inputs, [inputs]


class Penalised(GatedCell):
    """A cell that adds a loss."""

    def call(self, inputs, states):
        self.add_loss(tf.reduce_sum(states[0][0]))
        return super().call(inputs, states)


class Nothing(RecursiveCell):
    """A cell without `call`."""

    state_size = 4

    def build(self, input_shape):
        self.built = True


@pytest.mark.parametrize(
    ("cell", "error", "message"),
    [
        (Nothing(), NotImplementedError, "Nothing must implement `call`"),
        (Wrong(lambda state: (state, [state] * 2)), ValueError, r"units 4 and \[4, 4\]"),
        (Wrong(lambda state: (state, [state[:, :2]])), ValueError, r"units 4 and \[2\]"),
        (Wrong(lambda state: (state[:, :2], [state])), ValueError, r"units 2 and \[4\]"),
        (
            Wrong(lambda state: (2 * state, [state])),
            ValueError,
            r"is not its first state.*`hidden = \.\.\.; return hidden, \[hidden\]`",
        ),
        (Wrong(lambda state: state), ValueError, "return output, states"),
        (Wrong(lambda state: None), ValueError, "Received None"),
        (Penalised(4), TraceError, "Penalised adds a loss, by `add_loss` or"),
    ],
    ids=[
        "no call",
        "two states",
        "other size",
        "other output",
        "own output",
        "tensor",
        "None",
        "loss",
    ],
)
def test_wrong_cells_are_told_what_is_wrong(cell, error, message):
    children = random_children(2, 5, 2)
    with pytest.raises(error, match=message):
        Recursive(cell)(features(children), children)


class Readout(GatedCell):
    """A separate output, with weights that the states do not read."""

    def __init__(self, units, readout=2, **kwargs):
        super().__init__(units, **kwargs)
        self.output_size = readout
        self.dense = keras.layers.Dense(readout, dtype=self.dtype_policy)

    def build(self, input_shape):
        super().build(input_shape)
        self.dense.build((None, self.units))

    def call(self, inputs, states):
        hidden, states = super().call(inputs, states)
        return self.dense(hidden), states

    def call_leaf(self, inputs):
        _, (hidden, count) = super().call_leaf(inputs)
        return self.dense(hidden), [hidden, count]


@pytest.mark.slow
@pytest.mark.parametrize("return_sequences", few_of([True, False], many=[True]))
def test_an_output_that_is_no_state(return_sequences):
    """It is the readout of the first state, and its gradient that of both apart."""
    children = random_children(3, 6, 2, seed=2)
    x = tf.constant(features(children))
    cell = Readout(3, readout=5, dtype="float64")
    layer = Recursive(cell, return_sequences=return_sequences, return_state=True)
    assert [tuple(state.shape) for state in layer(x, children)[1:]] == [(3, 3), (3, 1)]
    apart = Recursive(GatedCell(3, dtype="float64"), return_sequences=return_sequences)
    apart.build(x.shape, children.shape)
    apart.set_weights(layer.get_weights()[:6])
    kernel, bias = (tf.constant(weight) for weight in cell.dense.get_weights())

    def output_and_gradients(function, weights):
        with tf.GradientTape() as tape:
            tape.watch(x)
            tape.watch([weight for weight in weights if not hasattr(weight, "trainable")])
            output = function()
            loss = tf.reduce_sum(output**2)
        return [output, *tape.gradient(loss, [x, *weights])]

    mask = layer(x, children)[0]._keras_mask if return_sequences else tf.ones([3])
    is_node = tf.cast(mask, x.dtype)[..., tf.newaxis]
    found = output_and_gradients(lambda: layer(x, children)[0], cell.dense.weights)
    wanted = output_and_gradients(
        lambda: (apart(x, children) @ kernel + bias) * is_node, [kernel, bias]
    )
    assert found[0].shape[-1] == 5
    for one, two in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-9)


class LearnedStart(RecursiveCell):
    """A missing child has a state that is learned."""

    state_size = 2

    def build(self, input_shape):
        self.start = self.add_weight(shape=(2,), name="start")

    def get_initial_state(self, batch_size=None):
        return [tf.broadcast_to(self.start, [batch_size, 2])]

    def call_leaf(self, inputs):
        return inputs, [inputs]

    def call(self, inputs, states):
        total = states[0][0] + 10.0 * states[1][0]
        return total, [total]


@pytest.mark.slow
def test_initial_states_of_ones_own():
    children = np.array([[[1, -1], [2, 3], [-1, -1], [-1, -1]]])
    x = np.array([[[0, 0], [0, 0], [1, 2], [3, 4]]], "float32")
    layer = Recursive(LearnedStart())
    with tf.GradientTape() as tape:
        layer.build(x.shape, children.shape)
        layer.cell.start.assign([5.0, 7.0])
        found = layer(x, children)
    np.testing.assert_allclose(found, [[31 + 50, 42 + 70]])
    np.testing.assert_allclose(tape.gradient(found, layer.cell.start), [10.0, 10.0])


class WrongStart(RecursiveCell):
    """A cell whose `get_initial_state` returns what it is told."""

    state_size = (2, 3)

    def __init__(self, start, **kwargs):
        super().__init__(**kwargs)
        self.start = start

    def get_initial_state(self, batch_size=None):
        return self.start(batch_size)

    def call(self, inputs, states):
        hidden = inputs[:, :2]
        return hidden, [hidden, inputs[:, :3]]


class WrongStartDown(TopDownCell):
    """A cell that goes down trees, likewise."""

    state_size = (2, 3)

    def __init__(self, start, **kwargs):
        super().__init__(**kwargs)
        self.start = start

    get_initial_state = WrongStart.get_initial_state

    def call(self, inputs, states):
        return states[0], list(states)


def zeros(batch_size, *shape, dtype="float32"):
    return tf.zeros([batch_size, *shape], dtype)


WRONG_STARTS = [
    (lambda size: [zeros(size, 2)], r"\[batch_size, 2\], \[batch_size, 3\] of float32"),
    (lambda size: [zeros(size, 2), zeros(size, 2)], "With batch_size=2 it returned"),
    (lambda size: [zeros(size, 2), zeros(size, 3, dtype="int32")], "dtype=int32"),
    (lambda size: [zeros(1, 2), zeros(1, 3)], r"shape=\(1, 2\)"),
    (lambda size: {"h": zeros(size, 2), "c": zeros(size, 3)}, "returned {'h'"),
    (lambda size: None, "returned None"),
]


@pytest.mark.parametrize(("start", "sentence"), WRONG_STARTS)
def test_initial_states_are_checked_when_the_layer_is_built(start, sentence):
    inputs = keras.Input([None, 4]), keras.Input([None, 2], dtype="int32")
    for layer in (
        Recursive(WrongStart(start)),
        Recursive(WrongStart(start, arity=None)),
        TopDown(WrongStartDown(start)),
    ):
        with pytest.raises(ValueError, match=r"`get_initial_state` of WrongStart") as caught:
            layer(inputs)
        assert re.search(sentence, str(caught.value))


class WithTraining(RecursiveCell):
    """Tells whether it trains, as Keras' cells learn it."""

    state_size = 1

    def call_leaf(self, inputs, **kwargs):
        return super().call_leaf(inputs, **kwargs)

    def call(self, inputs, states, training=False):
        told = states[0][0] + states[1][0] + (1.0 if training else 0.0)
        return told, [told]


class LeavesWithoutTraining(WithTraining):
    def call_leaf(self, inputs):
        return inputs, [inputs]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell_class", "told"),
    few_of([(WithTraining, 3), (LeavesWithoutTraining, 1)], (WithTraining, 3), many=[]),
)
@pytest.mark.parametrize("training", few_of([True, False], True, many=[]))
def test_training_is_handed_on(cell_class, told, training):
    children = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    layer = Recursive(cell_class())
    found = layer(np.zeros((1, 3, 1), "float32"), children, training=training)
    assert float(found[0, 0]) == (told if training else 0)


class StatesAlone(RecursiveCell):
    """Returns states without the output before them."""

    state_size = (2, 2)

    def call(self, inputs, states):
        (a, b), (c, d) = states
        return [a + c, b - d]

    def call_leaf(self, inputs):
        return [inputs, 2 * inputs]


def test_states_alone_are_refused():
    children = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    with pytest.raises(TraceError, match="StatesAlone must return an output of 2 units"):
        Recursive(StatesAlone())(np.zeros([1, 3, 2], "float32"), children)


def test_an_output_of_its_own_goes_up_alone():
    cell = Handed()
    cell.output_size = 3
    with pytest.raises(ValueError, match="Handed sets `output_size`, but the output"):
        TopDown(cell)


class Handed(TopDownCell):
    """A child's state is its parent's."""

    state_size = 3

    def call(self, inputs, states, slot=0):
        return states[0], list(states)


@keras.saving.register_keras_serializable("tests")
class WithoutBuild(RecursiveCell):
    """Layers in it make their weights when they are called."""

    state_size = 2

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(2, name="dense")

    def call_leaf(self, inputs):
        hidden = self.dense(inputs)
        return hidden, [hidden]

    def call(self, inputs, states):
        total = states[0][0] + states[1][0]
        return total, [total]


@pytest.mark.slow
def test_a_cell_without_build(tmp_path):
    inputs = keras.Input([None, 4]), keras.Input([None, 2], dtype="int32")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = keras.Model(inputs, Recursive(WithoutBuild())(*inputs))
    assert len(model.weights) == 2
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    children = random_children(2, 5, 2)
    x = features(children).astype("float32")
    np.testing.assert_array_equal(loaded([x, children]), model([x, children]))


class ReadsWhatItGets(RecursiveCell):
    """Leaves are nodes whose children have initial states, and read their inputs."""

    state_size = 2

    def call(self, inputs, states):
        total = sum(child[0] for child in states)
        total = total if inputs is None else total + inputs
        return total, [total]


@pytest.mark.slow
def test_leaves_read_inputs_without_a_call_leaf():
    children = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    x = np.array([[[9, 9], [1, 2], [3, 4]]], "float32")
    np.testing.assert_array_equal(Recursive(ReadsWhatItGets())(x, children), [[4, 6]])


class ReadsInnerInputs(RecursiveCell):
    """Leaves return their inputs, inner nodes add theirs."""

    state_size = 2

    def call_leaf(self, inputs):
        return inputs, [inputs]

    def call(self, inputs, states):
        total = self.joined(inputs, sum(child[0] for child in states))
        return total, [total]

    def joined(self, inputs, below):
        return inputs + below


class JoinsInnerInputs(ReadsInnerInputs):
    def joined(self, inputs, below):
        return tf.reduce_sum(tf.stack([inputs, below]), 0)


class FailsForAnotherReason(ReadsInnerInputs):
    def joined(self, inputs, below):
        raise ValueError("mode must be 'sum' or None")


@pytest.mark.many
def test_errors_of_cells_that_are_not_about_none_are_their_own():
    children = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    with pytest.raises(ValueError, match="mode must be") as caught:
        Recursive(FailsForAnotherReason())(np.zeros((1, 3, 2)), children)
    assert "read_inner_inputs" not in str(caught.value)


@pytest.mark.many
def test_a_cell_that_reads_inputs_of_inner_nodes_is_told_how():
    children = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    x = np.array([[[0, 0], [1, 2], [3, 4]]], "float32")
    with pytest.raises(
        TraceError, match=r"ReadsInnerInputs.call failed: .* unless read_inner_inputs=True"
    ):
        Recursive(ReadsInnerInputs())(x, children)
    with pytest.raises(
        TraceError, match=r"JoinsInnerInputs.call failed: .* unless read_inner_inputs=True"
    ):
        Recursive(JoinsInnerInputs())(x, children)
    cell = ReadsInnerInputs(read_inner_inputs=True)
    np.testing.assert_array_equal(Recursive(cell)(x + 1, children), [[7, 9]])


@pytest.mark.many
def test_a_cell_without_a_state_size_is_told_so():
    class Sizeless(RecursiveCell):
        pass

    with pytest.raises(ValueError, match="Sizeless has no `state_size`"):
        Recursive(Sizeless())(np.zeros((1, 3, 4)), random_children(1, 3, 2))


class WantsMore(Nothing):
    def call(self, inputs, states, weights):
        return states[0][0], states[0]


class OneArgument(Nothing):
    def call(self, states):
        return states[0][0], states[0]


@pytest.mark.parametrize(
    ("cell", "words"), [(WantsMore, "argument: 'weights'"), (OneArgument, "too many positional")]
)
def test_arguments_of_call_are_checked_when_the_layer_is_built(cell, words):
    inputs = keras.Input([None, 4]), keras.Input([None, 2], dtype="int32")
    match = rf"`call` of {cell.__name__} gets inputs, states by position.*{words}"
    with pytest.raises(ValueError, match=match):
        Recursive(cell())(inputs)


@pytest.mark.slow
def test_a_cell_that_returns_something_else_is_named_first():
    with pytest.raises(ValueError, match=r"Recursive.call\(\).\s+\S*`call` and `call_leaf` of Wr"):
        Recursive(Wrong(lambda state: None))(np.zeros((1, 3, 4)), random_children(1, 3, 2))


class RememberingCell(RecursiveCell):
    state_size = 4

    def call_leaf(self, inputs):
        return inputs, [inputs]

    def call(self, inputs, states, seen=[]):  # noqa: B006
        seen.append(states)
        return states[0][0], [states[0][0]]


class RememberingInOrder(RecursiveCell):
    state_size = 4

    def call_child(self, child, states, *, seen={}):  # noqa: B006
        seen["child"] = child[0]
        return [child[0] + states[0]]

    def call(self, inputs, states):
        return states[0], [states[0]]


class RememberingDown(TopDownCell):
    state_size = 4

    def call(self, inputs, states, slot=0, seen=[]):  # noqa: B006
        seen.append(states)
        return states[0], [states[0]]


@pytest.mark.parametrize(
    ("layer", "method"),
    [
        (lambda: Recursive(RememberingCell()), "RememberingCell.call"),
        (
            lambda: Recursive(RememberingInOrder(arity=None, read_inner_inputs=False)),
            "RememberingInOrder.call_child",
        ),
        (lambda: TopDown(RememberingDown()), "RememberingDown.call"),
    ],
)
def test_a_default_to_which_a_cell_adds_tensors(layer, method):
    """It would hold a few placeholders, as that of a recursive function would."""
    match = (
        rf"{method} \(.*test_own_cell\.py:\d+\) leaves a tensor in `seen`, a default of "
        rf"{method.split('.')[1]}\. The body runs once"
    )
    children = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    with pytest.raises(TraceError, match=match):
        layer()(tf.ones([1, 3, 4]), children)
