"""Finds brackets and words in texts, and what is wrong with them, with TensorFlow's ops."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from kerasrec._src.errors import WITHOUT_FRAMES

SPACE = "[ \t\r\n]+"
SHOWN = 30  # characters of a text in a message


@dataclass(frozen=True)
class BracketTokens:
    """The brackets and words of a batch of texts, one text after another.

    Args:
        texts: The texts as they were passed, string `[batch]`.
        tokens: The tokens, string `[tokens]`: `(`, `)` or a word.
        rows: The text of each token, int64 `[tokens]`.
        starts: The first token of each text, int64 `[batch]`.
        is_open, is_close: Whether a token is an opening or a closing bracket, bool `[tokens]`.
        depth: The number of brackets that are open after each token, int64 `[tokens]`.
    """

    texts: tf.Tensor
    tokens: tf.Tensor
    rows: tf.Tensor
    starts: tf.Tensor
    is_open: tf.Tensor
    is_close: tf.Tensor
    depth: tf.Tensor

    @property
    def is_word(self) -> tf.Tensor:
        """Whether each token is a word, bool `[tokens]`."""
        return ~(self.is_open | self.is_close)

    @property
    def places(self) -> tf.Tensor:
        """The places of the tokens, int64 `[tokens]`: 0, 1, ..."""
        return tf.range(tf.size(self.tokens, tf.int64))

    @property
    def is_first(self) -> tf.Tensor:
        """Whether each token is the first of its text, bool `[tokens]`."""
        return self.places == tf.gather(self.starts, self.rows)

    def has_before(self, is_token: tf.Tensor) -> tf.Tensor:
        """Whether one of these tokens, bool `[tokens]`, is right before each token in its text."""
        return tf.concat([[False], is_token], 0)[:-1] & ~self.is_first

    def has_after(self, is_token: tf.Tensor) -> tf.Tensor:
        """Whether one of these tokens, bool `[tokens]`, is right after each token in its text."""
        return tf.concat([is_token & ~self.is_first, [False]], 0)[1:]


def tokens_of(texts: tf.Tensor) -> BracketTokens:
    """Splits texts at brackets and ASCII white space only, since some words contain U+00A0.

    Args:
        texts: The texts, string `[batch]`.
    """
    spaced = tf.strings.regex_replace(texts, SPACE, " ")
    pieces = tf.strings.split(tf.strings.regex_replace(spaced, "([()])", r" \1 "), " ")
    ragged = tf.ragged.boolean_mask(pieces, tf.not_equal(pieces, ""))
    tokens, rows, starts = ragged.values, ragged.value_rowids(), ragged.row_starts()
    is_open, is_close = tokens == "(", tokens == ")"
    steps = tf.cast(is_open, tf.int64) - tf.cast(is_close, tf.int64)
    before = tf.concat([tf.zeros([1], tf.int64), tf.cumsum(steps)], 0)
    depth = before[1:] - tf.gather(tf.gather(before, starts), rows)
    return BracketTokens(texts, tokens, rows, starts, is_open, is_close, depth)


def check_utf8(texts: tf.Tensor) -> tf.Tensor:
    """Raises InvalidArgumentError, when the graph runs, for bytes that are not UTF-8.

    Args:
        texts: The texts, string `[batch]`.

    Returns:
        True, a tensor on which every op that needs the check must depend.
    """
    decoded = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
    wrong = decoded != texts

    def failed() -> tf.Tensor:
        number = tf.where(wrong)[0, 0]
        return fail("`text[", tf.strings.as_string(number), "]` has bytes that are not UTF-8.")

    return tf.cond(tf.reduce_any(wrong), failed, lambda: tf.constant(True))


def check_brackets(found: BracketTokens, has_labels: bool) -> tf.Tensor:
    """Raises InvalidArgumentError, when the graph runs, unless each text is one bracket.

    Args:
        found: The tokens.
        has_labels: Whether each bracket has a label; otherwise a text may also be one word.

    Returns:
        True, a tensor on which every op that needs the check must depend.
    """
    steps = tf.cast(found.is_open, tf.int64) - tf.cast(found.is_close, tf.int64)
    is_later = ~found.is_first & (found.depth <= steps)  # All brackets before it are closed.
    is_word_first = found.is_first & found.is_word & has_labels
    reasons = {
        "`)` without its `(`.": found.depth < 0,
        "text after the tree; expected one tree in one bracket.": is_later,
        "text before the tree; expected one tree, which begins with `(`.": is_word_first,
    }
    problems = tf.zeros_like(found.rows)
    for number, is_such in enumerate(reversed(reasons.values())):
        problems = tf.where(is_such, len(reasons) - tf.constant(number, tf.int64), problems)
    ends = tf.concat([found.starts[1:], [tf.size(found.tokens, tf.int64)]], 0)
    is_empty = found.starts == ends
    last = tf.where(
        is_empty,
        tf.constant(0, tf.int64),
        tf.gather(tf.concat([tf.zeros([1], tf.int64), found.depth], 0), ends),
    )
    is_wrong_token = problems > 0
    num_wrong = tf.math.unsorted_segment_sum(
        tf.cast(is_wrong_token, tf.int64), found.rows, tf.size(found.texts, tf.int64)
    )
    is_wrong = is_empty | (num_wrong > 0) | (last > 0)

    def failed() -> tf.Tensor:
        row = tf.where(is_wrong)[0, 0]
        places = tf.boolean_mask(found.places, is_wrong_token & (found.rows == row))
        name = tf.strings.join(["`text[", tf.strings.as_string(row), "]`"])

        def of_row() -> tf.Tensor:
            unclosed = tf.strings.join(
                [" ends while ", tf.strings.as_string(last[row]), " `(` are not closed."]
            )
            nothing = " holds no tree; expected one, such as `(3 (2 a) (4 film))`."
            return fail(name, tf.where(is_empty[row], nothing, unclosed))

        def of_token() -> tf.Tensor:
            return fail_at(found, places[0], tf.gather(list(reasons), problems[places[0]] - 1))

        return tf.cond(tf.size(places) == 0, of_row, of_token)

    return tf.cond(tf.reduce_any(is_wrong), failed, lambda: tf.constant(True))


def fail_at(found: BracketTokens, place: tf.Tensor, reason: tf.Tensor) -> tf.Tensor:
    """Raises InvalidArgumentError, when the graph runs, with the text and the place of the fault.

    Args:
        found: The tokens.
        place: The place of a token, an int64 scalar.
        reason: What is wrong with it, a string scalar.
    """
    row = found.rows[place]
    characters = tf.strings.unicode_split(found.texts[row], "UTF-8")
    is_bracket = (characters == "(") | (characters == ")")
    is_between = is_bracket | tf.strings.regex_full_match(characters, SPACE)
    begins_word = ~is_between & tf.concat([[True], is_between], 0)[:-1]
    character = tf.where(is_bracket | begins_word)[place - found.starts[row], 0]
    rest = tf.strings.reduce_join(characters[character : character + SHOWN])
    is_cut = tf.size(characters, tf.int64) > character + SHOWN
    return fail(
        "`text[",
        tf.strings.as_string(row),
        "]` has at character ",
        tf.strings.as_string(character + 1),
        ", `",
        tf.strings.regex_replace(rest, SPACE, " "),
        tf.where(is_cut, " ...", ""),
        "`: ",
        reason,
    )


def fail(*parts: tf.Tensor | str) -> tf.Tensor:
    """Raises InvalidArgumentError when the graph runs.

    Args:
        *parts: The parts of the message, as strings.
    """
    message = tf.strings.join(parts)
    failure = tf.raw_ops.Assert(condition=False, data=[message], name=WITHOUT_FRAMES)
    with tf.control_dependencies([] if failure is None else [failure]):
        return tf.constant(False)
