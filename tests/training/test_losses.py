"""TreeCrossentropy against plain numpy, and its manners inside Keras."""

import json
import re
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec import training
from kerasrec.training import Model, NodeAccuracy, TreeCrossentropy, TreeNegativeLogLikelihood
from tests.parameters import few_of

# Three trees of 3, 1 and 5 labeled nodes; the last has an unlabeled node inside.
LABELS = np.array(
    [[4, 0, 2, -1, -1, -1], [1, -1, -1, -1, -1, -1], [3, 2, -1, 0, 4, 1]], dtype="int32"
)
LOGITS = np.random.default_rng(0).normal(size=(3, 6, 5)).astype("float32") * 3
# By what the sum over three trees of nine labeled nodes is divided.
DIVISORS = [
    ({}, 3),
    ({"normalize": "nodes"}, 9),
    ({"reduction": "mean"}, 3),
    ({"reduction": "sum"}, 1),
    ({"normalize": "nodes", "reduction": "sum"}, 1),
]
OF_NUMBERS = [
    training.TreeSquaredError,
    training.TreeMeanAbsoluteError,
    training.TreeRootMeanSquaredError,
]
OF_NODES = [
    *OF_NUMBERS,
    TreeCrossentropy,
    NodeAccuracy,
    training.RootAccuracy,
    TreeNegativeLogLikelihood,
    training.TreePerplexity,
]


def numpy_sums(labels, logits, weights=None):
    """Returns the loss of each tree, node by node."""
    sums = []
    for b, tree in enumerate(labels):
        total = 0.0
        for n, label in enumerate(tree):
            if label >= 0:
                row = logits[b, n].astype("float64")
                weight = 1.0 if weights is None else weights[b, n]
                total += weight * (np.log(np.exp(row).sum()) - row[label])
        sums.append(total)
    return np.array(sums)


def logits_model(rows, masked=False, **kwargs):
    """Returns a Keras model [batch, nodes, features] -> logits, which may carry a mask."""
    inputs = keras.Input([None, 4])
    x = keras.layers.Masking(0.0)(inputs) if masked else inputs
    outputs = keras.layers.Dense(rows, kernel_initializer=keras.initializers.Ones(), **kwargs)(x)
    return keras.Model(inputs, outputs)


@pytest.mark.parametrize("options, divisor", DIVISORS)
def test_equals_numpy(options, divisor):
    expected = numpy_sums(LABELS, LOGITS).sum() / divisor
    np.testing.assert_allclose(TreeCrossentropy(**options)(LABELS, LOGITS), expected, rtol=1e-5)


def test_unreduced_is_one_value_a_tree():
    sums = numpy_sums(LABELS, LOGITS)
    loss = TreeCrossentropy(reduction=None)
    np.testing.assert_allclose(loss(LABELS, LOGITS), sums, rtol=1e-5)
    np.testing.assert_allclose(loss.call(LABELS, LOGITS), sums, rtol=1e-5)
    per_node = TreeCrossentropy(normalize="nodes", reduction=None)(LABELS, LOGITS)
    np.testing.assert_allclose(per_node, sums / [3, 1, 5], rtol=1e-5)


def test_padding_and_unlabeled_trees_change_nothing():
    labels = np.pad(LABELS, [(0, 2), (0, 3)], constant_values=-1)
    logits = np.pad(LOGITS, [(0, 2), (0, 3), (0, 0)], constant_values=7.0)
    for normalize in ("trees", "nodes"):
        loss = TreeCrossentropy(normalize=normalize)
        np.testing.assert_allclose(loss(labels, logits), loss(LABELS, LOGITS), rtol=1e-6)
        assert float(loss(labels[3:], logits[3:])) == 0.0


def test_sample_weights_of_trees_and_of_nodes():
    trees = np.array([0.5, 2.0, 0.0], dtype="float32")
    nodes = np.random.default_rng(1).uniform(size=LABELS.shape).astype("float32")
    for given, weights in [
        (trees[:, None], np.broadcast_to(trees[:, None], LABELS.shape)),
        (nodes, nodes),
    ]:
        expected = numpy_sums(LABELS, LOGITS, weights).sum() / 3
        value = TreeCrossentropy()(LABELS, LOGITS, sample_weight=given)
        np.testing.assert_allclose(value, expected, rtol=1e-5)


CLASS_WEIGHT = {0: 0.25, 2: 3.0, 4: 0.0}


