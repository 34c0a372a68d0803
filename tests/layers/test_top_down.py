"""Top-down layers against the papers' equations, by plain Python recursion."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.layers import (
    Bidirectional,
    ChildSumTreeLSTM,
    Recursive,
    TopDown,
    TopDownCell,
    TopDownTreeLSTM,
    TopDownTreeLSTMCell,
    TreeLSTM,
    TreeRNN,
)
from tests.layers.helpers import features, is_node, random_children
from tests.parameters import few_of

UNITS = 3


def lstm(slot, x, states, weights, sigmoid, tanh):
    """Zhang et al. 2016, section 3: the LSTM of one kind of edge; gates i, f, u, o."""
    kernel, recurrent_kernel, bias = weights
    features = x.shape[-1]
    hidden, memory = states
    total = (
        x @ kernel[slot * features : (slot + 1) * features]
        + hidden @ recurrent_kernel[slot * UNITS : (slot + 1) * UNITS]
        + bias[slot * 4 * UNITS : (slot + 1) * 4 * UNITS][None]
    )
    i, f, u, o = (total[:, gate * UNITS : (gate + 1) * UNITS] for gate in range(4))
    memory = sigmoid(f) * memory + sigmoid(i) * tanh(u)
    return [sigmoid(o) * tanh(memory), memory]


def downwards(x, tree, begin, weights, input_from, sigmoid, tanh):
    """States `[1, units]` of all nodes of one tree, by node."""
    found = {}

    def visit(node, states):
        found[node] = states
        for slot, child in enumerate(tree[node]):
            if child >= 0:
                read = x[node] if input_from == "parent" else x[child]
                visit(child, lstm(slot, read, states, weights, sigmoid, tanh))

    visit(0, begin)
    return found


def numpy_sigmoid(value):
    return 1 / (1 + np.exp(-value))


def reference(x, children, begin, weights, input_from):
    """h of all nodes, zero for padding, float64 `[batch, nodes, units]`."""
    sequence = np.zeros((*children.shape[:2], UNITS))
    for row, tree in enumerate(children):
        states = [state[row : row + 1] for state in begin]
        found = downwards(
            x[row][:, None], tree, states, weights, input_from, numpy_sigmoid, np.tanh
        )
        for node, (hidden, _) in found.items():
            sequence[row, node] = hidden[0]
    return sequence


def some(arity=4, **options):
    """A layer with random weights, a batch of trees and their inputs."""
    children = random_children(5, 9, arity, seed=2)
    layer = TopDownTreeLSTM(UNITS, dtype=options.pop("dtype", "float64"), **options)
    layer.build((None, None, 4), children.shape)
    random = np.random.default_rng(1)
    layer.set_weights([random.normal(size=weight.shape) for weight in layer.weights])
    return layer, features(children), children


def states(num_trees=5):
    random = np.random.default_rng(3)
    return [random.normal(size=(num_trees, UNITS)) for _ in range(2)]


@pytest.fixture(scope="module")
def layers():
    """The result of `some` for an `input_from`, with states of roots; traced once for all tests."""
    arities = {"parent": 4, "self": 2}

    @functools.cache
    def make(input_from):
        return some(arities[input_from], input_from=input_from, return_state=True)

    return make


each_input_from = pytest.mark.parametrize("input_from", few_of(["parent", "self"], "self"))


@pytest.mark.many
@each_input_from
def test_values(input_from, layers):
    layer, x, children = layers(input_from)
    begin = states()
    found, *root = layer(x, children, initial_state=begin)
    wanted = reference(x, children, begin, layer.get_weights(), input_from)
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(found._keras_mask, is_node(children))
    np.testing.assert_array_equal(root, begin)


@pytest.mark.many
def test_the_root_may_read_its_input_too(layers):
    """It is then a child in slot 0, so that this is as if its states were computed before."""
    layer, x, children = some(2, input_from="all", return_state=True)
    other, _, _ = layers("self")
    weights = layer.get_weights()
    other.set_weights(weights)
    x = tf.constant(x)

    def run(of_root):
        with tf.GradientTape() as tape:
            tape.watch(x)
            found = of_root()
            loss = tf.add_n([tf.reduce_sum(tf.sin(one)) for one in found])
        return [*found, tape.gradient(loss, x)]

    found = run(lambda: layer(x, children, initial_state=states()))
    root = functools.partial(lstm, 0, weights=weights, sigmoid=tf.sigmoid, tanh=tf.tanh)
    wanted = run(lambda: other(x, children, initial_state=root(x[:, 0], states())))
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)
    assert np.abs(found[-1][:, 0]).max() > 1e-3
    layer.return_sequences = False
    np.testing.assert_array_equal(layer(x, children, initial_state=states())[0], found[1])


@pytest.mark.many
def test_states_of_the_roots_by_position(layers):
    layer, x, children = layers("self")
    begin = states()
    wanted = layer(x, children, initial_state=begin)
    for found, other in zip(layer(x, children, begin), wanted, strict=True):
        np.testing.assert_array_equal(found, other)
    shapes = [None, 4], [None, 2], [UNITS], [UNITS]
    inputs = [
        keras.Input(shape, dtype="int32" if number == 1 else "float64")
        for number, shape in enumerate(shapes)
    ]
    model = keras.Model(inputs, layer(*inputs[:2], inputs[2:]))
    for found, other in zip(model([x, children, *begin]), wanted, strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-6)


@pytest.mark.slow
def test_values_from_zeros_and_what_is_returned(layers):
    layer, x, children = layers("parent")
    sequence, hidden, memory = layer(x, children)
    zeros = [np.zeros((5, UNITS))] * 2
    np.testing.assert_allclose(
        sequence, reference(x, children, zeros, layer.get_weights(), "parent"), rtol=1e-10
    )
    np.testing.assert_array_equal(hidden, zeros[0])
    np.testing.assert_array_equal(memory, zeros[1])
    only_root = TopDownTreeLSTM(UNITS, return_sequences=False, dtype="float64")
    begin = states()
    np.testing.assert_array_equal(only_root(x, children, initial_state=begin), begin[0])
    assert "CALL_3" in str(only_root.tagged_graph())


@pytest.mark.slow
@each_input_from
def test_gradients_equal_those_of_eager_recursion(input_from, layers):
    layer, x, children = layers(input_from)
    x, begin = tf.constant(x), [tf.constant(state) for state in states()]
    scale = np.random.default_rng(7).normal(size=(*children.shape[:2], UNITS))
    with tf.GradientTape() as tape:
        tape.watch([x, *begin])
        loss = tf.reduce_sum(scale * layer(x, children, initial_state=begin)[0] ** 2)
    found = tape.gradient(loss, [x, *begin, *layer.trainable_variables])
    weights = [tf.constant(weight) for weight in layer.get_weights()]
    with tf.GradientTape() as tape:
        tape.watch([x, *begin, *weights])
        loss = 0.0
        for row, tree in enumerate(children):
            of_tree = downwards(
                tf.unstack(x[row][:, None]),
                tree,
                [state[row : row + 1] for state in begin],
                weights,
                input_from,
                tf.sigmoid,
                tf.tanh,
            )
            for node, (hidden, _) in of_tree.items():
                loss += tf.reduce_sum(scale[row, node] * hidden[0] ** 2)
    wanted = tape.gradient(loss, [x, *begin, *weights])
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(
            tf.convert_to_tensor(mine), tf.convert_to_tensor(theirs), rtol=1e-9, atol=1e-11
        )


def test_configuration_round_trip():
    options = {
        "input_from": "self",
        "dropout": 0.1,
        "recurrent_dropout": 0.2,
        "arity": 3,
        "seed": 4,
    }
    layer = TopDownTreeLSTM(5, unit_forget_bias=False, kernel_regularizer="l2", **options)
    again = TopDownTreeLSTM.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert again.cell.input_from == "self"
    assert again.return_sequences
    cell = TopDown(TopDownTreeLSTMCell(4, arity=2))
    assert TopDown.from_config(cell.get_config()).get_config() == cell.get_config()


def test_arity_is_that_of_the_children_and_saved(tmp_path):
    children = keras.Input([None, 3], dtype="int32")
    x = keras.Input([None, 4])
    model = keras.Model([x, children], TopDownTreeLSTM(UNITS)(x, children))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.layers[-1].cell.arity == 3
    for mine, theirs in zip(again.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


class Handed(TopDownCell):
    """A child's state is its parent's."""

    state_size = 50

    def call(self, inputs, states, slot=0):
        return states[0], list(states)


@pytest.mark.slow
def test_recurrent_dropout_of_each_child():
    """Each child reads a state of its parent's from which half is dropped, the rest doubled."""
    children = np.full((14, 3, 2), -1)
    children[:, 0] = [1, 2]
    layer = TopDown(Handed(recurrent_dropout=0.5, seed=1, dtype="float64"))
    x, ones = np.zeros((14, 3, 2)), np.ones((14, 50))
    np.testing.assert_array_equal(layer(x, children, initial_state=ones), np.ones((14, 3, 50)))
    found = layer(x, children, initial_state=ones, training=True).numpy()
    np.testing.assert_array_equal(found[:, 0], ones)
    assert set(np.unique(found[:, 1:])) == {0.0, 2.0}
    assert 0.45 < (found[:, 1:] > 0).mean() < 0.55
    assert len({row.tobytes() for row in found[:, 1:].reshape(28, 50)}) == 28


