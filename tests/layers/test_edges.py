"""Features of edges, which cells read next to their children's states, against plain recursion."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec.layers import (
    Bidirectional,
    OrderedTreeRNN,
    Recursive,
    RecursiveCell,
    TopDown,
    TopDownCell,
    TreeLSTM,
    TreeRNN,
)
from tests.layers.helpers import features, is_node, loaded_from_file, random_children
from tests.layers.test_ordered import FLOAT64, loss_and_gradients
from tests.parameters import few_of

CHILDREN = random_children(4, 9, 3, seed=3)
X = features(CHILDREN)
# Those of missing children are not read.
EDGES = np.random.default_rng(5).normal(size=(*CHILDREN.shape, 2))
EDGES[CHILDREN < 0] = np.nan
# A graph in which node 3 has two parents, and an edge from each.
GRAPH = np.array([[[1, 2, -1], [3, -1, -1], [3, -1, -1], [-1, -1, -1]]])


@keras.saving.register_keras_serializable("tests")
class EdgeCell(RecursiveCell):
    """h = tanh(own(x) + sum over k of (k + 1) * tanh(child(h_k) + edge(e_k)) * h_k).

    With any number of children, the place k does not matter.
    """

    def __init__(self, arity=3, **kwargs):
        super().__init__(**{"arity": arity, "read_inner_inputs": True, **kwargs})
        self.state_size = 3
        self.own = keras.layers.Dense(3, dtype=self.dtype_policy)
        self.child = keras.layers.Dense(3, use_bias=False, dtype=self.dtype_policy)
        self.edge = keras.layers.Dense(3, use_bias=False, dtype=self.dtype_policy)

    def build(self, input_shape):
        self.own.build(input_shape)
        self.child.build((None, 3))
        self.edge.build((None, self.num_edge_features))

    def gated(self, hidden, edge):
        return tf.tanh(self.child(hidden) + self.edge(edge)) * hidden

    def call(self, inputs, states, edges):
        total = self.own(inputs)
        if self.arity is None:
            gated = kerasrec.map_fn(lambda pair: self.gated(*pair), (states[0], edges))
            total += tf.reduce_sum(gated, axis=1)
        else:
            for place, ((hidden,), edge) in enumerate(zip(states, edges, strict=True)):
                total += (place + 1.0) * self.gated(hidden, edge)
        hidden = tf.tanh(total)
        return hidden, [hidden]


def output_of_one(cell, own, read):
    """The output of one node, from its inputs and (slot, state, edge) of each of its children."""
    if cell.reads_in_order:
        states = cell.states_before_children(own)
        for _, hidden, edge in read:
            states = cell.call_child([hidden], states, edge)
        return cell.call(own, states)[0]
    total = cell.own(own)
    for place, hidden, edge in read:
        total += (1.0 if cell.arity is None else place + 1.0) * cell.gated(hidden, edge)
    return tf.tanh(total)


def upward(layer, x, children, edges):
    """The outputs of the roots, by plain recursion over one node at a time."""
    cell = layer.cell

    def visit(tree, node):
        own = x[tree, node][None]
        below = [(k, child) for k, child in enumerate(children[tree, node]) if child >= 0]
        read = [(k, visit(tree, child), edges[tree, node, k][None]) for k, child in below]
        return output_of_one(cell, own, read)

    return tf.concat([visit(tree, 0) for tree in range(len(children))], 0)


def check_against(expected, layer, x, children, edges):
    """Asserts that values, and gradients of inputs, edges and weights, are as expected."""
    layer.build(x.shape, children.shape, edges_shape=edges.shape)
    weights = layer.trainable_weights
    given = tf.constant(edges)
    found, wanted = (
        loss_and_gradients(run, x, weights, given)
        for run in (
            lambda x: layer(x, children, edges=given, training=True),
            lambda x: expected(layer, x, children, given),
        )
    )
    np.testing.assert_allclose(found[0], wanted[0], atol=1e-12)
    for one, other in zip(found[1], wanted[1], strict=True):
        assert np.nanmax(np.abs(other)) > 1e-4
        np.testing.assert_allclose(one, other, atol=1e-12)
    if edges.ndim == 4:
        assert not found[1][-1].numpy()[children < 0].any()


def make(name, **options):
    if name == "ordered":
        return OrderedTreeRNN(keras.layers.GRUCell(3, **FLOAT64), **options)
    return Recursive(EdgeCell(3 if name == "three" else None, **FLOAT64), **options)


@pytest.mark.parametrize(
    ("name", "options"),
    few_of(
        [
            (name, options)
            for name in ("three", "any", "ordered")
            for options in ({}, {"engine": "compiled"})
        ],
        many=[("any", {}), ("ordered", {})],
    ),
)
def test_values_and_gradients_are_those_of_plain_recursion(name, options):
    check_against(upward, make(name, **options), X, CHILDREN, EDGES)


# Those of the edges that lead to nodes; nothing leads to roots and padding.
NODE_EDGES = np.random.default_rng(6).normal(size=[*CHILDREN.shape[:2], 2])
NODE_EDGES[~is_node(CHILDREN)] = NODE_EDGES[:, 0] = np.nan


def of_nodes(expected):
    """Plain recursion with the features of the edge to each node."""

    def run(layer, x, children, edges):
        at_children = tf.gather(edges, np.maximum(children, 0), batch_dims=1)
        return expected(layer, x, children, at_children)

    return run


@pytest.mark.parametrize(
    ("name", "options"),
    few_of(
        [
            ("three", {}),
            ("any", {}),
            ("ordered", {}),
            ("any", {"engine": "compiled"}),
            ("three", {"shared_nodes": True}),
        ],
        many=[("any", {})],
    ),
)
def test_edges_that_lead_to_nodes(name, options):
    if "shared_nodes" in options:
        x, edges = np.random.default_rng(0).normal(size=[2, 1, 4, 4])
        check_against(of_nodes(upward), make(name, **options), x, GRAPH, edges[..., :2])
    else:
        check_against(of_nodes(upward), make(name, **options), X, CHILDREN, NODE_EDGES)


@pytest.mark.parametrize("name", few_of(["any", "three", "ordered"], many=["three"]))
def test_a_shared_node_has_an_edge_from_each_parent(name):
    x = np.random.default_rng(0).normal(size=[1, 4, 4])
    edges = np.random.default_rng(1).normal(size=[*GRAPH.shape, 2])
    check_against(upward, make(name, shared_nodes=True), x, GRAPH, edges)


def in_rows(x, children, edges):
    """The same trees without padding, ragged; their children must come first in each row."""
    sizes = is_node(children).sum(axis=1)
    rows = [
        [[child for child in row if child >= 0] for row in tree[:size]]
        for tree, size in zip(children.tolist(), sizes, strict=True)
    ]
    ragged = tf.ragged.constant(rows, dtype=tf.int32, ragged_rank=2)
    return (
        tf.RaggedTensor.from_row_lengths(x[is_node(children)], sizes),
        ragged,
        ragged.with_flat_values(edges[children >= 0]),
    )


@pytest.mark.parametrize("name", few_of(["any", "three", "ordered"], many=["three"]))
def test_ragged_trees_are_the_padded_ones(name):
    order = np.argsort(CHILDREN < 0, axis=-1, kind="stable")
    children = np.take_along_axis(CHILDREN, order, -1)
    edges = np.take_along_axis(EDGES, order[..., None], -2)
    layer = make(name)
    padded = layer(X, children, edges=edges)
    x, rows, of_rows = in_rows(X, children, edges)
    np.testing.assert_allclose(layer([x, rows, of_rows]), padded, atol=1e-12)
    padded = layer(X, children, edges=NODE_EDGES)
    of_rows = x.with_values(NODE_EDGES[is_node(children)])
    np.testing.assert_allclose(layer([x, rows, of_rows]), padded, atol=1e-12)


@keras.saving.register_keras_serializable("tests")
class EdgeDownCell(TopDownCell):
    """h_child = tanh(own(x) + (slot + 1) * edge(e) + h)."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.state_size = 3
        self.own = keras.layers.Dense(3, dtype=self.dtype_policy)
        self.edge = keras.layers.Dense(3, dtype=self.dtype_policy)

    def call(self, inputs, states, slot=0, edges=None):
        hidden = tf.tanh(self.own(inputs) + (slot + 1.0) * self.edge(edges) + states[0])
        return hidden, [hidden]


