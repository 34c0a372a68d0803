"""Sentiment of sentences by a pretrained encoder, with a tree layer above it and without one.

    python models/sentiment_encoder.py
    python models/sentiment_encoder.py --data path/to/trees --encoder path/to/preset --seeds 1 2 3

The folder of `--encoder` is a preset of KerasHub, or a BERT in the format of Hugging Face; KerasHub
comes with `pip install -e ".[text]"`. Without `--encoder`, a tiny one with random weights shows
that everything works. Both models read the same texts and pieces and learn from the same labels:
"flat" has a linear layer on the mean of the pieces' vectors, "tree" a TreeLSTM over the vectors of
words. Prints the accuracies of whole sentences at the epoch that was best on dev.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import keras
import tensorflow as tf
from nltk import Tree

import sentiment
from comparison import Run, report
from kerasrec.datasets import load_treebank
from kerasrec.layers import BracketedText, SubwordPooling, TreeLSTM
from kerasrec.training import (
    BinaryRootAccuracy,
    OptimizerPerLayer,
    RootAccuracy,
    TreeCrossentropy,
)
from pretrained_encoder import Encoder, read_encoder
from recipe_options import parse, recipe_parser
from saving import save_and_export

KINDS = ["flat", "tree"]


def build_model(kind: str, encoder: Encoder, num_classes: int, units: int) -> keras.Model:
    """From bracketed texts to logits `[batch, nodes, classes]`; if flat, there is one node."""
    text = keras.Input([], dtype="string", name="text")
    words, children = BracketedText(lowercase=False, has_labels=True)(text)
    pieces, mask, nodes = encoder.subwords(words)
    vectors = encoder.model([pieces, mask])
    if kind == "flat":
        states = keras.layers.GlobalAveragePooling1D(keepdims=True)(vectors, mask=mask)
    else:
        leaves = SubwordPooling()(vectors, nodes, children)
        states = TreeLSTM(units, return_sequences=True, name="tree")(leaves, children)
    states = keras.layers.Dropout(0.1)(states)
    return keras.Model(text, keras.layers.Dense(num_classes)(states), name=kind)


def examples(trees: Sequence[Tree], kind: str, labels: str) -> list[tuple[str, list[int]]]:
    """Texts and their labels, one of each tree node or only that of the root.

    A flat model has one logit per text. To learn from all tree nodes, it reads each phrase as a
    separate text, the same phrase with the same label once.
    """
    if labels == "nodes" and kind == "flat":
        phrases = {(_text(part), part.label()) for tree in trees for part in tree.subtrees()}
        return [(text, [label]) for text, label in sorted(phrases)]
    labeled = []
    for tree in trees:
        of_nodes = [part.label() for part in tree.subtrees()]
        root, *others = of_nodes
        if labels == "roots":
            others = [-1] * len(others)
        labeled.append((_text(tree), [root] if kind == "flat" else [root, *others]))
    return labeled


def _text(tree: Tree) -> str:
    return tree.pformat(margin=10**9)


def batches(
    given: Sequence[tuple[str, list[int]]], batch_size: int, seed: int | None = None
) -> tf.data.Dataset:
    """Batches of texts and labels `[batch, nodes]`, -1 = none; a seed shuffles them."""
    texts, labels = zip(*given, strict=True)
    data = tf.data.Dataset.from_tensor_slices((list(texts), tf.ragged.constant(labels, tf.int32)))
    data = data if seed is None else data.shuffle(len(texts), seed)
    return data.ragged_batch(batch_size).map(lambda text, label: (text, label.to_tensor(-1)))


def _optimizer(encoder: keras.Model, options: argparse.Namespace) -> OptimizerPerLayer:
    """One optimizer for each layer of the encoder, which moves slowly, and one for all others."""
    layers = {variable.path.split("/")[0] for variable in encoder.trainable_variables}

    def make(rate: float) -> keras.optimizers.Optimizer:
        return keras.optimizers.AdamW(rate, global_clipnorm=1.0)

    return OptimizerPerLayer(
        make(options.learning_rate), {name: make(options.encoder_rate) for name in sorted(layers)}
    )


def run(options: argparse.Namespace, kind: str, seed: int) -> dict[str, float]:
    """Trains one of the models, saves and exports it."""
    keras.utils.set_random_seed(seed)
    treebank = load_treebank(options.data)
    encoder = read_encoder(options.encoder)
    encoder.model.trainable = options.encoder_rate > 0
    model = build_model(kind, encoder, treebank.num_classes, options.units)
    model.compile(
        _optimizer(encoder.model, options),
        TreeCrossentropy(normalize="nodes"),
        metrics=[RootAccuracy(), BinaryRootAccuracy()],
    )
    train = examples(treebank.train, kind, options.labels)
    best = keras.callbacks.EarlyStopping(
        "val_root_accuracy", mode="max", patience=options.patience, restore_best_weights=True
    )
    start = time.perf_counter()
    model.fit(
        batches(train, options.batch_size, seed),
        validation_data=batches(examples(treebank.dev, kind, "roots"), 64),
        epochs=options.epochs,
        callbacks=[best],
        shuffle=False,  # the dataset does it
        verbose=2,
    )
    figures = {"minutes": (time.perf_counter() - start) / 60}
    for split in ("dev", "test"):
        given = batches(examples(getattr(treebank, split), kind, "roots"), 64)
        values = model.evaluate(given, verbose=0, return_dict=True)
        figures[f"{split}, %"] = 100 * values["root_accuracy"]
        figures[f"{split}, binary, %"] = 100 * values["binary_root_accuracy"]
    folder = options.output / f"{kind}_{seed}"
    folder.mkdir(exist_ok=True)
    texts = tf.constant([text for text, _ in examples(treebank.test[:8], kind, "roots")])
    save_and_export(model, [texts], folder)
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
    parser.add_argument("--encoder", type=Path, help="a folder; by default a tiny encoder")
    parser.add_argument("--models", nargs="+", choices=KINDS, default=KINDS, help="to train")
    parser.add_argument(
        "--labels", choices=["roots", "nodes"], default="nodes", help="labels for both models"
    )
    parser.add_argument("--units", type=int, default=150, help="size of a tree node's state")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="of all but the encoder")
    parser.add_argument("--encoder-rate", type=float, default=3e-5, help="0 freezes the encoder")
    parser.add_argument("--batch-size", type=int, default=32, help="of training")
    parser.add_argument("--epochs", type=int, default=5, help="maximum")
    parser.add_argument("--patience", type=int, default=2, help="epochs without a better dev root")
    options = parse(parser, argv)
    runs = [{kind: run(options, kind, seed) for kind in options.models} for seed in options.seeds]
    report(runs, options.output)
    return runs


if __name__ == "__main__":
    main()
