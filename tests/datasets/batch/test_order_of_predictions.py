"""Results of `predict` on a treebank's batches, by tree, against those of `evaluate`."""

import keras
import numpy as np
import pytest

from kerasrec.datasets import make_treebank, parse_sst
from kerasrec.training import NodeAccuracy, RootAccuracy, TreeCrossentropy
from tests.datasets.helpers import TREEBANK


@pytest.mark.many
def test_predictions_scored_by_hand_are_what_evaluate_says():
    lines = (TREEBANK / "dev.txt").read_text(encoding="utf-8").splitlines()[:150]
    trees = [parse_sst(line) for line in lines]
    treebank = make_treebank(trees, trees)
    keras.utils.set_random_seed(0)
    tokens, children = keras.Input([None], dtype="int32"), keras.Input([None, 2], dtype="int32")
    # No recursion: what a tree node gets depends on its children's numbers and on its word.
    below = keras.ops.cast(keras.ops.maximum(children, 0) % 7, "float32")
    words = keras.layers.Embedding(len(treebank.vocabulary), 8)(tokens)
    features = keras.layers.Concatenate()([words, below])
    model = keras.Model([tokens, children], keras.layers.Dense(5)(features))
    model.compile(loss=TreeCrossentropy(), metrics=[RootAccuracy(), NodeAccuracy()])

    def by_hand(logits):
        predicted = [row.argmax(-1) for row in logits.numpy()]
        labels = [[node.label() for node in tree.subtrees()] for tree in treebank.dev]
        root = np.mean([of[0] == label[0] for of, label in zip(predicted, labels, strict=True)])
        right = [of[: len(label)] == label for of, label in zip(predicted, labels, strict=True)]
        return {"root_accuracy": root, "node_accuracy": np.mean(np.concatenate(right))}

    kept = treebank.batches("dev", 16)
    batches, order = treebank.batches("dev", 16, bucket_by_size=True, return_order=True)
    found = [by_hand(model.predict(kept, verbose=0))]
    found.append(by_hand(order.restore(model.predict(batches, verbose=0))))
    said = [model.evaluate(data, verbose=0, return_dict=True) for data in (kept, batches)]
    assert said[0]["loss"] == pytest.approx(said[1]["loss"], rel=1e-5)
    for name in found[0]:
        assert 0 < found[0][name] < 1
        assert {round(of[name], 6) for of in [*found, *said]} == {round(found[0][name], 6)}
    # As they came, sorted, they are of other trees.
    roots = np.array([row[0].argmax() for row in model.predict(batches, verbose=0).numpy()])
    mixed = np.mean(roots == [tree.label() for tree in treebank.dev])
    assert mixed != pytest.approx(found[0]["root_accuracy"], abs=1e-3)
