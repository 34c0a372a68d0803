import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.datasets import EncodedTree, Vocabulary, encode_tree, tree_batches
from tests.datasets.helpers import chain

VOCABULARY = Vocabulary(["word", "end"])


def encoded(sizes):
    """Chains of these numbers of inner tree nodes, the root's label telling which is which."""
    trees = []
    for index, size in enumerate(sizes):
        tokens, children, labels = encode_tree(chain(size), VOCABULARY)
        labels[0] = index
        trees.append(EncodedTree(tokens, children, labels))
    return trees


SIZES = np.random.default_rng(0).integers(0, 12, 103).tolist()


def roots(dataset):
    return [labels[:, 0].tolist() for _, labels in dataset.as_numpy_iterator()]


def flat(batches):
    return list(itertools.chain.from_iterable(batches))


def test_pads_at_the_end():
    trees = encoded([0, 2])
    ((tokens, children), labels) = next(iter(tree_batches(trees, 2)))
    assert (tokens.dtype, children.dtype, labels.dtype) == (tf.int32,) * 3
    assert tokens.numpy().tolist() == [[3, 0, 0, 0, 0], [0, 2, 0, 2, 3]]
    assert children[0].numpy().tolist() == [[-1, -1]] * 5
    assert np.array_equal(children[1], trees[1].children)
    assert labels.numpy().tolist() == [[0, -1, -1, -1, -1], [1, 1, 3, 1, 2]]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("bucket_by_size", [False, True])
@pytest.mark.parametrize("drop_remainder", [False, True])
def test_every_tree_once_an_epoch(shuffle, bucket_by_size, drop_remainder):
    dataset = tree_batches(encoded(SIZES), 10, shuffle, 7, bucket_by_size, drop_remainder)
    assert len(dataset) == 10 if drop_remainder else 11
    for _ in range(2):
        batches = roots(dataset)
        seen = sorted(flat(batches))
        assert len(batches) == len(dataset)
        assert len(set(seen)) == len(seen) == (100 if drop_remainder else 103)


def test_order_is_kept_without_shuffling_and_bucketing():
    batches = tree_batches(encoded(SIZES), 10, bucket_by_size=False)
    assert flat(roots(batches)) == list(range(103))


def test_shuffling_differs_by_epoch_and_repeats_by_seed():
    dataset = tree_batches(encoded(SIZES), 10, shuffle=True, seed=1)
    again = tree_batches(encoded(SIZES), 10, shuffle=True, seed=1)
    other = tree_batches(encoded(SIZES), 10, shuffle=True, seed=2)
    first, second = roots(dataset), roots(dataset)
    assert first != second
    assert [roots(again), roots(again)] == [first, second]
    assert roots(other) != first


@pytest.mark.parametrize("shuffle", [False, True])
def test_bucketing_saves_padding(shuffle):
    def slots(bucket_by_size):
        dataset = tree_batches(encoded(SIZES), 5, shuffle, 1, bucket_by_size)
        return sum(labels.numpy().size for _, labels in dataset)

    needed = sum(2 * size + 1 for size in SIZES)
    assert slots(True) < 1.1 * needed < 1.3 * needed < slots(False)


def test_any_arity_and_static_shapes():
    tree = ([0, 2, 3, 4], [[1, 2, 3]] + [[-1] * 3] * 3, [1, -1, -1, -1])
    dataset = tree_batches([tree] * 4, 2, drop_remainder=True)
    ((tokens, children), labels) = dataset.element_spec
    assert tokens.shape.as_list() == labels.shape.as_list() == [2, None]
    assert children.shape.as_list() == [2, None, 3]


def test_trees_of_different_arity_share_the_largest_or_the_one_asked_for():
    trees = [([2, 3], [[1], [-1]], [-1, -1]), ([2, 3, 4, 5], [[1, 2, 3]] + [[-1] * 3] * 3, [0] * 4)]
    for arity, slots in ((None, 3), (5, 5)):
        dataset = tree_batches(trees, 2, arity=arity)
        ((_, children), _) = next(iter(dataset))
        assert dataset.element_spec[0][1].shape.as_list() == [None, None, slots]
        filled = [-1] * (slots - 3)
        none = [-1] * slots
        assert children.numpy().tolist() == [
            [[1, -1, -1, *filled], none, none, none],
            [[1, 2, 3, *filled], none, none, none],
        ]


def test_feeds_keras():
    inputs = (keras.Input([None], dtype="int32"), keras.Input([None, 2], dtype="int32"))
    outputs = keras.layers.Embedding(4, 60)(inputs[0]) + 0.0 * keras.ops.sum(
        keras.ops.cast(inputs[1], "float32"), -1, keepdims=True
    )
    model = keras.Model(inputs, keras.layers.Dense(103, "softmax")(outputs))
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(ignore_class=-1))
    history = model.fit(tree_batches(encoded(SIZES), 10, shuffle=True), epochs=2, verbose=0)
    assert np.isfinite(history.history["loss"]).all()


def test_distributes():
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    dataset = strategy.experimental_distribute_dataset(tree_batches(encoded(SIZES), 10))
    assert sum(len(labels) for _, labels in dataset) == 103


@pytest.mark.parametrize(
    ("trees", "options", "reason"),
    [
        ([], {"batch_size": 2}, "encoded_trees is empty"),
        (encoded([1]), {"batch_size": 0}, "batch_size is 0; expected 1 or more"),
        (encoded([1]), {"batch_size": 2, "drop_remainder": True}, "leaves no batch of 1 trees"),
        ([*encoded([1]), ([0], [[-1, -1]], [0])], {"batch_size": 2}, r"trees\[1\]: Empty tree"),
        (
            [([2], [[-1]], [0]), *encoded([1])],
            {"batch_size": 2, "arity": 1},
            r"trees\[1\] has 2 slots for children, but arity is 1\. Pass arity=2 or more",
        ),
    ],
)
def test_says_what_is_wrong(trees, options, reason):
    with pytest.raises(ValueError, match=reason):
        tree_batches(trees, **options)
