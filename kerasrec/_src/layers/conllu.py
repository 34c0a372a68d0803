"""From texts in CoNLL-U to words, other columns and children, with TensorFlow's ops.

Texts are split into lines, and lines into columns, which are checked. The number of a word in
preorder is a sum over the words from the root down to it: of one, and of the sizes of the trees of
their earlier siblings. Sums along heads take in twice as many levels in each step as in the one
before, so no loop runs over words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import tensorflow as tf

from kerasrec._src.layers.text_nodes import at_nodes, children_of, fail, first_in_group
from kerasrec._src.text import CONLLU_COLUMNS, UNKNOWN_VALUE

_BLANK = "[ \t\x0b\x0c]*"  # a line that ends a sentence
# A line that holds nothing, though it may end no sentence: white space of `str.strip`.
_WHITE = "[\\s\x0b\x1c-\x1f\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*"
_TOO_LARGE = 10**9  # stands for itself and all larger numbers
_WORD, _LEMMA, _HEAD = map(CONLLU_COLUMNS.index, ("words", "lemmas", "heads"))

# The wrong lines, the message, and the text of each line that replaces {} in it.
_Reason = tuple[tf.Tensor, str, Sequence[tf.Tensor]]


def parse_conllu(
    texts: tf.Tensor, columns: Sequence[str], arity: int | None
) -> tuple[tf.Tensor, ...]:
    """Reads a batch of sentences.

    Args:
        texts: The texts, string `[batch]`, in UTF-8.
        columns: Names of `CONLLU_COLUMNS`.
        arity: The largest number of dependents of a word; None for as many as there are.

    Returns:
        The columns, string `[batch, nodes]`, "" for none; the place of each word in its sentence,
        int32 `[batch, nodes]`, -1 for none; and the children, int32 `[batch, nodes, arity]`, -1 for
        none.

    Raises:
        tf.errors.InvalidArgumentError: If a text is not one sentence; the message names the text,
            the line and the reason.
    """
    lines = _lines_of(texts)
    with tf.control_dependencies([_check_lines(lines)]):
        words = _words_of(lines)
        sizes, above = _sums(words, tf.ones_like(words.rows), to_heads=True)
    with tf.control_dependencies([_check_words(words, above, arity)]):
        numbers, slots = _numbers_and_slots(words, tf.identity(sizes))
        size = tf.size(texts, tf.int64), tf.reduce_max(tf.concat([[1], words.lengths], 0))
        children = children_of(words.rows, numbers, words.heads, slots, size, arity)
        texts_at_nodes = [
            at_nodes(words.column(name), words.rows, numbers, size) for name in columns
        ]
        positions = tf.tensor_scatter_nd_update(
            tf.fill(tf.stack(size), -1),
            tf.stack([words.rows, numbers], 1),
            tf.cast(words.everyone - words.starts, tf.int32),
        )
        return (*texts_at_nodes, positions, children)


@dataclass(frozen=True)
class _Parts:
    """Parts of a batch of texts, one text after another.

    Args:
        rows: The text of each part, int64 `[parts]`.
        lengths: The number of parts of each text, int64 `[batch]`.
        cells: The columns of each part, string `[parts, 10]`.
    """

    rows: tf.Tensor
    lengths: tf.Tensor
    cells: tf.Tensor

    @property
    def everyone(self) -> tf.Tensor:
        """The places of the parts, int64 `[parts]`: 0, 1, ..."""
        return tf.range(tf.size(self.rows, tf.int64))

    @property
    def starts(self) -> tf.Tensor:
        """The place of the first part of each part's text, int64 `[parts]`."""
        return tf.gather(tf.cumsum(self.lengths, exclusive=True), self.rows)

    def before(self, is_counted: tf.Tensor) -> tf.Tensor:
        """The number of some parts, bool `[parts]`, before each in its text, int64 `[parts]`."""
        counts = tf.cumsum(tf.cast(is_counted, tf.int64), exclusive=True)
        return counts - tf.gather(counts, self.starts)

    def count(self, is_counted: tf.Tensor) -> tf.Tensor:
        """The number of some parts, bool `[parts]`, in each text, int64 `[batch]`."""
        counts, size = tf.cast(is_counted, tf.int64), tf.size(self.lengths, tf.int64)
        return tf.math.unsorted_segment_sum(counts, self.rows, size)

    def in_same_text(self, is_counted: tf.Tensor) -> tf.Tensor:
        """The number of some parts, bool `[parts]`, in the text of each one, int64 `[parts]`."""
        return tf.gather(self.count(is_counted), self.rows)


