"""Sentiment of sentences by a pretrained encoder, with a tree layer above it and without one.

    python models/sentiment_encoder.py
    python models/sentiment_encoder.py --data path/to/trees --encoder path/to/folder --seeds 1 2 3

The folder of `--encoder` is a preset of KerasHub, or a BERT in the format of Hugging Face; KerasHub
comes with `pip install -e ".[text]"`. Without `--encoder`, a tiny one with random weights shows
that everything works. Both models read the same texts and pieces, learn from the same labels of
phrases, and have the same two layers on top: "flat" has them on the mean of a phrase's words,
"tree" on its state of a TreeLSTM. Prints the accuracies of whole sentences at the epoch that was
best on dev.
"""

import argparse
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from nltk import Tree

import sentiment
from comparison import Run
from encoder_training import MeanCell, add_options, run_all, train
from kerasrec.datasets import Treebank, load_treebank
from kerasrec.layers import BracketedText, Recursive, TreeLSTM
from kerasrec.training import BinaryRootAccuracy, RootAccuracy, TreeCrossentropy
from recipe_options import parse, recipe_parser
from saving import save_and_export


def build_top(kind: str, num_classes: int, units: int, features: int) -> keras.Model:
    """From vectors and children of tree nodes to logits `[batch, nodes, classes]`."""
    inputs = keras.Input([None, features]), keras.Input([None, 2], dtype="int32")
    cell = MeanCell(features)
    layer = (
        Recursive(cell, return_sequences=True, name="tree")
        if kind == "flat"
        else TreeLSTM(units, return_sequences=True, name="tree")
    )
    states = keras.layers.Dropout(0.1)(layer(*inputs))
    hidden = keras.layers.Dropout(0.1)(keras.layers.Dense(units, "relu")(states))
    return keras.Model(inputs, keras.layers.Dense(num_classes)(hidden), name=kind)


def examples(trees: Sequence[Tree]) -> tf.data.Dataset:
    """Texts in brackets and the labels of all their tree nodes."""
    texts = [tree.pformat(margin=10**9) for tree in trees]
    labels = tf.ragged.constant([[part.label() for part in tree.subtrees()] for tree in trees])
    data = tf.data.Dataset.from_tensor_slices((texts, labels))
    return data.map(lambda text, of_nodes: (text, tf.identity(of_nodes)))


def only_roots(inputs: Any, labels: tf.Tensor) -> tuple[Any, tf.Tensor]:
    """A batch with only the labels of whole sentences."""
    return inputs, tf.where(tf.range(tf.shape(labels)[1]) == 0, labels, -1)


def run(options: argparse.Namespace, treebank: Treebank, kind: str, seed: int) -> dict[str, float]:
    """Trains one of the models, saves and exports it."""
    start = time.perf_counter()
    model, trained, data = train(
        BracketedText(lowercase=False, has_labels=True),
        partial(build_top, kind, treebank.num_classes, options.units),
        {of: examples(getattr(treebank, of)) for of in ("train", "dev", "test")},
        options,
        seed,
        monitor="val_root_accuracy",
        mode="max",
        prepare=only_roots if options.labels == "roots" else None,
        loss=TreeCrossentropy(normalize="nodes"),
        metrics=[RootAccuracy(), BinaryRootAccuracy()],
    )
    figures = {"minutes": (time.perf_counter() - start) / 60}
    for split, given in data.items():
        values = trained.evaluate(given, verbose=0, return_dict=True)
        figures[f"{split}, %"] = 100 * values["root_accuracy"]
        figures[f"{split}, binary, %"] = 100 * values["binary_root_accuracy"]
    folder = options.output / f"{kind}_{seed}"
    folder.mkdir(exist_ok=True)
    texts = [text for text, _ in examples(treebank.test[:8])]
    save_and_export(model, [tf.stack(texts)], folder)
    return figures


def main(argv: Sequence[str] | None = None) -> list[Run]:
    """Trains both models with each seed and returns the figures."""
    parser = recipe_parser("sentiment_encoder")
    parser.add_argument(
        "--data",
        type=Path,
        default=sentiment.REPOSITORY / "data" / "treebank",
        help="directory with train.txt, dev.txt and test.txt, a bracketed tree per line",
    )
    parser.add_argument(
        "--labels", choices=["roots", "nodes"], default="nodes", help="labels for both models"
    )
    defaults = {"units": 150, "learning_rate": 1e-3, "encoder_rate": 1e-4}
    add_options(parser, **defaults, batch_size=32, epochs=3)
    options = parse(parser, argv)
    treebank = load_treebank(options.data)
    return run_all(partial(run, options, treebank), options)


if __name__ == "__main__":
    main()