@pytest.mark.parametrize(
    "options, divisor", [({}, 3), ({"normalize": "nodes"}, 9), ({"reduction": "sum"}, 1)]
)
def test_weights_of_classes(options, divisor):
    """Each labeled node by its label's weight, 1 where there is none; the divisor stays."""
    nodes = np.random.default_rng(1).uniform(size=LABELS.shape).astype("float32")
    weights = np.vectorize(lambda label: CLASS_WEIGHT.get(label, 1.0))(LABELS)
    loss = TreeCrossentropy(class_weight=CLASS_WEIGHT, **options)
    expected = numpy_sums(LABELS, LOGITS, weights).sum() / divisor
    np.testing.assert_allclose(loss(LABELS, LOGITS), expected, rtol=1e-5)
    expected = numpy_sums(LABELS, LOGITS, weights * nodes).sum() / divisor
    np.testing.assert_allclose(loss(LABELS, LOGITS, sample_weight=nodes), expected, rtol=1e-5)
    half = loss(LABELS, tf.cast(LOGITS, "bfloat16"))
    assert half.dtype == tf.float32


@pytest.mark.slow
def test_weights_of_classes_in_training():
    x = np.random.default_rng(3).normal(size=(3, 6, 4)).astype("float32")
    kernels = {}
    for weight in (0.0, 1.0):
        model = logits_model(5)
        loss = TreeCrossentropy(class_weight=dict.fromkeys(range(5), weight))
        model.compile(keras.optimizers.SGD(0.1), loss)
        before = model.layers[-1].kernel.numpy()  # the bias is zero
        found = model.fit(x, LABELS, verbose=0, batch_size=3).history["loss"][0]
        assert found == pytest.approx(weight * numpy_sums(LABELS, x @ before).sum() / 3)
        kernels[weight] = model.layers[-1].kernel.numpy() - before
    assert not kernels[0.0].any()
    model = logits_model(5)
    model.compile(keras.optimizers.SGD(0.1), TreeCrossentropy())
    model.fit(x, LABELS, verbose=0, batch_size=3)
    np.testing.assert_allclose(model.layers[-1].kernel.numpy() - before, kernels[1.0], atol=1e-6)


@pytest.mark.parametrize(
    "class_weight", [{-1: 1.0}, {0.5: 1.0}, {0: -1.0}, {0: float("nan")}, {"a": 1.0}, [1.0, 2.0]]
)
def test_weights_of_no_classes(class_weight):
    with pytest.raises(ValueError, match=r"class_weight of TreeCrossentropy .*; expected a dict"):
        TreeCrossentropy(class_weight=class_weight)


def test_weights_of_a_class_without_logits():
    with pytest.raises(ValueError, match="has class 5, but the logits have 5 classes"):
        TreeCrossentropy(class_weight={5: 1.0})(LABELS, LOGITS)


@pytest.mark.many
@pytest.mark.parametrize("functional_class", [keras.Model, Model])
def test_class_weight_of_keras_is_refused(functional_class):
    """It weighs a tree by the number of the node with its largest label."""
    x = np.ones([3, 6, 4], "float32")
    batches = tf.data.Dataset.from_tensor_slices((x, LABELS)).batch(3)
    inputs = keras.Input([None, 4])
    model = functional_class(inputs, keras.layers.Dense(5)(inputs))
    weights = dict.fromkeys(range(5), 0.0)
    for loss in (TreeCrossentropy(), TreeNegativeLogLikelihood()):
        model.compile("sgd", loss)
        for data in ((x, LABELS), (batches,)):
            with pytest.raises(ValueError, match=r"TreeCrossentropy\(class_weight=...\) instead"):
                model.fit(*data, class_weight=weights, verbose=0)
    with pytest.raises(ValueError, match=r"TreeCrossentropy\(class_weight=...\) instead"):
        model.train_on_batch(x, LABELS, class_weight=weights)


def test_class_weight_of_labels_of_nodes_and_of_examples():
    """Also by kerasrec's models with a loss of Keras; where labels are of examples, as in Keras."""
    x, weights = np.ones([3, 6, 4], "float32"), dict.fromkeys(range(5), 0.0)
    inputs = keras.Input([6, 4])
    nodes = Model(inputs, keras.layers.Dense(5)(inputs))
    nodes.compile("sgd", keras.losses.SparseCategoricalCrossentropy(True, ignore_class=-1))
    with pytest.raises(ValueError, match="the labels are of nodes"):
        nodes.fit(x, LABELS, class_weight=weights, verbose=0)
    examples = Model(inputs, keras.layers.Dense(5)(keras.layers.Flatten()(inputs)))
    examples.compile("sgd", keras.losses.CategoricalCrossentropy(True))
    one_hot = np.eye(5, dtype="float32")[[0, 3, 4]]
    assert examples.fit(x, one_hot, class_weight=weights, verbose=0).history["loss"] == [0.0]