@pytest.mark.slow
def test_dropout_of_inputs_only_in_training():
    layer, x, children = some(2, dropout=0.5, seed=1)
    calm = layer(x, children)
    np.testing.assert_array_equal(layer(x, children), calm)
    assert not np.allclose(layer(x, children, training=True), calm)


@pytest.mark.parametrize("input_from", few_of(["parent", "self"], many=[]))
def test_one_lstm_for_all_slots(input_from, layers):
    """Trees of any arity, in one trace; the same as with equal weights in each slot."""
    one = TopDownTreeLSTM(UNITS, input_from=input_from, share_weights=True, dtype="float64")
    many, x, children = layers(input_from)
    one.build((None, None, 4), (None, None, None))
    random = np.random.default_rng(5)
    one.set_weights([random.normal(size=weight.shape) for weight in one.weights])
    x = tf.constant(x)

    def output_and_gradient(layer):
        with tf.GradientTape() as tape:
            tape.watch(x)
            output = layer(x, children)
            output = output[0] if layer.return_state else output
            loss = tf.reduce_sum(output**2)
        return output, tape.gradient(loss, x)

    before = many.get_weights()
    try:
        repeated = [np.concatenate([weight] * children.shape[2]) for weight in one.get_weights()]
        many.set_weights(repeated)
        wanted = output_and_gradient(many)
    finally:
        many.set_weights(before)
    for mine, theirs in zip(output_and_gradient(one), wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)
    wide = random_children(2, 9, 6)
    assert one(features(wide), wide).shape == (2, 9, UNITS)
    assert one.num_traces == 1


