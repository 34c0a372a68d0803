"""Features of edges: from Python objects, over batches and files, to a layer."""

import random

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.datasets import (
    ChildRows,
    check_tree,
    encode_objects,
    pad_to_power_of_two,
    tree_batches,
    tree_file_batches,
    tree_pair_batches,
    write_tree_files,
)
from kerasrec.layers import Bidirectional, OrderedTreeRNN, Recursive, TopDown
from tests.layers.test_edges import EdgeCell, EdgeDownCell, output_of_one
from tests.parameters import few_of


class Node:
    """A node with features, and a list of pairs: a child, or None, and the features of its edge."""

    def __init__(self, number):
        self.number = number
        self.features = [number / 4.0, 1.0]
        self.below = []

    @property
    def children(self):
        return [child for child, _ in self.below]


def drawn(size, seed, most_parents=2, slots=3):
    """A random graph: each node but the first has parents before it, and some slots are empty."""
    choose = random.Random(seed)
    nodes = [Node(1)]
    for number in range(2, size + 1):
        node = Node(number)
        room = [parent for parent in nodes if len(parent.below) < slots]
        for _ in range(choose.randint(1, most_parents)):  # Both may be the same parent.
            parent = choose.choice(room)
            if len(parent.below) < slots:
                parent.below.append((node, [choose.uniform(-1, 1), choose.uniform(-1, 1)]))
        if not any(child is node for parent in nodes for child in parent.children):
            parent.below.append((node, [1.0, 2.0]))
        nodes.append(node)
    return nodes[0]


def encoded(root, **options):
    return encode_objects(
        root,
        children_of=lambda node: node.children,
        features_of=lambda node: node.features,
        edge_features_of=lambda node: [edge for _, edge in node.below],
        labels="root",
        label_of=lambda node: node.number,
        **options,
    )


def edges_of(features, children, edges):
    """The features of a node and of its edges, by the numbers of both ends and the place."""
    numbers = np.rint(np.asarray(features)[:, 0] * 4).astype(int)
    return {
        (numbers[parent], place, numbers[child]): np.asarray(edges[parent][place]).tolist()
        for parent, row in enumerate(children)
        for place, child in enumerate(np.asarray(row).tolist())
        if child >= 0
    }


def edges_of_nodes(root):
    found, waiting = {}, [root]
    while waiting:
        node = waiting.pop()
        for place, (child, edge) in enumerate(node.below):
            if child is not None:
                found[node.number, place, child.number] = np.float32(edge).tolist()
                waiting.append(child)
    return found


SIZES = [5, 1, 9, 2, 7]
GRAPHS = [drawn(size, seed) for seed, size in enumerate(SIZES)]
TREES = [drawn(size, seed, most_parents=1) for seed, size in enumerate(SIZES)]
GRAPHS[0].below[1:1] = [(None, None)] if len(GRAPHS[0].below) < 3 else []


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("arity", [None, 4])
def test_arrays_hold_the_edges(seed, arity):
    root = drawn(8, seed)
    if arity:
        root.below.insert(seed % 3, (None, None))
    graph = encoded(root, arity=arity, shared_nodes=True)
    check_tree(*graph, shared_nodes=True)
    rows = graph.children
    assert rows.edges.dtype == np.float32
    assert arity is None or (rows.lengths == arity).all()
    edges = np.split(rows.edges, rows.splits[1:-1])
    assert edges_of(graph.tokens, rows, edges) == edges_of_nodes(root)
    assert not rows.edges[rows.values < 0].any()


BATCHES = {
    "padded": {},
    "ragged": {"ragged": True},
    "slots": {"arity": 5},
    "ragged slots": {"arity": 5, "ragged": True},
}


def batches_of(roots, tmp_path, way, arity=None, ragged=False, **options):
    """All batches of some graphs, through memory or files, with slots for children or without."""
    trees = [encoded(root, arity=arity, **options) for root in roots]
    if way == "memory":
        return list(tree_batches(trees, 2, ragged=ragged, arity=arity, **options))
    write_tree_files(trees, tmp_path / "trees", 2, arity=arity, **options)
    return list(tree_file_batches(tmp_path / "trees", 2, ragged=ragged))


