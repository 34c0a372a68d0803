"""The model that the recipes for sentiment share, but for its tree layer."""

import argparse
from collections.abc import Callable
from typing import Any

import keras

from kerasrec.layers import Recursive


def build_model(
    make_layer: Callable[..., Recursive],
    embedding: keras.layers.Embedding,
    options: argparse.Namespace,
    name: str,
    arity: int | None = 2,
) -> keras.Model:
    """Builds words -> vectors -> tree layer -> logits.

    Args:
        make_layer: makes the tree layer, from its units and the options of all recipes.
        embedding: from words to vectors.
        options: as `sentiment.parse_options` returns them.
        name: of the model.
        arity: slots for children of each tree node; None for any number.

    Returns:
        A model from `(tokens, children)`, int32 `[batch, nodes]` and `[batch, nodes, arity]`, to
        logits, float32 `[batch, nodes, 5]`.
    """
    tokens = keras.Input([None], dtype="int32", name="tokens")
    children = keras.Input([None, arity], dtype="int32", name="children")
    l2 = keras.regularizers.L2(options.l2)
    shared: dict[str, Any] = {
        "return_sequences": True,  # the states of all tree nodes: each has a label
        "kernel_regularizer": l2,
        "recurrent_regularizer": l2,
    }
    x = keras.layers.Dropout(options.vector_dropout)(embedding(tokens))
    x = make_layer(options.units, **shared)(x, children)
    x = keras.layers.Dropout(options.state_dropout)(x)
    logits = keras.layers.Dense(5, kernel_regularizer=l2, dtype="float32", name="logits")(x)
    return keras.Model([tokens, children], logits, name=name)
