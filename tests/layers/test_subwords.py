import functools
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, strategies

from kerasrec.layers import (
    BracketedText,
    ChildSumTreeLSTM,
    ConlluText,
    SubwordPooling,
    Subwords,
    TextTree,
    TreeLSTM,
)
from tests.datasets.helpers import few
from tests.parameters import few_of

LETTERS = "abcd"
START, END, PAD = 7, 8, 9


def letters(alphabet=LETTERS):
    """A tokenizer whose pieces are letters: a is 2, b 3, ..., and others are 1."""
    return keras.layers.TextVectorization(split="character", ragged=True, vocabulary=list(alphabet))


@functools.cache
def subwords(**options):
    options = {"start_value": START, "end_value": END, "pad_value": PAD, **options}
    return Subwords(letters(), **options)


@few
@given(
    strategies.lists(strategies.lists(strategies.text("abz", max_size=3), min_size=1), max_size=4)
)
def test_pieces_and_their_tree_nodes(rows):
    width = max(map(len, rows), default=1)
    padded = [[*row, *[""] * (width - len(row))] for row in rows]
    words = tf.reshape(tf.constant(padded, tf.string), [len(rows), width])
    pieces, mask, nodes = (array.numpy() for array in subwords()(words))
    for row, found in enumerate(zip(pieces, mask, nodes, strict=True)):
        known = [
            (LETTERS.find(letter) + 2 or 1, node)
            for node, word in enumerate(rows[row])
            for letter in word
        ]
        expected = [(START, -1), *known, (END, -1)]
        size = len(expected)
        assert list(zip(found[0][:size], found[2][:size], strict=True)) == expected
        assert found[1].tolist() == [True] * size + [False] * (len(found[1]) - size)
        assert (found[0][size:] == PAD).all() and (found[2][size:] == -1).all()
    assert pieces.dtype == nodes.dtype == np.int32 and mask.dtype == bool


def test_words_may_be_ragged_and_come_in_any_order():
    words = tf.ragged.constant([["cb", "a"], ["d"]])
    pieces, _, nodes = Subwords(letters())(words, tf.ragged.constant([[1, 0], [0]]))
    assert pieces.numpy().tolist() == [[2, 4, 3], [5, 0, 0]]
    assert nodes.numpy().tolist() == [[1, 0, 0], [0, -1, -1]]


def test_a_prefix_stands_before_each_word_but_the_first():
    layer = Subwords(
        keras.layers.TextVectorization(
            standardize=None, split="character", ragged=True, vocabulary=["-", "a", "b"]
        ),
        prefix="--",
    )
    pieces, _, nodes = layer(tf.constant([["", "a", "", "b"], ["b", "", "", ""]]))
    assert pieces.numpy().tolist() == [[3, 2, 2, 4], [4, 0, 0, 0]]
    assert nodes.numpy().tolist() == [[1, 3, 3, 3], [0, -1, -1, -1]]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda: Subwords(str.split),
            "`tokenizer` of .* must be a Keras layer, such as a tokenizer",
        ),
        (
            lambda: Subwords(letters())(tf.constant(["a"])),
            r"`words` of .* must be text, string \[b",
        ),
        (lambda: Subwords(letters())(tf.constant([[1]])), "Give the layer that reads text no `voc"),
        (
            lambda: Subwords(keras.layers.TextVectorization(vocabulary=["a"]))(
                tf.constant([["a"]])
            ),
            r"must turn words \[words\] into ragged integers .* Give it no sequence length",
        ),
        (
            lambda: SubwordPooling("last"),
            "`pooling` of .* must be one of 'mean', 'first', received 'last'",
        ),
        (
            lambda: SubwordPooling()(
                keras.Input([None], dtype="int32"), keras.Input([None, 4]), keras.Input([None, 2])
            ),
            r"in this order; received shapes \(None, None\), \(None, None, 4\), \(None, None, 2\)",
        ),
    ],
)
def test_a_wrong_use_is_a_value_error(make, reason):
    with pytest.raises(ValueError, match=reason):
        make()


def test_sentences_may_be_too_long():
    layer = subwords(max_pieces=4)
    assert layer(tf.constant([["ab"], ["c"]]))[0].shape == (2, 4)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"more pieces than max_pieces=4 .*\[1"
    ):
        layer(tf.constant([["ab"], ["abc"]]))


