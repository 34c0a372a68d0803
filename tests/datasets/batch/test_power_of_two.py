"""Batches of few shapes: the same trees, padded further."""

import numpy as np
import pytest
import tensorflow as tf

from kerasrec.datasets import load_treebank, pad_to_power_of_two, tree_pair_batches
from tests.datasets.batch.test_tree_batches import SIZES, encoded, tree_batches


@pytest.mark.many
@pytest.mark.parametrize("sizes", [SIZES, [1], [8, 7], [9]])
def test_batches_are_the_same_but_for_padding(sizes):
    batches = tree_batches(encoded(sizes), 2)
    assert pad_to_power_of_two(batches).cardinality() == batches.cardinality()
    for before, after in zip(batches, pad_to_power_of_two(batches), strict=True):
        (tokens, children), labels = before
        nodes = tokens.shape[1]
        padded = 1
        while padded < nodes:
            padded *= 2
        for old, new, padding in zip(
            (tokens, children, labels), (*after[0], after[1]), (0, -1, -1), strict=True
        ):
            assert new.dtype == old.dtype
            assert new.shape == (old.shape[0], padded, *old.shape[2:])
            np.testing.assert_array_equal(new[:, :nodes], old)
            assert (new.numpy()[:, nodes:] == padding).all()


def test_both_trees_of_a_pair_are_padded_and_their_labels_are_not():
    left, right = encoded([3, 5]), encoded([9, 1])
    scores = np.array([[0.25, 0.75, 0.0], [1.0, 0.0, 0.0]], np.float32)
    batches = tree_pair_batches(left, right, scores, 2)
    ((before, _),), ((after, labels),) = batches, pad_to_power_of_two(batches)
    assert [of.shape[1] for of in after] == [16, 16, 32, 32]
    np.testing.assert_array_equal(labels, scores)
    for old, new, padding in zip(before, after, (0, -1, 0, -1), strict=True):
        np.testing.assert_array_equal(new[:, : old.shape[1]], old)
        assert (new.numpy()[:, old.shape[1] :] == padding).all()


def test_a_tree_with_three_columns_is_no_pair():
    trees = [((of.tokens,) * 3, of.children, of.labels) for of in encoded([3, 5])]
    ((before, _),) = batches = tree_batches(trees, 2)
    ((inputs, _),) = pad_to_power_of_two(batches)
    assert [of.shape[1] for of in inputs] == [16] * 4
    nodes = before[0].shape[1]
    paddings = [set(of.numpy()[:, nodes:].ravel().tolist()) for of in inputs]
    assert paddings == [{0}, {0}, {0}, {-1}]


@pytest.mark.slow
def test_a_treebank_has_few_shapes():
    batches = load_treebank().batches("train", 25, bucket_by_size=True, drop_remainder=True)
    before, after = (
        {tuple(inputs[1].shape) for inputs, _ in dataset}
        for dataset in (batches, pad_to_power_of_two(batches))
    )
    assert len(after) <= 6
    assert len(after) < len(before)


def test_weights_and_several_labels():
    def with_more(inputs, labels):
        weights = tf.ones_like(labels, tf.float32)
        classes = tf.one_hot(labels[:, 0], 5)
        nested = {"nodes": labels, "numbers": weights, "roots": labels[:, 0], "classes": classes}
        return inputs, nested, {"nodes": weights, "roots": weights[:, 0]}

    batches = tree_batches(encoded([3, 5]), 2).map(with_more)
    ((_, labels, weights),) = pad_to_power_of_two(batches)
    assert {name: of.shape for name, of in labels.items()} == {
        "nodes": (2, 16),
        "numbers": (2, 16),
        "roots": (2,),
        "classes": (2, 5),
    }
    assert (labels["nodes"][:, 11:].numpy() == -1).all()
    assert np.isnan(labels["numbers"][:, 11:]).all()
    assert weights["nodes"].shape == (2, 16)
    assert weights["roots"].shape == (2,)
    assert (weights["nodes"][:, 11:].numpy() == 0).all()


def test_inputs_alone_and_a_smallest_number_of_nodes():
    batches = tree_batches(encoded([1, 5]), 1).map(lambda inputs, labels: (inputs,))
    found = [inputs[1].shape[1] for (inputs,) in pad_to_power_of_two(batches)]
    assert sorted(found) == [4, 16]
    found = [inputs[1].shape[1] for (inputs,) in pad_to_power_of_two(batches, min_nodes=5)]
    assert sorted(found) == [8, 16]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda batches: list(batches), r"expects a tf.data.Dataset .* Received: list"),
        (lambda batches: batches.map(lambda inputs, labels: inputs[1]), "Received batches of"),
        (lambda batches: tree_batches(encoded([3, 5]), 2, ragged=True), "these are ragged"),
    ],
)
def test_what_is_no_batch_of_padded_trees_is_an_error(wrong, message):
    with pytest.raises(ValueError, match=message):
        pad_to_power_of_two(wrong(tree_batches(encoded([3, 5]), 2)))
