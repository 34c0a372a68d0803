"""Sentiment of sentences, and of every phrase in them, with a recursive neural tensor network.

The model is the RNTN of Socher et al. 2013 (section 4.3).

    python models/sentiment_rntn.py

trains on the small treebank that comes with the repository. `sentiment.py`, which all recipes for
sentiment share, has the training; its `run` has all steps in order.
"""

import argparse
from collections.abc import Sequence
from typing import Any

import keras

import sentiment
import sentiment_model
from kerasrec.layers import RNTN

SETTINGS = {
    "built-in": {
        "units": 30,
        "epochs": 10,
        "patience": 3,
        "batch": 25,
        "optimizer": "adam",
        "learning_rate": 5e-4,
        "embedding_optimizer": "adagrad",
        "embedding_rate": 0.05,
        "vector_dropout": 0.0,
        "state_dropout": 0.0,
        "l2": 0.0,
        "tensor_l2": 1e-2,
        "tensor_range": 0.003,
    },
    "sst": {
        "units": 30,
        "epochs": 12,
        "patience": 4,
        "batch": 25,
        "optimizer": "adam",
        "learning_rate": 2e-4,
        "embedding_optimizer": "sgd",
        "embedding_rate": 0.1,
        "vector_dropout": 0.3,
        "state_dropout": 0.1,
        "l2": 1e-4,
        "tensor_l2": 1e-2,
        "tensor_range": 0.003,
    },
}


def build_model(embedding: keras.layers.Embedding, options: argparse.Namespace) -> keras.Model:
    """Builds words -> vectors -> RNTN -> logits."""

    # The model begins close to a TreeRNN: the tensor feeds states back on themselves, tree node
    # after tree node, and where it grew fast nothing more was learned.
    def make_layer(units: int, **shared: Any) -> RNTN:
        return RNTN(
            units,
            tensor_initializer=keras.initializers.RandomUniform(
                -options.tensor_range, options.tensor_range
            ),
            tensor_regularizer=keras.regularizers.L2(options.tensor_l2),
            name="rntn",
            **shared,
        )

    return sentiment_model.build_model(make_layer, embedding, options, "sentiment_rntn")


def main(argv: Sequence[str] | None = None) -> sentiment.Results:
    """Runs the recipe and returns its figures."""
    description = "Train an RNTN on the sentiment of every phrase of a treebank."
    options = sentiment.parse_options(argv, description, SETTINGS, "sentiment_rntn")
    return sentiment.run(build_model, options)


if __name__ == "__main__":
    main()