def pooled(vectors, nodes, num_nodes, pooling):
    """Vectors of tree nodes, by a loop."""
    found = np.zeros([len(vectors), num_nodes, vectors.shape[-1]], vectors.dtype)
    for row, of_pieces in enumerate(nodes):
        for node in range(num_nodes):
            of_node = vectors[row][of_pieces == node]
            if len(of_node):
                found[row, node] = of_node[0] if pooling == "first" else of_node.mean(0)
    return found


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_values_and_gradients_of_pooling(pooling):
    random = np.random.default_rng(0)
    vectors = random.normal(size=[3, 6, 2]).astype("float32")
    nodes = random.integers(-1, 4, [3, 6]).astype("int32")
    children = np.full([3, 5, 2], -1, np.int32)
    layer = SubwordPooling(pooling)
    expected = pooled(vectors, nodes, 5, pooling)
    for run in (layer, tf.function(layer), tf.function(layer, jit_compile=True)):
        np.testing.assert_allclose(run(vectors, nodes, children), expected, atol=1e-6)
    weights = random.normal(size=expected.shape).astype("float32")
    variable = tf.Variable(vectors)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(variable, nodes, children) * weights)
    slope = np.zeros_like(vectors)
    for place in np.ndindex(*vectors.shape):  # The function is linear.
        one = np.zeros_like(vectors)
        one[place] = 1
        slope[place] = (pooled(one, nodes, 5, pooling) * weights).sum()
    np.testing.assert_allclose(tape.gradient(loss, variable), slope, atol=1e-5)
    lengths = [5, 4, 5]
    ragged = tf.RaggedTensor.from_tensor(tf.constant(children), lengths)
    found = layer(tf.RaggedTensor.from_tensor(vectors), tf.RaggedTensor.from_tensor(nodes), ragged)
    assert found.row_lengths().numpy().tolist() == lengths
    np.testing.assert_allclose(found.to_tensor(shape=expected.shape), expected, atol=1e-6)
    assert layer(vectors[:0], nodes[:0], children[:0]).shape == (0, 5, 2)
    assert SubwordPooling(dtype="float16")(vectors, nodes, children).dtype == "float16"


@pytest.mark.parametrize("node", [3, -2])
def test_pieces_of_no_tree_node(node):
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"`nodes` of .* must be -1, or less than"
    ):
        SubwordPooling()(tf.zeros([1, 1, 1]), tf.constant([[node]]), tf.zeros([1, 3, 2], tf.int32))


def encoder_of(size, units=4):
    """An encoder of pieces, in which each depends on all others of its sentence."""
    pieces, mask = keras.Input([None], dtype="int32"), keras.Input([None], dtype="bool")
    vectors = keras.layers.Embedding(size, units)(pieces)
    attended = keras.layers.MultiHeadAttention(2, units)(
        vectors, vectors, attention_mask=keras.ops.expand_dims(mask, 1)
    )
    return keras.Model([pieces, mask], vectors + attended, name="encoder")


def leaves_of(words, children, pooling="mean", positions=None):
    pieces, mask, nodes = Subwords(letters(), start_value=START, end_value=END)(
        words, *([] if positions is None else [positions])
    )
    vectors = encoder_of(9)([pieces, mask])
    return SubwordPooling(pooling)(vectors, nodes, children)


def brackets_model():
    text = keras.Input([], dtype="string", name="text")
    words, children = BracketedText(has_labels=True)(text)
    states = TreeLSTM(4)(leaves_of(words, children), children)
    return keras.Model(text, keras.layers.Dense(2)(states))


def conllu_model():
    text = keras.Input([], dtype="string", name="text")
    words, positions, children = ConlluText(return_positions=True)(text)
    states = ChildSumTreeLSTM(4)(leaves_of(words, children, "first", positions), children)
    return keras.Model(text, keras.layers.Dense(2)(states))


def conllu(words, heads):
    lines = [
        "\t".join([str(place), word, *"____", str(head), *"___"])
        for place, (word, head) in enumerate(zip(words, heads, strict=True), 1)
    ]
    return "\n".join(lines)


TEXTS = {
    brackets_model: ["(1 (0 A) (1 db))", "(0 (0 (0 c) (0 aa)) (1 b))", "(1 cc)", "(0 a)"],
    conllu_model: [
        conllu(["a", "cd", "b"], [2, 0, 2]),
        conllu(["b", "a"], [0, 1]),
        conllu(["cc"], [0]),
        conllu(["a"], [0]),
    ],
}
SERVE = """
import sys
sys.modules["keras"] = sys.modules["kerasrec"] = None
import numpy as np, tensorflow as tf
served = tf.saved_model.load(sys.argv[1])
np.save(sys.argv[1] + "/served.npy", served.serve(tf.constant(sys.argv[2:])))
"""


