"""The loss and the accuracies of ragged trees, against those of the same trees padded."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec.training import (
    BinaryNodeAccuracy,
    BinaryRootAccuracy,
    NodeAccuracy,
    RootAccuracy,
    TreeCrossentropy,
    TreeNegativeLogLikelihood,
    TreePerplexity,
    TreeSquaredError,
)

LENGTHS = [2, 5, 1]
LABELS = tf.ragged.constant([[4, -1], [0, 1, -1, 2, 3], [2]])
LOGITS = tf.RaggedTensor.from_row_lengths(
    tf.constant(np.random.default_rng(0).normal(size=(8, 5)), tf.float32), LENGTHS
)
PADDED = LABELS.to_tensor(-1), LOGITS.to_tensor()


@pytest.mark.many
@pytest.mark.parametrize("normalize", ["trees", "nodes"])
@pytest.mark.parametrize("reduction", ["mean", "sum", None])
@pytest.mark.parametrize("class_weight", [None, {0: 2.0, 3: 0.5}])
def test_loss_is_that_of_padded_trees(normalize, reduction, class_weight):
    loss = TreeCrossentropy(normalize, reduction, class_weight=class_weight)
    wanted = loss(*PADDED)
    assert np.all(wanted > 0)
    np.testing.assert_allclose(loss(LABELS, LOGITS), wanted, rtol=1e-6)
    np.testing.assert_allclose(loss(PADDED[0], LOGITS), wanted, rtol=1e-6)
    np.testing.assert_allclose(loss(LABELS, PADDED[1]), wanted, rtol=1e-6)
    assert loss.divisor(LABELS) == loss.divisor(PADDED[0])


@pytest.mark.parametrize(
    "metric_class", [NodeAccuracy, RootAccuracy, BinaryNodeAccuracy, BinaryRootAccuracy]
)
def test_accuracies_are_those_of_padded_trees(metric_class):
    # Right at some labeled nodes, and wrong at others.
    logits = LOGITS.with_values(LOGITS.values + 3.0 * tf.one_hot([4, 0, 4, 3, 0, 2, 0, 1], 5))
    found = []
    for labels, values in ((LABELS, logits), (PADDED[0], logits.to_tensor())):
        metric = metric_class()
        metric.update_state(labels, values)
        found.append(float(metric.result()))
    assert 0 < found[0] < 1
    assert found[0] == pytest.approx(found[1])


def test_weights_of_trees_and_of_nodes():
    loss = TreeCrossentropy()
    of_trees = np.array([[1.0], [0.5], [2.0]], np.float32)
    np.testing.assert_allclose(loss(LABELS, LOGITS, of_trees), loss(*PADDED, of_trees), rtol=1e-6)
    of_nodes = tf.RaggedTensor.from_row_lengths(tf.range(8.0), LENGTHS)
    np.testing.assert_allclose(
        loss(LABELS, LOGITS, of_nodes), loss(*PADDED, of_nodes.to_tensor()), rtol=1e-6
    )


@pytest.mark.many
@pytest.mark.parametrize("of_floats", [False, True])
def test_labels_outputs_and_weights_of_either_form_in_a_graph(of_floats):
    loss = TreeSquaredError() if of_floats else TreeCrossentropy()
    labels, padding = (tf.cast(LABELS, tf.float32), np.nan) if of_floats else (LABELS, -1)
    outputs = LOGITS[..., :1] if of_floats else LOGITS
    weights = tf.RaggedTensor.from_row_lengths(tf.range(1.0, 9.0), LENGTHS)
    forms = [
        (labels, labels.to_tensor(padding)),
        (outputs, outputs.to_tensor()),
        (weights, weights.to_tensor()),
    ]
    found = [float(tf.function(loss, autograph=False)(*form)) for form in itertools.product(*forms)]
    np.testing.assert_allclose(found, float(loss(labels, outputs, weights)), rtol=1e-6)


def test_errors_name_the_node():
    for labels, place in [
        ([[0, 1], [0, 1, 2, 5, 3], [2]], "1, 3"),
        ([[0, 1], [0] * 5, [-2]], "2, 0"),
    ]:
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            TreeCrossentropy()(tf.ragged.constant(labels), LOGITS)
        assert place in str(error.value)
    with pytest.raises(tf.errors.InvalidArgumentError, match="as many labels as rows of logits"):
        TreeCrossentropy()(tf.ragged.constant([[0], [0] * 5, [0, 1]]), LOGITS)


@pytest.mark.parametrize(
    ("labels", "weights"),
    [
        ([[4, 2, -1, -1, -1], [0, 1, 2, 3, 4], [2, -1, -1, -1, 3]], None),
        ([[4, 2, -1], [0, 1, -1], [2, -1, -1]], None),
        (LABELS, np.ones([4, 1])),
        (LABELS, np.ones([3, 4])),
    ],
    ids=["behind a tree", "too few", "weights of more trees", "too few weights"],
)
def test_no_label_and_no_weight_is_cut_off(labels, weights):
    for compute in (TreeCrossentropy(), NodeAccuracy().update_state):
        with pytest.raises(tf.errors.InvalidArgumentError, match="as many labels or weights as"):
            compute(labels, LOGITS, weights)


def test_a_tree_without_nodes_has_no_root():
    labels, lengths = tf.ragged.constant([[], [1, 0], []], dtype=tf.int32), [0, 2, 0]
    logits = tf.RaggedTensor.from_row_lengths(tf.one_hot([1, 1], 2), lengths)
    metric = RootAccuracy()
    metric.update_state(labels, logits)
    assert float(metric.total.numpy()) == float(metric.count.numpy()) == 1.0


@pytest.mark.slow
def test_fit_of_kerasrec_takes_ragged_batches():
    """And trains as that of Keras does."""
    states = keras.Input([None, 5], ragged=True)
    batches = tf.data.Dataset.from_tensors((LOGITS, LABELS))

    def trained(fit):
        keras.utils.set_random_seed(1)
        dense = kerasrec.layers.NodeWise(keras.layers.Dense(5, name="dense"))
        model = keras.Model(states, dense(states))
        model.compile(keras.optimizers.SGD(0.5), TreeCrossentropy())
        fit(model, batches)
        return model.get_weights()

    mine = trained(lambda model, data: kerasrec.training.fit(model, data, epochs=2, verbose=0))
    theirs = trained(lambda model, data: model.fit(data, epochs=2, verbose=0))
    for one, other in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_likelihoods_of_ragged_trees_are_refused():
    labels = tf.ragged.constant([[1, 2], [3]])
    terms = tf.RaggedTensor.from_row_lengths(tf.zeros([3, 2]), [2, 1])
    loss, metric = TreeNegativeLogLikelihood(), TreePerplexity()
    for compute in (loss, metric.update_state):
        with pytest.raises(ValueError, match="expects padded trees"):
            compute(labels, terms)


@pytest.mark.many
def test_ragged_labels_and_weights_of_padded_logits():
    logits = np.random.default_rng(0).normal(size=[2, 4, 3]).astype(np.float32)
    loss = tf.function(TreeCrossentropy(), autograph=False)
    labels, weights = [[1, 2, 0], [1]], [[1.0, 2.0, 3.0], [4.0]]
    found = loss(tf.ragged.constant(labels), logits, tf.ragged.constant(weights))
    padded = np.array([[1, 2, 0, -1], [1, -1, -1, -1]])
    expected = loss(padded, logits, np.array([[1.0, 2.0, 3.0, 0.0], [4.0, 0.0, 0.0, 0.0]]))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most a label or weight"):
        loss(tf.ragged.constant([[1, 2, 0, 1, 1], [1]]), logits)
