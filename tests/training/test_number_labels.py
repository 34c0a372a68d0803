"""The loss and the errors of labels that are floats, against plain numpy and unpadded trees."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec.datasets import tree_batches
from kerasrec.layers import ChildSumTreeLSTM, NodeWise
from kerasrec.training import (
    TreeMeanAbsoluteError,
    TreeRootMeanSquaredError,
    TreeSquaredError,
)
from tests.parameters import few_of
from tests.training.test_losses import DIVISORS

NAN = np.nan
# Three trees of 3, 1 and 5 labeled nodes; the last has an unlabeled node inside.
LABELS = np.array(
    [[4, 0.5, -2, NAN, NAN, NAN], [-1, NAN, NAN, NAN, NAN, NAN], [3, 2, NAN, 0, 4, 1]], "float32"
)
LENGTHS = [3, 1, 6]
OUTPUTS = np.random.default_rng(0).normal(size=(3, 6)).astype("float32") * 3
WITHOUT_LABEL = np.isnan(LABELS)
CLASSES = np.where(WITHOUT_LABEL, -1, np.arange(6) % 2).astype("int32")
RAGGED = [tf.RaggedTensor.from_tensor(of, lengths=LENGTHS) for of in (LABELS, OUTPUTS)]


def numpy_sums(labels, outputs, weights=None, power=2):
    """Returns the loss of each tree, node by node."""
    sums = []
    for b, tree in enumerate(labels):
        total = 0.0
        for n, label in enumerate(tree):
            if not np.isnan(label):
                weight = 1.0 if weights is None else weights[b, n]
                total += weight * abs(float(label) - float(outputs[b, n])) ** power
        sums.append(total)
    return np.array(sums)


def trees_of(label_of):
    """Encoded trees of 3, 1 and 4 nodes; a node's token is its number in the tree, from 1."""
    trees = []
    for children in ([[1, 2], [], []], [[]], [[1], [2, 3], [], []]):
        nodes = len(children)
        labels = np.array([label_of(node) for node in range(nodes)])
        rows = np.full([nodes, 2], -1, "int32")
        for node, of in enumerate(children):
            rows[node, : len(of)] = of
        trees.append((np.arange(1, nodes + 1, dtype="int32"), rows, labels))
    return trees


FLOATS = trees_of(lambda node: np.float32(NAN if node == 1 else node / 2 - 1))


def tree_model(ragged=False, loss="mse"):
    """Returns a compiled model of a number for each tree node, with the same weights each time."""
    keras.utils.set_random_seed(1)
    tokens = keras.Input([None], dtype="int32", ragged=ragged)
    children = keras.Input([None, None], dtype="int32", ragged=ragged)
    embedding = keras.layers.Embedding(8, 3)
    layer = ChildSumTreeLSTM(4, embedding=embedding, return_sequences=True, read_inner_inputs=True)
    states, dense = layer(tokens, children), keras.layers.Dense(1)
    model = keras.Model([tokens, children], (NodeWise(dense) if ragged else dense)(states))
    model.compile(keras.optimizers.SGD(0.1), loss)
    return model


X = np.random.default_rng(3).normal(size=(3, 6, 4)).astype("float32")


def number_model(ragged=False, loss="mse", functional_class=keras.Model, metrics=None):
    """Returns a compiled model `[batch, nodes, features]` -> numbers, without a mask."""
    keras.utils.set_random_seed(1)
    inputs, dense = keras.Input([None, 4], ragged=ragged), keras.layers.Dense(1)
    model = functional_class(inputs, (NodeWise(dense) if ragged else dense)(inputs))
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=metrics)
    return model


def batches(labels=LABELS, ragged=False):
    """One batch for `number_model`."""
    given = [X, labels]
    if ragged:
        given = [tf.RaggedTensor.from_tensor(of, lengths=LENGTHS) for of in given]
    return tf.data.Dataset.from_tensors(tuple(given))


@pytest.mark.parametrize("options, divisor", DIVISORS)
def test_loss_equals_numpy(options, divisor):
    expected = numpy_sums(LABELS, OUTPUTS).sum() / divisor
    loss = TreeSquaredError(**options)
    for outputs in (OUTPUTS, OUTPUTS[..., None]):
        np.testing.assert_allclose(loss(LABELS, outputs), expected, rtol=1e-5)
    np.testing.assert_allclose(loss(*RAGGED), expected, rtol=1e-5)


