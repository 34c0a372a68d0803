"""Tree layers on ragged trees: what padded ones give, and the errors of rows."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.datasets import EncodedTree, tree_batches
from kerasrec.layers import (
    Bidirectional,
    ChildSumTreeLSTM,
    NodeWise,
    TopDownTreeLSTM,
    TopDownTreeLSTMCell,
    TreeDecoder,
    TreeGRU,
    TreeLSTM,
    TreeRNN,
)
from tests.layers.helpers import with_random_weights
from tests.parameters import few_of

SIZES = [1, 6, 9, 3]
MAKE = {
    "child-sum": (None, lambda **options: ChildSumTreeLSTM(3, **options)),
    "binary": (2, lambda **options: TreeLSTM(3, read_inner_inputs=True, **options)),
    "only leaves": (2, lambda **options: TreeRNN(3, read_inner_inputs=False, **options)),
    "three slots": (3, lambda **options: TreeGRU(3, arity=3, read_inner_inputs=True, **options)),
    "down": (2, lambda **options: TopDownTreeLSTM(3, arity=2, **options)),
    "down, shared": (None, lambda **options: TopDownTreeLSTM(3, share_weights=True, **options)),
}


def rows_of(size, arity, random):
    """Rows of children, each below a node that is drawn among those with a free slot."""
    rows = [[] for _ in range(size)]
    for node in range(1, size):
        free = [above for above in range(node) if arity is None or len(rows[above]) < arity]
        rows[random.choice(free)].append(node)
    return rows


def trees(arity, sizes=SIZES, seed=0):
    """Features and children, ragged and padded."""
    random = np.random.default_rng(seed)
    children = tf.ragged.constant(
        [rows_of(size, arity, random) for size in sizes], ragged_rank=2, dtype=tf.int32
    )
    values = tf.constant(random.normal(size=(sum(sizes), 4)), tf.float32)
    x = tf.RaggedTensor.from_row_lengths(values, sizes)
    return (x, children), (x.to_tensor(), children.to_tensor(-1, shape=[None, None, arity]))


def outputs_and_gradients(layer, inputs):
    """The layer's results, and gradients of a sum of them by its inputs and weights."""
    x = inputs[0]
    with tf.GradientTape() as tape:
        tape.watch(x.flat_values if isinstance(x, tf.RaggedTensor) else x)
        found = layer(*inputs)
        flat = [of.to_tensor() if isinstance(of, tf.RaggedTensor) else of for of in found]
        loss = tf.add_n([tf.reduce_sum(tf.sin(3.0 * of)) for of in flat])
    x = x.flat_values if isinstance(x, tf.RaggedTensor) else x
    slopes = tape.gradient(loss, [x, *(weight.value for weight in layer.weights)])
    return flat, [tf.convert_to_tensor(slope).numpy() for slope in slopes]


@pytest.mark.parametrize(
    ("name", "return_sequences"),
    few_of(
        # Roots are taken from the rows in one way for all layers that return only them.
        [*((name, True) for name in MAKE), ("child-sum", False), ("binary", False)],
        many=[("child-sum", True)],
    ),
)
def test_values_and_gradients_are_those_of_padded_trees(name, return_sequences):
    arity, make = MAKE[name]
    ragged, padded = trees(arity)
    layer = make(return_sequences=return_sequences, return_state=True)
    layer.build(*(of.shape for of in padded))
    with_random_weights(layer)
    values, (slope_x, *slopes) = outputs_and_gradients(layer, ragged)
    wanted, (wanted_x, *wanted_slopes) = outputs_and_gradients(layer, padded)
    assert all(np.abs(slope).max() > 0 for slope in [slope_x, *slopes])
    for mine, theirs in zip(values, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6)
    wanted_x = tf.RaggedTensor.from_tensor(wanted_x, SIZES).flat_values
    for mine, theirs in zip([slope_x, *slopes], [wanted_x, *wanted_slopes], strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-5)


@pytest.mark.slow
def test_outputs_of_all_nodes_are_ragged():
    (x, children), _ = trees(None)
    outputs = ChildSumTreeLSTM(3, return_sequences=True)(x, children)
    assert isinstance(outputs, tf.RaggedTensor)
    assert outputs.row_lengths().numpy().tolist() == SIZES
    both = Bidirectional(ChildSumTreeLSTM(3))(x, children)
    assert both.row_lengths().numpy().tolist() == SIZES
    assert both.shape[-1] == 6


@pytest.mark.slow
def test_both_ways_as_padded_trees():
    ragged, padded = trees(None)
    layer = Bidirectional(ChildSumTreeLSTM(3))
    wanted = layer(*padded)
    np.testing.assert_allclose(layer(*ragged).to_tensor(), wanted, atol=1e-6)


@pytest.mark.many
def test_the_way_down_has_the_arity_of_the_way_up():
    """Rows do not tell how many children there may be."""
    (x, children), _ = trees(2)
    layer = Bidirectional(TreeLSTM(3))
    layer.build(x.shape, children.shape)
    assert layer.downward_layer.cell.kernel.shape == (2 * 3, 4 * 3)


