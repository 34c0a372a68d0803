"""Text as readers, data types and layers all take it: UTF-8, lower case, labels, columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

# Turkish, Azerbaijani and Lithuanian have their own rules for these letters, next to I and J.
_OF_SOME_LANGUAGES = ("\u00cc", "\u00cd", "\u0128", "\u012e", "\u0130")

# Tells a label from a word, where it is not known whether brackets begin with labels.
#
# `(hello (world .))` may be two words and a full stop, or a word below two labels. Readers and
# layers that are not told which it is take a bracket's first word for its label only if all labels
# of the tree are `CASED_LABEL`, and either all are `KNOWN_LABEL`, or one is `SURE_LABEL` and a
# labeled bracket holds two brackets or more. Patterns are for Python's `re` and for TensorFlow
# alike.

# ASCII without lower-case letters: words in scripts that have no case are not labels.
CASED_LABEL = "[!-`{-~]+"
# Of the Penn Treebank: functions and numbers, as in NP-SBJ-1=2; then what programs add, as in NP|,
# NP+NN and NP^S.
_FUNCTIONS = (
    "(?:[-=](?:ADV|NOM|DTV|LGS|PRD|PUT|SBJ|TPC|VOC|BNF|DIR|EXT|LOC|MNR|PRP|TMP|CLR|CLF|HLN|TTL|UNF|"
    "ETC|IMP|SEZ|NADV|[0-9]+))*(?:[|+^].*)?"
)
# Labels of the Penn Treebank, OntoNotes, the English Web Treebank and Universal Dependencies that
# are not English words.
SURE_LABEL = (
    "(?:VROOT|S1|S|SBAR|SBARQ|SINV|SQ|ADJP|ADVP|CONJP|FRAG|INTJ|LST|NAC|NML|NP|NX|PP|PRN|PRT|QP|"
    "RRC|UCP|VP|WHADJP|WHADVP|WHNP|WHPP|CC|DT|FW|JJ|JJR|JJS|NN|NNS|NNP|NNPS|PDT|PRP|PRP\\$|RB|RBR|"
    "RBS|RP|SYM|VB|VBD|VBG|VBN|VBP|VBZ|WDT|WP|WP\\$|WRB|HYPH|NFP|AFX|AUXG|"
    f"ADJ|ADP|CCONJ|DET|PRON|PROPN|PUNCT|SCONJ){_FUNCTIONS}"
)
# Those, those that may be words, punctuation, and digits, as in the Stanford Sentiment Treebank.
KNOWN_LABEL = (
    f"{SURE_LABEL}|(?:ROOT|TOP|META|EDITED|EMBED|TYPO|UNK|X|XX|CD|EX|IN|LS|MD|POS|TO|UH|ADD|GW|"
    f"ADV|AUX|NOUN|NUM|PART|VERB){_FUNCTIONS}|"
    "[0-9]|[.,:$#\"]|''|``|-LRB-|-RRB-|-LCB-|-RCB-|-LSB-|-RSB-|-NONE-|-DFL-"
)


# The columns of CoNLL-U, by their names in a `DependencyTree`; "id" has none there.
CONLLU_COLUMNS = (
    "id",
    "words",
    "lemmas",
    "upos",
    "xpos",
    "feats",
    "heads",
    "relations",
    "deps",
    "misc",
)
UNKNOWN_VALUE = "_"  # of a column

# Why a text is not `is_utf8`, for an error, after the text.
NOT_UTF8 = (
    "which contains an unpaired surrogate, half a character. Replace it: "
    "text.encode(errors='replace').decode()"
)


def is_utf8(text: str) -> bool:
    """Whether a text contains no unpaired surrogate, half a character, as escapes in JSON may."""
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        return False
    return True


def lower_case(text: tf.Tensor) -> tf.Tensor:
    """Text in lower case, in the same way on every machine.

    `tf.strings.lower` follows the language that the environment names (LANG): with `tr_TR.UTF-8`,
    "It" becomes a word that begins with a dotless i, which no vocabulary has. Therefore letters
    that languages differ about come first.

    Args:
        text: UTF-8, of any shape.
    """
    text = tf.strings.lower(text)  # only A to Z
    for letter in _OF_SOME_LANGUAGES:
        text = tf.strings.regex_replace(text, letter, letter.lower())
    return tf.strings.lower(text, encoding="utf-8")


def word_table(words: Sequence[str]) -> tf.lookup.StaticHashTable:
    """The table from words to numbers, as in `kerasrec.datasets.Vocabulary`.

    They are 2, 3, ...; 0 for "", which stands for no word, and 1 for all others.
    """
    with tf.init_scope():
        numbers = [0, *range(2, len(words) + 2)]
        pairs = tf.lookup.KeyValueTensorInitializer(["", *words], numbers, value_dtype=tf.int32)
        return tf.lookup.StaticHashTable(pairs, default_value=1)


def checked_has_labels(has_labels: object, asked_by: str) -> bool | None:
    """Returns the argument `has_labels` as a bool or None.

    Args:
        has_labels: The argument.
        asked_by: The name of the function or the layer, for the error.

    Raises:
        ValueError: If it is something else.
    """
    if not (has_labels is None or isinstance(has_labels, bool | np.bool_)):
        raise ValueError(
            f"`has_labels` of {asked_by} must be True, False or None, received {has_labels!r}."
        )
    return None if has_labels is None else bool(has_labels)
