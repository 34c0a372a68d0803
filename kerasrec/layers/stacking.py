"""Whether inputs of a tree layer are the states of another, so that each tree node has some."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


class StatesOfNodes:
    """Base class of layers that may return states of all tree nodes, not of roots alone."""

    @property
    def returns_all_states(self) -> bool:
        """Whether they are returned."""
        return True


def mark_states(is_node: tf.Tensor) -> tf.Tensor:
    """A mask of tree nodes; layers that pass masks on tell by it whose states they read."""
    is_node._is_of_tree_nodes = True
    return is_node


def are_states(x: Any) -> bool:
    """Whether `x`, symbolic or not, is known to be computed from states of all tree nodes.

    Of a symbolic tensor all layers before it are known; of any other, what its Keras mask tells.
    """
    if not isinstance(x, keras.KerasTensor):
        mask = getattr(x, "_keras_mask", None)
        return getattr(mask, "_is_of_tree_nodes", False)
    if not hasattr(x, "_keras_history"):  # nor any layer before it
        return False
    before = keras.Function(keras.utils.get_source_inputs(x), x, name="before").operations
    return any(_returns_all_states(operation) for operation in before)


def _returns_all_states(operation: Any) -> bool:
    if isinstance(operation, StatesOfNodes):
        return operation.returns_all_states
    is_model = isinstance(operation, keras.Model)
    return is_model and any(map(_returns_all_states, operation.layers))