def downward(layer, x, children, edges):
    """The outputs of all nodes, by plain recursion."""
    nothing = tf.zeros([1, 3], "float64")

    def visit(tree, node, hidden, found):
        found[node] = hidden
        for slot, child in enumerate(children[tree, node]):
            if child >= 0:
                place = 0 if layer.cell.share_weights else slot
                edge = edges[tree, node, slot][None]
                made, _ = layer.cell.call(x[tree, node][None], [hidden], place, edge)
                visit(tree, child, made, found)
        return found

    trees = [visit(tree, 0, nothing, {}) for tree in range(len(children))]
    places = range(children.shape[1])
    return tf.stack([tf.concat([tree.get(i, nothing) for i in places], 0) for tree in trees])


@pytest.mark.filterwarnings("ignore:.*does not have a `build..` method")
@pytest.mark.parametrize("share_weights", few_of([True, False], many=[True]))
def test_cells_that_go_down_read_the_edge_to_the_child(share_weights):
    cell = EdgeDownCell(arity=3, share_weights=share_weights, **FLOAT64)
    check_against(downward, TopDown(cell), X, CHILDREN, EDGES)
    np.testing.assert_array_equal(
        TopDown(cell)(X, CHILDREN, edges=NODE_EDGES),
        of_nodes(lambda layer, *inputs: layer(*inputs[:2], edges=inputs[2]))(
            TopDown(cell), X, CHILDREN, NODE_EDGES
        ),
    )


