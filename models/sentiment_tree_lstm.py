"""Sentiment of sentences, and of every phrase in them, with a binary TreeLSTM.

The model is the constituency Tree-LSTM of Tai, Socher and Manning 2015 (section 3.2).

    python models/sentiment_tree_lstm.py

trains on the small treebank that comes with the repository. `sentiment.py`, which all recipes for
sentiment share, has the training; its `run` has all steps in order.
"""

import argparse
from collections.abc import Sequence
from functools import partial

import keras

import sentiment
import sentiment_model
from kerasrec.layers import TreeLSTM

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
        "epochs": 20,
        "patience": 20,
        "average": 0.998,
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


def build_model(embedding: keras.layers.Embedding, options: argparse.Namespace) -> keras.Model:
    """Builds words -> vectors -> TreeLSTM -> logits."""
    make_layer = partial(TreeLSTM, name="tree_lstm")
    return sentiment_model.build_model(make_layer, embedding, options, "sentiment_tree_lstm")


def main(argv: Sequence[str] | None = None) -> sentiment.Results:
    """Runs the recipe and returns its figures."""
    description = "Train a TreeLSTM on the sentiment of every phrase of a treebank."
    options = sentiment.parse_options(argv, description, SETTINGS, "sentiment_tree_lstm")
    return sentiment.run(build_model, options)


if __name__ == "__main__":
    main()