def test_weights_that_could_be_of_classes_are_refused():
    for weights in (np.ones(3), np.ones([3, 6, 1])):
        for use in (TreeCrossentropy(), TreeNegativeLogLikelihood()):
            with pytest.raises(ValueError, match=r"add an axis: sample_weight\[:, None\]"):
                use(np.minimum(LABELS, 1), LOGITS[..., :2], sample_weight=weights)
    with pytest.raises(tf.errors.InvalidArgumentError):
        TreeCrossentropy()(LABELS[:, :1], LOGITS[:, :1], sample_weight=np.ones([3, 6]))


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("use", few_of(OF_NODES, OF_NODES[0]), ids=lambda use: use.__name__)
def test_labels_of_roots_are_not_those_of_all_nodes(use, jit_compile):
    """Where the numbers of trees and nodes are known only when the step runs."""
    y_pred = np.ones([3, 4, 2], np.float32)[..., : 1 if use in OF_NUMBERS else 2]
    dtype = np.float32 if use in OF_NUMBERS else np.int32
    specs = [tf.TensorSpec([None, None], dtype), tf.TensorSpec([None, None, y_pred.shape[2]])]
    run = tf.function(use(), input_signature=specs, jit_compile=jit_compile)
    assert np.isfinite(run(np.ones([3, 4], dtype), y_pred))
    # XLA drops the assertion, but cannot give each node a label.
    message = None if jit_compile else "expects as many labels as.*Pad the labels of each batch"
    for shape in ([3, 1], [1, 4], [1, 1], [3, 6]):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            run(np.ones(shape, dtype), y_pred)


@pytest.mark.parametrize("use", [TreeCrossentropy(), NodeAccuracy()], ids=["loss", "metric"])
def test_weights_of_one_tree_are_not_those_of_all(use):
    for run in (use, tf.function(use)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="expects weights for each of"):
            run(LABELS, LOGITS, sample_weight=np.ones([1, LABELS.shape[1]]))


@pytest.mark.parametrize("normalize", few_of(["trees", "nodes"], many=["nodes"]))
def test_a_mask_changes_nothing(normalize):
    x = np.random.default_rng(2).normal(size=(3, 6, 4)).astype("float32")
    x[LABELS < 0] = 0.0  # what Masking masks
    values = {}
    for masked in (False, True):
        model = logits_model(5, masked)
        y_pred = model(x)
        assert hasattr(y_pred, "_keras_mask") == masked
        loss = TreeCrossentropy(normalize=normalize)
        model.compile(keras.optimizers.SGD(0.1), loss=loss)
        values[masked] = [float(loss(LABELS, y_pred)), model.evaluate(x, LABELS, verbose=0)]
        model.fit(x, LABELS, verbose=0)
        values[masked].append(model.layers[-1].kernel.numpy())
    for plain, with_mask in zip(values[False], values[True], strict=True):
        np.testing.assert_allclose(plain, with_mask, rtol=1e-6)


@pytest.mark.parametrize("use", [TreeCrossentropy(), NodeAccuracy()], ids=["loss", "metric"])
def test_a_label_at_padding_is_an_error(use):
    x = np.ones([2, 3, 4], np.float32)
    x[1, 2] = 0.0
    model, labels = logits_model(5, masked=True), np.zeros([2, 3], np.int32)

    def run():
        return use(labels, model(x))

    for call in (run, tf.function(run)):
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="labels of -1 at padding"
        ) as found:
            call()
        assert re.search(r"\b1,? 2\b", found.value.message)  # [tree, node]
    labels[1, 2] = -1
    run()


