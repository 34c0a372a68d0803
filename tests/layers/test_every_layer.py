"""One set of checks for every ready layer; tests of a single layer are in separate files."""

import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.layers import Bidirectional
from tests.layers.helpers import (
    READY,
    TOLERANCE,
    UNITS,
    features,
    is_node,
    random_children,
    slopes,
    with_random_weights,
)
from tests.parameters import few_of

# test_gradients.py compares those of LAYERS, of trees with padding, with eager recursion.
each_layer = pytest.mark.parametrize("name", few_of(READY, many=["TopDownTreeLSTM"]))
each_layer_always = pytest.mark.parametrize("name", READY)


def trees(name):
    """Six trees, the largest of nine nodes."""
    return random_children(6, 9, READY[name].arity, seed=3, sizes=[1, 9, 4, 2, 7, 1])


def layer_of(name, **options):
    layer = READY[name].make(**options)
    layer.build((None, None, 4), (None, None, READY[name].arity))
    return with_random_weights(layer)


@pytest.fixture(scope="module")
def layer_in_float64():
    """One for each name, traced once for all that is asked of it."""
    return functools.cache(functools.partial(layer_of, dtype="float64"))


def model_of(name):
    """A functional model whose inputs are features and children."""
    inputs = keras.Input([None, 4]), keras.Input([None, READY[name].arity], dtype="int32")
    model = keras.Model(inputs, READY[name].make()(*inputs))
    return with_random_weights(model), model.layers[-1]


@each_layer_always
def test_configuration(name):
    layer = READY[name].make(name="trees", trainable=False)
    config = layer.get_config()
    again = type(layer).from_config(config)
    assert again.get_config() == config
    assert (again.name, again.trainable) == ("trees", False)


@each_layer_always
def test_a_functional_model_is_built_without_an_engine(name):
    _, layer = model_of(name)
    units = 2 * UNITS if name == "Bidirectional" else UNITS
    assert layer.output.shape == (None, None, units)
    assert num_traces(layer) == {0}


def num_traces(layer):
    """How often a layer was traced, or both layers of a bidirectional one."""
    is_both = isinstance(layer, Bidirectional)
    parts = [layer.upward_layer, layer.downward_layer] if is_both else [layer]
    return {part.num_traces for part in parts}


