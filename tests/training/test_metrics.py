"""The four accuracies against plain numpy, and their manners inside Keras."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.training import (
    BinaryNodeAccuracy,
    BinaryRootAccuracy,
    NodeAccuracy,
    RootAccuracy,
)

METRICS = {
    "root_accuracy": RootAccuracy,
    "node_accuracy": NodeAccuracy,
    "binary_root_accuracy": BinaryRootAccuracy,
    "binary_node_accuracy": BinaryNodeAccuracy,
}


def random_batch(seed, trees, nodes, classes=5):
    """Returns labels with padding and gaps, and logits."""
    random = np.random.default_rng(seed)
    labels = random.integers(-1, classes, size=(trees, nodes)).astype("int32")
    for tree, length in enumerate(random.integers(1, nodes + 1, size=trees)):
        labels[tree, length:] = -1
    return labels, random.normal(size=(trees, nodes, classes)).astype("float32")


def numpy_accuracy(name, batches, weights=None):
    """Counts right nodes one by one."""
    right = total = 0.0
    for i, (labels, logits) in enumerate(batches):
        for b in range(labels.shape[0]):
            for n in range(1 if "root" in name else labels.shape[1]):
                label, row = labels[b, n], logits[b, n].astype("float64")
                if label == -1 or ("binary" in name and label == 2):
                    continue
                p = np.exp(row) / np.exp(row).sum()
                if "binary" in name:
                    good = (p[3] + p[4] > p[0] + p[1]) == (label > 2)
                else:
                    good = p.argmax() == label
                weight = 1.0 if weights is None else weights[i][b, n]
                right += weight * good
                total += weight
    return right / total


# Batches of different size: an average of averages would differ.
BATCHES = [random_batch(0, 30, 9), random_batch(1, 4, 33), random_batch(2, 17, 1)]


@pytest.mark.parametrize("name", METRICS)
def test_equals_numpy_over_several_batches(name):
    metric = METRICS[name]()
    for labels, logits in BATCHES:
        metric.update_state(labels, logits)
    np.testing.assert_allclose(metric.result(), numpy_accuracy(name, BATCHES), rtol=1e-6)
    metric.reset_state()
    assert float(metric.result()) == 0.0


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("per_node", [False, True])
def test_sample_weights(name, per_node):
    random = np.random.default_rng(3)
    metric, weights = METRICS[name](), []
    for labels, logits in BATCHES:
        weight = random.uniform(size=labels.shape if per_node else [len(labels), 1])
        metric.update_state(labels, logits, sample_weight=weight)
        weights.append(np.broadcast_to(weight, labels.shape))
    expected = numpy_accuracy(name, BATCHES, weights)
    np.testing.assert_allclose(metric.result(), expected, rtol=1e-5)


def test_by_hand():
    # Tree 0: root 4 (predicted 3), leaf 0 (predicted 0). Tree 1: neutral root (predicted 2).
    labels = [[4, 0], [2, -1]]
    logits = np.zeros([2, 2, 5], dtype="float32")
    logits[0, 0, 3] = logits[0, 1, 0] = logits[1, 0, 2] = logits[1, 1, 4] = 5.0
    expected = {
        "root_accuracy": 1 / 2,
        "node_accuracy": 2 / 3,
        "binary_root_accuracy": 1.0,
        "binary_node_accuracy": 1.0,
    }
    for name, value in expected.items():
        metric = METRICS[name]()
        metric.update_state(labels, logits)
        np.testing.assert_allclose(metric.result(), value)


def test_binary_sums_probabilities_and_not_the_best_class():
    # Class 4 is the most probable, and yet p[0] + p[1] = 0.5 exceeds p[3] + p[4] = 0.4.
    logits = np.log(np.array([[[0.25, 0.25, 0.1, 0.01, 0.39]]], dtype="float32"))
    for label, value in [(0, 1.0), (1, 1.0), (3, 0.0), (4, 0.0)]:
        metric = BinaryRootAccuracy()
        metric.update_state([[label]], logits)
        assert float(metric.result()) == value


def test_binary_of_two_classes_drops_nothing():
    labels, logits = random_batch(4, 20, 7, classes=2)
    binary, plain = BinaryNodeAccuracy(), NodeAccuracy()
    binary.update_state(labels, logits)
    plain.update_state(labels, logits)
    np.testing.assert_allclose(binary.result(), plain.result())


def test_nothing_to_count_is_zero():
    for metric in METRICS.values():
        metric = metric()
        metric.update_state([[-1, -1]], np.zeros([1, 2, 5], dtype="float32"))
        assert float(metric.result()) == 0.0


@pytest.mark.slow
def test_in_fit_with_a_mask_and_mixed_precision():
    inputs = keras.Input([None, 4])
    x = keras.layers.Masking(0.0)(inputs)
    model = keras.Model(inputs, keras.layers.Dense(5, dtype="mixed_bfloat16")(x))
    labels, _ = random_batch(5, 12, 6)
    features = np.random.default_rng(5).normal(size=(12, 6, 4)).astype("float32")
    features[labels < 0] = 0.0
    model.compile(loss="mse", metrics=[metric() for metric in METRICS.values()])
    assert keras.layers.Masking(0.0)(features)._keras_mask is not None
    logits = model(features)
    # The loss is of no interest here; its target is any tensor that fits.
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1),
        metrics=[metric() for metric in METRICS.values()],
    )
    result = model.evaluate(features, labels, verbose=0, return_dict=True, batch_size=5)
    logits = tf.cast(logits, "float32").numpy()
    for name in METRICS:
        np.testing.assert_allclose(
            result[name], numpy_accuracy(name, [(labels, logits)]), rtol=1e-5
        )


@pytest.mark.parametrize("name", METRICS)
def test_configuration_round_trip(name):
    metric = METRICS[name]()
    assert metric.name == name
    again = keras.metrics.deserialize(keras.metrics.serialize(metric))
    assert type(again) is METRICS[name]
    assert again.get_config() == metric.get_config()
    assert METRICS[name](name="other").get_config()["name"] == "other"


def test_label_out_of_range_is_named():
    metric = NodeAccuracy()
    with pytest.raises(tf.errors.InvalidArgumentError, match="NodeAccuracy expects"):
        metric.update_state([[7]], np.zeros([1, 1, 5], dtype="float32"))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"NodeAccuracy.*\n.*4294967296"):
        metric.update_state(np.array([[2**32]]), np.zeros([1, 1, 5], dtype="float32"))
    with pytest.raises(ValueError, match=r"NodeAccuracy expects sample weights.*\[batch, 1\]"):
        metric.update_state([[1]], np.zeros([1, 1, 5], dtype="float32"), sample_weight=[1.0])
    with pytest.raises(ValueError, match=r"return_sequences=True.*metrics of Keras"):
        metric.update_state([1], np.zeros([1, 5], dtype="float32"))
    with pytest.raises(ValueError, match="2 or more"):
        BinaryRootAccuracy().update_state([[0]], np.zeros([1, 1, 1], dtype="float32"))