@dataclass(frozen=True)
class _Lines(_Parts):
    """The lines of a batch of texts.

    Args:
        num_columns: The number of columns of each line, int64 `[lines]`.
        is_blank: Whether each line is a blank line, bool `[lines]`.
        is_token: Whether it is that of a multiword token, bool `[lines]`.
        is_empty: Whether it is that of an empty node, bool `[lines]`.
        is_word: Whether it is that of a word, or should be, bool `[lines]`.
    """

    num_columns: tf.Tensor
    is_blank: tf.Tensor
    is_token: tf.Tensor
    is_empty: tf.Tensor
    is_word: tf.Tensor

    @property
    def numbers(self) -> tf.Tensor:
        """The numbers of lines in their texts, from 1, int64 `[lines]`."""
        return self.everyone - self.starts + 1


def _lines_of(texts: tf.Tensor) -> _Lines:
    normal = tf.strings.regex_replace(texts, "^\ufeff", "")
    normal = tf.strings.regex_replace(normal, "\r\n|\r", "\n")
    ragged = tf.strings.split(tf.strings.join([normal, "\n"]), "\n")
    cells = tf.strings.split(ragged.values, "\t")
    table = cells.to_tensor("", shape=[None, len(CONLLU_COLUMNS)])
    is_white, is_blank, is_hash = (
        tf.strings.regex_full_match(ragged.values, pattern) for pattern in (_WHITE, _BLANK, "#.*")
    )
    is_token, is_empty = (
        tf.strings.regex_full_match(table[:, 0], pattern)
        for pattern in ("[0-9]+-[0-9]+", "[0-9]+[.][0-9]+")
    )
    lines = _Lines(
        ragged.value_rowids(),
        ragged.row_lengths(),
        table,
        cells.row_lengths(),
        is_blank,
        is_token,
        is_empty,
        is_word=~(is_white | is_token | is_empty),
    )
    is_comment = is_hash & (lines.before(lines.is_word & ~is_hash) == 0)
    return replace(lines, is_word=lines.is_word & ~is_comment)


def _number(digits: tf.Tensor) -> tf.Tensor:
    """The numbers that digits stand for, int64; `_TOO_LARGE` if large, or for other texts."""
    digits = tf.strings.regex_replace(digits, "^0+([0-9])", r"\1")
    is_small = tf.strings.regex_full_match(digits, "[0-9]{1,9}")
    return tf.strings.to_number(tf.where(is_small, digits, str(_TOO_LARGE)), tf.int64)


def _check(rows: tf.Tensor, numbers: tf.Tensor, reasons: Sequence[_Reason]) -> tf.Tensor:
    """Raises InvalidArgumentError, when the graph runs, with the first wrong line and the reason.

    Args:
        rows: The text of each line, int64 `[lines]`.
        numbers: The number of each line in its text, from 1, int64 `[lines]`.
        reasons: The possible problems of a line.

    Returns:
        True, a tensor on which every op that needs the check must depend.
    """
    wrong = tf.stack([is_wrong for is_wrong, _, _ in reasons], 1)

    def failed() -> tf.Tensor:
        line, which = tf.unstack(tf.where(wrong)[0])
        sentences = []
        for _, sentence, values in reasons:
            first, *rest = sentence.split("{}")
            pairs = zip(values, rest, strict=True)
            parts = [(_as_text(value[line]), after) for value, after in pairs]
            sentences.append(tf.strings.join([first, *(part for pair in parts for part in pair)]))
        place = ["`text[", _as_text(rows[line]), "]`, line ", _as_text(numbers[line]), ": "]
        return fail(*place, tf.stack(sentences)[which])

    return tf.cond(tf.reduce_any(wrong), failed, lambda: tf.constant(True))


def _as_text(value: tf.Tensor) -> tf.Tensor:
    return value if value.dtype == tf.string else tf.strings.as_string(value)


