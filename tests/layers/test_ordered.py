"""Layers that read the children of a node one after the other, against plain recursion."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec.layers import OrderedTreeRNN, Recursive, RecursiveCell
from tests.layers.helpers import features, is_node, loaded_from_file, random_children
from tests.parameters import few_of

CHILDREN = random_children(4, 9, 5, seed=3)
X = features(CHILDREN)
FLOAT64 = {"dtype": "float64"}


def rnn_cell(name):
    """A cell of Keras in float64."""
    if name == "lstm":
        return keras.layers.LSTMCell(3, **FLOAT64)
    if name == "gru":
        return keras.layers.GRUCell(3, **FLOAT64)
    cells = [keras.layers.LSTMCell(2, **FLOAT64), keras.layers.GRUCell(3, **FLOAT64)]
    return keras.layers.StackedRNNCells(cells, **FLOAT64)


def by_recursion(layer, x, children):
    """The outputs of the roots, by plain recursion over one node at a time."""
    rnn, own = layer.cell.rnn_cell, layer.cell.own

    def visit(tree, node):
        below = [child for child in children[tree, node] if child >= 0]
        states, output = rnn.get_initial_state(batch_size=1), None
        if layer.cell.read_inner_inputs or not below:
            output, states = rnn(own(x[tree, node][None]), states)
        for child in below:
            output, states = rnn(visit(tree, child), states)
        return output

    return tf.concat([visit(tree, 0) for tree in range(len(children))], 0)


def in_rows(x, children):
    """The same trees without padding, ragged."""
    sizes = is_node(children).sum(axis=1)
    nodes = np.concatenate([row[:size] for row, size in zip(x, sizes, strict=True)])
    rows = [
        [[child for child in row if child >= 0] for row in tree[:size]]
        for tree, size in zip(children.tolist(), sizes, strict=True)
    ]
    return (
        tf.RaggedTensor.from_row_lengths(nodes, sizes),
        tf.ragged.constant(rows, dtype=tf.int32, ragged_rank=2),
    )


def loss_and_gradients(run, x, weights, *others):
    """The outputs of `run(x)`, and the gradients of x, of weights and of other tensors."""
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch([x, *others])
        output = run(x)
        loss = tf.reduce_sum(tf.sin(output))
    found = tape.gradient(loss, [x, *(weight.value for weight in weights), *others])
    return output, [tf.convert_to_tensor(gradient) for gradient in found]


@pytest.mark.parametrize(
    ("name", "options"),
    few_of(
        [
            ("lstm", {}),
            ("gru", {"read_inner_inputs": False}),
            ("stacked", {}),
            ("gru", {"engine": "compiled"}),
            ("lstm", {"shared_nodes": True}),
            ("lstm", {"shared_nodes": True, "engine": "compiled"}),
        ],
        many=[],
    ),
)
def test_values_and_gradients_are_those_of_plain_recursion(name, options):
    layer = OrderedTreeRNN(rnn_cell(name), **options)
    layer.build(X.shape, CHILDREN.shape)
    weights = layer.trainable_weights
    found = loss_and_gradients(lambda x: layer(x, CHILDREN, training=True), X, weights)
    expected = loss_and_gradients(lambda x: by_recursion(layer, x, CHILDREN), X, weights)
    np.testing.assert_allclose(found[0], expected[0], atol=1e-12)
    for one, other in zip(found[1], expected[1], strict=True):
        assert np.abs(other).max() > 1e-4
        np.testing.assert_allclose(one, other, atol=1e-12)
    np.testing.assert_allclose(layer(*in_rows(X, CHILDREN)), expected[0], atol=1e-12)


@pytest.mark.slow
def test_the_order_of_children_matters():
    layer = OrderedTreeRNN(rnn_cell("gru"))
    children = np.array([[[1, 2], [-1, -1], [-1, -1]], [[2, 1], [-1, -1], [-1, -1]]])
    one, other = layer(np.stack([X[0, :3]] * 2), children).numpy()
    assert np.abs(one - other).max() > 1e-3


@pytest.mark.slow
def test_states_are_those_of_the_cell():
    layer = OrderedTreeRNN(keras.layers.LSTMCell(3), return_state=True)
    output, hidden, memory = layer(X.astype("float32"), CHILDREN)
    np.testing.assert_array_equal(output, hidden)
    assert np.abs(memory.numpy() - hidden).max() > 0.01


@keras.saving.register_keras_serializable("tests")
class CountedCell(RecursiveCell):
    """h = tanh(own(x) + the last of s_k = decay * s_(k-1) + h_k), s_0 = first(x)."""

    def __init__(self, units, decay=0.5, **kwargs):
        super().__init__(**{"arity": None, "read_inner_inputs": True, **kwargs})
        self.state_size = units
        self.decay = decay
        self.own = keras.layers.Dense(units, dtype=self.dtype_policy)
        self.first = keras.layers.Dense(units, dtype=self.dtype_policy)

    def build(self, input_shape):
        self.own.build(input_shape)
        self.first.build(input_shape)

    def states_before_children(self, inputs):
        return [self.first(inputs)]

    def call_child(self, child, states):
        return [self.decay * states[0] + child[0]]

    def call(self, inputs, states):
        hidden = tf.tanh(self.own(inputs) + states[0])
        return hidden, [hidden]


@pytest.mark.many
def test_a_cell_of_your_own(tmp_path):
    inputs = keras.Input([None, 4]), keras.Input([None, None], dtype="int32")
    cell = CountedCell(3, decay=0.3, recurrent_dropout=0.1)
    model = keras.Model(inputs, Recursive(cell)(*inputs))
    x = X.astype("float32")

    def visit(tree, node):
        state = cell.first(x[tree, node][None])
        for child in CHILDREN[tree, node]:
            state = state if child < 0 else 0.3 * state + visit(tree, child)
        return tf.tanh(cell.own(x[tree, node][None]) + state)

    expected = tf.concat([visit(tree, 0) for tree in range(len(x))], 0)
    np.testing.assert_allclose(model((x, CHILDREN)), expected, atol=1e-5)
    np.testing.assert_allclose(model.layers[-1](*in_rows(x, CHILDREN)), expected, atol=1e-5)
    loaded = loaded_from_file(model, tmp_path)
    np.testing.assert_allclose(loaded((x, CHILDREN)), expected, atol=1e-5)
    model.export(tmp_path / "served", verbose=False)
    served = tf.saved_model.load(tmp_path / "served")
    np.testing.assert_allclose(served.serve((x, CHILDREN)), expected, atol=1e-5)


def test_what_a_cell_cannot_be_is_refused():
    with pytest.raises(ValueError, match=r"`arity` must be None, received 2"):
        CountedCell(3, arity=2)
    with pytest.raises(ValueError, match=r"must be a cell of keras.layers.RNN.*received 'lstm'"):
        OrderedTreeRNN("lstm")
    with pytest.raises(ValueError, match=r"`rnn_cell` is gru.*over sequences. Pass a cell.*GRUC"):
        OrderedTreeRNN(keras.layers.GRU(3, name="gru"))
    with pytest.raises(ValueError, match=r"`rnn_cell` has dropout.*give `dropout`"):
        OrderedTreeRNN(keras.layers.GRUCell(3, recurrent_dropout=0.5))
    with pytest.raises(ValueError, match=r"`rnn_cell` computes in float32.*float64"):
        OrderedTreeRNN(keras.layers.GRUCell(3), dtype="float64")


@keras.saving.register_keras_serializable("tests")
class RnnCell(keras.layers.Layer):
    """A cell of `keras.layers.RNN` without `output_size`, which returns what it is told."""

    def __init__(self, returns=lambda hidden: (hidden, [hidden]), **kwargs):
        super().__init__(**kwargs)
        self.state_size = 3
        self.returns = returns
        self.dense = keras.layers.Dense(3, dtype=self.dtype_policy)

    def build(self, input_shape):
        self.dense.build(input_shape)

    def get_initial_state(self, batch_size=None):
        return [tf.zeros([batch_size, 3], self.compute_dtype)]

    def call(self, inputs, states):
        return self.returns(tf.tanh(self.dense(inputs) + states[0]))


@pytest.mark.many
def test_a_cell_of_a_users_own_rnn():
    layer = OrderedTreeRNN(RnnCell(dtype="float64"))
    found = layer(X, CHILDREN)
    np.testing.assert_allclose(found, by_recursion(layer, X, CHILDREN), atol=1e-12)


@pytest.mark.parametrize(
    "returns",
    [
        lambda hidden: hidden,
        lambda hidden: (hidden, [hidden], hidden),
        lambda hidden: (hidden, [hidden, hidden]),
        lambda hidden: (hidden, [hidden[:, :2]]),
        lambda hidden: (hidden[:, :2], [hidden]),
        lambda hidden: None,
    ],
)
def test_returns_of_an_rnn_cell_are_checked(returns):
    match = r"`rnn_cell`, a RnnCell, must return an output of 3 units and a list of states of \[3\]"
    with pytest.raises(kerasrec.TraceError, match=match):
        OrderedTreeRNN(RnnCell(returns, dtype="float64"))(X, CHILDREN)


class WrongCell(CountedCell):
    """A cell whose `call_child` is wrong."""

    def call_child(self, child, states):
        return tf.concat([child[0], states[0]], -1)


class WrongBeforeCell(CountedCell):
    """A cell whose `states_before_children` has another size."""

    def states_before_children(self, inputs):
        return [inputs[:, :2]]


class ReadsInputsCell(CountedCell):
    """A cell whose `call_child` wants the node's inputs."""

    def call_child(self, inputs, child, states):
        return [inputs + child[0]]


