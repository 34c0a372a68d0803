"""Which tree nodes are not padding, for the symbolic outputs of tree layers."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.layers.links import links_of
from kerasrec._src.layers.ragged import is_ragged
from kerasrec._src.layers.trees import as_indices
from kerasrec._src.private import set_mask


@keras.saving.register_keras_serializable("kerasrec")
class NodeMask(keras.Operation):
    """Computes which places of padded trees hold tree nodes, as the mask of a tree layer.

    Call arguments:
        children: The indices of each tree node's children, int `[batch, nodes, arity]`.

    Output shape:
        bool `[batch, nodes]`, False for padding.
    """

    def call(self, children: Any) -> tf.Tensor:
        """Computes the mask; the tree layer beside it checks the trees."""
        is_called = links_of(as_indices(children)).is_called
        return tf.reshape(is_called, tf.shape(children)[:2])

    def compute_output_spec(self, children: Any) -> keras.KerasTensor:
        """Returns the symbolic mask."""
        return keras.KerasTensor(children.shape[:2], "bool")

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> NodeMask:
        """Returns an operation with a new name.

        When Keras loads a model, tree layers make another one with the next free name, which may be
        the saved one. A model that is built on the loaded one could not have both.
        """
        return cls()


def mask_symbolic(outputs: Any, children: Any) -> None:
    """Gives symbolic outputs `[batch, nodes, units]` of a tree layer their mask.

    Keras passes `x` alone to `compute_mask`. Without a symbolic mask, a functional model has only
    the one that `call` sets, which `keras.layers.MultiHeadAttention` takes off the tensors that it
    reads, so that others that read them would take padding for tree nodes.

    Args:
        outputs: What the layer returned, a tensor or a list.
        children: The children with which it was called.
    """
    if isinstance(children, keras.KerasTensor) and not is_ragged(children):
        for output in keras.tree.flatten(outputs):
            if len(output.shape) == 3:
                set_mask(output, NodeMask()(children))