def both_ways(layer, x, children, edges):
    """The outputs of `Bidirectional`, by plain recursion up, then down."""
    cell, down_cell = layer.upward_layer.cell, layer.downward_layer.cell

    def up(tree, node, found):
        total = cell.own(x[tree, node][None])
        for slot, child in enumerate(children[tree, node]):
            if child >= 0:
                edge = edges[tree, node, slot][None]
                total += (slot + 1.0) * cell.gated(up(tree, child, found), edge)
        found[node] = tf.tanh(total)
        return found[node]

    def down(tree, node, hidden, above, found):
        found[node] = hidden
        for slot, child in enumerate(children[tree, node]):
            if child >= 0:
                edge = edges[tree, node, slot][None]
                made, _ = down_cell.call(above[child], [hidden], 0, edge)
                down(tree, child, made, above, found)

    def outputs(tree):
        above, below = {}, {}
        down(tree, 0, up(tree, 0, above), above, below)
        nothing = tf.zeros([1, 6], "float64")
        nodes = range(children.shape[1])
        return [tf.concat([above[n], below[n]], 1) if n in above else nothing for n in nodes]

    return tf.stack([tf.concat(outputs(tree), 0) for tree in range(len(children))])


@pytest.mark.many
@pytest.mark.filterwarnings("ignore:.*does not have a `build..` method")
def test_both_layers_of_bidirectional_read_edges():
    cell = EdgeDownCell(arity=3, share_weights=True, input_from="self", **FLOAT64)
    layer = Bidirectional(Recursive(EdgeCell(**FLOAT64)), downward_layer=TopDown(cell))
    check_against(both_ways, layer, X, CHILDREN, EDGES)


def test_a_layer_of_bidirectional_that_reads_no_edges_gets_none():
    x, edges = X.astype("float32"), np.nan_to_num(EDGES).astype("float32")
    up = Bidirectional(Recursive(EdgeCell()))
    cell = EdgeDownCell(arity=3, share_weights=True, input_from="self")
    down = Bidirectional(TreeRNN(3, read_inner_inputs=True, arity=3), downward_layer=TopDown(cell))
    for layer in (up, down):
        first, second = (layer([x, CHILDREN, given]) for given in (edges, 2 * edges))
        assert np.abs(first - second).max() > 1e-2
        with pytest.raises(ValueError, match="was built with `edges`"):
            layer(x, CHILDREN)
    with pytest.raises(ValueError, match="its cell does not read them"):
        Bidirectional(TreeLSTM(3, arity=3))(x, CHILDREN, edges=edges)


