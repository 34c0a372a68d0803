"""Checks that labels of trees do not meet outputs of tree nodes in a loss that would broadcast."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.training.missing_labels import is_of_keras, loss_name


def check_ranks(model: keras.Model, y: Any, y_pred: Any) -> None:
    """Raises a ValueError if a loss of Keras would compare outputs with labels of other trees.

    Args:
        model: A compiled model.
        y: The labels of a batch.
        y_pred: The outputs for the batch.
    """
    labels, outputs = keras.tree.flatten(y), keras.tree.flatten(y_pred)
    losses = keras.tree.flatten(model.loss)
    if len(losses) == 1:
        losses *= len(outputs)
    if not len(labels) == len(outputs) == len(losses):
        return
    for given, output, loss in zip(labels, outputs, losses, strict=True):
        if given is None or not is_of_keras(loss):
            continue
        shapes = tf.TensorShape(given.shape), tf.TensorShape(output.shape)
        if shapes[0].rank == 1 and (shapes[1].rank or 0) > 2:
            raise ValueError(
                f"There is one label for each example, shape {shapes[0]}, but the outputs have "
                f"shape {shapes[1]}, as for tree nodes: the loss {loss_name(loss)} of Keras would "
                "compare each output with the labels of all examples. For one label per tree, "
                "leave return_sequences=True out of the tree layer. For labels of tree nodes, "
                "[batch, nodes], compile the model with "
                "kerasrec.training.TreeSquaredError() or TreeCrossentropy()."
            )
