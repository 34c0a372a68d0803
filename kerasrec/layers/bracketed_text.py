"""`BracketedText`: text with brackets to words and children."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import keras
import tensorflow as tf

from kerasrec.layers.brackets import parse_brackets
from kerasrec.layers.text_layer import KnownWords, TextLayer


@keras.saving.register_keras_serializable("kerasrec")
class BracketedText(TextLayer):
    r"""Reads trees in brackets, `(3 (2 a) (4 film))`, so that a model takes text.

    It is to trees what `keras.layers.TextVectorization` is to sentences. Words and children are
    those that `kerasrec.datasets.encode_tree` gives: tree nodes in preorder, the root at node 0,
    padding last. The work is done by stock ops of TensorFlow, all texts of a batch at once, so an
    exported model needs neither Python nor kerasrec to read text.

    Words are separated by the ASCII space, tab and line break alone, since some of SST's hold
    U+00A0. `\/` and `\*` are escapes, `-LRB-` and `-RRB-` are words, as in the files of
    `kerasrec.datasets.read_treebank` and `read_brackets`.

    Args:
        arity: int, the most children of a tree node, that of the tree layer; None for as many as a
            batch has, which `ChildSumTreeLSTM` reads.
        vocabulary: a `kerasrec.datasets.Vocabulary`, or a list of words, which get the numbers 2,
            3, ...; 0 is no word and 1 an unknown one. By default words stay text.
        lowercase: whether words are lowercased; by default as the `Vocabulary` has it, and True
            without one.
        has_labels: whether each bracket begins with a label, an integer or a name such as `NP`,
            which is left out. A bracket without one may stand around the tree, `( (S ...))`.
            Without labels, `((a film) (works well))`, each word is a tree node, and so is each
            bracket of several.
        **kwargs: `name`, `dtype` and `trainable`, as every Keras layer takes them.

    Call arguments:
        text: string `[batch]` or `[batch, 1]`, one tree each.

    Output shape:
        Words, string `[batch, nodes]`, `""` for none; or int32, 0 for none, with a `vocabulary`.
        Children, int32 `[batch, nodes, arity]`, -1 for none.

    Raises:
        ValueError: if `text` is no text or of another shape, or `vocabulary` holds a word twice.
        tf.errors.InvalidArgumentError: when called with a text whose brackets do not match, with
            words beside a tree, an empty tree node, one without a label, or with too many children,
            with text before or behind the tree, or with bytes that are not UTF-8. It names the text
            by its place in the batch, from 0, and the character, from 1.

    Example:

    >>> layer = kerasrec.layers.BracketedText(vocabulary=["a", "film"])
    >>> words, children = layer(["(3 (2 A) (4 film))", "(2 plot)"])
    >>> print(words.numpy(), children[0].numpy(), sep="\n")
    [[0 2 3]
     [1 0 0]]
    [[ 1  2]
     [-1 -1]
     [-1 -1]]
    """

    def __init__(
        self,
        arity: int | None = 2,
        *,
        vocabulary: KnownWords | Iterable[str] | None = None,
        lowercase: bool | None = None,
        has_labels: bool = True,
        **kwargs: Any,
    ):
        super().__init__(vocabulary, lowercase, **kwargs)
        is_number = isinstance(arity, int) and not isinstance(arity, bool) and arity > 0
        if not (arity is None or is_number):
            raise ValueError(
                f"`arity` of {self.name} must be an integer from 1, or None, received {arity!r}."
            )
        self.arity = arity
        self.has_labels = has_labels

    def trees_of(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Words and children of each text."""
        return parse_brackets(text, self.arity, self.has_labels)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, as Keras saves them."""
        return {**super().get_config(), "arity": self.arity, "has_labels": self.has_labels}
