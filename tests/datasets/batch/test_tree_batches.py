import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from nltk import Tree

from kerasrec.datasets import EncodedTree, TreeOrder, Vocabulary, encode_tree, tree_batches
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


@pytest.mark.many
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


@pytest.mark.parametrize("drop_remainder", [False, True])
def test_order_is_kept_unless_asked_for_another(drop_remainder):
    batches = tree_batches(encoded(SIZES), 10, drop_remainder=drop_remainder)
    assert flat(roots(batches)) == list(range(100 if drop_remainder else 103))


def words_model():
    """From trees to one value per tree node, and one per tree, that identify the tree."""
    tokens, children = keras.Input([None], dtype="int32"), keras.Input([None, 2], dtype="int32")
    nodes = keras.ops.cast(tokens[..., None], "float32") * np.float32([1, 10])
    trees = keras.ops.sum(keras.ops.cast(keras.ops.maximum(children, 0), "float32"), [1, 2])
    return keras.Model([tokens, children], {"nodes": nodes, "trees": trees})


def assert_row_of_each_tree(predictions, trees):
    for nodes, total, tree in zip(predictions["nodes"], predictions["trees"], trees, strict=True):
        expected = np.zeros([nodes.shape[0], 2])
        expected[: len(tree.tokens)] = tree.tokens[:, None] * [1, 10]
        np.testing.assert_array_equal(nodes, expected)
        assert total == np.maximum(tree.children, 0).sum()


@pytest.mark.slow
def test_predictions_are_in_the_order_of_the_trees_or_brought_back():
    trees = encoded(SIZES)
    model = words_model()
    assert_row_of_each_tree(model.predict(tree_batches(trees, 10), verbose=0), trees)
    batches, order = tree_batches(trees, 10, bucket_by_size=True, return_order=True)
    widths = [tokens.shape[1] for (tokens, _), _ in batches]
    assert widths == sorted(widths) and widths[0] < widths[-1]
    predicted = model.predict(batches, verbose=0)
    assert order.trees.tolist() == flat(roots(batches)) != sorted(order.trees)
    assert_row_of_each_tree(order.restore(predicted), trees)
    # What Keras does not make ragged.
    whole, order = tree_batches(trees, 200, bucket_by_size=True, return_order=True)
    assert_row_of_each_tree(order.restore(model.predict(whole, verbose=0)), trees)
    kept, order = tree_batches(trees, 200, return_order=True)
    assert_row_of_each_tree(order.restore(model.predict(kept, verbose=0)), trees)


@pytest.mark.parametrize("batch_size", [10, 103])
def test_predictions_for_nodes_as_a_list(batch_size):
    """Of padded batches of different sizes, or of one, whose predictions Keras leaves an array."""
    trees = encoded(SIZES)
    inputs = keras.Input([None], dtype="int32"), keras.Input([None, None], dtype="int32")
    row = keras.ops.cast(inputs[0], "float32")[:, None]
    pairs = keras.layers.Lambda(lambda row: row * keras.ops.swapaxes(row, 1, 2))(row)
    outputs = {"words": inputs[0] * 2, "pairs": pairs, "children": inputs[1] + 1}
    model = keras.Model(inputs, outputs)
    batches, order = tree_batches(trees, batch_size, bucket_by_size=True, return_order=True)
    found = order.restore(model.predict(batches, verbose=0), as_list=True)
    for tree, words, pairs in zip(trees, found["words"], found["pairs"], strict=True):
        assert isinstance(words, np.ndarray)
        np.testing.assert_array_equal(words, 2 * tree.tokens)
        wanted = np.multiply.outer(tree.tokens, tree.tokens).astype("float32")
        np.testing.assert_array_equal(pairs[:, : len(words)], wanted)
        assert not pairs[:, len(words) :].any()


def test_outputs_of_trees_are_no_list_of_nodes():
    order = TreeOrder(np.array([2, 0, 1]), np.array([3, 1, 2]))
    with pytest.raises(
        ValueError, match=r"for tree 0 is of shape \(2,\), and the tree has 3 nodes"
    ):
        order.restore(np.zeros([3, 2]), as_list=True)
    with pytest.raises(ValueError, match="needs the sizes of the trees"):
        TreeOrder(np.array([2, 0, 1])).restore(np.zeros([3, 2]), as_list=True)


