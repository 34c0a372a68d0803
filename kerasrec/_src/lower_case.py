"""Lower case in a graph, as Python's `str.lower` has it."""

from __future__ import annotations

import tensorflow as tf

# Turkish, Azerbaijani and Lithuanian have rules of their own for these letters, beside I and J.
_OF_SOME_LANGUAGES = ("\u00cc", "\u00cd", "\u0128", "\u012e", "\u0130")


def lower_case(text: tf.Tensor) -> tf.Tensor:
    """Text in lower case, in the same way on every machine.

    `tf.strings.lower` follows the language that the environment names (LANG): with `tr_TR.UTF-8`,
    "It" becomes a word that begins with a dotless i, which no vocabulary has. So letters that
    languages differ about come first.

    Args:
        text: UTF-8, of any shape.
    """
    text = tf.strings.lower(text)  # A to Z alone
    for letter in _OF_SOME_LANGUAGES:
        text = tf.strings.regex_replace(text, letter, letter.lower())
    return tf.strings.lower(text, encoding="utf-8")
