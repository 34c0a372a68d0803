"""Layers while `tf.debugging` watches: the same numbers, and the first op that gives NaN.

The tools see ops by callbacks, which TensorFlow keeps for each thread.
"""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec.layers import (
    BracketedText,
    ChildSumTreeLSTM,
    NodeWise,
    SchemaEncoder,
    TextTree,
    TopDownTreeLSTMCell,
    TreeDecoder,
    TreeLSTM,
)
from tests.layers.helpers import READY, UNITS, features, is_node, random_children
from tests.layers.test_schema_encoder import ALL, LITTLE, LITTLE_DOCUMENTS
from tests.parameters import few_of


@pytest.fixture
def watch():
    """Turns `enable_check_numerics` on and off; it is off after the test."""

    def switch(is_on):
        (tf.debugging.enable_check_numerics if is_on else tf.debugging.disable_check_numerics)()

    yield switch
    tf.debugging.disable_check_numerics()


def of_ready(name, **options):
    """A ready layer on trees whose padding holds NaN, which nothing may read."""
    children = random_children(3, 5, READY[name].arity, seed=3, sizes=[1, 5, 3])
    layer, x = READY[name].make(**options), features(children).astype("float32")
    if "dtype" not in options:  # Otherwise Keras casts all of them.
        x[~is_node(children)] = np.nan
    return layer, lambda: layer(tf.constant(x), children)


def of_ragged(**options):
    layer = ChildSumTreeLSTM(UNITS, return_sequences=True, **options)
    values = tf.constant(features(np.zeros((1, 5, 2)))[0], tf.float32)
    x = tf.RaggedTensor.from_row_lengths(values, [1, 4])
    children = tf.ragged.constant([[[]], [[1, 2], [], [3], []]], ragged_rank=2, dtype=tf.int32)
    return layer, lambda: layer(x, children).flat_values


def of_words():
    """Trees of text, a lookup of words, and a layer at each node."""
    reader, nodes = BracketedText(2), NodeWise(keras.layers.Dense(2, kernel_initializer="ones"))
    text = TextTree("balanced", vocabulary=kerasrec.datasets.Vocabulary(["a", "b"]))
    layer = TreeLSTM(UNITS, embedding=keras.layers.Embedding(4, 3), return_sequences=True)

    def run():
        reader(["(1 (0 a) (1 b))", "(1 a)"])
        return nodes(layer(*text(["a b a", "b"])))

    return layer, run


def of_decoder():
    cell = TopDownTreeLSTMCell(UNITS, arity=2)
    layer = TreeDecoder(cell, 5, 3, allowed_slots="first_child", max_depth=3)
    children = np.int32([[[1, -1], [-1, 2], [-1, -1]], [[-1, -1], [-1, -1], [-1, -1]]])
    tokens = np.int32([[1, 2, 3], [4, 0, 0]])
    return layer, lambda: layer(tokens, children)


def of_documents(pooling):
    """Documents with empty lists, of which the largest entry is asked for."""
    layer = SchemaEncoder(LITTLE, UNITS, pooling=pooling)
    batch = LITTLE.encode(LITTLE_DOCUMENTS)
    layer.adapt(batch)
    return layer, lambda: layer(batch)


CASES = {
    **{name: functools.partial(of_ready, name) for name in READY},
    "ragged": of_ragged,
    "words": of_words,
    "TreeDecoder": of_decoder,
    "SchemaEncoder, max": functools.partial(of_documents, "max"),
    "SchemaEncoder, all": functools.partial(of_documents, ALL),
    "recompute": functools.partial(of_ready, "TreeLSTM", recompute=True),
    "compiled": functools.partial(of_ready, "TreeLSTM", engine="compiled"),
    "mixed_float16": functools.partial(of_ready, "TreeGRU", dtype="mixed_float16"),
    "dropout": functools.partial(of_ready, "TreeLSTM", dropout=0.5, recurrent_dropout=0.5),
}


def outputs_and_gradients(layer, run):
    with tf.GradientTape() as tape:
        outputs = run()
        loss = tf.reduce_sum(tf.sin(tf.cast(outputs, tf.float32)))
    gradients = tape.gradient(loss, layer.trainable_variables)
    return [outputs, *map(tf.convert_to_tensor, gradients)]


@pytest.mark.parametrize("case", few_of(CASES, many=["TreeRNN", "SchemaEncoder, max"]))
def test_numbers_are_the_same(case, watch):
    """Of a layer that is called before, meanwhile and after, and of one that is made meanwhile."""
    layer, run = CASES[case]()
    wanted = outputs_and_gradients(layer, run)
    watch(True)
    other, run_other = CASES[case]()
    run_other()
    other.set_weights(layer.get_weights())
    found = [outputs_and_gradients(layer, run), outputs_and_gradients(other, run_other)]
    watch(False)
    for one in [*found, outputs_and_gradients(layer, run)]:
        for mine, theirs in zip(one, wanted, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def two_layers():
    """A model with one tree layer on another, and a batch for it."""
    inputs = keras.Input([None, 4]), keras.Input([None, 2], dtype="int32")
    x = ChildSumTreeLSTM(UNITS, return_sequences=True)(*inputs)
    model = keras.Model(inputs, keras.layers.Dense(1)(ChildSumTreeLSTM(UNITS)(x, inputs[1])))
    children = random_children(4, 5, 2, seed=3)
    return model, (features(children).astype("float32"), children), np.ones([4, 1], "float32")


FITS = [keras.Model.fit, kerasrec.training.fit]


@pytest.mark.slow
@pytest.mark.parametrize("fit", FITS)
def test_training_gives_the_same_weights_and_finds_infinity(fit, watch):
    model, x, y = two_layers()
    before = model.get_weights()

    def trained(weights):
        model.set_weights(weights)
        model.compile(keras.optimizers.SGD(0.1), "mse")
        fit(model, tf.data.Dataset.from_tensors((x, y)), epochs=2, verbose=0)
        return model.get_weights()

    wanted = trained(before)
    watch(True)
    for mine, theirs in zip(trained(before), wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"output 0 of \w+ at .*infinity in"):
        trained([np.full_like(before[0], np.inf), *before[1:]])


@pytest.mark.slow
def test_a_decoder_that_grows_trees(watch):
    layer, _ = of_decoder()
    layer.build((None, None), (None, None, 2))
    wanted = layer.generate(5, seed=1)
    watch(True)
    found = layer.generate(5, seed=1)
    np.testing.assert_array_equal(found.tokens, wanted.tokens)
    np.testing.assert_allclose(found.log_likelihood, wanted.log_likelihood, rtol=1e-5)