@pytest.mark.many
def test_trained_saved_and_exported(tmp_path):
    inputs = [
        keras.Input([None, 4], name="x"),
        keras.Input([None, None], dtype="int32", name="children"),
        keras.Input([None, None, 2], name="edges"),
    ]
    layer = OrderedTreeRNN(keras.layers.GRUCell(3))
    model = keras.Model(inputs, keras.layers.Dense(1)(layer(inputs)))
    model.compile("adam", "mse")
    batch = [X.astype("float32"), CHILDREN, np.nan_to_num(EDGES).astype("float32")]
    losses = model.fit(batch, np.ones([4, 1]), epochs=6, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    expected = model.predict(batch, verbose=0)
    loaded = loaded_from_file(model, tmp_path)
    np.testing.assert_allclose(loaded.predict(batch, verbose=0), expected, atol=1e-6)
    model.export(tmp_path / "served", verbose=False)
    served = tf.saved_model.load(tmp_path / "served")
    np.testing.assert_allclose(served.serve(batch), expected, atol=1e-6)


@pytest.mark.slow
def test_ragged_model_is_trained_and_saved(tmp_path):
    inputs = [
        keras.Input([None, 4], ragged=True),
        keras.Input([None, None], dtype="int32", ragged=True),
        keras.Input([None, None, 2], ragged=True),
    ]
    model = keras.Model(inputs, Recursive(EdgeCell(None))(inputs))
    batch = [
        tf.cast(of, dtype)
        for of, dtype in zip(
            in_rows(X, CHILDREN, EDGES), ("float32", "int32", "float32"), strict=True
        )
    ]
    model.compile("adam", "mse")
    model.fit(batch, np.ones([4, 3]), verbose=0)
    expected = model(batch)
    np.testing.assert_allclose(loaded_from_file(model, tmp_path)(batch), expected, atol=1e-6)


def test_what_edges_cannot_be_is_refused():
    x, children = tf.zeros([1, 1, 4]), tf.fill([1, 1, 3], -1)
    edges = tf.zeros([1, 1, 3, 2])
    with pytest.raises(ValueError, match=r"its cell does not read them: `call` of TreeLSTMCell"):
        TreeLSTM(3, arity=3)(x, children, edges=edges)
    layer = Recursive(EdgeCell())
    with pytest.raises(ValueError, match=r"\[batch, nodes, arity, features\].*\(1, 1, 2, 2\)"):
        layer(x, children, edges=edges[:, :, :2])
    layer(x, children, edges=edges)
    with pytest.raises(ValueError, match="with 2 features"):
        layer(x, children, edges=edges[..., :1])
    with pytest.raises(ValueError, match="was built with `edges`"):
        layer(x, children)
    with pytest.raises(ValueError, match="must be padded, as `children` are"):
        layer(x, children, edges=tf.RaggedTensor.from_tensor(edges, ragged_rank=2))
    with pytest.raises(ValueError, match=r"received integers. Pass keras.ops.one_hot"):
        layer(x, children, edges=np.ones([1, 1, 2], int))
    with pytest.raises(ValueError, match=r"or \[batch, nodes, features\].*\(1, 2, 2\)"):
        layer(x, children, edges=tf.zeros([1, 2, 2]))
    run = tf.function(lambda edges: layer(x, children, edges=edges))
    run = run.get_concrete_function(tf.TensorSpec([None, None, 2]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="`edges` and `children` must have"):
        run(tf.zeros([1, 2, 2]))


class OnlyEdgesDown(EdgeDownCell):
    """A cell without `slot` whose weights are of the size of edges."""

    def build(self, input_shape):
        self.own.build(input_shape)
        self.edge.build((None, 0 + self.num_edge_features))

    def call(self, inputs, states, edges):
        return super().call(inputs, states, 0, edges)


def test_a_cell_without_a_slot_reads_edges():
    cell = OnlyEdgesDown(share_weights=True, **FLOAT64)
    same = EdgeDownCell(share_weights=True, **FLOAT64)
    same.own, same.edge = cell.own, cell.edge
    edges = np.nan_to_num(EDGES)
    found, expected = (TopDown(one)(X, CHILDREN, edges=edges) for one in (cell, same))
    np.testing.assert_array_equal(found, expected)


def test_edges_that_a_cell_needs_are_asked_for_before_it_is_built():
    inputs = keras.Input([None, 4]), keras.Input([None, 3], dtype="int32")
    match = r"got no `edges`, but its cell reads them: `call` of \w+ has.*edges=edges"
    for layer in (Recursive(EdgeCell()), TopDown(OnlyEdgesDown())):
        with pytest.raises(ValueError, match=match):
            layer(inputs)
        assert not layer.cell.weights
    for layer in (Recursive(EdgeCell()), TopDown(OnlyEdgesDown())):
        with pytest.raises(TypeError, match=r"takes only x, children.* by position.*edges=edges"):
            layer(*inputs, None, EDGES)


@pytest.mark.slow
def test_edges_of_other_sizes_are_refused_when_the_graph_runs():
    layer = Recursive(EdgeCell(None))
    x, children = tf.zeros([1, 1, 4]), tf.fill([1, 1, 3], -1)
    layer(x, children, edges=tf.zeros([1, 1, 3, 2]))
    open_shape = tf.TensorSpec([None, None, None, 2])
    run = tf.function(lambda edges: layer([x, children, edges]), input_signature=[open_shape])
    with pytest.raises(tf.errors.InvalidArgumentError, match="must have a row for each entry"):
        run(tf.zeros([1, 1, 2, 2]))
