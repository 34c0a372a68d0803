"""The recipe with an encoder below the trees, on a tiny one and few sentences."""

import json

import numpy as np
import pytest
import tensorflow as tf
from nltk import Tree

import sentiment_encoder as recipe
from kerasrec.datasets import load_treebank
from pretrained_encoder import read_encoder

LINES = ["(4 (2 it) (4 (4 (2 is) (4 good)) (2 .)))", "(1 (3 nice) (1 (2 ,) (1 (2 but) (1 dull))))"]


@pytest.fixture
def data(tmp_path):
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.txt").write_text("\n".join(LINES), encoding="utf-8")
    return tmp_path


def test_both_models_have_the_same_labels(data):
    trees = load_treebank(data).train
    tree = recipe.examples(trees, "tree", "nodes")
    assert tree == [(LINES[0], [4, 2, 4, 4, 2, 4, 2]), (LINES[1], [1, 3, 1, 2, 1, 2, 1])]
    flat = recipe.examples(trees, "flat", "nodes")
    assert {Tree.fromstring(text).label() for text, _ in flat} == set("1234")
    assert all(label == [int(Tree.fromstring(text).label())] for text, label in flat)
    assert len(flat) == sum(len(labels) for _, labels in tree)  # No phrase occurs twice.
    assert recipe.examples(trees, "flat", "roots") == [(LINES[0], [4]), (LINES[1], [1])]
    assert recipe.examples(trees, "tree", "roots")[1] == (LINES[1], [1] + [-1] * 6)
    ((texts, labels),) = recipe.batches(flat[:3] + tree[:1], 4)
    assert texts.shape == (4,) and labels.shape == (4, 7) and (labels[0, 1:].numpy() == -1).all()


@pytest.mark.slow
@pytest.mark.parametrize("encoder_rate", ["0.001", "0"])
def test_recipe(data, encoder_rate):
    options = ["--data", data, "--epochs", "2", "--units", "4", "--output", data / "runs"]
    (figures,) = recipe.main(list(map(str, [*options, "--encoder-rate", encoder_rate])))
    assert json.loads((data / "runs/results.json").read_text()) == [figures]
    for kind, nodes in (("flat", 1), ("tree", 7)):
        assert 0 <= figures[kind]["test, %"] <= 100
        served = tf.saved_model.load(data / f"runs/{kind}_1/export")
        logits = served.serve(tf.constant(LINES))
        assert logits.shape == (2, nodes, 5) and np.isfinite(logits).all()


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
    model = recipe.build_model("tree", encoder, num_classes=3, units=2)
    assert model(tf.constant(["(4 (2 dull) (4 film))"])).shape == (1, 3, 3)
