"""The recipe for sentiment with an encoder below the trees: a tiny one, and few sentences."""

import json

import numpy as np
import pytest
import tensorflow as tf

import sentiment_encoder as recipe
from encoder_training import MeanCell, encoded, node_encoder
from kerasrec.datasets import load_treebank
from kerasrec.layers import BracketedText, Recursive
from pretrained_encoder import read_encoder

LINES = ["(4 (2 it) (4 (4 (2 is) (4 good)) (2 .)))", "(1 (3 nice) (1 (2 ,) (1 (2 but) (1 dull))))"]


@pytest.fixture
def data(tmp_path):
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.txt").write_text("\n".join(LINES), encoding="utf-8")
    return tmp_path


def test_texts_have_the_labels_of_all_nodes(data):
    found = recipe.examples(load_treebank(data).train)
    wanted = [(LINES[0], [4, 2, 4, 4, 2, 4, 2]), (LINES[1], [1, 3, 1, 2, 1, 2, 1])]
    assert [(text.decode(), list(labels)) for text, labels in found.as_numpy_iterator()] == wanted


@pytest.mark.many
def test_a_flat_model_has_the_mean_of_the_words_below_a_node():
    layer = Recursive(MeanCell(2), return_sequences=True)
    words = np.array([[[0, 0], [1, 2], [0, 0], [3, 4], [8, 0]]], np.float32)
    children = np.array([[[1, 2], [-1, -1], [3, 4], [-1, -1], [-1, -1]]])
    np.testing.assert_allclose(
        layer(words, children), [[[4, 2], [1, 2], [5.5, 2], [3, 4], [8, 0]]], atol=1e-6
    )
    words[0, 0] = [8, 2]  # as in dependency trees
    np.testing.assert_allclose(layer(words, children)[:, 0], [[5, 2]], atol=1e-6)


@pytest.mark.slow
def test_vectors_are_kept_that_a_frozen_encoder_makes(data, tmp_path):
    reader = BracketedText(lowercase=False, has_labels=True)
    nodes = node_encoder(reader, read_encoder(None))
    texts, wanted = recipe.examples(load_treebank(data).train), nodes(tf.constant(LINES))
    for _ in range(2):  # The second time they come from the file.
        ((vectors, children), labels), *_ = encoded(texts, nodes, tmp_path / "kept").batch(2)
        assert vectors.dtype == tf.float32
        np.testing.assert_allclose(vectors, wanted[0], rtol=1e-3, atol=1e-6)
        np.testing.assert_array_equal(children, wanted[1])
        assert labels[:, 0].numpy().tolist() == [4, 1]
        nodes.set_weights([0 * weight for weight in nodes.get_weights()])


@pytest.mark.slow
@pytest.mark.parametrize(("encoder_rate", "labels"), [("0.001", "nodes"), ("0", "roots")])
def test_recipe(data, encoder_rate, labels):
    options = ["--data", data, "--epochs", "2", "--units", "4", "--output", data / "runs"]
    options += ["--encoder-rate", encoder_rate, "--labels", labels]
    (figures,) = recipe.main(list(map(str, options)))
    assert json.loads((data / "runs/results.json").read_text()) == [figures]
    for kind in ("flat", "tree"):
        assert 0 <= figures[kind]["test, %"] <= 100
        served = tf.saved_model.load(data / f"runs/{kind}_1/export")
        logits = served.serve(tf.constant(LINES))
        assert logits.shape == (2, 7, 5) and np.isfinite(logits).all()


@pytest.mark.slow
def test_an_encoder_of_keras_hub(tmp_path):
    hub = pytest.importorskip("keras_hub")
    known = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "fil", "##m", "dull"]
    hub.models.BertTokenizer(known, lowercase=True).save_to_preset(tmp_path)
    backbone = hub.models.BertBackbone(len(known), 1, 2, 4, 4, max_sequence_length=9)
    backbone.save_to_preset(tmp_path)
    encoder = read_encoder(tmp_path)
    pieces, mask, nodes = encoder.subwords(tf.constant([["", "Dull", "film"]]))
    assert pieces.numpy().tolist() == [[2, 7, 5, 6, 3]]
    assert nodes.numpy().tolist() == [[-1, 1, 2, 2, -1]]
    inputs = {"token_ids": pieces, "padding_mask": mask, "segment_ids": tf.zeros_like(pieces)}
    expected = backbone(inputs)["sequence_output"]
    np.testing.assert_allclose(encoder.model([pieces, mask]), expected, atol=1e-6)
    assert not any("pooled" in weight.path for weight in encoder.model.weights)
    with pytest.raises(tf.errors.InvalidArgumentError, match="max_pieces=9"):
        encoder.subwords(tf.constant([["film"] * 4]))
    nodes = node_encoder(BracketedText(lowercase=False, has_labels=True), encoder)
    vectors, children = nodes(tf.constant(["(4 (2 dull) (4 film))"]))
    assert vectors.shape == (1, 3, 4) and children.numpy().tolist()[0][0] == [1, 2]
