"""Pairs of trees in files: they come as from memory, stay pairs, and are checked."""

import numpy as np
import pytest
import tensorflow as tf

from kerasrec._src.datasets.files import trees as tree_files
from kerasrec._src.datasets.files.records import record_of
from kerasrec._src.datasets.files.tree_records import TreeIndex
from kerasrec._src.datasets.files.trees import of_groups
from kerasrec.datasets import (
    EncodedTree,
    encode_objects,
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
    found = encode_objects(0, children_of=below.__getitem__, token_of=lambda _: mark)
    return found if ragged else found._replace(children=found.children.to_table(3))


def pairs(num, ragged=True):
    """Pairs of trees with the same tokens, which are also the label."""
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
        [[1], [-1]],
        [[3, 4]],
        [[1.5]],
        [[-1]],
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


@pytest.mark.many
def test_records_that_are_no_pairs_are_refused(tmp_path, monkeypatch):
    one, other, label = pairs(1)[0]
    both = [tree._replace(labels=np.array(label)) for tree in (one, other)]
    monkeypatch.setattr(tree_files, "_pairs", lambda *_: [both, both[:1]])
    write_tree_files([None], tmp_path / "pairs", 1, pairs=True)
    message = "record 1: its group has more or fewer trees than in the index"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        list(tree_file_batches(tmp_path / "pairs", 2))


def test_a_last_group_whose_trees_are_no_pairs_is_refused():
    """There are as many left trees as right ones, but not in the same records."""
    index = TreeIndex([1000] * 2, 1, 1, 1, 2, labels="int of pairs")
    left = {"tokens": [1], "children": [-1], "labels": [0]}
    right = {f"right/{key}": values for key, values in left.items()}
    read = of_groups(["a.tfrecord", "b.tfrecord"], index, None, False)

    def batch(*records):
        records = [record_of({"group_size": [2], **arrays}) for arrays in records]
        return read(tf.constant([0], tf.int64), tf.constant([records]))

    assert batch(left | right, {})[1].numpy().tolist() == [0]
    message = "record 0: it has only one tree of a pair"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        batch(left, right)
