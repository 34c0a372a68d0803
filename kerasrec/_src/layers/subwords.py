"""Layers around pretrained encoders: words to subword pieces, and their vectors to tree nodes."""

from __future__ import annotations

from typing import Any, Literal, get_args

import keras
import tensorflow as tf

from kerasrec._src.layers.argument_checks import check_choice
from kerasrec._src.layers.saved_arguments import SavedByArguments
from kerasrec._src.layers.tree_checks import check_none
from kerasrec._src.layers.tree_layer import is_ragged

Pooling = Literal["mean", "first"]


@keras.saving.register_keras_serializable("kerasrec")
class Subwords(SavedByArguments):
    """Splits the words of tree nodes into subword pieces, the inputs of an encoder such as BERT.

    The tokenizer splits each word by itself, so that the tree node of each piece is known. A word
    of which it makes nothing, such as a control character, has no piece. All of this happens in the
    graph, so an exported model contains it. `SubwordPooling` puts the encoder's vectors back onto
    tree nodes.

    Args:
        tokenizer: A layer that turns words, string `[words]`, into pieces, int, ragged
            `[words, (pieces)]`: each tokenizer of KerasHub is one.
        start_value: The piece before each sentence, an int, such as `tokenizer.cls_token_id`; by
            default none.
        end_value: The piece after each sentence, such as `tokenizer.sep_token_id`; by default none.
        pad_value: The piece that fills up shorter sentences, such as `tokenizer.pad_token_id`.
        prefix: The text to put before each word but the first. Byte-pair tokenizers, such as those
            of RoBERTa and GPT-2, need `" "`.
        max_pieces: The largest number of pieces that the encoder takes; None for any.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        words: The words of tree nodes, string `[batch, nodes]` or ragged `[batch, (nodes)]`, `""`
            for none, as `BracketedText` returns them.
        positions: The place of each word in its sentence, int `[batch, nodes]`, as `ConlluText`
            returns them with `return_positions=True`. By default words are in the order of tree
            nodes, as in constituency trees.

    Output shape:
        Three tensors `[batch, pieces]`: the pieces, int32; whether each is one, bool, False for
        padding; and the tree node of each, int32, -1 for padding and for the pieces at the start
        and the end.

    Raises:
        ValueError: If `tokenizer` is not a layer, `words` is not text, or the tokenizer does not
            return ragged integers.
        tf.errors.InvalidArgumentError: If a sentence has more than `max_pieces` pieces.

    Example:

    >>> letters = keras.layers.TextVectorization(
    ...     split="character", ragged=True, vocabulary=["a", "b", "c"])
    >>> layer = kerasrec.layers.Subwords(letters, start_value=9)
    >>> pieces, mask, nodes = layer(tf.constant([["", "ab", "c"]]))
    >>> pieces.numpy(), nodes.numpy()
    (array([[9, 2, 3, 4]], dtype=int32), array([[-1,  1,  1,  2]], dtype=int32))
    """

    def __init__(
        self,
        tokenizer: keras.layers.Layer,
        *,
        start_value: int | None = None,
        end_value: int | None = None,
        pad_value: int = 0,
        prefix: str = "",
        max_pieces: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if not isinstance(tokenizer, keras.layers.Layer):
            raise ValueError(
                f"`tokenizer` of {self.name} must be a Keras layer, such as a tokenizer of "
                f"KerasHub, received {tokenizer!r}."
            )
        self.supports_jit = False  # XLA takes no text.
        self.tokenizer = tokenizer
        self.start_value = start_value
        self.end_value = end_value
        self.pad_value = pad_value
        self.prefix = prefix
        self.max_pieces = max_pieces

    def build(self, words_shape: Any, positions_shape: Any = None) -> None:
        """Creates nothing: the tokenizer has no weights."""

    def call(self, words: Any, positions: Any = None) -> tuple[Any, Any, Any]:
        """Splits words; see the class."""
        self._check(words)
        words = words.to_tensor("") if is_ragged(words) else words
        positions = positions.to_tensor(0) if is_ragged(positions) else positions
        with tf.device("/CPU:0"):  # Text never leaves it.
            places = tf.where(words != "")
            if positions is not None:
                width = tf.shape(positions, tf.int64)[1]
                keys = places[:, 0] * width + tf.gather_nd(tf.cast(positions, tf.int64), places)
                places = tf.gather(places, tf.argsort(keys))
            rows, nodes = tf.unstack(places, axis=1)
            texts = tf.gather_nd(words, places)
            if self.prefix:
                is_first = tf.concat([[True], rows[1:] != rows[:-1]], 0)[: tf.size(rows)]
                texts = tf.where(is_first, texts, tf.strings.join([self.prefix, texts]))
            pieces = self.tokenizer(texts)
            if isinstance(pieces, list):  # KerasHub's tokenizers return lists in eager code.
                pieces = tf.ragged.constant(pieces, tf.int32, ragged_rank=1)
            if not isinstance(pieces, tf.RaggedTensor) or not pieces.dtype.is_integer:
                raise ValueError(
                    f"`tokenizer` of {self.name} must turn words [words] into ragged integers "
                    f"[words, (pieces)], received {pieces!r}. Give it no sequence length."
                )
            of_word = pieces.value_rowids()
            ids = tf.RaggedTensor.from_value_rowids(
                tf.cast(pieces.values, tf.int32),
                tf.gather(rows, of_word),
                nrows=tf.shape(words, tf.int64)[0],
                validate=False,
            )
            of_piece = ids.with_values(tf.cast(tf.gather(nodes, of_word), tf.int32))
            ids = self._with_ends(ids, self.start_value, self.end_value)
            of_piece = self._with_ends(
                of_piece,
                *(None if value is None else -1 for value in (self.start_value, self.end_value)),
            )
            lengths = ids.row_lengths()
            with tf.control_dependencies(self._check_lengths(lengths)):
                return (
                    ids.to_tensor(self.pad_value),
                    tf.sequence_mask(lengths),
                    of_piece.to_tensor(-1),
                )

    @staticmethod
    def _with_ends(ragged: tf.RaggedTensor, start: int | None, end: int | None) -> tf.RaggedTensor:
        """Rows with a value before and one after them, if they are not None."""
        size = [ragged.nrows(), 1]
        first = [] if start is None else [tf.fill(size, start)]
        last = [] if end is None else [tf.fill(size, end)]
        return tf.concat([*first, ragged, *last], 1)

    def _check(self, words: Any) -> None:
        if words.dtype != "string" or len(words.shape) != 2:
            raise ValueError(
                f"`words` of {self.name} must be text, string [batch, nodes], received "
                f"{keras.backend.standardize_dtype(words.dtype)} of shape {tuple(words.shape)}. "
                "Give the layer that reads text no `vocabulary`."
            )

    def _check_lengths(self, lengths: tf.Tensor) -> list[tf.Operation]:
        if self.max_pieces is None:
            return []
        sentence = (
            f"A sentence has more pieces than max_pieces={self.max_pieces} of {self.name}. Its "
            "place in the batch, and pieces: {} {}"
        )
        return check_none(lengths > self.max_pieces, sentence, lengths)

    def compute_output_shape(self, words_shape: Any, positions_shape: Any = None) -> Any:
        """Returns the shapes of the outputs."""
        return ((words_shape[0], None),) * 3

    def compute_output_spec(self, words: Any, positions: Any = None) -> Any:
        """Returns symbolic outputs."""
        self._check(words)
        shapes = self.compute_output_shape(words.shape)
        return tuple(map(keras.KerasTensor, shapes, ("int32", "bool", "int32")))


@keras.saving.register_keras_serializable("kerasrec")
class SubwordPooling(SavedByArguments):
    """Puts the vectors of subword pieces onto the tree nodes whose words they are pieces of.

    With it, any encoder can stand below a tree layer, frozen or trained.

    Args:
        pooling: The way to make one vector of those of a word's pieces: their `"mean"`, or the
            `"first"`, which BERT's authors take.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        vectors: The encoder's outputs, float `[batch, pieces, units]`, or ragged.
        nodes: The tree node of each piece, int `[batch, pieces]`, or ragged; -1 for none. It is the
            last output of `Subwords`.
        children: The children of tree nodes, int `[batch, nodes, arity]`, or ragged, as the tree
            layer takes them. Only the number of nodes is read.

    Output shape:
        The vectors of tree nodes, `[batch, nodes, units]`, ragged if `children` is. Nodes without a
        piece, such as inner nodes and padding, have zeros.

    Raises:
        ValueError: If `pooling` is something else, or if an input has another number of axes.
        tf.errors.InvalidArgumentError: If `nodes` has a number that is not a node's.

    Example:

    >>> vectors = tf.constant([[[9.0], [1.0], [3.0], [5.0]]])
    >>> nodes, children = tf.constant([[-1, 1, 1, 2]]), tf.constant([[[1, 2], [-1, -1], [-1, -1]]])
    >>> kerasrec.layers.SubwordPooling()(vectors, nodes, children).numpy().tolist()
    [[[0.0], [2.0], [5.0]]]
    """

    def __init__(self, pooling: Pooling = "mean", **kwargs: Any):
        super().__init__(**kwargs)
        check_choice(f"`pooling` of {self.name}", pooling, get_args(Pooling))
        self.pooling = pooling
        self.supports_masking = True

    def build(self, vectors_shape: Any, nodes_shape: Any, children_shape: Any) -> None:
        """Checks the number of axes; there are no weights."""
        shapes = vectors_shape, nodes_shape, children_shape
        if [*map(len, shapes)] != [3, 2, 3]:
            raise ValueError(
                f"{self.name} needs vectors [batch, pieces, units], nodes [batch, pieces] and "
                "children [batch, nodes, arity], in this order; received shapes "
                f"{', '.join(map(str, shapes))}."
            )

    def call(self, vectors: Any, nodes: Any, children: Any) -> Any:
        """Pools vectors; see the class."""
        vectors = vectors.to_tensor() if is_ragged(vectors) else vectors
        nodes = nodes.to_tensor(-1) if is_ragged(nodes) else nodes
        batch, units = tf.shape(vectors)[0], vectors.shape[-1]
        sizes = children.bounding_shape() if is_ragged(children) else tf.shape(children)
        num_nodes = tf.cast(sizes[1], tf.int32)
        nodes = tf.cast(nodes, tf.int32)
        message = f"`nodes` of {self.name} must be -1, or less than the number of tree nodes"
        with tf.control_dependencies(
            [
                tf.debugging.assert_less(nodes, num_nodes, message),
                tf.debugging.assert_greater_equal(nodes, -1, message),
            ]
        ):
            starts = tf.range(batch)[:, tf.newaxis] * num_nodes
            # Sums leave out pieces whose group is negative.
            groups = tf.reshape(tf.where(nodes < 0, -1, starts + nodes), [-1])
        size = batch * num_nodes
        if self.pooling == "first":
            places = tf.range(tf.size(groups))
            firsts = tf.math.unsorted_segment_min(places, groups, size)
            is_first = tf.gather(firsts, tf.maximum(groups, 0)) == places
            groups = tf.where(is_first, groups, -1)
        flat = tf.reshape(vectors, [-1, units])
        sums = tf.math.unsorted_segment_sum(flat, groups, size)
        counts = tf.math.unsorted_segment_sum(tf.ones_like(groups), groups, size)
        means = sums / tf.cast(tf.maximum(counts, 1), sums.dtype)[:, tf.newaxis]
        pooled = tf.reshape(means, [batch, num_nodes, units])
        if is_ragged(children):
            return tf.RaggedTensor.from_tensor(pooled, children.row_lengths())
        return pooled

    def compute_mask(self, vectors: Any, mask: Any = None) -> None:
        """Returns no mask: that of pieces is not one of tree nodes."""

    def compute_output_shape(
        self, vectors_shape: Any, nodes_shape: Any, children_shape: Any
    ) -> Any:
        """Returns the shape of the output."""
        return (vectors_shape[0], children_shape[1], vectors_shape[-1])

    def compute_output_spec(self, vectors: Any, nodes: Any, children: Any) -> keras.KerasTensor:
        """Returns a symbolic output, ragged if `children` is."""
        shape = self.compute_output_shape(vectors.shape, nodes.shape, children.shape)
        return keras.KerasTensor(shape, self.compute_dtype, ragged=is_ragged(children))