@pytest.mark.many
def test_a_number_at_padding_is_an_error():
    outputs = keras.layers.Masking(0.0)(np.float32([[[1.0], [2.0], [0.0]]]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="labels of nan at padding"):
        TreeSquaredError()([[1.0, 2.0, 0.0]], outputs)
    TreeSquaredError()([[1.0, 2.0, np.nan]], outputs)


def test_unreduced_is_one_value_a_tree():
    sums = numpy_sums(LABELS, OUTPUTS)
    loss = TreeSquaredError(reduction=None)
    np.testing.assert_allclose(loss(LABELS, OUTPUTS), sums, rtol=1e-5)
    np.testing.assert_allclose(loss.call(LABELS, OUTPUTS), sums, rtol=1e-5)
    per_node = TreeSquaredError(normalize="nodes", reduction=None)(LABELS, OUTPUTS)
    np.testing.assert_allclose(per_node, sums / [3, 1, 5], rtol=1e-5)


@pytest.mark.many
@pytest.mark.parametrize("normalize", ["trees", "nodes"])
@pytest.mark.parametrize("reduction", ["mean", "sum", None])
def test_ragged_and_padded_agree(normalize, reduction):
    loss = TreeSquaredError(normalize, reduction)
    wanted = loss(LABELS, OUTPUTS)
    for labels in (LABELS, RAGGED[0]):
        for outputs in (OUTPUTS, RAGGED[1]):
            np.testing.assert_allclose(loss(labels, outputs), wanted, rtol=1e-6)
    column = RAGGED[1].with_flat_values(RAGGED[1].flat_values[:, None])
    np.testing.assert_allclose(loss(RAGGED[0], column), wanted, rtol=1e-6)
    assert loss.divisor(LABELS) == loss.divisor(RAGGED[0]) == (3 if normalize == "trees" else 9)


@pytest.mark.many
@pytest.mark.parametrize("normalize, divisor", [("trees", 3), ("nodes", 9)])
def test_weights_of_trees_and_of_nodes(normalize, divisor):
    trees = np.array([0.5, 2.0, 0.0], dtype="float32")
    nodes = np.random.default_rng(1).uniform(size=LABELS.shape).astype("float32")
    for given, weights in [
        (trees[:, None], np.broadcast_to(trees[:, None], LABELS.shape)),
        (nodes, nodes),
    ]:
        expected = numpy_sums(LABELS, OUTPUTS, weights).sum() / divisor
        for labels, outputs in ((LABELS, OUTPUTS), RAGGED):
            value = TreeSquaredError(normalize)(labels, outputs, sample_weight=given)
            np.testing.assert_allclose(value, expected, rtol=1e-5)
    with pytest.raises(ValueError, match=r"class_weight=...\), leave them out: Keras would"):
        TreeSquaredError()(LABELS, OUTPUTS, sample_weight=trees)


@pytest.mark.many
@pytest.mark.parametrize("padding", [0.0, NAN, np.inf])
def test_gradient_equals_numpy_and_is_zero_without_label(padding):
    outputs = tf.Variable(np.where(WITHOUT_LABEL, np.float32(padding), OUTPUTS))
    with tf.GradientTape() as tape:
        value = TreeSquaredError()(LABELS, outputs)
    expected = np.where(WITHOUT_LABEL, 0.0, 2 * (OUTPUTS - LABELS) / 3)
    np.testing.assert_allclose(tape.gradient(value, outputs), expected, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("ragged", [False, True])
def test_a_step_moves_weights_as_one_tree_after_another(ragged):
    """As without padding, where each tree is a batch and gradients are averaged."""
    model = tree_model(ragged, TreeSquaredError())
    weights = model.get_weights()
    total = [np.zeros_like(of) for of in weights]
    for tree in FLOATS:
        ((x, y),) = tree_batches([tree], 1)
        alone = tree_model()
        with tf.GradientTape() as tape:
            known = tf.constant(np.flatnonzero(~np.isnan(y[0].numpy())))
            outputs = tf.gather(alone(x)[0, :, 0], known)
            value = tf.reduce_sum((outputs - tf.gather(y[0], known)) ** 2)
        for place, gradient in enumerate(tape.gradient(value, alone.trainable_weights)):
            total[place] += tf.convert_to_tensor(gradient).numpy()
    model.fit(tree_batches(FLOATS, 3, ragged=ragged), verbose=0)
    for after, before, gradient in zip(model.get_weights(), weights, total, strict=True):
        assert np.abs(gradient).max() > 1e-4
        np.testing.assert_allclose(after, before - 0.1 * gradient / 3, atol=1e-6)


@pytest.mark.slow
def test_every_loop_trains_alike(two_replicas):
    """Keras' `fit` and kerasrec's, on one device and on two replicas, padded and ragged."""

    def of_keras(model, data):
        return model.fit(data, epochs=2, verbose=0)

    def of_kerasrec(model, data):
        return kerasrec.training.fit(model, data, epochs=2, verbose=0)

    def trained(fit, ragged=False, **options):
        metrics = [TreeMeanAbsoluteError()]
        model = number_model(ragged, TreeSquaredError("nodes"), metrics=metrics, **options)
        data = batches(ragged=ragged)
        history = fit(model, data).history
        found = kerasrec.training.evaluate(model, data)
        return model.get_weights(), [*history["loss"], *history["tree_mean_absolute_error"]], found

    wanted = trained(of_keras)
    assert all(np.isfinite(of).all() for of in wanted[0])
    others = [trained(of_kerasrec), trained(of_keras, functional_class=kerasrec.training.Model)]
    others += [trained(fit, ragged=True) for fit in (of_keras, of_kerasrec)]
    with two_replicas.scope():
        others += [trained(of_kerasrec), trained(of_kerasrec, ragged=True)]
        others.append(trained(of_keras, functional_class=kerasrec.training.Model))
    for weights, numbers, found in others:
        for one, other in zip(weights, wanted[0], strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)
        np.testing.assert_allclose(numbers, wanted[1], rtol=1e-5)
        np.testing.assert_allclose(list(found.values()), list(wanted[2].values()), rtol=1e-5)


@pytest.mark.many
def test_mixed_precision_sums_in_float32():
    labels = np.zeros([1, 4000], dtype="float32")
    outputs = tf.ones([1, 4000, 1], dtype="bfloat16")
    value = TreeSquaredError()(labels, outputs)
    assert value.dtype == tf.float32
    assert float(value) == 4000


BATCHES = [(LABELS, OUTPUTS), (LABELS[:2, :4] + 1, OUTPUTS[:2, :4]), (LABELS[2:, :], OUTPUTS[:1])]


@pytest.mark.parametrize("roots_only", few_of([False, True], False))
@pytest.mark.parametrize("weighted", few_of([False, True], False))
def test_metrics_equal_numpy_over_several_batches(roots_only, weighted):
    absolute, squared = TreeMeanAbsoluteError(roots_only), TreeRootMeanSquaredError(roots_only)
    random = np.random.default_rng(4)
    sums, count = np.zeros(2), 0.0
    for labels, outputs in BATCHES:
        weights = random.uniform(size=labels.shape).astype("float32") if weighted else None
        for metric in (absolute, squared):
            metric.update_state(labels, outputs[..., None], weights)
        last = 1 if roots_only else None
        labels, outputs = labels[:, :last], outputs[:, :last]
        each = np.ones(labels.shape) if weights is None else weights[:, :last]
        sums += [numpy_sums(labels, outputs, each, power).sum() for power in (1, 2)]
        count += each[~np.isnan(labels)].sum()
    np.testing.assert_allclose(absolute.result(), sums[0] / count, rtol=1e-5)
    np.testing.assert_allclose(squared.result(), np.sqrt(sums[1] / count), rtol=1e-5)


@pytest.mark.many
@pytest.mark.parametrize("metric_class", [TreeMeanAbsoluteError, TreeRootMeanSquaredError])
@pytest.mark.parametrize("roots_only", [False, True])
def test_metrics_of_ragged_trees(metric_class, roots_only):
    found = []
    for labels, outputs in ((LABELS, OUTPUTS), RAGGED):
        metric = metric_class(roots_only)
        metric.update_state(labels, outputs)
        found.append(float(metric.result()))
    assert found[0] > 0
    assert found[0] == pytest.approx(found[1])
    again = keras.metrics.deserialize(json.loads(json.dumps(keras.metrics.serialize(metric))))
    assert again.get_config() == metric.get_config()
    assert again.roots_only == roots_only


@pytest.mark.slow
def test_saves_and_loads(tmp_path):
    loss = TreeSquaredError(normalize="nodes", reduction="sum", name="numbers")
    again = keras.losses.deserialize(json.loads(json.dumps(keras.losses.serialize(loss))))
    assert isinstance(again, TreeSquaredError)
    assert again.get_config() == loss.get_config()
    model, data = number_model(loss=TreeSquaredError("nodes")), batches()
    model.fit(data, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.loss.normalize == "nodes"
    np.testing.assert_allclose(again.evaluate(data, verbose=0), model.evaluate(data, verbose=0))


def test_what_does_not_fit_is_named():
    loss = TreeSquaredError()
    with pytest.raises(ValueError, match=r"\(3,\) and y_pred of shape \(3, 6\).*losses of Keras"):
        loss(LABELS[:, 0], OUTPUTS)
    with pytest.raises(ValueError, match=r"\(3, 6\) and y_pred of shape \(3, 6, 5\)"):
        loss(LABELS, np.ones([3, 6, 5], "float32"))
    with pytest.raises(ValueError, match=r"as many labels as outputs.*\(3, 4\).*\(3, 6\)"):
        loss(LABELS[:, :4], OUTPUTS)
    with pytest.raises(ValueError, match=r"labels of int32, where -1 may be a number"):
        loss(np.zeros([3, 6], "int32"), OUTPUTS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="as many labels as outputs in each"):
        loss(tf.ragged.constant([[0.0], [0.0] * 3, [1.0] * 6]), RAGGED[1])
    with pytest.raises(ValueError, match=r"TreeSquaredError expects normalize="):
        TreeSquaredError(normalize="leaves")


@pytest.mark.many
def test_labels_that_are_integers_are_refused_by_fit():
    model = number_model(loss=TreeSquaredError())
    with pytest.raises(ValueError, match="labels of int32, where -1 may be a number"):
        model.fit(batches(CLASSES), verbose=0)
