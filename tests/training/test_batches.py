"""Data that replicas read in parts."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec._src.training.batches import part_of
from kerasrec.datasets import tree_file_batches, write_tree_files
from kerasrec.training import fit
from tests.training.strategies import assert_same, random_trees, reader, trained
from tests.training.test_ragged_labels import LABELS, LOGITS

pytestmark = pytest.mark.usefixtures("optimized")


@pytest.mark.slow
def test_two_replicas_read_files_as_one(two_replicas, tmp_path):
    write_tree_files(random_trees(19, seed=1), tmp_path / "trees", num_files=2)
    read = reader(tmp_path / "trees")
    expected = trained(tf.distribute.get_strategy(), data=read)
    assert_same(trained(two_replicas, data=read), expected)


@pytest.mark.slow
def test_a_part_without_trees(two_replicas, tmp_path):
    """The last of ten groups of two has one tree, for one of the replicas."""
    write_tree_files(random_trees(19, seed=1), tmp_path / "trees", num_files=2)

    def read(context):
        return tree_file_batches(tmp_path / "trees", 2, input_context=context)

    expected = trained(tf.distribute.get_strategy(), data=read, recursive=False)
    assert_same(trained(two_replicas, data=read, recursive=False), expected)


def test_readers_that_cannot_be_used(two_replicas):
    with two_replicas.scope():
        model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    one = tf.data.Dataset.from_tensors((np.zeros([2, 2]), np.zeros([2, 1])))
    with pytest.raises(ValueError, match=r"or a function of a tf\.distribute\.InputContext"):
        fit(model, lambda: one)
    with pytest.raises(ValueError, match="has 1 parts of its last batch for 2 replicas"):
        fit(model, lambda context: one.repeat(3), verbose=0)


def test_parts_of_a_sorted_batch_are_alike():
    """Largest part against the mean, in trees and tree nodes."""
    sizes = np.sort(np.random.default_rng(0).integers(1, 50, 66))
    for number in (2, 8):
        parts = [part_of(tf.constant(sizes), part, number).numpy() for part in range(number)]
        assert sorted(np.concatenate(parts)) == sizes.tolist()
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        assert max(map(sum, parts)) - min(map(sum, parts)) <= sizes[-1]


def test_parts_of_a_ragged_batch_for_replicas():
    parts = [part_of((LOGITS, LABELS), part, 2) for part in range(2)]
    assert [labels.to_list() for _, labels in parts] == [[[4, -1], [2]], [[0, 1, -1, 2, 3]]]
    assert [logits.row_lengths().numpy().tolist() for logits, _ in parts] == [[2, 1], [5]]