class MeanCell(TopDownCell):
    """h of a child is the mean of its parent's h and x, whatever the slot."""

    state_size = 4

    def call(self, inputs, states, slot):
        mean = (inputs + states[0]) / 2
        return mean, [mean]


@pytest.mark.slow
def test_a_cell_of_ones_own():
    children = np.array([[[1, 2], [-1, -1], [3, -1], [-1, -1]]])
    x = np.arange(16.0).reshape(1, 4, 4)
    found = TopDown(MeanCell(dtype="float64"))(x, children)
    np.testing.assert_allclose(found[0, 0], np.zeros(4))
    np.testing.assert_allclose(found[0, 1], x[0, 0] / 2)
    np.testing.assert_allclose(found[0, 3], (x[0, 2] + x[0, 0] / 2) / 2)


class WithoutSlot(MeanCell):
    def call(self, inputs, states):
        return super().call(inputs, states, slot=0)


class NamedSlot(MeanCell):
    """h of a child is the mean of x and slot + 1 times its parent's h."""

    def call(self, inputs, states, *, slot):
        return super().call(inputs, [(slot + 1) * states[0]], slot)


class HandsOn(NamedSlot):
    def call(self, inputs, states, **kwargs):
        return super().call(inputs, states, **kwargs)


@pytest.mark.parametrize(
    ("cell", "shares", "last"),
    few_of(
        [
            (WithoutSlot, False, 0.75),
            (WithoutSlot, True, 0.75),
            (NamedSlot, False, 1.0),
            (HandsOn, True, 0.75),
            (HandsOn, False, 1.0),
        ],
        many=[(WithoutSlot, True, 0.75), (HandsOn, False, 1.0)],
    ),
)
def test_a_cell_gets_the_slot_by_name_if_it_takes_one(cell, shares, last):
    children = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    layer = TopDown(cell(share_weights=shares, input_from="all"))
    found = layer(np.ones((1, 3, 4)), children)
    np.testing.assert_allclose(found[0, :, 0], [0.5, 0.75, last])