def outputs_and_gradients(layer, x, children):
    """The outputs, and the gradients of x and of each weight."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        output = layer(x, children)
        loss = tf.reduce_sum(tf.sin(tf.cast(output, x.dtype)))
    gradients = tape.gradient(loss, [x, *layer.trainable_variables])
    return output, [tf.convert_to_tensor(gradient) for gradient in gradients]


@pytest.mark.parametrize(
    "name",
    few_of(sorted({*READY} - {"Bidirectional"}), many=[]),
)
def test_recomputing_gives_the_same_gradients(name, layer_in_float64):
    children = trees(name)
    x = tf.constant(features(children))
    recomputing = layer_of(name, dtype="float64", recompute=True)
    output, gradients = outputs_and_gradients(recomputing, x, children)
    wanted, kept = outputs_and_gradients(layer_in_float64(name), x, children)
    for mine, theirs in zip([output, *gradients], [wanted, *kept], strict=True):
        assert np.abs(theirs).max() > 0
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", few_of(READY, many=["TreeRNN"]))
def test_batch_order_and_padding_do_not_matter(name, layer_in_float64):
    children = trees(name)
    x = features(children)
    layer = layer_in_float64(name)
    together = layer(x, children).numpy()
    assert np.abs(together).max() > 0.1

    order = np.random.default_rng(0).permutation(6)
    np.testing.assert_allclose(layer(x[order], children[order]), together[order], rtol=1e-12)
    for row, size in enumerate(is_node(children).sum(axis=1)):
        alone = layer(x[row : row + 1, :size], children[row : row + 1, :size])
        np.testing.assert_allclose(alone[0], together[row, :size], rtol=1e-12)

    more = np.pad(x, ((0, 0), (0, 5), (0, 0)), constant_values=1.0)
    padded = layer(more, np.pad(children, ((0, 0), (0, 5), (0, 0)), constant_values=-1)).numpy()
    np.testing.assert_allclose(padded[:, :9], together, rtol=1e-12)
    assert not padded[:, 9:].any()
    assert num_traces(layer) == {1}


@pytest.mark.slow
@each_layer
def test_padding_is_masked_and_neither_read_nor_given_gradients(name, layer_in_float64):
    children = trees(name)
    x, nodes = features(children), is_node(children)
    layer = layer_in_float64(name)
    wanted, of_clean = outputs_and_gradients(layer, tf.constant(x), children)
    np.testing.assert_array_equal(wanted._keras_mask, nodes)
    mean = keras.layers.GlobalAveragePooling1D(dtype="float64")(wanted)
    counts = nodes.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(mean, wanted.numpy().sum(axis=1) / counts, rtol=1e-12)
    for garbage in (np.nan, np.inf, 1e30):
        x[~nodes] = garbage
        output, gradients = outputs_and_gradients(layer, tf.constant(x), children)
        np.testing.assert_array_equal(output, wanted)
        assert not gradients[0].numpy()[~nodes].any()
        for mine, clean in zip(gradients, of_clean, strict=True):
            assert np.isfinite(mine).all()
            np.testing.assert_array_equal(mine, clean)


@each_layer
def test_gradients_equal_finite_differences(name, layer_in_float64):
    """Of x and all weights at once, along a random direction."""
    children = trees(name)
    layer = layer_in_float64(name)
    x = tf.constant(features(children))

    def loss(arrays):
        layer.set_weights(arrays[1:])
        return tf.reduce_sum(tf.sin(layer(arrays[0], children)))

    at = [x.numpy(), *layer.get_weights()]
    _, gradients = outputs_and_gradients(layer, x, children)
    assert all(np.abs(one).max() > 1e-3 for one in gradients)
    try:
        found, wanted = slopes(loss, at, gradients)
    finally:
        layer.set_weights(at[1:])
    assert found == pytest.approx(wanted, rel=1e-7)


HALVES = ["mixed_float16", "float16", "mixed_bfloat16", "bfloat16"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "name"),
    few_of(itertools.product(HALVES, READY), many=[("mixed_float16", "ChildSumTreeLSTM")]),
)
def test_half_precision_is_close_to_float64(policy, name, layer_in_float64):
    """Outputs and gradients of x and of each weight, and their types."""
    children = trees(name)
    x = tf.constant(features(children), "float32")
    layer = layer_of(name, dtype=policy)
    output, gradients = outputs_and_gradients(layer, x, children)
    variable_dtype = "float32" if policy.startswith("mixed") else policy
    assert output.dtype == policy.removeprefix("mixed_")
    assert all(weight.dtype == variable_dtype for weight in layer.weights)
    assert all(gradient.dtype == variable_dtype for gradient in gradients[1:])
    wanted = outputs_and_gradients(layer_in_float64(name), tf.cast(x, "float64"), children)
    for half, full in zip([output, *gradients], [wanted[0], *wanted[1]], strict=True):
        error = np.abs(full - tf.cast(half, "float64")).max()
        assert error < TOLERANCE[policy] * max(1, np.abs(full).max())


# test_embedding.py has a bidirectional one.
@pytest.mark.parametrize("name", few_of(READY, many=[]))
def test_saved_and_exported_models_give_the_same(name, tmp_path):
    model, _ = model_of(name)
    model.save(tmp_path / "model.keras")
    model.export(tmp_path / "served", verbose=False)
    loaded = keras.models.load_model(tmp_path / "model.keras")
    served = tf.saved_model.load(tmp_path / "served")
    children = trees(name)
    for count in (6, 2):
        inputs = (features(children)[:count].astype("float32"), children[:count])
        wanted = model.predict_on_batch(inputs)
        np.testing.assert_allclose(loaded.predict_on_batch(inputs), wanted, atol=1e-6)
        np.testing.assert_allclose(served.serve(inputs), wanted, atol=1e-6)