def _check_lines(lines: _Lines) -> tf.Tensor:
    """Raises InvalidArgumentError, when the graph runs, if a line is wrong as it stands."""
    ids, forms, heads = (lines.cells[:, column] for column in (0, _WORD, _HEAD))
    expected = lines.before(lines.is_word) + 1
    num_words = lines.in_same_text(lines.is_word)
    first = _number(tf.strings.regex_replace(ids, "[-.].*", ""))
    last = _number(tf.strings.regex_replace(ids, ".*-", ""))
    # The last word of the multiword token before each one in its text, 0 for none.
    tokens = tf.where(lines.is_token)[:, 0]
    has_former = tf.gather(lines.before(lines.is_token), tokens) > 0
    covered = tf.where(has_former, tf.roll(tf.gather(last, tokens), 1, 0), 0)
    covered = tf.scatter_nd(tokens[:, tf.newaxis], covered, tf.shape(ids, tf.int64))
    is_read = lines.is_word | lines.is_token | lines.is_empty
    is_second = (
        ~lines.is_blank & tf.roll(lines.is_blank, 1, 0) & (lines.before(~lines.is_blank) > 0)
    )
    reasons: list[_Reason] = [
        (is_second, "a second sentence; expected one. Split texts at blank lines.", []),
        (
            is_read & (lines.num_columns != len(CONLLU_COLUMNS)),
            f"{{}} column(s); expected {len(CONLLU_COLUMNS)}, separated by tabs.",
            [lines.num_columns],
        ),
        (is_read & (forms == ""), "column 2, the word, is empty.", []),
        (
            lines.is_token & ((first != expected) | (last <= first)),
            "id `{}` of a multiword token; expected it before its first word, here `{}-` and a "
            "later word.",
            [ids, expected],
        ),
        (
            lines.is_token & (first <= covered),
            "id `{}` of a multiword token; word {} is part of one that ends with word {} already.",
            [ids, first, covered],
        ),
        (
            lines.is_empty & (first != expected - 1),
            "id `{}` of an empty node; expected `{}.1`.",
            [ids, expected - 1],
        ),
        (
            lines.is_word & (ids != tf.strings.as_string(expected)),
            "id `{}`; expected {}, the words counted from 1.",
            [ids, expected],
        ),
        (
            lines.is_word & ~tf.strings.regex_full_match(heads, "[0-9]+"),
            "head `{}` (column 7); expected the id of a word, or 0 for the root.",
            [heads],
        ),
    ]
    is_wrong = tf.reduce_any([is_wrong for is_wrong, _, _ in reasons], 0)
    is_good = lines.in_same_text(is_wrong) == 0
    reasons += [
        (
            is_good & lines.is_token & (last > num_words),
            "id `{}` of a multiword token; the sentence has {} word(s).",
            [ids, num_words],
        ),
        (
            is_good & (num_words == 0) & (lines.numbers == 1),
            "no sentence; expected a line of ten columns for each word.",
            [],
        ),
    ]
    return _check(lines.rows, lines.numbers, reasons)


@dataclass(frozen=True)
class _Words(_Parts):
    """The words of a batch of texts.

    Args:
        lines: The number of each word's line in its text, from 1, int64 `[words]`.
    """

    lines: tf.Tensor

    @property
    def head_ids(self) -> tf.Tensor:
        """The heads as texts have them, int64 `[words]`: counted from 1, 0 for the root's."""
        return _number(self.cells[:, _HEAD])

    @property
    def heads(self) -> tf.Tensor:
        """The place of each word's head, int64 `[words]`; the number of all words for none."""
        ids = self.head_ids
        has_head = (ids > 0) & (ids <= tf.gather(self.lengths, self.rows))
        return tf.where(has_head, self.starts + ids - 1, tf.size(self.rows, tf.int64))

    def column(self, name: str) -> tf.Tensor:
        """A column, string `[words]`, "" for an unknown value, as `DependencyTree` has it."""
        column = CONLLU_COLUMNS.index(name)
        values = self.cells[:, column]
        is_unknown = (values == UNKNOWN_VALUE) & (column != _WORD)
        if column == _LEMMA:
            is_unknown &= self.cells[:, _WORD] != UNKNOWN_VALUE
        return tf.where(is_unknown, "", values)


def _words_of(lines: _Lines) -> _Words:
    places = tf.where(lines.is_word)[:, 0]
    rows, cells, numbers = (
        tf.gather(values, places) for values in (lines.rows, lines.cells, lines.numbers)
    )
    return _Words(rows, lines.count(lines.is_word), cells, numbers)


