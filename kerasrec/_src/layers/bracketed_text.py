"""`BracketedText`: from bracketed text to words and children."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.layers.brackets import parse_brackets
from kerasrec._src.layers.text_layer import KnownWords, TextLayer
from kerasrec._src.text import checked_has_labels


@keras.saving.register_keras_serializable("kerasrec")
class BracketedText(TextLayer):
    r"""Reads trees in brackets, `(3 (2 a) (4 film))`, so that a model can take text.

    The layer does for trees what `keras.layers.TextVectorization` does for sentences. Its words and
    children are those of `kerasrec.datasets.encode_tree`: tree nodes in preorder, the root at node
    0, padding last. It uses stock TensorFlow ops and reads all texts of a batch at once, so an
    exported model needs neither Python nor kerasrec to read text.

    Words are separated only by the ASCII space, tab and line break, since some of SST's words
    contain U+00A0. `\/` and `\*` are escapes, and `-LRB-` and `-RRB-` are words, as in the files
    that `kerasrec.datasets.read_treebank` and `read_brackets` read.

    Args:
        arity: The largest number of children of a tree node, an int: the arity of the tree layer.
            None for as many as a batch has, which `ChildSumTreeLSTM` accepts.
        vocabulary: A `kerasrec.datasets.Vocabulary`, or a list of words, which get the numbers 2,
            3, ...; 0 is no word and 1 an unknown word. By default words stay text.
        lowercase: Whether to lowercase words; by default as in the `Vocabulary`, and True without
            one.
        has_labels: Whether each bracket begins with a label, an integer or a name such as `NP`,
            which is left out. A bracket without a label may stand around the trees: around one,
            `( (S ...))`, it is left out; around several it is the root. Without labels,
            `((a film) (works well))`, each word is a tree node, and so is each bracket around
            several. By default labels that may be words are an error, as in `(OK computer)`; see
            `kerasrec.datasets.read_brackets`. Give it for a model that is to be served.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        text: The texts, string `[batch]` or `[batch, 1]`, one tree each.

    Output shape:
        The words, string `[batch, nodes]`, `""` for none; with a `vocabulary` int32, 0 for none.
        The children, int32 `[batch, nodes, arity]`, -1 for none.

    Raises:
        ValueError: If `text` is not text or has another shape, or if `vocabulary` contains a word
            twice.
        tf.errors.InvalidArgumentError: When called with a text whose brackets do not match; with
            words beside a tree; with a tree node that is empty, has no label, has a label that may
            be a word (unless `has_labels` is given), or has too many children; with text before or
            after the tree; or with bytes that are not UTF-8. The message names the text by its
            place in the batch, from 0, and the character, from 1.

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
        has_labels: bool | None = None,
        **kwargs: Any,
    ):
        super().__init__(vocabulary, lowercase, **kwargs)
        is_number = isinstance(arity, int) and not isinstance(arity, bool) and arity > 0
        if not (arity is None or is_number):
            raise ValueError(
                f"`arity` of {self.name} must be an integer from 1, or None, received {arity!r}."
            )
        self.arity = arity
        self.has_labels = checked_has_labels(has_labels, self.name)

    def trees_of(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the words and children of each text."""
        return parse_brackets(text, self.arity, self.has_labels)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor arguments, as Keras saves them."""
        return {**super().get_config(), "arity": self.arity, "has_labels": self.has_labels}
