"""The common part of layers that read text: their input, and words or their numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import keras
import numpy as np
import tensorflow as tf

from kerasrec._src.errors import SentenceFirst
from kerasrec._src.layers.held import plain
from kerasrec._src.private import in_symbolic_scope
from kerasrec._src.text import is_utf8, lower_case


class KnownWords(Protocol):
    """The part of a `kerasrec.datasets.Vocabulary` that layers read."""

    words: list[str]
    lowercase: bool


class TextLayer(keras.layers.Layer):
    """Base class of the layers from text to trees.

    Args:
        vocabulary: The argument of `BracketedText`.
        lowercase: The argument of `BracketedText`.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.
    """

    # The number of slots for children; None if it differs between batches.
    arity: int | None

    def __init__(
        self,
        vocabulary: KnownWords | Iterable[str] | None = None,
        lowercase: bool | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        of_vocabulary = getattr(vocabulary, "lowercase", True)
        self.lowercase = bool(of_vocabulary if lowercase is None else lowercase)
        known = getattr(vocabulary, "words", None)
        words = vocabulary if known is None else known[2:]
        if isinstance(words, str) or not isinstance(words, Iterable | None):
            raise ValueError(
                f"`vocabulary` of {self.name} must be a kerasrec.datasets.Vocabulary, or a list of "
                f"words, received {vocabulary!r}."
            )
        self.vocabulary = None if words is None else self._listed(words)
        self.supports_jit = False  # XLA takes no text.
        self._table = None if self.vocabulary is None else _table(self.vocabulary)

    def _listed(self, vocabulary: Iterable[Any]) -> list[str]:
        words = [str(word) if isinstance(word, np.str_) else word for word in vocabulary]
        wrong = [word for word in words if not (isinstance(word, str) and word and is_utf8(word))]
        if wrong:
            raise ValueError(
                f"`vocabulary` of {self.name} holds {wrong[0]!r}; expected words, text that is not "
                "empty and contains no unpaired surrogate. The numbers 0, of no word, and 1, of "
                "unknown words, are added to it."
            )
        if self.lowercase:
            words = [word.lower() for word in words]
        if len(set(words)) < len(words):
            twice = next(word for word in words if words.count(word) > 1)
            raise ValueError(
                f"`vocabulary` of {self.name} holds {twice!r} twice (lowercase={self.lowercase}). "
                "Pass each word once."
            )
        return words

    def __call__(self, text: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls the layer: `layer(text)`."""
        if isinstance(text, str | bytes | list | tuple | np.ndarray):
            try:
                text = tf.convert_to_tensor(text, tf.string)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"`text` of {self.name} must be a list of texts, received {text!r}."
                ) from error
        with SentenceFirst():
            return super().__call__(text, *args, **kwargs)

    def call(self, text: Any) -> tuple[Any, Any]:
        """Reads texts; see the class."""
        if in_symbolic_scope() and text.dtype != tf.string:
            text = tf.as_string(text)  # As Keras builds a model of one's own, to load it.
        self._check(text)
        if text.shape.rank == 2:
            text = tf.squeeze(text, 1)
        with tf.device("/CPU:0"):  # Text never leaves it, and its integers need not.
            words, children = self.trees_of(text)
        words.set_shape([text.shape[0], None])
        children.set_shape([text.shape[0], None, self.arity])
        if self.lowercase:
            words = lower_case(words)
        return words if self._table is None else self._table.lookup(words), children

    def trees_of(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns words, string `[batch, nodes]`, and children, int32 `[batch, nodes, arity]`.

        Args:
            text: The texts, string `[batch]`.
        """
        raise NotImplementedError

    def _check(self, text: Any) -> None:
        shape = tuple(text.shape)
        if text.dtype != "string" or not (len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)):
            raise ValueError(
                f"`text` of {self.name} must be a text for each tree, string [batch] or [batch, "
                f"1], received {keras.backend.standardize_dtype(text.dtype)} of shape {shape}. "
                "Give the Keras Input dtype='string' and the shape () or (1,)."
            )

    def compute_output_shape(self, text_shape: Any) -> Any:
        """Returns the shapes of words and children."""
        return (text_shape[0], None), (text_shape[0], None, self.arity)

    def compute_output_spec(self, text: Any) -> Any:
        """Returns symbolic words and children."""
        self._check(text)
        words, children = self.compute_output_shape(text.shape)
        dtype = "string" if self._table is None else "int32"
        return keras.KerasTensor(words, dtype), keras.KerasTensor(children, "int32")

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor arguments, as Keras saves them."""
        config = super().get_config()
        return {**config, "vocabulary": plain(self.vocabulary), "lowercase": self.lowercase}


def _table(words: list[str]) -> tf.lookup.StaticHashTable:
    """The table from words to numbers, as in `kerasrec.datasets.Vocabulary`; 1 if unknown."""
    with tf.init_scope():
        numbers = [0, *range(2, len(words) + 2)]
        pairs = tf.lookup.KeyValueTensorInitializer(["", *words], numbers, value_dtype=tf.int32)
        return tf.lookup.StaticHashTable(pairs, default_value=1)
