"""Whether the inputs of a tree layer are states of all tree nodes from another tree layer."""

from __future__ import annotations

from typing import Any

import keras

from kerasrec._src.private import comes_from_layers, mask_of


class StatesOfNodes:
    """Base class of layers that may return the states of all tree nodes, not only of roots."""

    @property
    def returns_all_states(self) -> bool:
        """Whether the states of all tree nodes are returned."""
        return True


def mark_states(states_or_mask: Any) -> Any:
    """Marks states of tree nodes, or their mask, and returns it.

    Layers in between pass on the mask alone. Ragged states have none, and
    `keras.layers.MultiHeadAttention` takes it off what it reads.
    """
    states_or_mask._is_of_tree_nodes = True
    return states_or_mask


def are_states(x: Any) -> bool:
    """Whether `x`, symbolic or not, is known to be computed from the states of all tree nodes.

    A symbolic tensor knows all layers before it. Any other tensor, or its Keras mask, has a mark.
    """
    if not isinstance(x, keras.KerasTensor):
        return any(getattr(one, "_is_of_tree_nodes", False) for one in (x, mask_of(x)))
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
