"""How related two sentences are, by a pretrained encoder, with dependency trees and without.

    python models/relatedness_encoder.py --data path/to/sick --encoder path/to/folder --seeds 1 2 3

`semantic_relatedness.py` reads word vectors; here the words have an encoder's (see
`sentiment_encoder.py` for the folder). "flat" has their mean, "tree" this and the state of a
child-sum TreeLSTM; both have the same net that compares two sentences. The models take sentences
in CoNLL-U. Prints figures of test, from the epoch with the least loss on dev.
"""

import argparse
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from comparison import Run
from correlation import agreement_of
from encoder_training import MeanCell, add_options, run_all, train
from kerasrec.datasets import DependencyTree
from kerasrec.layers import ChildSumTreeLSTM, ConlluText, Recursive
from recipe_options import parse, recipe_parser
from relatedness_model import compare
from saving import save_and_export
from sick_pairs import SCORES, Pairs, distributions, read


def build_top(kind: str, units: int, dropout: float, features: int) -> keras.Model:
    """From vectors and children of the words of two sentences to a distribution over scores."""
    layers = [Recursive(MeanCell(features), name="mean")]
    if kind == "tree":
        layers.append(ChildSumTreeLSTM(units, name="tree"))
    inputs = tuple(
        (keras.Input([None, features]), keras.Input([None, None], dtype="int32")) for _ in "ab"
    )
    left, right = (
        keras.layers.concatenate([layer(*sentence) for layer in layers]) for sentence in inputs
    )
    return keras.Model(inputs, compare(left, right, len(SCORES), dropout), name=kind)


def conllu(tree: DependencyTree, chain: bool) -> str:
    """The words and heads of a sentence in CoNLL-U; in a chain, the next word is the head."""
    heads = [*range(1, len(tree.words)), -1] if chain else tree.heads
    rows = enumerate(zip(tree.words, heads, strict=True), 1)
    lines = (f"{place} {word} _ _ _ _ {head + 1} _ _ _" for place, (word, head) in rows)
    return "\n".join(lines).replace(" ", "\t")


def examples(pairs: Pairs, chain: bool) -> tf.data.Dataset:
    """The texts of two sentences, and the distribution over scores."""
    first, second = ([conllu(tree, chain) for tree in side] for side in pairs[:2])
    return tf.data.Dataset.from_tensor_slices(((first, second), distributions(pairs[2], SCORES)))


def run(
    options: argparse.Namespace, pairs: dict[str, Pairs], kind: str, seed: int
) -> dict[str, float]:
    """Trains one of the models, saves and exports it."""
    start = time.perf_counter()
    data = {split: examples(of, options.chain) for split, of in pairs.items()}
    reader = ConlluText(lowercase=False, return_positions=True)
    build = partial(build_top, kind, options.units, options.dropout)
    model, trained, batches = train(
        reader, build, data, options, seed, "val_loss", "min", loss="kl_divergence"
    )
    figures = {"minutes": (time.perf_counter() - start) / 60}
    found = {}
    for split, of in batches.items():
        true = np.concatenate([labels for _, labels in of.as_numpy_iterator()]) @ SCORES
        found[split] = agreement_of(trained.predict(of, verbose=0) @ SCORES, true)
    figures |= {"dev Pearson": found["dev"]["Pearson"]} | found["test"]
    folder = options.output / f"{kind}_{seed}"
    folder.mkdir(exist_ok=True)
    texts, _ = next(iter(data["test"].batch(8)))
    save_and_export(model, texts, folder)
    return figures


def main(argv: Sequence[str] | None = None) -> list[Run]:
    """Trains both models with each seed and returns the figures."""
    parser = recipe_parser("relatedness_encoder")
    parser.add_argument("--data", type=Path, required=True, help="SICK: train, dev and test")
    defaults = {"units": 150, "learning_rate": 1e-3, "encoder_rate": 0.0}
    add_options(parser, **defaults, batch_size=25, epochs=6)
    parser.add_argument("--dropout", type=float, default=0.3, help="before comparing")
    parser.add_argument("--chain", action="store_true", help="next words as heads, as a control")
    options = parse(parser, argv)
    pairs = {split: read(options.data, split) for split in ("train", "dev", "test")}
    return run_all(partial(run, options, pairs), options)


if __name__ == "__main__":
    main()
