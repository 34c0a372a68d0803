import functools
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, strategies

from kerasrec.datasets import Vocabulary, encode_tree, make_tree, parse_sst
from kerasrec.layers import BracketedText, ChildSumTreeLSTM, TextTree, TreeLSTM
from tests.datasets.helpers import few
from tests.layers.helpers import loaded_from_file
from tests.parameters import few_of

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
def test_trees_are_those_of_make_tree(batch, shape):
    texts = [" \t".join(words) + "\n" for words in batch]
    tokens, children = (array.numpy() for array in reader(shape)(texts))
    for row, below, text in zip(tokens, children, texts, strict=True):
        expected = encode_tree(make_tree(text, shape), vocabulary)
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


@pytest.mark.slow
def test_words_are_those_of_the_vocabulary():
    vocabulary = Vocabulary(["é", "ας", "a\u00a0b", "i\u0307s", "a/b"])
    text = "(0 (0 (0 É) (0 ΑΣ)) (0 (0 A\u00a0B) (0 (0 İS) (0 (0 a\\/b) (0 (0 <pad>) (0 z))))))"
    expected = encode_tree(parse_sst(text), vocabulary).tokens
    np.testing.assert_array_equal(BracketedText(vocabulary=vocabulary)([text])[0][0], expected)
    assert sorted(expected) == [0] * 6 + [1, 1, 2, 3, 4, 5, 6]
    cased = Vocabulary(["A"], lowercase=False)
    layer = BracketedText(vocabulary=cased)
    assert layer.lowercase is False and layer(["(0 A)", "(0 a)"])[0].numpy().tolist() == [[2], [1]]
    assert BracketedText(vocabulary=["A"])(["(0 a)"])[0].numpy().tolist() == [[2]]
    assert BracketedText(lowercase=False)(["(0 A)"])[0].numpy().tolist() == [[b"A"]]
    assert BracketedText()(["(0 A)"])[0].numpy().tolist() == [[b"a"]]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: BracketedText(0), "`arity`"),
        (lambda: BracketedText(True), "`arity`"),
        (lambda: BracketedText(has_labels="no"), "`has_labels` .* must be True, False or None"),
        (lambda: BracketedText(has_labels=0), "`has_labels` .* must be True, False or None"),
        (lambda: BracketedText(vocabulary="words"), "`vocabulary`"),
        (lambda: BracketedText(vocabulary=3), "`vocabulary`"),
        (lambda: BracketedText(vocabulary=["a", "A"]), "'a' twice"),
        (lambda: BracketedText(vocabulary=["a", "\ud83d"]), "contains no unpaired surrogate"),
        (lambda: BracketedText(vocabulary=["a", ""]), "holds ''"),
        (lambda: BracketedText()([1]), "must be a list of texts"),
        (lambda: BracketedText()(keras.Input([])), "must be a text for each tree"),
        (lambda: BracketedText()(keras.Input([2], dtype="string")), "must be a text for each tree"),
    ],
)
def test_a_wrong_use_is_a_value_error(make, reason):
    with pytest.raises(ValueError, match=reason):
        make()


@pytest.mark.slow
def test_any_number_of_trees_and_children():
    layer = BracketedText(arity=None)
    graph = tf.function(layer, input_signature=[tf.TensorSpec([None], tf.string)])
    for texts, shape in (
        ([], (0, 1, 1)),
        (["(0 a)"], (1, 1, 1)),
        (["(0 (0 a)(0 b)(0 c))"], (1, 4, 3)),
    ):
        assert graph(tf.constant(texts, tf.string))[1].shape == shape
    text = keras.Input([1], dtype="string")
    states = ChildSumTreeLSTM(3, embedding=string_embedding())(*layer(text))
    assert keras.Model(text, states)(tf.constant([["(0 (0 a)(0 b)(0 c))"]])).shape == (1, 3)


def test_configuration_round_trip():
    layer = BracketedText(3, vocabulary=["a", "b"], lowercase=False, has_labels=False, name="x")
    again = BracketedText.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert again.vocabulary == ["a", "b"] and again.arity == 3


def string_embedding():
    lookup = keras.layers.StringLookup(vocabulary=["a", "film"], mask_token="")
    return keras.Sequential([lookup, keras.layers.Embedding(4, 3)])


def model_of(reader, embedding):
    text = keras.Input([], dtype="string", name="text")
    states = TreeLSTM(4, embedding=embedding)(*reader(text))
    return keras.Model(text, keras.layers.Dense(2)(states))


TEXTS = ["(1 (0 A) (1 film))", "(0 (0 (0 what) (0 a)) (1 film))", "(1 film)", "(0 a)"]
SERVE = """
import sys
sys.modules["keras"] = sys.modules["kerasrec"] = None
import numpy as np, tensorflow as tf
folder, texts = sys.argv[1], tf.constant(sys.argv[2:])
served = tf.saved_model.load(folder)
np.save(folder + "/served.npy", served.serve(texts))
try:
    served.serve(tf.constant(["(1 a)", "(1 a b)"]))
except tf.errors.InvalidArgumentError as error:
    assert "`text[1]` has at character 1, `(1 a b)`: a tree node with 2 words" in error.message
else:
    raise AssertionError("no error")
"""


def learned(model):
    """A model that has learned what the texts are."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.1), loss, metrics=["accuracy"])
    data = tf.data.Dataset.from_tensor_slices((TEXTS, [1, 0, 1, 0])).repeat(4).batch(8)
    assert model.fit(data, epochs=10, shuffle=False, verbose=0).history["accuracy"][-1] == 1
    return model


MODELS = {
    "words as numbers": lambda: model_of(
        BracketedText(vocabulary=["a", "film"]), keras.layers.Embedding(4, 3)
    ),
    "words as text": lambda: model_of(BracketedText(), string_embedding()),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", few_of(MODELS, many=["words as text"]))
def test_models_take_text_learn_and_are_saved_and_served_without_kerasrec(name, tmp_path):
    model = learned(MODELS[name]())
    expected = model.predict(tf.constant(TEXTS), verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(tf.constant(TEXTS), verbose=0), expected)
    model.export(tmp_path / "export", verbose=False)
    subprocess.run([sys.executable, "-c", SERVE, tmp_path / "export", *TEXTS], check=True)
    np.testing.assert_allclose(np.load(tmp_path / "export/served.npy"), expected, atol=1e-6)
