"""Directed acyclic graphs: from Python objects, over batches and files, to a layer."""

import ast
import random

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.datasets import (
    ChildRows,
    check_tree,
    encode_objects,
    tree_batches,
    tree_file_batches,
    tree_pair_batches,
    walk_tree,
    write_tree_files,
)
from kerasrec.layers import ChildSumTreeLSTM


class Node:
    """A node with a number and children."""

    def __init__(self, number, children=()):
        self.number = number
        self.children = list(children)


def drawn(seed, size=8):
    """The root of a random graph, in which every node is below some other."""
    choose = random.Random(seed)
    nodes = [Node(size)]
    for number in range(size - 1, 0, -1):
        node = Node(number)
        for parent in choose.sample(nodes, min(len(nodes), choose.choice([1, 1, 2, 3]))):
            parent.children.insert(choose.randint(0, len(parent.children)), node)
        nodes.append(node)
    return nodes[0]


def encoded(root, **options):
    return encode_objects(
        root,
        children_of=lambda node: node.children,
        token_of=lambda node: node.number,
        label_of=lambda node: node.number % 3,
        shared_nodes=True,
        **options,
    )


def graph_of(tokens, children, root=0):
    """The nodes below a root with their children in order, by number."""
    below = [child for child in np.asarray(children[root]).tolist() if child >= 0]
    found = {int(tokens[root]): [int(tokens[child]) for child in below]}
    for child in below:
        found |= graph_of(tokens, children, child)
    return found


def graph_of_nodes(node):
    found = {node.number: [child.number for child in node.children]}
    for child in node.children:
        found |= graph_of_nodes(child)
    return found


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("options", [{}, {"arity": 8}])
def test_arrays_hold_the_graph(seed, options):
    root = drawn(seed)
    graph = encoded(root, **options)
    check_tree(*graph, shared_nodes=True)
    assert graph_of(graph.tokens, graph.children) == graph_of_nodes(root)
    assert sorted(graph.tokens) == list(range(1, 9))
    assert (graph.labels == graph.tokens % 3).all()
    rows = ChildRows.from_children(graph.children)
    assert (rows.values > rows.parents)[rows.values >= 0].all()


def test_a_tree_is_numbered_as_without_the_option():
    root = Node(1, [Node(2, [Node(3)]), Node(4)])
    assert encoded(root).children.tolist() == [[1, 3], [2], [], []]


def test_nodes_of_ast_without_fields_may_be_repeated():
    tree = encode_objects(
        ast.parse("x = y + y"),
        children_of=ast.iter_child_nodes,
        token_of=lambda node: isinstance(node, ast.Load) + 1,
    )
    assert tree.tokens.tolist() == [1, 1, 1, 1, 1, 1, 2, 1, 1, 2]
    check_tree(*tree)


def test_nodes_are_told_apart_by_keys():
    """Names of nodes are values, which stand at several places unless they are keys."""
    below = {"a": ["b", "c"], "b": ["c"], "c": []}
    given = {"children_of": below.get, "token_of": "_abc".index}
    assert encode_objects("a", **given).tokens.tolist() == [1, 2, 3, 3]
    with pytest.raises(ValueError, match="root/child 1 is the same node as root/child 0/child 0"):
        encode_objects("a", **given, key_of=str)
    graph = encode_objects("a", **given, key_of=str, shared_nodes=True)
    assert graph_of(*graph[:2]) == {1: [2, 3], 2: [3], 3: []}
    below["c"] = ["a"]
    with pytest.raises(ValueError, match="is the same node as root, which stands above it"):
        encode_objects("a", **given, key_of=str, shared_nodes=True)


def test_graphs_of_networkx():
    networkx = pytest.importorskip("networkx")
    graph = networkx.DiGraph([(1, 2), (1, 3), (2, 4), (3, 4)])
    networkx.set_node_attributes(graph, {node: node + 4 for node in graph}, "token")
    found = encode_objects(
        1,
        children_of=graph.successors,
        token_of=graph.nodes("token").__getitem__,
        key_of=lambda node: node,
        shared_nodes=True,
    )
    assert graph_of(*found[:2]) == {5: [6, 7], 6: [8], 7: [8], 8: []}
    tree = encode_objects(1, children_of=networkx.dfs_tree(graph, 1).successors, token_of=int)
    assert tree.tokens.tolist() == [1, 2, 4, 3]


def test_molecules_of_rdkit():
    """Bonds lead away from atom 0, so that a ring is closed by an atom with two parents."""
    chem = pytest.importorskip("rdkit.Chem")
    molecule = chem.MolFromSmiles("C1CN1O")
    bonds = chem.GetDistanceMatrix(molecule)[0]

    def place(atom):
        return bonds[atom.GetIdx()], atom.GetIdx()

    found = encode_objects(
        molecule.GetAtomWithIdx(0),
        children_of=lambda atom: [far for far in atom.GetNeighbors() if place(far) > place(atom)],
        token_of=lambda atom: atom.GetIdx() + 1,
        key_of=lambda atom: atom.GetIdx(),
        shared_nodes=True,
    )
    assert graph_of(*found[:2]) == {1: [2, 3], 2: [3], 3: [4], 4: []}


