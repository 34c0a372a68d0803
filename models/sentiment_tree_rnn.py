"""Sentiment of sentences, and of every phrase in them, with a plain recursive network (TreeRNN).

The model is the RNN of Socher et al. 2013 (section 4.1).

    python models/sentiment_tree_rnn.py

trains on the small treebank that comes with the repository. `sentiment.py`, which all recipes for
sentiment share, has the training; its `run` has all steps in order.
"""

import argparse
from collections.abc import Sequence
from functools import partial

import keras

import sentiment
import sentiment_model
from kerasrec.layers import TreeRNN

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
        "units": 150,
        "epochs": 12,
        "patience": 4,
        "batch": 25,
        "optimizer": "adam",
        "learning_rate": 0.001,
        "embedding_optimizer": "sgd",
        "embedding_rate": 0.1,
        "vector_dropout": 0.5,
        "state_dropout": 0.2,
        "l2": 1e-4,
    },
}


def build_model(embedding: keras.layers.Embedding, options: argparse.Namespace) -> keras.Model:
    """Builds words -> vectors -> TreeRNN -> logits."""
    make_layer = partial(TreeRNN, name="tree_rnn")
    return sentiment_model.build_model(make_layer, embedding, options, "sentiment_tree_rnn")


def main(argv: Sequence[str] | None = None) -> sentiment.Results:
    """Runs the recipe and returns its figures."""
    description = "Train a TreeRNN on the sentiment of every phrase of a treebank."
    options = sentiment.parse_options(argv, description, SETTINGS, "sentiment_tree_rnn")
    return sentiment.run(build_model, options)


if __name__ == "__main__":
    main()