def _sums(words: _Words, values: tf.Tensor, to_heads: bool) -> tuple[tf.Tensor, tf.Tensor]:
    """Sums over words that are above each other.

    Args:
        words: The words.
        values: A number for each word, int64 `[words]`.
        to_heads: Whether the sum of a word is over itself and all words below it; otherwise over
            itself and all words above it.

    Returns:
        The sums, int64 `[words]`; and for each word the one that is more levels above it than a
        tree can have, int64 `[words]`: on a cycle, or the number of all words if there is none.
    """
    size = tf.size(words.rows, tf.int64)
    is_there = tf.cast(tf.range(size + 1) < size, tf.int64)

    def step(levels: tf.Tensor, above: tf.Tensor, sums: tf.Tensor) -> list[tf.Tensor]:
        added = (
            tf.math.unsorted_segment_sum(sums, above, size + 1)
            if to_heads
            else tf.gather(sums, above)
        )
        return [2 * levels, tf.gather(above, above), (sums + added) * is_there]

    most = tf.reduce_max(tf.concat([[0], words.lengths], 0))
    _, above, sums = tf.while_loop(
        lambda levels, above, sums: levels <= most,
        step,
        [
            tf.constant(1, tf.int64),
            tf.concat([words.heads, [size]], 0),
            tf.concat([values, [0]], 0),
        ],
    )
    return sums[:-1], above[:-1]


def _check_words(words: _Words, above: tf.Tensor, arity: int | None) -> tf.Tensor:
    """Raises InvalidArgumentError, when the graph runs, if heads do not form trees.

    Args:
        words: The words.
        above: The second result of `_sums`.
        arity: The largest number of dependents of a word; None for any number.
    """
    size, ids, forms = tf.size(words.rows, tf.int64), words.cells[:, 0], words.cells[:, _WORD]
    lengths = tf.gather(words.lengths, words.rows)
    is_root, is_outside = words.head_ids == 0, words.head_ids > lengths
    is_inside = words.in_same_text(is_outside) == 0
    has_root = words.in_same_text(is_root) > 0
    num_above = tf.math.unsorted_segment_sum(tf.ones_like(above), above, size + 1)
    is_on_cycle = (num_above[:-1] > 0) & is_inside & (words.in_same_text(is_root) == 1)
    reasons: list[_Reason] = [
        (
            is_outside,
            "the head of word {} `{}` is {}, out of range; expected 1 to {}, or 0 for the root.",
            [ids, forms, words.cells[:, _HEAD], lengths],
        ),
        (
            is_inside & ~has_root & (words.everyone == words.starts),
            "no word is the root; expected one whose head is 0.",
            [],
        ),
        (
            is_inside & is_root & (words.before(is_root) > 0),
            "word {} `{}` is another root; expected one word whose head is 0.",
            [ids, forms],
        ),
        (
            is_on_cycle,
            "the heads of word {} `{}` and of words above it form a cycle; expected every word to "
            "lead to the root.",
            [ids, forms],
        ),
    ]
    if arity is not None:
        counts = tf.math.unsorted_segment_sum(tf.ones_like(above), words.heads, size + 1)[:-1]
        advice = (
            f"word {{}} `{{}}` has {{}} dependents, more than arity={arity}. Give a larger `arity` "
            "here and to the tree layer, or take ChildSumTreeLSTM, for any number of children, and "
            "arity=None."
        )
        reasons.append((counts > arity, advice, [ids, forms, counts]))
    return _check(words.rows, words.lines, reasons)


def _numbers_and_slots(words: _Words, sizes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Numbers words in preorder, and the dependents of each word in the order of the sentence.

    Args:
        words: The words.
        sizes: The number of words of the tree below each word, itself included, int64 `[words]`.

    Returns:
        The number of each word in its tree, and its place among the dependents of its head, both
        int64 `[words]`.
    """
    size, heads = tf.size(words.rows, tf.int64), words.heads
    order = tf.argsort(heads * (size + 1) + words.everyone)
    eldest = first_in_group(tf.gather(heads, order))
    before = tf.cumsum(tf.gather(sizes, order), exclusive=True)
    earlier = before - tf.gather(before, eldest)
    steps_and_slots = tf.stack([earlier + 1, words.everyone - eldest], 1)
    steps, slots = tf.unstack(
        tf.scatter_nd(order[:, tf.newaxis], steps_and_slots, tf.stack([tf.size(order), 2])), axis=1
    )
    numbers, _ = _sums(words, tf.where(heads < size, steps, 0), to_heads=False)
    return numbers, slots
