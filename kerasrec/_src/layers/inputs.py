"""The inputs of tree nodes: features of each node, or of each different word."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import keras
import tensorflow as tf

from kerasrec._src.graph.nodes import operations
from kerasrec._src.half_precision import gather_repeated
from kerasrec._src.layers.cell import RecursiveCell, call_cell, is_ready_made, without_losses
from kerasrec._src.private import in_xla
from kerasrec._src.public import RecursiveFunction, recursive
from kerasrec._src.sparse_gradients import first_places
from kerasrec._src.trace.functions import random_op

_LOOKUPS = (keras.layers.StringLookup, keras.layers.IntegerLookup, keras.layers.Hashing)


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
    """The number of words for which an embedding has vectors; None if it is not known."""
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
    words: tf.Tensor,
    is_read: tf.Tensor,
    embedding: keras.layers.Layer,
    dtype: str,
    is_dense: bool = False,
) -> NodeInputs:
    """Looks up the nodes' inputs by their words; each different word has one row of the gradient.

    Args:
        words: The words of all nodes of the batch, int or string `[size]`.
        is_read: Whether any cell reads a node's word, bool `[size]`. Other words, such as those of
            padding, take part in no product, forward or backward.
        embedding: Maps words to features.
        dtype: The dtype of the features.
        is_dense: Whether the gradient of a table is dense, which adds it to those of other calls
            and replicas.
    """
    texts = None
    if words.dtype == tf.string:
        texts, words = tf.unique(words, name="texts")
    # Any word that is read. There is none in a batch without trees, or if all nodes form cycles.
    read_word = tf.reduce_max(tf.where(is_read, words, tf.reduce_min(words)))
    words = tf.where(is_read, words, read_word)
    if in_xla():  # How many are different is not known when it compiles.
        if is_plain(embedding) and embedding.variable_dtype == dtype:
            return NodeInputs(_table(embedding, is_dense), words)
        num_words = num_words_of(embedding)
        places = None if num_words is None else first_places(words, num_words)
        with _without_losses(embedding):
            return NodeInputs(tf.cast(embedding(words), dtype), places)
    different, places = tf.unique(words, name="places")
    if texts is not None:
        different = tf.gather(texts, different)
    lookups, layers = _lookups_and_rest(embedding)
    for lookup in lookups:
        different = lookup(different)
    if lookups:  # Several words may have one number, as unknown words have.
        different, rows = tf.unique(different)
        places = tf.gather(rows, places)
    vectors = different
    with _without_losses(embedding):
        for layer in layers:
            of_table = is_dense and is_plain(layer)
            vectors = tf.gather(_table(layer, True), vectors) if of_table else layer(vectors)
    return NodeInputs(tf.cast(vectors, dtype), places)


def _lookups_and_rest(
    embedding: keras.layers.Layer,
) -> tuple[list[keras.layers.Layer], list[keras.layers.Layer]]:
    """The layers that give words numbers, at the start of an embedding, and those after them."""
    layers = list(embedding.layers) if isinstance(embedding, keras.Sequential) else [embedding]
    lookups = list(itertools.takewhile(lambda layer: isinstance(layer, _LOOKUPS), layers))
    return (lookups, layers[len(lookups) :]) if lookups else ([], [embedding])


class DenseGradientEmbedding(keras.layers.Embedding):
    """An embedding whose gradient is dense: each look-up adds to it, and each replica.

    It suits layers that look up words in several places, and tables no larger than the layer's
    other weights.
    """

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        vectors = tf.gather(_table(self, is_dense=True), tf.cast(inputs, tf.int32))
        return tf.cast(vectors, self.compute_dtype)


def _table(embedding: keras.layers.Embedding, is_dense: bool) -> tf.Tensor:
    """The table of an embedding, whose gradient is dense or has the rows that were looked up."""
    table = tf.convert_to_tensor(embedding.embeddings)
    # The gradient of a gather has the rows that were looked up; that of a reshape is dense.
    return tf.reshape(table, table.shape) if is_dense else table


@contextlib.contextmanager
def _without_losses(embedding: keras.layers.Layer) -> Iterator[None]:
    """A context for calling an embedding; a TraceError if that adds a loss."""
    refused = without_losses(
        embedding,
        f"The embedding {embedding.name} adds a loss, by `add_loss` or by the "
        "`activity_regularizer` of a layer in it, which cannot leave the tree layer. Apply it "
        "before the tree layer, to all words, or use an `embeddings_regularizer`.",
    )
    # Integers are not placed on the host inside a user's layer.
    with refused, tf.device(None):
        yield


def is_table(embedding: keras.layers.Layer) -> bool:
    """Whether the vector of a word is just a row of a table, after look-ups of its number."""
    _, layers = _lookups_and_rest(embedding)
    return len(layers) == 1 and is_plain(layers[0])


def is_plain(embedding: keras.layers.Layer) -> bool:
    """Whether the vector of a word is just a row of a table."""
    return (
        type(embedding) is keras.layers.Embedding
        and embedding.activity_regularizer is None
        and embedding.quantization_mode is None
        and not embedding.lora_enabled
    )


def leaf_of(
    cell: RecursiveCell, inputs: NodeInputs, training: bool
) -> Callable[[tf.Tensor], list[tf.Tensor]]:
    """A function from the numbers of leaves in the batch to their results, as from `call_cell`.

    Leaves that read the same row have the same states. These are computed once, before the
    recursion, and their gradients are added up before they go through the cell. They are computed
    for each leaf if the cell draws random numbers, or if inner nodes also read rows: then there may
    be more rows than leaves, as there always are inside XLA. A user's own cell is traced as a
    recursive function, so that a cell that mixes rows is refused.
    """

    def leaf(row: tf.Tensor) -> list[tf.Tensor]:
        return call_cell(cell, cell.call_leaf, row, training=training)

    def own_results_of(node: tf.Tensor) -> list[tf.Tensor]:
        return leaf(inputs.of(node))

    if inputs.places is None or cell.read_inner_inputs or in_xla():
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
    nodes = [node for graph in graphs for node in graph.nodes]
    return random_op(operations(nodes)) is not None
