"""Pairs of trees in files: they come as from memory, stay pairs, and are checked."""

import numpy as np
import pytest
import tensorflow as tf

from kerasrec._src.datasets.files import tree_files as format_of_files
from kerasrec._src.datasets.files.pairs import are_no_pairs, joined
from kerasrec.datasets import (
    ChildRows,
    EncodedTree,
    encode,
    tree_file_batches,
    tree_pair_batches,
    write_tree_files,
)


def tree(size, mark, ragged=True):
    """A random tree whose tokens are all `mark`."""
    random = np.random.default_rng([size, mark])
    below = [[] for _ in range(size)]
    for node in range(1, size):
        below[random.integers(max(0, node - 3), node)].append(node)
    found = encode(0, children_of=below.__getitem__, token_of=lambda _: mark)
    return found if ragged else found._replace(children=found.children.table(3))


def pairs(num, ragged=True):
    """Pairs of trees with the same tokens, which are the label, too."""
    sizes = np.random.default_rng(1).integers(1, 9, [num, 2])
    return [
        (tree(one, mark, ragged), tree(other, mark, ragged), float(mark))
        for mark, (one, other) in enumerate(sizes, 1)
    ]


def of_memory(pairs, **options):
    left, right, labels = zip(*pairs, strict=True)
    return tree_pair_batches(left, right, labels, 4, **options)


def lists(batches):
    return [
        [of.to_list() if isinstance(of, tf.RaggedTensor) else of.numpy().tolist() for of in inputs]
        + [labels.numpy().tolist()]
        for inputs, labels in batches
    ]


@pytest.mark.slow
@pytest.mark.parametrize("ragged", [True, pytest.param(False, marks=pytest.mark.many)])
def test_batches_are_those_of_tree_pair_batches(tmp_path, ragged):
    written = pairs(10, ragged)
    write_tree_files(iter(written), tmp_path / "pairs", num_files=2, pairs=True)
    found = tree_file_batches(tmp_path / "pairs", 4, ragged=ragged)
    assert lists(found) == lists(of_memory(written, ragged=ragged))
    (inputs, labels) = next(iter(found))
    (expected, _) = next(iter(of_memory(written, ragged=ragged)))
    assert [of.dtype for of in inputs] == [of.dtype for of in expected]
    assert labels.dtype == tf.float32


@pytest.mark.slow
def test_pairs_stay_pairs_when_several_read_sorted_and_shuffled(tmp_path):
    write_tree_files(pairs(11), tmp_path / "pairs", num_files=4, bucket_by_size=True, pairs=True)
    options = {"shuffle": True, "seed": 3, "bucket_by_size": True}
    seen = []
    for process in range(2):
        context = tf.distribute.InputContext(2, process, 2)
        data = tree_file_batches(tmp_path / "pairs", 4, input_context=context, **options)
        assert len(data) == 3
        for (left, _, right, _), labels in data:
            assert left[:, 0].numpy().tolist() == right[:, 0].numpy().tolist()
            assert left[:, 0].numpy().tolist() == labels.numpy().tolist()
            seen += labels.numpy().tolist()
    assert sorted(seen) == list(range(1, 12))


@pytest.mark.slow
def test_a_part_of_a_batch_may_have_no_pair(tmp_path):
    write_tree_files(pairs(1), tmp_path / "pairs", num_files=2, pairs=True)
    context = tf.distribute.InputContext(2, 1, 2)
    ((inputs, labels),) = tree_file_batches(tmp_path / "pairs", 2, input_context=context)
    assert [len(of) for of in inputs] == [0] * 4
    assert labels.shape == [0]


@pytest.mark.many
def test_ids_features_classes_and_padding(tmp_path):
    ids, features = np.array([[1, 2], [3, 4], [0, 0]]), np.array([[0.5], [1.5], [0]], np.float32)
    children = np.array([[1], [-1], [-1]])
    padded = EncodedTree((ids, features), children, np.array([7, 7, -1]))
    single = EncodedTree((ids[1:2], features[1:2]), children[1:2], np.array([7]))
    write_tree_files([(padded, single, 2)], tmp_path / "pairs", num_files=1, pairs=True)
    ((inputs, labels),) = tree_file_batches(tmp_path / "pairs", 1)
    assert [of.numpy()[0].tolist() for of in inputs] == [
        [[1, 2], [3, 4]],
        [[0.5], [1.5]],
        [[1, -1], [-1, -1]],
        [[3, 4]],
        [[1.5]],
        [[-1, -1]],
    ]
    assert (labels.dtype, labels.numpy().tolist()) == (tf.int32, [2])


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ((tree(3, 1), tree(2, 1)), "Pair 1 is not as expected.*not enough values"),
        ((tree(3, 1), tree(2, 1), [1.0, 2.0]), r"Pair 1 .*label is \[1.0, 2.0\]; expected one"),
        ((tree(3, 1), (np.array([1]), [[1]], [0]), 1.0), "Pair 1 .*the right tree: Child 0 of"),
        ((tree(3, 1), EncodedTree(np.ones([1, 2]), [[]], 0), 1.0), "Pair 1 .*of the kind float"),
    ],
)
def test_what_is_no_pair_is_named(tmp_path, pair, message):
    with pytest.raises(ValueError, match=message):
        write_tree_files([*pairs(1), pair], tmp_path / "pairs", 1, pairs=True)


@pytest.mark.parametrize(
    ("children", "wrong"),
    [
        ([[1, 3], [2], [], []], []),
        ([[1], [2], []], [0]),
        ([[1, 2, 3], [], [], []], [0]),
        ([[2, 1], [], []], []),
        ([[2, 3], [], [1], []], [0]),
        ([[1, 3], [2, 4], [], [], []], [1]),
        ([[1, 2], [], [4], [], [3]], []),
    ],
)
def test_which_trees_are_pairs(children, wrong):
    """Below their roots, the left tree stands before the right one, and none reaches the other."""
    above = [node for node, row in enumerate(children) for _ in row]
    links = [child for row in children for child in row]
    splits = tf.constant([0, len(children)], tf.int64)
    found = are_no_pairs(tf.constant(links, tf.int64), tf.constant(above, tf.int64), splits)
    assert np.flatnonzero(found).tolist() == wrong


@pytest.mark.many
def test_records_that_are_no_pairs_are_refused(tmp_path, monkeypatch):
    (pair,) = joined(pairs(1))
    forged = pair._replace(tokens=np.ones(3, np.int32), children=ChildRows.of([[1], [2], []]))
    monkeypatch.setattr(format_of_files, "joined", lambda _: [pair, forged])
    write_tree_files([None], tmp_path / "pairs", 1, pairs=True)
    message = "record 1, tree node 0: it keeps its tree from being a pair of trees"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        list(tree_file_batches(tmp_path / "pairs", 2))
