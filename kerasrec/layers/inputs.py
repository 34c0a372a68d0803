"""What tree nodes read: rows of features, one for each node or one for each different word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import keras
import tensorflow as tf

from kerasrec.errors import TraceError
from kerasrec.layers.cell import RecursiveCell, check_states
from kerasrec.trace.functions import unrepeatable_op


def num_features_of(embedding: keras.layers.Layer, name: str) -> int:
    """Builds the embedding of the layer `name`, and returns how many features it gives a word.

    Raises:
        ValueError: if it does not make `[words, features]` of words.
    """
    if not embedding.built:
        embedding.build((None,))
    shape = embedding.compute_output_shape((None,))
    if len(shape) != 2 or shape[-1] is None:
        raise ValueError(
            f"`embedding` of {name} must make [words, features] of [words], with known features; "
            f"{embedding.name} makes {tuple(shape)}."
        )
    return shape[-1]


def looked_up(
    embedding: keras.layers.Layer, words: tf.Tensor, dtype: str
) -> tuple[tf.Tensor, tf.Tensor]:
    """What an embedding makes of each different word of a batch.

    Args:
        embedding: built.
        words: int `[batch, nodes]`.
        dtype: of the vectors.

    Returns:
        Vectors, `[words, features]`, and which of them each node has, int32 `[batch, nodes]`.
    """
    different, places = tf.unique(tf.reshape(words, [-1]))
    return tf.cast(embedding(different), dtype), tf.reshape(places, tf.shape(words))


@dataclass(frozen=True)
class NodeInputs:
    """What the nodes of a batch of trees read.

    Args:
        rows: `[rows, features]`.
        places: int32 `[batch * nodes]`, which row each node reads; None where row i is of node i.
    """

    rows: tf.Tensor
    places: tf.Tensor | None = None

    def of(self, node: tf.Tensor) -> tf.Tensor:
        """What nodes read, `[nodes, features]`, by their numbers in the batch, int32 `[nodes]`."""
        return tf.gather(self.rows, self._place(node))

    def leaf_of(self, cell: RecursiveCell) -> Callable[[tf.Tensor], list[tf.Tensor]]:
        """What makes the states of leaves from their numbers.

        Where nodes share rows, leaves of one row have the same states, which are computed once:
        before the recursion, and with gradients added up before they go through the cell.
        """
        states = None
        # With inputs of inner nodes there may be more rows than leaves.
        if self.places is not None and not cell.inner_inputs:
            states = _leaf_states(cell, self.rows)
        if states is None:
            return lambda node: cell.call_leaf(self.of(node))
        return lambda node: [tf.gather(state, self._place(node)) for state in states]

    def _place(self, node: tf.Tensor) -> tf.Tensor:
        return node if self.places is None else tf.gather(self.places, node)


def _leaf_states(cell: RecursiveCell, rows: tf.Tensor) -> list[tf.Tensor] | None:
    """What a cell makes of each row at a leaf, `[rows, units]` for each state.

    None where it draws random numbers, which differ from leaf to leaf, and where it uses what there
    is inside recursive functions only, such as `kerasrec.cond`.
    """
    graph = rows.graph
    num_before = len(graph.get_operations())
    try:
        with tf.name_scope("leaves_of_words"):
            states = cell.call_leaf(rows)
    except TraceError:
        return None
    check_states(cell, states)
    operations = graph.get_operations()[num_before:]
    return None if operations and unrepeatable_op(operations) else states