@pytest.mark.parametrize("way", ["memory", "files"])
@pytest.mark.parametrize("options", BATCHES.values(), ids=BATCHES)
def test_batches_hold_the_edges(tmp_path, way, options):
    batches = batches_of(GRAPHS[1:], tmp_path, way, shared_nodes=True, **options)
    found = []
    for (features, children, edges), labels in batches:
        assert edges.shape[-1] == 2
        assert (labels.numpy() == 1).all()
        if "ragged" in options:
            assert edges.row_splits.numpy().tolist() == children.row_splits.numpy().tolist()
            assert edges.values.row_splits.numpy().tolist() == (
                children.values.row_splits.numpy().tolist()
            )
        else:
            assert edges.shape[:3] == children.shape
            assert not edges.numpy()[children.numpy() < 0].any()
            assert children.shape[2] == options.get("arity", children.shape[2])
        found += map(edges_of, features, children, edges)
    assert found == list(map(edges_of_nodes, GRAPHS[1:]))


def below_one(layer, node, cell):
    """The output of a node, by plain recursion over Python objects."""
    own = tf.constant([node.features], cell.compute_dtype)
    read = [
        (place, below_one(layer, child, cell), tf.constant([edge], cell.compute_dtype))
        for place, (child, edge) in enumerate(node.below)
        if child is not None
    ]
    return output_of_one(cell, own, read)


def layer_of(name, **options):
    options["dtype"] = "float64"
    if name == "ordered":
        return OrderedTreeRNN(keras.layers.GRUCell(3, dtype="float64"), **options)
    return Recursive(EdgeCell({"slots": 5, "any": None}[name], dtype="float64"), **options)


@pytest.mark.parametrize(
    ("name", "way", "batch", "options"),
    few_of(
        [
            ("any", "memory", {}, {}),
            ("slots", "memory", {"arity": 5}, {"shared_nodes": True}),
            ("any", "memory", {"ragged": True}, {"shared_nodes": True}),
            ("ordered", "files", {}, {"shared_nodes": True}),
            ("slots", "files", {"arity": 5, "ragged": True}, {"shared_nodes": True}),
            ("any", "memory", {}, {"engine": "compiled"}),
        ],
        many=[],
    ),
)
def test_layers_get_the_edges_of_objects(tmp_path, name, way, batch, options):
    shared_nodes = options.get("shared_nodes", False)
    roots = TREES
    if shared_nodes:  # With slots, one graph has an empty slot between two others.
        roots = GRAPHS if "arity" in batch else GRAPHS[1:]
    layer = layer_of(name, **options)
    batches = batches_of(roots, tmp_path, way, shared_nodes=shared_nodes, **batch)
    (features, children, edges), _ = batches[0]
    layer.build(features.shape, children.shape, edges_shape=edges.shape)
    weights = layer.trainable_variables
    results = []
    for run in (
        lambda: [layer(list(inputs), training=True) for inputs, _ in batches],
        lambda: [below_one(layer, root, layer.cell) for root in roots],
    ):
        with tf.GradientTape() as tape:
            outputs = tf.concat(run(), 0)
            loss = tf.reduce_sum(tf.sin(outputs))
        results.append([outputs, *tape.gradient(loss, [weight.value for weight in weights])])
    for found, expected in zip(*results, strict=True):
        assert np.abs(expected).max() > 1e-3
        # Batches hold the features as float32.
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_pairs_have_edges_on_both_sides(tmp_path):
    trees = [encoded(root) for root in TREES]
    pairs = list(zip(trees, trees[::-1], range(5), strict=True))
    write_tree_files(pairs, tmp_path / "pairs", 1, arity=3, pairs=True)
    in_memory = tree_pair_batches(trees, trees[::-1], np.arange(5), 2, arity=3)
    in_files = tree_file_batches(tmp_path / "pairs", 2)
    for one, other in zip(in_memory, in_files, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, one, other)
    (left, _, edges, _, right_children, _), _ = next(iter(pad_to_power_of_two(in_memory)))
    assert left.shape[1] == edges.shape[1] == 8
    assert (right_children.numpy()[:, 7:] == -1).all()


def test_padded_to_a_power_of_two():
    batches = tree_batches([encoded(root) for root in TREES], 5)
    ((_, children, edges), _), *_ = batches
    ((features, more_children, more_edges), labels), *_ = pad_to_power_of_two(batches)
    assert features.shape[1] == more_children.shape[1] == more_edges.shape[1] == 16
    np.testing.assert_array_equal(more_edges[:, :9], edges)
    np.testing.assert_array_equal(more_children[:, :9], children)
    assert (more_children.numpy()[:, 9:] == -1).all()
    assert not more_edges.numpy()[:, 9:].any()
    assert labels.shape == [5]


