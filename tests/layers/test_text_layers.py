import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, strategies

from kerasrec.datasets import Vocabulary, encode_tree, text_tree
from kerasrec.layers import TextTree, TreeLSTM
from tests.datasets.helpers import few
from tests.layers.helpers import loaded_from_file

SHAPES = ["balanced", "left", "right"]
vocabulary = Vocabulary(["a", "b", "é", "(b", "\u00a0"])
sentences = strategies.lists(
    strategies.sampled_from(["a", "B", "é", "(b", "\u00a0", "unknown"]), min_size=1, max_size=40
)


@functools.cache
def reader(shape):
    layer = TextTree(shape, vocabulary=vocabulary)
    return tf.function(layer, input_signature=[tf.TensorSpec([None], tf.string)])


@pytest.mark.slow
@few
@given(strategies.lists(sentences, min_size=1, max_size=4), strategies.sampled_from(SHAPES))
def test_trees_are_those_of_text_tree(batch, shape):
    texts = [" \t".join(words) + "\n" for words in batch]
    tokens, children = (array.numpy() for array in reader(shape)(texts))
    for row, below, text in zip(tokens, children, texts, strict=True):
        expected = encode_tree(text_tree(text, shape), vocabulary)
        size = len(expected.tokens)
        np.testing.assert_array_equal(row[:size], expected.tokens)
        np.testing.assert_array_equal(below[:size], expected.children)
        assert (row[size:] == 0).all() and (below[size:] == -1).all()
    assert tokens.dtype == children.dtype == np.int32
    assert tokens.shape[1] == 2 * max(map(len, batch)) - 1


@pytest.mark.parametrize("shape", SHAPES)
def test_words_may_stay_text_and_a_batch_empty(shape):
    layer = TextTree(shape)
    assert layer(["A"])[0].numpy().tolist() == [[b"a"]]
    words, children = layer(tf.constant([], tf.string))
    assert words.shape == (0, 1) and children.shape == (0, 1, 2)


def test_a_text_without_words_is_an_error():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"^`text\[1\]` has no words"):
        TextTree()(["a", " \t", ""])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"^`text\[0\]` has bytes"):
        TextTree()([b"\xff"])
    with pytest.raises(ValueError, match=r"`shape` of .* must be one of 'balanced', 'left'"):
        TextTree("round")


@pytest.mark.slow
def test_a_model_is_saved_and_exported(tmp_path):
    text = keras.Input([], dtype="string")
    layers = {shape: TextTree(shape, vocabulary=vocabulary, name=shape) for shape in SHAPES}
    states_of = TreeLSTM(3, embedding=keras.layers.Embedding(len(vocabulary), 2))
    model = keras.Model(text, {shape: states_of(*layer(text)) for shape, layer in layers.items()})
    texts = tf.constant(["a b é", "b", "unheard of"])
    expected = model(texts)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    model.export(tmp_path / "export", verbose=False)
    exported = tf.saved_model.load(tmp_path / "export")
    found, served = loaded(texts), exported.serve(texts)
    for shape, layer in layers.items():
        np.testing.assert_array_equal(found[shape], expected[shape])
        assert loaded.get_layer(shape).get_config() == layer.get_config()
        np.testing.assert_allclose(served[shape], expected[shape], atol=1e-6)
    assert not np.allclose(expected["left"], expected["right"])


@keras.saving.register_keras_serializable("tests")
class OwnReader(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.reader = TextTree(vocabulary=vocabulary)
        self.trees = TreeLSTM(3, embedding=keras.layers.Embedding(9, 2))
        self.dense = keras.layers.Dense(1)

    def call(self, text):
        return self.dense(self.trees(*self.reader(text)))


@pytest.mark.many
def test_a_loaded_model_of_ones_own_has_the_weights(tmp_path):
    """Keras builds it with floats for the texts; those of `dense` were silently new."""
    model = OwnReader()
    model(keras.Input([], dtype="string"))
    loaded = loaded_from_file(model, tmp_path)
    for found, wanted in zip(loaded.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(found, wanted)