def test_there_is_no_order_to_restore():
    for options in ({"shuffle": True, "bucket_by_size": True}, {"drop_remainder": True}):
        with pytest.raises(ValueError, match=f"return_order=True, but {next(iter(options))}=True"):
            tree_batches(encoded(SIZES), 10, return_order=True, **options)
    order = TreeOrder(np.array([2, 0, 1]))
    for rows in (np.zeros([2, 5]), np.float32(3)):
        with pytest.raises(ValueError, match="expected one row for each of the 3 trees"):
            order.restore(rows)


@pytest.mark.many
@pytest.mark.parametrize("shuffle", [False, True])
def test_zipped_datasets_keep_pairs_together(shuffle):
    """The trees of a pair differ in size, and all trees of one side have different labels."""
    sides = [encoded(SIZES), encoded(SIZES[::-1])]
    pairs = tf.data.Dataset.zip(*(tree_batches(side, 10, shuffle, 1) for side in sides))
    epochs = []
    for _ in range(2):
        batches = [(one[1][:, 0], other[1][:, 0]) for one, other in pairs.as_numpy_iterator()]
        for one, other in batches:
            np.testing.assert_array_equal(one, other)
        epochs.append(flat(one.tolist() for one, _ in batches))
        assert sorted(epochs[-1]) == list(range(103))
    assert (epochs[0] != epochs[1]) == shuffle


@pytest.mark.slow
def test_shuffling_differs_by_epoch_and_repeats_by_seed():
    how = {"shuffle": True, "bucket_by_size": True}
    dataset = tree_batches(encoded(SIZES), 10, seed=1, **how)
    again = tree_batches(encoded(SIZES), 10, seed=1, **how)
    other = tree_batches(encoded(SIZES), 10, seed=2, **how)
    first, second = roots(dataset), roots(dataset)
    assert first != second
    assert [roots(again), roots(again)] == [first, second]
    assert roots(other) != first


@pytest.mark.many
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


@pytest.mark.slow
def test_feeds_keras():
    inputs = (keras.Input([None], dtype="int32"), keras.Input([None, 2], dtype="int32"))
    outputs = keras.layers.Embedding(4, 60)(inputs[0]) + 0.0 * keras.ops.sum(
        keras.ops.cast(inputs[1], "float32"), -1, keepdims=True
    )
    model = keras.Model(inputs, keras.layers.Dense(103, "softmax")(outputs))
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(ignore_class=-1))
    history = model.fit(tree_batches(encoded(SIZES), 10, shuffle=True), epochs=2, verbose=0)
    assert np.isfinite(history.history["loss"]).all()


@pytest.mark.many
def test_distributes():
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    dataset = strategy.experimental_distribute_dataset(tree_batches(encoded(SIZES), 10))
    assert sum(len(labels) for _, labels in dataset) == 103


@pytest.mark.parametrize(
    ("trees", "options", "reason"),
    [
        ([], {"batch_size": 2}, "encoded_trees is empty"),
        (iter([]), {"batch_size": 2}, r"encoded_trees is .* expected a list of trees.* list\("),
        (Tree("1", ["a"]), {"batch_size": 2}, r"encoded_trees is one nltk\.Tree"),
        ([Tree("1", ["a"])], {"batch_size": 2}, r"encoded_trees\[0\] is Tree.*as encode_tree"),
        ([{"a": 1}], {"batch_size": 2}, r"encoded_trees\[0\] is \{'a': 1\} \(type dict\)"),
        (encoded([1]), {"batch_size": 0}, "batch_size is 0; expected 1 or more"),
        (encoded([1]), {"batch_size": 2.0}, r"batch_size is 2\.0 \(type float\); expected .* int"),
        (EncodedTree(*encoded([1])[0]), {"batch_size": 2}, r"is one tree; .* Pass \[tree\]"),
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