GRAPHS = [encoded(drawn(seed, size=5 + seed)) for seed in range(4)]


@pytest.fixture(scope="module")
def results():
    """Returns what a layer makes of batches."""
    layer = ChildSumTreeLSTM(3, arity=None, read_inner_inputs=True, shared_nodes=True)
    embedding = keras.layers.Embedding(10, 2)

    def results(of):
        states = [layer(embedding(tokens), children) for (tokens, children), _ in of]
        return np.concatenate(states)

    return results


@pytest.fixture(scope="module")
def alone(results):
    batches = [tree_batches([graph], 1, shared_nodes=True) for graph in GRAPHS]
    return np.concatenate(list(map(results, batches)))


@pytest.mark.parametrize("ragged", [False, True])
def test_batches_files_and_a_layer(ragged, results, alone, tmp_path):
    options = {"ragged": ragged, "shared_nodes": True, "bucket_by_size": True}
    batches = tree_batches(GRAPHS, 2, **options)
    write_tree_files(GRAPHS, tmp_path / "graphs", 2, shared_nodes=True)
    read = tree_file_batches(tmp_path / "graphs", 2, ragged=ragged)
    (pairs,) = tree_pair_batches(GRAPHS, GRAPHS, [1, 2, 3, 4], 4, **options)
    np.testing.assert_allclose(results(batches), alone, atol=1e-6)
    np.testing.assert_allclose(results(read), alone, atol=1e-6)
    np.testing.assert_allclose(results([(pairs[0][:2], None)]), alone, atol=1e-6)


CYCLE = [[1], [2], [3, 4], [2], []]


@pytest.mark.parametrize(
    "children, message",
    [
        (CYCLE, "Tree nodes 2 -> 3 -> 2 form a cycle"),
        ([[1], [], [3], [1]], "Tree node 2 cannot be reached from tree node 0"),
        ([[1, 2], [0], []], "Tree node 0 must be the root"),
        ([[1, 5], [], []], "Child 1 of tree node 0 is 5, out of range"),
    ],
)
def test_what_is_no_acyclic_graph(children, message):
    with pytest.raises(ValueError, match=message):
        check_tree(np.ones(len(children), int), children, shared_nodes=True)
    with pytest.raises(ValueError, match=r"encoded_trees\[0\]: "):
        tree_batches([(np.ones(len(children), int), children, 0)], 1, shared_nodes=True)


def test_a_walk_visits_the_node_of_each_row():
    for seed in range(20):
        root = drawn(seed)
        walked = walk_tree(root, lambda node: node.children, shared_nodes=True)
        assert [node.number for node in walked] == encoded(root).tokens.tolist()
    formula = ["+", ["*", "x", "y"], ["-", None, ["*", "x", "y"]]]
    options = {"shared_nodes": True, "key_of": str, "arity": 2}

    def children(node):
        return node[1:] if isinstance(node, list) else []

    encoding = encode_objects(
        formula, children_of=children, token_of=lambda node: ord(node[0]), **options
    )
    walked = [node[0] for node in walk_tree(formula, children, **options)]
    assert [ord(name) for name in walked] == encoding.tokens.tolist()
    assert walked == ["+", "-", "*", "x", "y"]


def test_shared_nodes_are_asked_for():
    leaf = Node(2)
    root = Node(1, [leaf, leaf])
    with pytest.raises(
        ValueError, match=r"child 1 is the same node as root/child 0.*shared_nodes="
    ):
        encode_objects(root, children_of=lambda node: node.children, token_of=lambda node: 1)
    with pytest.raises(ValueError, match=r"Tree node 1 is a child of tree nodes 0 and 0.*shared_n"):
        check_tree(*encoded(root))
    leaf.children.append(root)
    with pytest.raises(ValueError, match="root/child 0/child 0 is the same node as root, which"):
        encoded(root)


def test_files_hold_graphs_whose_parents_come_first(tmp_path):
    graph = np.ones(4, int), [[1, 2], [], [3], [1]], 0
    check_tree(*graph, shared_nodes=True)
    with pytest.raises(ValueError, match="tree node 1 comes before its parent, tree node 3"):
        write_tree_files([graph], tmp_path / "graphs", 1, shared_nodes=True)


def test_files_of_graphs_are_checked_as_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("kerasrec._src.datasets.files.trees.check_nth_tree", lambda *_: _[1])
    monkeypatch.setattr("kerasrec._src.datasets.files.trees._check_order", lambda *_: None)
    for number, (children, reason) in enumerate(
        [(CYCLE, "a child that comes before it"), ([[2], [2], []], "cannot be reached from")]
    ):
        graph = np.ones(len(children), np.int32), ChildRows.from_children(children), np.int32(0)
        write_tree_files([graph], tmp_path / str(number), 1, shared_nodes=True)
        with pytest.raises(tf.errors.InvalidArgumentError, match=reason):
            list(tree_file_batches(tmp_path / str(number), 1))