@pytest.mark.parametrize("nothing", few_of([-np.inf, np.nan], many=[-np.inf]))
def test_logits_without_a_label_may_be_anything(nothing):
    logits = tf.constant([[[0.0, 0.0], [nothing, 0.0], [nothing, nothing]]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = TreeCrossentropy()(np.array([[1, -1, -1]]), logits)
    assert float(loss) == pytest.approx(np.log(2))
    assert tape.gradient(loss, logits).numpy().tolist()[0] == [[0.5, -0.5], [0, 0], [0, 0]]


def test_gradient_equals_numpy_and_is_zero_without_label():
    logits = tf.Variable(LOGITS)
    with tf.GradientTape() as tape:
        value = TreeCrossentropy()(LABELS, logits)
    expected = np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True)
    expected -= np.eye(5)[np.maximum(LABELS, 0)]
    expected *= (LABELS >= 0)[..., None] / 3
    np.testing.assert_allclose(tape.gradient(value, logits), expected, atol=1e-6)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.many
def test_mixed_precision_sums_in_float32(policy):
    half = "float16" if policy == "mixed_float16" else "bfloat16"
    # 4000 nodes of loss log 5 = 1.6: float16 has steps of 4 at the sum, bfloat16 of 32.
    labels = np.zeros([1, 4000], dtype="int32")
    logits = tf.zeros([1, 4000, 5], dtype=half)
    value = TreeCrossentropy()(labels, logits)
    assert value.dtype == tf.float32
    np.testing.assert_allclose(value, 4000 * np.log(5), rtol=1e-5)

    model = logits_model(5, dtype=policy)
    model.compile("sgd", loss=TreeCrossentropy())
    x = np.ones([3, 6, 4], dtype="float32")
    assert model(x).dtype == half
    history = model.fit(x, LABELS, epochs=2, verbose=0).history["loss"]
    assert history[1] < history[0]


def test_under_two_replicas_equals_one(two_replicas):
    """Keras divides by the number of replicas since their gradients are summed."""
    loss = TreeCrossentropy()
    values = two_replicas.run(lambda: loss(LABELS, LOGITS))
    total = two_replicas.reduce("SUM", values, axis=None)
    np.testing.assert_allclose(total, loss(LABELS, LOGITS), rtol=1e-6)


def test_configuration_round_trip():
    options = {"reduction": "sum", "name": "nodes_loss", "class_weight": CLASS_WEIGHT}
    loss = TreeCrossentropy(normalize="nodes", **options)
    again = keras.losses.deserialize(json.loads(json.dumps(keras.losses.serialize(loss))))
    assert again.class_weight == CLASS_WEIGHT
    assert isinstance(again, TreeCrossentropy)
    assert again.get_config() == loss.get_config()
    np.testing.assert_allclose(again(LABELS, LOGITS), loss(LABELS, LOGITS))


@pytest.mark.slow
def test_compiled_model_saves_and_reloads(tmp_path):
    model = logits_model(5)
    model.compile("sgd", loss=TreeCrossentropy(normalize="nodes", class_weight=CLASS_WEIGHT))
    x = np.random.default_rng(3).normal(size=(3, 6, 4)).astype("float32")
    model.fit(x, LABELS, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.loss.normalize == "nodes"
    assert again.loss.class_weight == CLASS_WEIGHT
    np.testing.assert_allclose(
        again.evaluate(x, LABELS, verbose=0), model.evaluate(x, LABELS, verbose=0), rtol=1e-6
    )


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize(
    "bad, dtype",
    [
        (5, "int32"),
        (-2, "int32"),
        (2**32, "int64"),
        (2**32 - 1, "int64"),
        (2**32 - 1, "uint32"),
        (2**64 - 1, "uint64"),
        (1.5, "float32"),
        (float("nan"), "float32"),
    ],
)
def test_label_out_of_range_is_named(bad, dtype, graph):
    labels = np.maximum(LABELS, 0).astype(dtype)
    labels[1, 0] = bad
    loss = TreeCrossentropy()
    call = tf.function(lambda y, p: loss(y, p), jit_compile=False) if graph else loss
    with pytest.raises(tf.errors.InvalidArgumentError, match="TreeCrossentropy expects") as error:
        call(labels, LOGITS)
    assert str(float(bad)) in str(error.value) or str(bad) in str(error.value)
    assert re.search(r"\[tree, node\]'?\n?.*1,? 0", str(error.value))


@pytest.mark.parametrize("ragged", [False, True])
def test_a_softmax_before_the_loss_causes_a_warning(ragged):
    lengths = tf.constant([LOGITS.shape[1]] * len(LOGITS))

    @tf.function
    def loss(activation):
        outputs = tf.constant(LOGITS)
        if ragged:
            outputs = tf.RaggedTensor.from_tensor(outputs, lengths)
        return TreeCrossentropy()(LABELS, tf.ragged.map_flat_values(activation, outputs))

    with pytest.warns(UserWarning, match="expects logits, but y_pred comes from a softmax"):
        loss(keras.activations.softmax)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss(tf.nn.log_softmax)


def test_wrong_shapes_are_named():
    with pytest.raises(ValueError, match=r"return_sequences=True.*\[batch\], are for losses"):
        TreeCrossentropy()(LABELS[:, 0], LOGITS[:, 0])
    with pytest.raises(ValueError, match=r"\(3, 4\).*\(3, 6, 5\)"):
        TreeCrossentropy()(LABELS[:, :4], LOGITS)
    with pytest.raises(ValueError, match="normalize='leaves'"):
        TreeCrossentropy(normalize="leaves")
    with pytest.raises(ValueError, match="reduction='median'"):
        TreeCrossentropy(reduction="median")