class EdgesInCallCell(CountedCell):
    """A cell that wants edges after its children."""

    def call(self, inputs, states, edges):
        return states[0], states


class PlainBeforeCell(CountedCell):
    """A cell whose `states_before_children` gets `training`, and returns no list."""

    def states_before_children(self, inputs, training):
        return inputs[:, :3] * (2.0 if training else 1.0)

    def call(self, inputs, states):
        return states[0], states


@pytest.mark.parametrize("training", few_of([True, False], many=[True]))
def test_states_before_children_are_those_of_leaves_too(training):
    x = X[:1, :1].astype("float32")
    found = Recursive(PlainBeforeCell(3))(x, np.full((1, 1, 2), -1), training=training)
    np.testing.assert_allclose(found, x[:, 0, :3] * (1 + training), rtol=1e-6)


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        (ReadsInputsCell, r"`call_child` of Read.*'states'\. Put .*into `states_before_children`"),
        (EdgesInCallCell, r"`call` of Edges.*'edges'\. Read `edges` in `call_child`"),
    ],
)
def test_arguments_are_checked_when_the_layer_is_built(cell, sentence):
    inputs = keras.Input([None, 4]), keras.Input([None, 3], dtype="int32")
    with pytest.raises(ValueError, match=sentence):
        Recursive(cell(3))(inputs)


