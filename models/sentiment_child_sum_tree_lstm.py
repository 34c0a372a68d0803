"""Sentiment of sentences, and of phrases in them, with a child-sum TreeLSTM on dependency trees.

The model is the dependency Tree-LSTM of Tai, Socher and Manning 2015 (section 3.1). Every word is a
tree node, and its label is that of the largest phrase that it is the head of.

    python models/sentiment_child_sum_tree_lstm.py

trains on the small treebank that comes with the repository, where a simple rule finds the heads.
For other treebanks `head_finder.py` makes the dependency trees. `sentiment.py`, which all recipes
for sentiment share, has the training; its `run` has all steps in order.
"""

import argparse
import dataclasses
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import keras

import sentiment
import sentiment_model
from dependency_treebank import is_left_head
from kerasrec.datasets import (
    DependencyTree,
    Treebank,
    dependencies_from_constituents,
    read_conllu,
)
from kerasrec.layers import ChildSumTreeLSTM

SETTINGS = {
    "built-in": {
        "units": 64,
        "epochs": 10,
        "patience": 3,
        "batch": 25,
        "optimizer": "adagrad",
        "learning_rate": 0.05,
        "embedding_optimizer": "adagrad",
        "embedding_rate": 0.05,
        "vector_dropout": 0.0,
        "state_dropout": 0.0,
        "l2": 0.0,
    },
    "sst": {
        "units": 168,
        "epochs": 20,
        "patience": 8,
        "batch": 25,
        "optimizer": "adam",
        "learning_rate": 0.001,
        "embedding_optimizer": "adam",
        "embedding_rate": 0.0001,
        "vector_dropout": 0.5,
        "state_dropout": 0.5,
        "l2": 1e-4,
    },
}


def read_dependencies(
    treebank: Treebank, split: str, directory: Path | None
) -> list[tuple[DependencyTree, Sequence[int | str]]]:
    """Reads what `head_finder.py` wrote; without it, heads are those of `is_left_head`.

    Returns:
        For each tree of the split a dependency tree and the labels of its words.
    """
    trees = getattr(treebank, split)
    if directory is None:
        return [dependencies_from_constituents(tree, is_left_head) for tree in trees]
    file = directory / f"{split}.conllu"
    found = read_conllu(file)
    if [list(tree.words) for tree in found] != [tree.leaves() for tree in trees]:
        raise ValueError(
            f"'{file}' differs from {split}.txt of the treebank in its sentences. Make it of that "
            "treebank, with head_finder.py."
        )
    return [(tree, tree.relations) for tree in found]


def with_dependencies(treebank: Treebank, directory: Path | None) -> Treebank:
    """Puts the dependency trees of its sentences in the place of a treebank's trees."""
    splits = ("train", "dev", "test")
    trees = {split: read_dependencies(treebank, split, directory) for split in splits}
    return dataclasses.replace(treebank, **trees)


def build_model(embedding: keras.layers.Embedding, options: argparse.Namespace) -> keras.Model:
    """Builds words -> vectors -> ChildSumTreeLSTM -> logits."""
    make_layer = partial(ChildSumTreeLSTM, name="tree_lstm")
    return sentiment_model.build_model(
        make_layer, embedding, options, "sentiment_child_sum_tree_lstm", arity=None
    )


def main(argv: Sequence[str] | None = None) -> sentiment.Results:
    """Runs the recipe and returns its figures."""
    description = "Train a child-sum TreeLSTM on the sentiment of the phrases of a treebank."
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument(
        "--dependencies",
        type=Path,
        help="directory that head_finder.py wrote; without it, a rule for the built-in treebank",
    )
    options = sentiment.parse_options(
        argv, description, SETTINGS, "sentiment_child_sum_tree_lstm", [own]
    )
    return sentiment.run(
        build_model,
        options,
        prepare=lambda treebank: with_dependencies(treebank, options.dependencies),
    )


if __name__ == "__main__":
    main()
