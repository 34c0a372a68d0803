"""Brackets and words of bracketed texts, and what is wrong with them, by ops of the graph."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from kerasrec.errors import WITHOUT_FRAMES

SPACE = "[ \t\r\n]+"
SHOWN = 30  # characters of a text in a message


@dataclass(frozen=True)
class BracketTokens:
    """The brackets and words of a batch of texts, one text behind the other.

    Args:
        texts: string `[batch]`, as they were passed.
        tokens: string `[tokens]`: `(`, `)` or a word.
        rows: int64 `[tokens]`, the text of each token.
        starts: int64 `[batch]`, the first token of each text.
        is_open, is_close: bool `[tokens]`.
        depth: int64 `[tokens]`, how many brackets are open behind each token.
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
        """Bool `[tokens]`."""
        return ~(self.is_open | self.is_close)

    @property
    def places(self) -> tf.Tensor:
        """int64 `[tokens]`: 0, 1, ..."""
        return tf.range(tf.size(self.tokens, tf.int64))

    @property
    def is_first(self) -> tf.Tensor:
        """Bool `[tokens]`, whether a token is the first of its text."""
        return self.places == tf.gather(self.starts, self.rows)

    def has_before(self, is_token: tf.Tensor) -> tf.Tensor:
        """Whether a token of a kind, bool `[tokens]`, stands before each one, in the same text."""
        return tf.concat([[False], is_token], 0)[:-1] & ~self.is_first

    def has_after(self, is_token: tf.Tensor) -> tf.Tensor:
        """Whether a token of a kind, bool `[tokens]`, stands behind each one, in the same text."""
        return tf.concat([is_token & ~self.is_first, [False]], 0)[1:]


def tokens_of(texts: tf.Tensor) -> BracketTokens:
    """Splits texts at brackets and ASCII white space alone, since some words hold U+00A0.

    Args:
        texts: string `[batch]`.
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
        texts: string `[batch]`.

    Returns:
        True, for which whatever needs the check must wait.
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
        found: the tokens.
        has_labels: whether each bracket has a label; otherwise a text may also be one word.

    Returns:
        True, for which whatever needs the check must wait.
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
    """Raises InvalidArgumentError, when the graph runs, that names a text and a place in it.

    Args:
        found: the tokens.
        place: int64 scalar, of a token.
        reason: string scalar, what is wrong with it.
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
        *parts: of the message, strings.
    """
    message = tf.strings.join(parts)
    failure = tf.raw_ops.Assert(condition=False, data=[message], name=WITHOUT_FRAMES)
    with tf.control_dependencies([] if failure is None else [failure]):
        return tf.constant(False)