@pytest.mark.slow
def test_words_and_stacked_layers():
    (x, children), padded = trees(None)
    words = x.with_values(tf.range(sum(SIZES)) % 7)
    first = ChildSumTreeLSTM(3, embedding=keras.layers.Embedding(7, 4), return_sequences=True)
    second = ChildSumTreeLSTM(2)
    found = second(first(words, children), children)
    wanted = second(first(words.to_tensor(), padded[1]), padded[1])
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    with pytest.raises(ValueError, match="states of another tree layer"):
        TreeLSTM(2, arity=9)(first(words, children), children)


@pytest.mark.many
def test_rows_of_one_length_and_splits_of_int32():
    (x, children), padded = trees(2)
    layer = TreeLSTM(3, read_inner_inputs=True)
    wanted = layer(*padded)
    table = children.with_values(children.values.to_tensor(-1, shape=[None, 2]))
    assert table.ragged_rank == 1
    np.testing.assert_allclose(layer(x, table), wanted, atol=1e-6)
    narrow = [of.with_row_splits_dtype(tf.int32) for of in (x, children)]
    np.testing.assert_allclose(layer(*narrow), wanted, atol=1e-6)


@pytest.mark.many
@pytest.mark.parametrize(
    "options", few_of([{"dropout": 0.5}, {"recurrent_dropout": 0.5}], {"dropout": 0.5}, many=[])
)
@pytest.mark.parametrize("embedding", few_of([None, 7], None, many=[]))
def test_dropout(options, embedding):
    (x, children), _ = trees(None)
    if embedding:
        x = x.with_values(tf.range(sum(SIZES)) % 7)
        options = {**options, "embedding": keras.layers.Embedding(7, 4)}
    layer = ChildSumTreeLSTM(3, return_sequences=True, seed=1, **options)
    still = layer(x, children).flat_values
    drawn = [layer(x, children, training=True).flat_values for _ in range(2)]
    assert np.abs(drawn[0] - still).max() > 1e-3
    assert np.abs(drawn[0] - drawn[1]).max() > 1e-3


@pytest.mark.slow
def test_traced_once_whatever_comes():
    layer = ChildSumTreeLSTM(3)
    for seed, sizes in enumerate([SIZES, [2], [40, 1], [5] * 9]):
        layer(*trees(None, sizes, seed)[0])
    assert layer.num_traces == 1


def model_of_all_nodes(width=2):
    tokens = keras.Input([None], dtype="int32", ragged=True)
    children = keras.Input([None, None], dtype="int32", ragged=True)
    embedding = keras.layers.Embedding(7, 4, name="embedding")
    states = ChildSumTreeLSTM(3, embedding=embedding, return_sequences=True)(tokens, children)
    assert states.ragged
    return keras.Model([tokens, children], NodeWise(keras.layers.Dense(width))(states))


@pytest.mark.slow
def test_saved_and_exported(tmp_path):
    model = model_of_all_nodes()
    (x, children), _ = trees(None)
    inputs = x.with_values(tf.range(sum(SIZES)) % 7), children
    wanted = model(inputs)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")(inputs)
    np.testing.assert_array_equal(again.flat_values, wanted.flat_values)
    specs = [
        tf.RaggedTensorSpec([None, None], tf.int32),
        tf.RaggedTensorSpec([None, None, None], tf.int32),
    ]
    serve = tf.function(lambda *trees: model(list(trees)), input_signature=specs)
    archive = keras.export.ExportArchive()
    archive.add_endpoint("serve", serve)
    archive.write_out(tmp_path / "export", verbose=False)
    exported = tf.saved_model.load(tmp_path / "export")
    served = exported.serve(*inputs)
    np.testing.assert_allclose(served.flat_values, wanted.flat_values, atol=1e-6)


@functools.cache
def layer_of(shared_nodes):
    """One layer for many tests, traced once."""
    return ChildSumTreeLSTM(3, shared_nodes=shared_nodes)


@functools.cache
def layer_of_words():
    return ChildSumTreeLSTM(3, embedding=keras.layers.Embedding(4, 2))


@pytest.mark.many
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[[1], [2]]], r"index out of range.*\[\[0 1 0\]\] index: \[2\] nodes in the tree: \[2\]"),
        ([[[]], [[1, -3], []]], r"index out of range.*\[\[1 0 1\]\] index: \[-3\]"),
        ([[[1, 2], [2], []]], r"two parents .*\[\[0 2\]\]"),
        ([[[]], [[1], [0]]], r"node 0 is a child.*\[tree, node\]: \[\[1 0\]\]"),
        ([[[]], [[], [2], []]], r"another node has children and no parent.*\[\[1 1\]\]"),
        ([[[]], [[], [2], [1]]], r"nodes form a cycle. \[tree, node\]: \[\[1 1\]\]"),
        ([[[]], []], r"no tree nodes in tree \[1\]"),
        ([[[]], [[2], [], []]], r"the child of no node, so that .* \[tree, node\]: \[\[1 1\]\]"),
    ],
)
def test_rows_that_are_no_trees(rows, message):
    children = tf.ragged.constant(rows, ragged_rank=2, dtype=tf.int32)
    x = tf.RaggedTensor.from_row_splits(tf.ones([children.values.nrows(), 4]), children.row_splits)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        layer_of(False)(x, children)