@pytest.mark.many
def test_bad_use(layers):
    with pytest.raises(ValueError, match="`input_from` must be one of 'parent', 'self', 'all'"):
        TopDownTreeLSTM(3, input_from="me")
    with pytest.raises(ValueError, match="TreeLSTMCell goes up trees"):
        TopDown(TreeLSTM(3).cell)
    with pytest.raises(ValueError, match="TopDownTreeLSTMCell goes down trees"):
        Recursive(TopDownTreeLSTMCell(3))
    with pytest.raises(ValueError, match="no `read_inner_inputs`"):
        TopDownTreeLSTM(3, read_inner_inputs=True)
    with pytest.raises(ValueError, match="TopDownTreeLSTM takes no shared_nodes=True: a tree node"):
        TopDownTreeLSTM(3, shared_nodes=True)
    layer, x, children = layers("self")
    with pytest.raises(ValueError, match=r"`initial_state` .*received shapes \[\(5, 2\)\]"):
        layer(x, children, initial_state=np.zeros((5, 2)))
    with pytest.raises(ValueError, match="with arity 2 as the cell has it"):
        layer(x, children[..., :1])
    with pytest.raises(ValueError, match="known arity"):
        TopDownTreeLSTM(3)(keras.Input([None, 4]), keras.Input([None, None], dtype="int32"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="two parents"):
        layer(x[:1, :3], np.array([[[1, 1], [-1, -1], [-1, -1]]], np.int32))


# Bidirectional.


@pytest.fixture(scope="module")
def both_ways():
    """Bidirectional layers by the layer that goes up, traced once for all tests."""

    @functools.cache
    def make(upward):
        return Bidirectional(
            upward(UNITS, dtype="float64", read_inner_inputs=True), dtype="float64"
        )

    return make


@pytest.mark.parametrize("upward", few_of([TreeLSTM, TreeRNN], many=[]))
def test_bidirectional_is_one_way_after_the_other(upward, both_ways):
    children = random_children(4, 7, 2, seed=5)
    x = features(children)
    layer = both_ways(upward)
    both = layer(x, children)
    assert both.shape == (4, 7, 2 * UNITS)
    np.testing.assert_array_equal(both._keras_mask, is_node(children))
    up, *root = layer.upward_layer(x, children)
    begin = [state.numpy() for state in root] + [np.zeros((4, UNITS))] * (2 - len(root))
    down = reference(up.numpy(), children, begin, layer.downward_layer.get_weights(), "self")
    np.testing.assert_allclose(both, np.concatenate([up, down], -1), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_every_node_of_a_bidirectional_layer_sees_the_whole_tree(both_ways):
    """A tree for each node, and the gradient of that node's outputs."""
    children = np.repeat(random_children(1, 8, 2, sizes=[8]), 8, axis=0)
    x = tf.constant(np.repeat(features(children[:1]), 8, axis=0))
    scale = np.random.default_rng(3).normal(size=(1, 8, 2 * UNITS))
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(both_ways(TreeLSTM)(x, children) * scale * np.eye(8)[:, :, None])
    seen = tape.gradient(loss, x)
    assert (np.abs(seen).max(axis=-1) > 1e-9).all()


@pytest.mark.slow
def test_bidirectional_trees_of_any_arity():
    layer = Bidirectional(ChildSumTreeLSTM(UNITS, dtype="mixed_float16"))
    for arity in (2, 5):
        children = random_children(3, 6, arity)
        assert layer(features(children), children).shape == (3, 6, 2 * UNITS)
    assert layer.compute_dtype == "float16"
    assert layer.downward_layer.num_traces == 1


@pytest.mark.slow
def test_merge_modes():
    """Of layers that share what they merge."""
    children = random_children(2, 5, 2)
    layer = Bidirectional(TreeRNN(UNITS), merge_mode=None)
    up, down = layer(features(children), children)
    results = {"sum": up + down, "ave": (up + down) / 2, "mul": up * down, None: [up, down]}
    for merge_mode, wanted in results.items():
        merged = Bidirectional(TreeRNN(UNITS), merge_mode=merge_mode)
        merged.upward_layer, merged.downward_layer = layer.upward_layer, layer.downward_layer
        found = merged(features(children), children)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_bad_use_of_bidirectional():
    with pytest.raises(ValueError, match="`layer` must go from the leaves up"):
        Bidirectional(TopDownTreeLSTM(3))
    with pytest.raises(ValueError, match='input_from="self"'):
        Bidirectional(TreeLSTM(3), downward_layer=TopDownTreeLSTM(3))
    with pytest.raises(ValueError, match=r"has 4 units.*which has 3"):
        Bidirectional(TreeLSTM(3), downward_layer=TopDownTreeLSTM(4, input_from="self"))
    with pytest.raises(ValueError, match="compute in float16 and float32"):
        Bidirectional(TreeLSTM(3), dtype="mixed_float16")
    with pytest.raises(ValueError, match="needs two inputs"):
        Bidirectional(TreeLSTM(3))(np.zeros((1, 1, 3)))
    with pytest.raises(ValueError, match=r"`merge_mode` must be one of 'concat'.*'add'"):
        Bidirectional(TreeLSTM(3), merge_mode="add")