@pytest.mark.slow
@pytest.mark.parametrize("model_of", few_of(TEXTS, many=[conllu_model]))
def test_models_take_text_learn_and_are_saved_and_served_without_kerasrec(model_of, tmp_path):
    model, texts = model_of(), tf.constant(TEXTS[model_of])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.1), loss, metrics=["accuracy"])
    data = tf.data.Dataset.from_tensor_slices((texts, [1, 0, 1, 0])).repeat(4).batch(8)
    history = model.fit(data, epochs=10, shuffle=False, verbose=0).history
    assert history["accuracy"][-1] == 1
    expected = model.predict(texts, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(texts, verbose=0), expected)
    model.export(tmp_path / "export", verbose=False)
    command = [sys.executable, "-c", SERVE, tmp_path / "export", *TEXTS[model_of]]
    subprocess.run(command, check=True)
    np.testing.assert_allclose(np.load(tmp_path / "export/served.npy"), expected, atol=1e-5)


def test_vectors_of_words_are_those_of_the_sentence():
    """A tree model reads what the encoder makes of the sentence, whatever the tree."""
    text = keras.Input([], dtype="string")
    words, positions, children = ConlluText(return_positions=True)(text)
    vectors = leaves_of(words, children, positions=positions)
    model = keras.Model(text, [vectors, positions])
    encoder = model.get_layer("encoder")
    sentence = ["ab", "c", "d", "bb"]
    pieces = [[START, 2, 3, 4, 5, 3, 3, END]]
    (of_pieces,) = encoder([np.array(pieces), np.ones([1, 8], bool)]).numpy()
    expected = [of_pieces[1:3].mean(0), of_pieces[3], of_pieces[4], of_pieces[5:7].mean(0)]
    for heads in ([3, 1, 4, 0], [0, 1, 2, 3], [4, 4, 4, 0]):
        # A shorter sentence next to it changes nothing.
        found, places = model(tf.constant([conllu(sentence, heads), conllu(["a"], [0])]))
        assert (
            sorted(places[0].numpy()) == [0, 1, 2, 3] and places[1].numpy().tolist()[1:] == [-1] * 3
        )
        np.testing.assert_allclose(found[0], np.stack(expected)[places[0]], atol=1e-6)


def test_positions_are_the_order_of_dependency_trees():
    text = conllu(["a", "b", "c"], [2, 3, 0])
    words, positions, children = ConlluText(return_positions=True)([text])
    assert words.numpy().tolist() == [[b"c", b"b", b"a"]]
    assert positions.numpy().tolist() == [[2, 1, 0]] and children.shape == (1, 3, 1)
    layer = ConlluText.from_config(ConlluText(return_positions=True).get_config())
    assert layer.return_positions


@pytest.mark.slow
def test_a_frozen_encoder_stays_as_it_is():
    model = brackets_model()
    encoder = model.get_layer("encoder")
    encoder.trainable = False
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    before = [array.copy() for array in encoder.get_weights()]
    num_others = len(model.trainable_weights)
    model.fit(tf.constant(TEXTS[brackets_model]), np.array([1, 0, 1, 0]), verbose=0)
    assert num_others == len(model.weights) - len(encoder.weights)
    for mine, other in zip(before, encoder.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.many
def test_tokenizer_and_encoder_of_keras_hub(tmp_path):
    hub = pytest.importorskip("keras_hub")
    known = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "fil", "##m", "##s", "dull", "'"]
    tokenizer = hub.models.BertTokenizer(known, lowercase=True)
    backbone = hub.models.BertBackbone(
        len(known), num_layers=1, num_heads=2, hidden_dim=4, intermediate_dim=4
    )
    text = keras.Input([], dtype="string")
    words, children = TextTree(lowercase=False)(text)
    pieces, mask, nodes = Subwords(
        tokenizer,
        start_value=tokenizer.cls_token_id,
        end_value=tokenizer.sep_token_id,
        pad_value=tokenizer.pad_token_id,
        max_pieces=backbone.max_sequence_length,
    )(words)
    inputs = {
        "token_ids": pieces,
        "padding_mask": mask,
        "segment_ids": keras.ops.zeros_like(pieces),
    }
    vectors = backbone(inputs)["sequence_output"]
    states = TreeLSTM(3)(SubwordPooling()(vectors, nodes, children), children)
    model = keras.Model(text, [states, pieces])
    texts = ["The films 'dull'", "film", "what a dull film"]
    expected, ids = model(tf.constant(texts))
    packed = [[2, *row, 3] for row in tokenizer(texts)]
    assert [
        row[: len(other)] for row, other in zip(ids.numpy().tolist(), packed, strict=True)
    ] == packed
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(tf.constant(texts))[0], expected, atol=1e-6)
    model.export(tmp_path / "export", verbose=False)
    served = tf.saved_model.load(tmp_path / "export")
    np.testing.assert_allclose(served.serve(tf.constant(texts))[0], expected, atol=1e-6)
