"""The inputs of tree nodes: features of each node, or of each different word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import keras
import tensorflow as tf

from kerasrec.graph.nodes import operations
from kerasrec.half_precision import gather_repeated
from kerasrec.layers.cell import RecursiveCell, call_cell, is_ready_made, without_losses
from kerasrec.private import in_xla, show_to_tapes, unseen_by_tapes
from kerasrec.public import RecursiveFunction, recursive
from kerasrec.trace.custom_gradient import custom_gradient
from kerasrec.trace.functions import random_op


@dataclass(frozen=True)
class NodeInputs:
    """The inputs of the nodes of a batch of trees.

    Args:
        rows: The features, `[rows, features]`.
        places: The row that each node reads, int32 `[size]`; None if row i belongs to node i.
    """

    rows: tf.Tensor
    places: tf.Tensor | None = None

    def of(self, node: tf.Tensor) -> tf.Tensor:
        """Returns the inputs of nodes, `[nodes, features]`.

        Args:
            node: The numbers of the nodes in the batch, int32 `[nodes]`.
        """
        return tf.gather(self.rows, node if self.places is None else tf.gather(self.places, node))

    def of_all_nodes(self) -> tf.Tensor:
        """Returns the inputs of each node, `[size, features]`."""
        return self.rows if self.places is None else gather_repeated(self.rows, self.places)


def num_words_of(embedding: keras.layers.Layer) -> int | None:
    """The number of words for which an embedding has vectors; None if it does not say."""
    if isinstance(embedding, keras.Sequential) and embedding.layers:
        return num_words_of(embedding.layers[0])
    return embedding.input_dim if isinstance(embedding, keras.layers.Embedding) else None


def takes_text(embedding: keras.layers.Layer | None) -> bool:
    """Whether an embedding looks up words that are text, not integers."""
    if isinstance(embedding, keras.Sequential) and embedding.layers:
        return takes_text(embedding.layers[0])
    if isinstance(embedding, keras.Model) and len(getattr(embedding, "inputs", None) or []) == 1:
        return bool(embedding.inputs[0].dtype == "string")
    return isinstance(embedding, keras.layers.StringLookup)


def look_up(
    words: tf.Tensor, is_read: tf.Tensor, embedding: keras.layers.Layer, dtype: str
) -> NodeInputs:
    """Looks up the nodes' inputs by their words; each different word has one row of the gradient.

    Args:
        words: The words of all nodes of the batch, int or string `[size]`.
        is_read: Whether any cell reads a node's word, bool `[size]`. Other words, such as those of
            padding, take part in no product, forward or backward.
        embedding: Maps words to features.
        dtype: The dtype of the features.
    """
    texts = None
    if words.dtype == tf.string:
        texts, words = tf.unique(words, name="texts")
    # Any word that is read. There is none in a batch without trees, or if all nodes form cycles.
    one = tf.reduce_max(tf.where(is_read, words, tf.reduce_min(words)))
    words = tf.where(is_read, words, one)
    if in_xla():  # How many are different is not known when it compiles.
        table = _table_of(embedding, dtype)
        if table is not None:
            return NodeInputs(_summed_by_word(table), words)
        vectors = tf.cast(_embedded(embedding, words), dtype)
        return NodeInputs(vectors, _first_places(words, num_words_of(embedding)))
    different, places = tf.unique(words, name="places")
    if texts is not None:
        different = tf.gather(texts, different)
    return NodeInputs(tf.cast(_embedded(embedding, different), dtype), places)


def _embedded(embedding: keras.layers.Layer, words: tf.Tensor) -> tf.Tensor:
    """The vectors of words, `[words, features]`; a TraceError if the embedding adds a loss."""
    refused = without_losses(
        embedding,
        f"The embedding {embedding.name} adds a loss, by `add_loss` or by the "
        "`activity_regularizer` of a layer in it, which cannot leave the tree layer. Apply it "
        "before the tree layer, to all words, or use an `embeddings_regularizer`.",
    )
    # What places integers on the host stops at a layer of the user's.
    with refused, tf.device(None):
        return embedding(words)


def _first_places(words: tf.Tensor, num_words: tf.Tensor | int | None) -> tf.Tensor | None:
    """The first place of each word, int32 `[words]`; None if the number of words is not known.

    Only rows at these places then have a gradient: Keras' optimizers take several rows of one word
    for several gradients.
    """
    if num_words is None:
        return None
    first = tf.math.unsorted_segment_min(tf.range(tf.size(words)), words, num_words)
    return tf.gather(first, words)


def _table_of(embedding: keras.layers.Layer, dtype: str) -> tf.Tensor | None:
    """The vectors of all words, float `[words, features]`; None if a vector is not just a row."""
    is_plain = (
        type(embedding) is keras.layers.Embedding
        and embedding.activity_regularizer is None
        and embedding.quantization_mode is None
        and embedding.variable_dtype == dtype
        and not embedding.lora_enabled
    )
    return tf.convert_to_tensor(embedding.embeddings) if is_plain else None


def _summed_by_word(table: tf.Tensor) -> tf.Tensor:
    """The same table. If its gradient has several rows of one word, the first is their sum."""

    def summed(gradient: tf.Tensor | tf.IndexedSlices) -> list[tf.Tensor | tf.IndexedSlices]:
        if not isinstance(gradient, tf.IndexedSlices):
            return [gradient]
        words = gradient.indices
        places = _first_places(words, tf.shape(table)[0])
        values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(words))
        return [tf.IndexedSlices(values, words, gradient.dense_shape)]

    with unseen_by_tapes():
        found = custom_gradient(lambda tensor: ([tensor], summed))(table)
    show_to_tapes([table], found)
    return found[0]


def leaf_of(
    cell: RecursiveCell, inputs: NodeInputs, training: bool
) -> Callable[[tf.Tensor], list[tf.Tensor]]:
    """A function from the numbers of leaves in the batch to their results, as from `call_cell`.

    Leaves that read the same row have the same states. These are computed once, before the
    recursion, and their gradients are added up before they go through the cell. They are computed
    for each leaf if the cell draws random numbers, or if inner nodes read rows, too: there may be
    more rows than leaves then, as there always are inside XLA. A user's own cell is traced as a
    recursive function, so that a cell that mixes rows is refused.
    """

    def leaf(row: tf.Tensor) -> list[tf.Tensor]:
        return call_cell(cell, cell.call_leaf, row, training=training)

    def own_results_of(node: tf.Tensor) -> list[tf.Tensor]:
        return leaf(inputs.of(node))

    if inputs.places is None or cell.inner_inputs or in_xla():
        return own_results_of
    of_rows: Callable[[tf.Tensor], list[tf.Tensor]] = leaf
    if not is_ready_made(cell):
        of_rows = recursive(leaf)
        if _is_random(of_rows, inputs.rows):
            return own_results_of
    with tf.name_scope("leaves_of_words"):
        results = of_rows(inputs.rows)

    def results_of(node: tf.Tensor) -> list[tf.Tensor]:
        place = tf.gather(inputs.places, node)
        return [tf.gather(result, place) for result in results]

    return results_of


def _is_random(leaf: RecursiveFunction, rows: tf.Tensor) -> bool:
    """Whether a function draws random numbers or has side effects."""
    graphs = list(leaf.function_graphs(rows))
    if any(node.is_key for graph in graphs for node in graph.parameters):
        return True
    found = operations([node for graph in graphs for node in graph.nodes])
    return bool(found) and random_op(found) is not None