@pytest.mark.many
def test_a_model_is_fitted():
    inputs = [
        keras.Input([None, 2]),
        keras.Input([None, None], dtype="int32"),
        keras.Input([None, None, 2]),
    ]
    cell = EdgeDownCell(share_weights=True, input_from="self")
    both = Bidirectional(Recursive(EdgeCell(None)), downward_layer=TopDown(cell))
    pooled = keras.layers.GlobalAveragePooling1D()(both(inputs))
    model = keras.Model(inputs, keras.layers.Dense(1)(pooled))
    model.compile("adam", "mse")
    batches = pad_to_power_of_two(tree_batches([encoded(root) for root in TREES], 2))
    losses = model.fit(batches, epochs=4, verbose=0).history["loss"]
    assert losses[-1] < losses[0]


def one(edge_features_of, below=()):
    return encode_objects(
        ("x", *below),
        children_of=lambda node: node[1:],
        token_of=lambda _: 1,
        edge_features_of=edge_features_of,
    )


def test_a_tree_of_one_node_has_the_edges_of_others():
    several = one(lambda node: [[1.0, 2.0] for _ in node[1:]], [("y",), ("z",)])
    nothing, empty = one(lambda _: []), one(lambda _: np.zeros([0, 2]))
    assert nothing.children.edges is None
    assert empty.children.edges.shape == (0, 2)
    for trees in ([nothing, several], [several, nothing, empty], [nothing, empty]):
        ((_, _, edges), _), *_ = tree_batches(trees, 3)
        assert edges.shape[-1] == 2
    with pytest.raises(ValueError, match=r"\[1\] has features of edges of the kind none, but"):
        tree_batches([several, one(None, [("y",)])], 2)
    with pytest.raises(ValueError, match=r"kind float \[edges, 2\], but .* float \[edges, 1\]"):
        tree_batches([one(lambda _: np.zeros([0, 1])), nothing, several], 2)


@pytest.mark.parametrize("arity", [None, 2])
def test_files_keep_edges_if_the_first_tree_has_none(tmp_path, monkeypatch, arity):
    several = one(lambda node: [[1.0, 2.0] for _ in node[1:]], [("y",), ("z",)])
    nothing = one(lambda _: [])
    write_tree_files([nothing, several], tmp_path / "one", 1, arity=arity)
    ((_, children, edges), _), *_ = tree_file_batches(tmp_path / "one", 2)
    assert children.shape == (2, 3, 2)
    assert edges.numpy()[1, 0].tolist() == [[1.0, 2.0]] * 2
    assert edges.numpy().sum() == 6.0
    monkeypatch.setattr("kerasrec._src.datasets.files.trees.TREES_IN_MEMORY", 1)
    with pytest.raises(ValueError, match="first 1 trees have no children, and edges of later"):
        write_tree_files([nothing, several], tmp_path / "two", 1, arity=arity)
    write_tree_files([several, nothing], tmp_path / "three", 1, arity=arity)
    ((_, _, edges), _), *_ = tree_file_batches(tmp_path / "three", 2)
    assert edges.numpy().sum() == 6.0


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda _: 3, "edge_features_of gives 3 for root; expected a list of vectors"),
        (lambda _: {}, "edge_features_of gives {} for root; expected a list"),
        (lambda _: [1.0, 0.0], "features of an edge of root is 1.0; expected a list of numbers"),
        (lambda _: [[1.0]], "gives 1 vectors for root, which has 2 children"),
        (lambda node: [[1.0]] * len(node), "gives 3 vectors for root, which has 2"),
        (lambda _: [[1.0], [1.0, 2.0]], "of an edge of root is .*; expected 1 numbers, as before"),
        (lambda node: [None] * (len(node) - 1), "edge_features_of gives None for all edges"),
        (lambda _: [[np.nan], [1.0]], "features of an edge of root is .*finite"),
    ],
)
def test_errors_name_the_node(function, message):
    with pytest.raises(ValueError, match=message):
        one(function, [("y",), ("z",)])


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        (np.zeros([1, 2]), r"float64 \[1, 2\]; expected floats \[edges, features\] for the 2"),
        (np.zeros([2, 2], int), "int64"),
        (np.array([[0.0], [np.inf]]), "edge of tree node 0 is not a finite number"),
    ],
)
def test_trees_of_ones_own_are_checked(edges, message):
    rows = ChildRows(np.array([1, 2]), np.array([0, 2, 2, 2]), edges)
    with pytest.raises(ValueError, match=message):
        check_tree(np.array([1, 1, 1]), rows)
