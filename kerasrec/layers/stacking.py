"""Whether the inputs of a tree layer are states of all tree nodes from another tree layer."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from kerasrec.private import comes_from_layers, mask_of


class StatesOfNodes:
    """Base class of layers that may return the states of all tree nodes, not only of roots."""

    @property
    def returns_all_states(self) -> bool:
        """Whether the states of all tree nodes are returned."""
        return True


def mark_states(mask_or_states: Any) -> Any:
    """Marks a mask as one of tree nodes; layers in between pass it on with the states.

    Ragged states have no mask, and are marked themselves.
    """
    mask_or_states._is_of_tree_nodes = True
    return mask_or_states


def are_states(x: Any) -> bool:
    """Whether `x`, symbolic or not, is known to be computed from the states of all tree nodes.

    A symbolic tensor knows all layers before it. For any other tensor, its Keras mask says so.
    """
    if not isinstance(x, keras.KerasTensor):
        marked = x if isinstance(x, tf.RaggedTensor) else mask_of(x)
        return getattr(marked, "_is_of_tree_nodes", False)
    if not comes_from_layers(x):
        return False
    sources = keras.utils.get_source_inputs(x)
    if any(source is x for source in sources):
        return False  # Keras 3.10 to 3.13 make no function without a layer.
    before = keras.Function(sources, x, name="before").operations
    return any(_returns_all_states(operation) for operation in before)


def _returns_all_states(operation: Any) -> bool:
    if isinstance(operation, StatesOfNodes):
        return operation.returns_all_states
    is_model = isinstance(operation, keras.Model)
    return is_model and any(map(_returns_all_states, operation.layers))
