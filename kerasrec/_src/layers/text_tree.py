"""`TextTree`: from text without brackets to trees whose shape depends on the number of words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, get_args

import keras
import tensorflow as tf

from kerasrec._src.layers.bracket_tokens import SPACE, check_utf8, fail
from kerasrec._src.layers.text_layer import KnownWords, TextLayer

Shape = Literal["balanced", "left", "right"]


@keras.saving.register_keras_serializable("kerasrec")
class TextTree(TextLayer):
    r"""Puts the words of a sentence into a binary tree, so that a model needs no parser.

    The trees are those of `kerasrec.datasets.text_tree`, and their words and children those of
    `kerasrec.datasets.encode_tree`. The layer uses stock TensorFlow ops and reads all texts of a
    batch at once. Words are separated only by the ASCII space, tab and line break.

    Args:
        shape: The shape of the trees: "balanced", `((a b) (c d))`; "left", `(((a b) c) d)`; or
            "right", `(a (b (c d)))`.
        vocabulary: A `kerasrec.datasets.Vocabulary`, or a list of words, which get the numbers 2,
            3, ...; 0 is no word and 1 an unknown word. By default words stay text.
        lowercase: Whether to lowercase words; by default as in the `Vocabulary`, and True without
            one.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        text: The texts, string `[batch]` or `[batch, 1]`, one sentence each.

    Output shape:
        The words, string `[batch, nodes]`, `""` for none; with a `vocabulary` int32, 0 for none.
        The children, int32 `[batch, nodes, 2]`, -1 for none.

    Raises:
        ValueError: If `text` is not text or has another shape, if `shape` is none of the three, or
            if `vocabulary` contains a word twice.
        tf.errors.InvalidArgumentError: When called with a text that has no words, or with bytes
            that are not UTF-8. The message names the text by its place in the batch, from 0.

    Example:

    >>> words, children = kerasrec.layers.TextTree("right")(["a good film"])
    >>> print(words.numpy(), children.numpy().tolist(), sep="\n")
    [[b'' b'a' b'' b'good' b'film']]
    [[[1, 2], [-1, -1], [3, 4], [-1, -1], [-1, -1]]]
    """

    arity = 2

    def __init__(
        self,
        shape: Shape = "balanced",
        *,
        vocabulary: KnownWords | Iterable[str] | None = None,
        lowercase: bool | None = None,
        **kwargs: Any,
    ):
        super().__init__(vocabulary, lowercase, **kwargs)
        if shape not in get_args(Shape):
            raise ValueError(
                f"`shape` of {self.name} must be one of {', '.join(map(repr, get_args(Shape)))}, "
                f"received {shape!r}."
            )
        self.shape = shape

    def trees_of(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the words and children of each text."""
        with tf.control_dependencies([check_utf8(text)]):
            pieces = tf.strings.split(tf.strings.regex_replace(text, SPACE, " "), " ")
        words = tf.ragged.boolean_mask(pieces, tf.not_equal(pieces, ""))
        lengths = words.row_lengths()
        with tf.control_dependencies([_check_lengths(lengths)]):
            sizes, firsts, left = _SHAPES[self.shape](tf.identity(lengths))
        nodes = tf.range(tf.shape(sizes, tf.int64)[1])
        below = tf.stack([nodes + tf.ones_like(left), nodes + 2 * left], -1)
        children = tf.where(sizes[..., tf.newaxis] > 1, tf.cast(below, tf.int32), -1)
        table = tf.concat([[""], words.values], 0)
        places = words.row_starts()[:, tf.newaxis] + firsts + 1
        return tf.gather(table, tf.where(sizes == 1, places, 0)), children

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor arguments, as Keras saves them."""
        return {**super().get_config(), "shape": self.shape}


def _check_lengths(lengths: tf.Tensor) -> tf.Tensor:
    def failed() -> tf.Tensor:
        number = tf.strings.as_string(tf.where(lengths == 0)[0, 0])
        return fail("`text[", number, "]` has no words; expected at least one.")

    return tf.cond(tf.reduce_any(lengths == 0), failed, lambda: tf.constant(True))


# For sentences with given numbers of words, int64 `[batch]`: the number of words below each tree
# node in preorder, 0 for padding; the first of them; and the number of words of the left child of
# inner nodes. Each is int64 `[batch, nodes]`. The children of node i, whose left child has w words,
# are i + 1 and, after the 2w - 1 nodes of the left tree, i + 2w.
_Sizes = tuple[tf.Tensor, tf.Tensor, tf.Tensor]


def _nodes(lengths: tf.Tensor) -> tf.Tensor:
    most = tf.reduce_max(tf.concat([[1], lengths], 0))
    return tf.range(2 * most - 1)[tf.newaxis]


def _left(lengths: tf.Tensor) -> _Sizes:
    """Inner nodes come first, each with one word less than the one before."""
    nodes, lengths = _nodes(lengths), lengths[:, tf.newaxis]
    sizes = tf.maximum(lengths - nodes, 1)
    firsts = tf.maximum(nodes - lengths + 1, 0)
    return _without_padding(sizes, nodes, lengths), firsts, sizes - 1


def _right(lengths: tf.Tensor) -> _Sizes:
    """Inner nodes and words alternate."""
    nodes, lengths = _nodes(lengths), lengths[:, tf.newaxis]
    sizes = tf.where(nodes % 2 == 0, lengths - nodes // 2, 1)
    return _without_padding(sizes, nodes, lengths), nodes // 2, tf.ones_like(sizes)


def _balanced(lengths: tf.Tensor) -> _Sizes:
    """All nodes are sought from the root down at once, in as many steps as the tree is high."""
    nodes, lengths = _nodes(lengths), lengths[:, tf.newaxis]
    nodes += tf.zeros_like(lengths)

    def step(start: tf.Tensor, size: tf.Tensor, first: tf.Tensor) -> list[tf.Tensor]:
        left = (size + 1) // 2
        is_there, is_right = nodes <= start, nodes >= start + 2 * left
        return [
            tf.where(is_there, start, tf.where(is_right, start + 2 * left, start + 1)),
            tf.where(is_there, size, tf.where(is_right, size - left, left)),
            tf.where(is_right & ~is_there, first + left, first),
        ]

    zeros = tf.zeros_like(nodes)
    is_node = nodes < 2 * lengths - 1
    _, sizes, firsts = tf.while_loop(
        lambda start, size, first: tf.reduce_any(is_node & (start < nodes)),
        step,
        [zeros, zeros + lengths, zeros],
        shape_invariants=[tf.TensorShape([None, None])] * 3,
    )
    return _without_padding(sizes, nodes, lengths), firsts, (sizes + 1) // 2


def _without_padding(sizes: tf.Tensor, nodes: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    return tf.where(nodes < 2 * lengths - 1, sizes, 0)


_SHAPES: dict[str, Callable[[tf.Tensor], _Sizes]] = {
    "balanced": _balanced,
    "left": _left,
    "right": _right,
}