class OtherTypeCell(CountedCell):
    """A cell whose `call_child` computes in another dtype."""

    def call_child(self, child, states):
        return [tf.cast(child[0], "float64")]


class UndecidedCell(CountedCell):
    """A cell with a Python `if` on a tensor."""

    def call_child(self, child, states):
        return child if tf.reduce_all(child[0] > 0) else states


class WrongShapeCell(CountedCell):
    """A cell with a product of tensors that do not fit."""

    def call(self, inputs, states):
        hidden = tf.matmul(inputs, tf.zeros([9, 3]))
        return hidden, [hidden]


class PaddedCell(RecursiveCell):
    """A cell that runs a layer over children padded to the longest row of all nodes."""

    state_size = 3

    def __init__(self, how, **kwargs):
        super().__init__(arity=None, read_inner_inputs=True, **kwargs)
        self.how = how
        self.rnn = keras.layers.GRU(3)

    def build(self, input_shape):
        self.rnn.build((None, None, 3))

    def call_leaf(self, inputs):
        hidden = inputs[:, :3]
        return hidden, [hidden]

    def call(self, inputs, states):
        (rows,) = states
        padded, lengths = rows.to_tensor(), rows.row_lengths()
        if self.how == "rnn":
            hidden = self.rnn(padded, mask=tf.sequence_mask(lengths, tf.shape(padded)[1]))
        else:
            _, hidden = kerasrec.while_loop(
                lambda place, hidden: place < lengths,
                lambda place, hidden: [place + 1, hidden + tf.gather(padded, place, batch_dims=1)],
                [tf.constant(0), inputs[:, :3]],
            )
        return hidden, [hidden]


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        (WrongCell(3), r"`call_child` of WrongCell must return a list of states of \[3\] units"),
        (WrongBeforeCell(3), r"`states_before_children` of WrongBeforeCell must return a list of"),
        (PaddedCell("rnn"), r"The result of `call` of PaddedCell is not one .*`call_child`"),
        (PaddedCell("while"), r"closes over 'padded'.*`call_child`"),
        (OtherTypeCell(3), r"`call_child` of OtherTypeCell is f64\[3\] per node; expected \[nodes"),
        (
            UndecidedCell(3),
            r"call_child \(.*test_ordered.py:\d+\) uses a tensor where Python needs",
        ),
        (
            WrongShapeCell(3),
            r"call cannot be traced; .*test_ordered.py:\d+: Dimensions must be equ",
        ),
    ],
)
def test_errors_name_what_the_user_wrote(cell, sentence):
    with pytest.raises(kerasrec.TraceError, match=sentence) as raised:
        Recursive(cell)(X.astype("float32"), CHILDREN)
    for internal in ("collect", "visit", "_src"):
        assert internal not in str(raised.value)
