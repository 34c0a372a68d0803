"""Numbers that int32 does not hold are named, and never cut to others."""

import numpy as np
import pytest
import tensorflow as tf

from kerasrec._src.int_range import cast_integers
from kerasrec.datasets import (
    Vocabulary,
    tree_batches,
    tree_file_batches,
    word_tree_batches,
    write_tree_files,
)

NONE = [-1, -1]
TREE = {"tokens": [0, 2, 3], "children": [[1, 2], NONE, NONE], "labels": [4, -1, 0]}


def with_number(key, place, number, dtype=np.int64):
    """The arrays of a tree, of which one has another number at a place."""
    arrays = {name: np.array(values, np.int64) for name, values in TREE.items()}
    if dtype == np.uint64:
        arrays[key] = np.maximum(arrays[key], 0)
    arrays[key] = arrays[key].astype(dtype)
    arrays[key][place] = number
    return arrays


@pytest.mark.parametrize(
    ("key", "place", "number", "dtype", "reason"),
    [
        ("tokens", 2, 2**32 + 5, np.int64, "Token 4294967301 of tree node 2 is too large"),
        ("tokens", 1, 2**31, np.uint32, "Token 2147483648 of tree node 1 is too large"),
        ("children", (0, 1), 2**32 + 2, np.int64, "Child 1 of tree node 0 is 4294967298"),
        ("labels", 0, 2**32, np.int64, "Label 4294967296 of tree node 0 is out of range"),
        ("labels", 0, 2**64 - 1, np.uint64, "Label 18446744073709551615 of tree node 0"),
    ],
)
def test_arrays(tmp_path, key, place, number, dtype, reason):
    trees = [tuple(TREE.values()), tuple(with_number(key, place, number, dtype).values())]
    with pytest.raises(ValueError, match=rf"encoded_trees\[1\]: {reason}"):
        tree_batches(trees, 2)
    with pytest.raises(ValueError, match=rf"encoded_trees\[1\]: {reason}"):
        write_tree_files(trees, tmp_path / "trees", num_files=1)


@pytest.mark.slow
def test_the_largest_of_int32(tmp_path):
    tree = with_number("tokens", 1, 2**31 - 1) | {"labels": np.array([2**31 - 1, -1, 0])}
    write_tree_files([tuple(tree.values())], tmp_path / "trees", num_files=1)
    for data in (
        tree_batches([tuple(tree.values())], 1),
        tree_file_batches(tmp_path / "trees", 1),
    ):
        (((tokens, children), labels),) = data
        for found, expected in zip((tokens, children, labels), tree.values(), strict=True):
            assert found.dtype == tf.int32
            np.testing.assert_array_equal(found[0], expected)


@pytest.mark.parametrize(
    ("number", "dtype", "to"),
    [
        (2**63, tf.uint64, tf.int64),
        (-1, tf.int64, tf.uint64),
        (-1, tf.int32, tf.uint32),
        (2**31, tf.uint32, tf.int32),
        (2**32 + 5, tf.int64, tf.int32),
        (-(2**31) - 1, tf.int64, tf.int32),
        (128, tf.int32, tf.int8),
    ],
)
def test_casts(number, dtype, to):
    values = tf.constant([number, 7], dtype)
    error = rf"They must be {to.name}(.|\n)*{number}"
    for run in (cast_integers, tf.function(cast_integers)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=error):
            run(values, to, "They")
        np.testing.assert_array_equal(run(values[1:], to, "They"), [7])
    ends = tf.constant([max(to.min, dtype.min), min(to.max, dtype.max)], dtype)
    assert cast_integers(ends, to, "They").numpy().tolist() == ends.numpy().tolist()


@pytest.mark.parametrize(
    ("key", "place", "number"), [("children", (0, 1), 2**32 + 2), ("labels", 0, 2**32)]
)
def test_datasets_of_words(key, place, number):
    arrays = with_number(key, place, number) | {"tokens": ["", "a", "b"]}
    dataset = tf.data.Dataset.from_tensors(arrays)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{key} of the examples") as error:
        list(word_tree_batches(dataset, Vocabulary(["a"]), 1))
    assert str(number) in str(error.value)
    no_integers = dataset.map(lambda example: {**example, key: tf.cast(example[key], tf.float32)})
    with pytest.raises(ValueError, match=f"{key} of the examples are float32"):
        word_tree_batches(no_integers, Vocabulary(["a"]), 1)
