"""Directories of trees that are damaged, or that someone made up."""

import json

import numpy as np
import pytest
import tensorflow as tf

from kerasrec._src.datasets.files.tree_records import TreeIndex
from kerasrec._src.datasets.files.trees import of_groups
from kerasrec.datasets import EncodedTree, MalformedFileError, tree_file_batches, write_tree_files
from tests.datasets.readers.mutated_files import (
    consistent,
    frame,
    records_of,
    tree_directory,
    with_checksum,
)

FIRST = "trees-00000-of-00002.tfrecord"


@pytest.fixture
def written(tmp_path):
    """Writes files, by name, and returns their directory."""

    def write(files):
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
        return tmp_path

    return write


def index_with(**numbers):
    return with_checksum(json.loads(tree_directory()["index.json"]) | numbers)


def example(**lists):
    features = {
        name: tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        for name, values in lists.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def tree_of(record):
    features = tf.train.Example.FromString(record).features.feature
    return {name: list(feature.int64_list.value) for name, feature in features.items()}


@pytest.mark.parametrize(
    "content, reason",
    [
        (b"", "Expecting value"),
        (b"[1]", "found list"),
        (b"\xff", "can't decode"),
        (b"[" * 100_000, "it is nested"),
        (b" " * (2**24 + 1), "more than 16,777,216 bytes"),
        (b'{"num_trees": 5}', r"found \['num_trees'\]"),
        (b'{"num_files": 2, "num_trees": 5, "num_groups": 3, "arity": 2}', "of this version"),
        (index_with().replace(b'"num_groups": 3', b'"num_groups": 2'), "checksum does not match"),
        (index_with(num_groups=2), "5 trees in 2 files do not form 2 groups"),
        (index_with(num_trees="5"), "num_trees is 5; expected an integer from 1 up"),
        (index_with(num_trees=True), "num_trees is True"),
        (index_with(arity=-2), "arity is -2; expected an integer from -1 up"),
        (index_with(file_sizes=[]), "not a list of sizes"),
        (index_with(file_sizes=[1, None]), "a size is None"),
        (index_with(largest_tree=10**6), "no file has room for a tree of 1000000 tree nodes"),
        (index_with(arity=10**9), "no file has room"),
    ],
)
def test_a_damaged_index(written, content, reason):
    with pytest.raises(MalformedFileError, match=reason):
        tree_file_batches(written(tree_directory() | {"index.json": content}), 2)


def test_an_index_of_half_the_trees_loses_none_silently(written):
    """Also with the right checksum: the files have more records than it lists."""
    half = index_with(num_trees=3, num_groups=2)
    with pytest.raises(MalformedFileError, match="has 3 records; expected 2"):
        tree_file_batches(written(tree_directory() | {"index.json": half}), 2)


@pytest.mark.parametrize("cut", [-1, 0, 20])
def test_a_file_that_is_cut_off(written, cut):
    files = dict(tree_directory())
    files[FIRST] = files[FIRST][:cut]
    with pytest.raises(MalformedFileError, match="bytes; expected"):
        tree_file_batches(written(files), 2)


@pytest.mark.parametrize("length", [2**31, 2**35, 2**50, 2**63, 2**64 - 5, 2**64 - 1])
def test_a_record_that_claims_more_than_there_is(written, length):
    """TensorFlow ends the process where it cannot take as much memory."""
    files = dict(tree_directory())
    files[FIRST] = b"".join([*map(frame, records_of(files[FIRST])[:-1]), frame(b"", length)])
    with pytest.raises(MalformedFileError, match="breaks off in record 2; expected 3 whole"):
        tree_file_batches(written(consistent(files)), 2)


def test_a_file_of_another_directory(written):
    files = dict(tree_directory())
    files[FIRST] += frame(b"")
    with pytest.raises(MalformedFileError, match="has 4 records; expected 3"):
        tree_file_batches(written(consistent(files)), 2)
    (written({}) / FIRST).unlink()
    with pytest.raises(FileNotFoundError):
        tree_file_batches(written({}), 2)


@pytest.mark.slow
def test_bytes_that_are_not_those_that_were_written(written):
    files = dict(tree_directory())
    files[FIRST] = files[FIRST][:20] + b"!" + files[FIRST][21:]
    with pytest.raises(tf.errors.DataLossError):
        list(tree_file_batches(written(files), 2))


TREE = {"group_size": [5], "tokens": [0, 2, 3], "labels": [0, 1, -1]}
TREE |= {"children": [1, 2, -1, -1, -1, -1]}


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"children": [1, 2, -1, -1, -1]}, "its children are not 2 for each token"),
        ({"children": [1, 2] * 6}, "its children are not 2 for each token"),
        ({"labels": [0]}, "its labels are not one for each token"),
        ({"group_size": [-5]}, "its group_size is not from 1 to 5"),
        ({"group_size": [2**40]}, "its group_size is not from 1 to 5"),
        ({"group_size": [4]}, "its group_size differs from those of its neighbors"),
        ({"group_size": [1, 2]}, "group_size"),
        ({"group_size": []}, "group_size"),
        ({"tokens": [], "children": [], "labels": []}, "more or fewer trees than in the index"),
        ({"children": [1, 3, -1, -1, -1, -1]}, "node 0: it has a child that is not a tree node"),
        ({"children": [1, 2, -1, -2, -1, -1]}, "node 1: it has a child that is not a tree node"),
        ({"children": [1, 2**63 - 1, -1, -1, -1, -1]}, "it has a child that is not a tree node"),
        ({"children": [1, 2**32 + 2, -1, -1, -1, -1]}, "it has a child that is not a tree node"),
        ({"children": [1, 2, 0, -1, -1, -1]}, "node 0: it is the root, and a child"),
        ({"children": [1, 1, 2, -1, -1, -1]}, "node 1: it is a child of two tree nodes"),
        ({"children": [-1, -1, 2, -1, 1, -1]}, "node 1: it cannot be reached from the root"),
        ({"children": [1, -1, -1, -1, -1, -1]}, "node 2: it cannot be reached from the root"),
        ({"tokens": [0, 2**31, 3]}, "node 1: its token is outside int32"),
        ({"tokens": [0, 2, 2**32 + 5]}, "node 2: its token is outside int32"),
        ({"tokens": [-1, 2, 3]}, "node 0: its token is outside int32, or negative"),
        ({"labels": [0, 2**32, -1]}, "node 1: its label is outside int32"),
        ({"labels": [0, -2, -1]}, "node 1: its label is outside int32, or less than -1"),
        (
            {"tokens": [0, 0, 0], "labels": [-1] * 3, "children": [-1] * 6},
            "node 1: it cannot be reached from the root",
        ),
        (
            {"tokens": [0], "labels": [-1], "children": [-1] * 2},
            "node 0: it is the root, without a token",
        ),
    ],
)
def test_records_with_right_checksums_that_hold_no_tree(change, reason):
    with pytest.raises(tf.errors.InvalidArgumentError, match=reason) as caught:
        read(example(**TREE | change), example(**TREE))
    if reason != "group_size":
        assert ".tfrecord: record 7" in str(caught.value)