@pytest.mark.parametrize("word", [0, 3, 9])
def test_a_node_that_no_parent_names_is_refused_whatever_its_word(word):
    children = tf.ragged.constant([[[]], [[1], [], []]], ragged_rank=2, dtype=tf.int32)
    words = tf.ragged.constant([[1], [0, 2, word]])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"of no node.*\[\[1 2\]\]") as error:
        layer_of_words()(words, children)
    assert "padding" not in error.value.message


@pytest.mark.parametrize("shared_nodes", [False, True])
def test_features_of_zeros_that_no_parent_names(shared_nodes):
    children = tf.ragged.constant([[[1], [], []], [[]]], ragged_rank=2, dtype=tf.int32)
    x = tf.RaggedTensor.from_row_splits(tf.zeros([4, 4]), children.row_splits)
    layer = layer_of(shared_nodes)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"of no node.*\[\[0 2\]\]") as error:
        layer(x, children)
    assert "padding" not in error.value.message
    assert layer(x[:0], children[:0]).shape == (0, 3)
    named = tf.ragged.constant([[[1, 2], [], []], [[]]], ragged_rank=2, dtype=tf.int32)
    assert layer(x, named).shape == (2, 3)


def test_ragged_batches_of_padded_arrays_are_legal():
    """Padding of encoded trees does not become nodes of rows."""
    trees = [
        EncodedTree([0, 2, 3, 0], [[1, 2], *[[-1, -1]] * 3], [4, -1, -1, -1]),
        EncodedTree([2, 0, 0], [[], [-1], []], [5, -1, -1]),
    ]
    ((words, children), labels) = next(iter(tree_batches(trees, 2, ragged=True)))
    assert words.to_list() == [[0, 2, 3], [2]] and labels.to_list() == [[4, -1, -1], [5]]
    assert [len(rows) for rows in children.to_list()] == [3, 1]
    assert layer_of_words()(words, children).shape == (2, 3)


@pytest.mark.parametrize("shared_nodes", [False, True])
def test_features_that_would_not_be_read(shared_nodes):
    layer = layer_of(shared_nodes)
    children = tf.ragged.constant([[[]], [[1], [], []]], ragged_rank=2, dtype=tf.int32)
    x = np.ones([4, 4], np.float32)
    for features in (0, 1e-30):
        x[3] = features
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"of no node.*\[\[1 2\]\]"):
            layer(tf.RaggedTensor.from_row_lengths(x, [1, 3]), children)


@pytest.mark.slow
def test_more_children_than_the_arity():
    (x, children), _ = trees(3)
    children = tf.ragged.constant([[[]], [[1, 2, 3], [], [], []]], ragged_rank=2, dtype=tf.int32)
    x = tf.RaggedTensor.from_row_lengths(tf.ones([5, 4]), [1, 4])
    message = (
        r"more than 2 children, the arity of the layer\. .*; ChildSumTreeLSTM takes any number of "
        r"children\. \[tree, node\]: \[\[1 0\]\] .*\[3\]"
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        TreeLSTM(3)(x, children)


@pytest.mark.slow
def test_trees_of_other_sizes():
    (x, children), _ = trees(None)
    for other in (x[:2], tf.RaggedTensor.from_row_lengths(x.values, SIZES[::-1])):
        with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match="same numbers of"):
            ChildSumTreeLSTM(3)(other, children)


def test_a_decoder_says_that_it_takes_none():
    (x, children), _ = trees(2)
    words = x.with_values(tf.ones([sum(SIZES)], tf.int32))
    decoder = TreeDecoder(TopDownTreeLSTMCell(3, arity=2), num_tokens=5, embedding_dim=3)
    with pytest.raises(ValueError, match=r"received a ragged tensor. Give x.to_tensor\(\)"):
        decoder(words, children)


@pytest.mark.slow
def test_missing_children_in_rows():
    children = tf.ragged.constant([[[-1, 1], []]], ragged_rank=2, dtype=tf.int32)
    x = tf.RaggedTensor.from_row_lengths(tf.constant([[1.0], [2.0]]), [2])
    padded = x.to_tensor(), children.to_tensor(-1)
    for layer in (TreeLSTM(3, read_inner_inputs=True), ChildSumTreeLSTM(3)):
        np.testing.assert_allclose(layer(x, children), layer(*padded), atol=1e-6)


@pytest.mark.many
def test_inside_of_xla():
    (x, children), _ = trees(2)
    layer = TreeLSTM(3, read_inner_inputs=True, engine="compiled")
    with pytest.raises(ValueError, match="takes ragged trees, but not inside XLA"):
        tf.function(layer, jit_compile=True)(x, children)


@pytest.mark.slow
def test_the_compiled_engine_outside_of_xla():
    ragged, padded = trees(2)
    layer = TreeLSTM(3, read_inner_inputs=True, engine="compiled")
    np.testing.assert_allclose(layer(*ragged), layer(*padded), atol=1e-6)