def read(*records):
    """Records of two files that stand at the same place, without a graph."""
    index = TreeIndex(num_trees=20, num_groups=10, arity=2, largest_tree=5, file_sizes=[1000] * 2)
    pad = of_groups(["a.tfrecord", "b.tfrecord"], index, None, False)
    return pad(tf.constant([7], tf.int64), tf.constant([records]))


def test_that_record_is_a_tree_as_it_is():
    (tokens, children), labels = read(example(**TREE), example(**TREE))
    np.testing.assert_array_equal(tokens, [TREE["tokens"] + [0] * 2] * 2)
    np.testing.assert_array_equal(labels, [TREE["labels"] + [-1] * 2] * 2)
    np.testing.assert_array_equal(np.reshape(children, [2, -1]), [TREE["children"] + [-1] * 4] * 2)


@pytest.mark.slow
def test_the_graph_names_file_and_record(written):
    files = dict(tree_directory())
    records = [example(**tree_of(record) | {"labels": []}) for record in records_of(files[FIRST])]
    files[FIRST] = b"".join(map(frame, records))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=f"{FIRST}: record .: its labels are not"
    ):
        list(tree_file_batches(written(consistent(files)), 2))


@pytest.mark.slow
def test_a_last_group_that_lost_a_tree(written):
    """There are five trees in two files, so one record, and no more, is of no tree."""
    files = dict(tree_directory())
    for name in files:
        if name != "index.json":
            *others, last = records_of(files[name])
            size = tree_of(last)["group_size"]
            files[name] = b"".join(map(frame, [*others, example(group_size=size)]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="more or fewer trees"):
        list(tree_file_batches(written(consistent(files)), 2))


@pytest.mark.slow
def test_padding_is_left_out_and_any_order_of_tree_nodes_is_read(tmp_path):
    tree = EncodedTree([1, 2, 3, 0], [[2, -1], [-1, -1], [1, -1], [-1, -1]], [0, 1, 2, -1])
    write_tree_files([tree, tree], tmp_path / "trees", 1)
    (((tokens, children), labels),) = tree_file_batches(tmp_path / "trees", 2)
    for values, expected in zip((tokens, children, labels), tree, strict=True):
        np.testing.assert_array_equal(values, [expected[:3]] * 2)


@pytest.mark.slow
def test_trees_without_slots_for_children(tmp_path):
    tree = EncodedTree([1], np.zeros([1, 0], int), [0])
    write_tree_files([tree] * 3, tmp_path / "trees", 2)
    (_, children), labels = next(iter(tree_file_batches(tmp_path / "trees", 4)))
    assert children.shape == (3, 1, 0) and labels.shape == (3, 1)


@pytest.mark.parametrize("record", [b"\x80", b"\n\xff\xff", b"no example"])
def test_a_record_that_is_no_example(record):
    """Found by the fuzzer: TensorFlow's message quotes bytes, which Python may not decode."""
    with pytest.raises((tf.errors.InvalidArgumentError, UnicodeDecodeError)):
        read(record, example(**TREE))
