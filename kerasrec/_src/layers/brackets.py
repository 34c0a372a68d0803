"""From bracketed texts to words and children, with TensorFlow's ops.

Texts are split into brackets and words, which are checked. A tree node is a bracket, or a word that
is next to others where brackets have no labels. Nodes are sorted by depth, then by place. In this
order, the parent of a node is the last node of the level above that comes before it, and siblings
are consecutive. No loop runs over tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from kerasrec._src.layers.text_nodes import at_nodes, children_of, fail, first_in_group
from kerasrec._src.text import CASED_LABEL, KNOWN_LABEL, SURE_LABEL

_SPACE = "[ \t\r\n]+"
_SHOWN = 30  # characters of a text in a message

_EMPTY = "an empty tree node; expected a word or trees in its bracket."
_WORD_BESIDE_TREE = (
    "a tree node with a word next to a tree; expected one word, or only trees. Put the word into a "
    "labeled bracket, or, if no bracket has a label, give has_labels=False."
)
_NO_LABEL = (
    "a tree node without a label; expected one at the start of its bracket. If no bracket has a "
    "label, give has_labels=False."
)
_SEVERAL_WORDS = (
    "a tree node with {} words; expected a label and one word. Put each word into a separate "
    "labeled bracket, or, if no bracket has a label, give has_labels=False."
)
_MAY_BE_A_WORD = (
    "a first word that may be the label of its bracket or a word of the sentence. Give "
    "has_labels=True if each bracket begins with a label, or has_labels=False if none does."
)
_TOO_MANY = (
    "a tree node with {} children, more than arity=ARITY. Binarize the tree, give a larger `arity` "
    "here and to the tree layer, or take ChildSumTreeLSTM, for any number of children, and "
    "arity=None."
)


def parse_brackets(
    texts: tf.Tensor, arity: int | None, has_labels: bool | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Reads a batch of bracketed trees.

    Args:
        texts: The texts, string `[batch]`, in UTF-8.
        arity: The largest number of children of a tree node; None for as many as there are.
        has_labels: Whether each bracket begins with a label; None if it does, but a label that may
            be a word is an error.

    Returns:
        The words, string `[batch, nodes]`, "" for none, and the children, int32
        `[batch, nodes, arity]`, -1 for none.

    Raises:
        tf.errors.InvalidArgumentError: If a text is not such a tree; the message names the text,
            the place and the reason.
    """
    tokens = _tokens_of(texts)
    with tf.control_dependencies([_check_brackets(tokens, has_labels is not False)]):
        depth = tf.identity(tokens.depth)
        nodes = (_unlabeled if has_labels is False else _labeled)(tokens, depth)
    with tf.control_dependencies([_check_nodes(tokens, nodes, arity, has_labels)]):
        return _arrays(tokens, nodes, arity)


@dataclass(frozen=True)
class _Tokens:
    """The brackets and words of a batch of texts, one text after another.

    Args:
        texts: The texts as they were passed, string `[batch]`.
        pieces: The tokens, string `[tokens]`: `(`, `)` or a word.
        rows: The text of each token, int64 `[tokens]`.
        starts: The first token of each text, int64 `[batch]`.
        is_open, is_close: Whether a token is an opening or a closing bracket, bool `[tokens]`.
        depth: The number of brackets that are open after each token, int64 `[tokens]`.
    """

    texts: tf.Tensor
    pieces: tf.Tensor
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
        return tf.range(tf.size(self.pieces, tf.int64))

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

    def count(self, is_counted: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """The number of some tokens or nodes in each text, int64 `[batch]`.

        Args:
            is_counted: Whether each token or node is counted, bool `[size]`.
            rows: The text of each, int64 `[size]`.
        """
        size = tf.size(self.texts, tf.int64)
        return tf.math.unsorted_segment_sum(tf.cast(is_counted, tf.int64), rows, size)


def words_of(texts: tf.Tensor) -> tf.RaggedTensor:
    """Splits texts at ASCII white space only, since some words contain U+00A0.

    Args:
        texts: The texts, string `[batch]`.

    Returns:
        The words, string `[batch, (words)]`.
    """
    pieces = tf.strings.split(tf.strings.regex_replace(texts, _SPACE, " "), " ")
    return tf.ragged.boolean_mask(pieces, tf.not_equal(pieces, ""))


def _tokens_of(texts: tf.Tensor) -> _Tokens:
    ragged = words_of(tf.strings.regex_replace(texts, "([()])", r" \1 "))
    pieces, rows, starts = ragged.values, ragged.value_rowids(), ragged.row_starts()
    is_open, is_close = pieces == "(", pieces == ")"
    steps = tf.cast(is_open, tf.int64) - tf.cast(is_close, tf.int64)
    before = tf.concat([tf.zeros([1], tf.int64), tf.cumsum(steps)], 0)
    depth = before[1:] - tf.gather(tf.gather(before, starts), rows)
    return _Tokens(texts, pieces, rows, starts, is_open, is_close, depth)


def _check_brackets(tokens: _Tokens, has_labels: bool) -> tf.Tensor:
    """Raises InvalidArgumentError, when the graph runs, unless each text is one bracket.

    Args:
        tokens: The tokens.
        has_labels: Whether each bracket has a label; otherwise a text may also be one word.

    Returns:
        True, a tensor on which every op that needs the check must depend.
    """
    steps = tf.cast(tokens.is_open, tf.int64) - tf.cast(tokens.is_close, tf.int64)
    is_later = ~tokens.is_first & (tokens.depth <= steps)  # All brackets before it are closed.
    is_word_first = tokens.is_first & tokens.is_word & has_labels
    reasons = {
        "`)` without its `(`.": tokens.depth < 0,
        "text after the tree; expected one tree in one bracket.": is_later,
        "text before the tree; expected one tree, which begins with `(`.": is_word_first,
    }
    wrong = tf.stack(list(reasons.values()))
    is_wrong_token = tf.reduce_any(wrong, 0)
    ends = tf.concat([tokens.starts[1:], [tf.size(tokens.pieces, tf.int64)]], 0)
    is_empty = tokens.starts == ends
    last = tf.where(
        is_empty,
        tf.constant(0, tf.int64),
        tf.gather(tf.concat([tf.zeros([1], tf.int64), tokens.depth], 0), ends),
    )
    num_wrong = tokens.count(is_wrong_token, tokens.rows)
    is_wrong = is_empty | (num_wrong > 0) | (last > 0)

    def failed() -> tf.Tensor:
        row = tf.where(is_wrong)[0, 0]
        places = tf.boolean_mask(tokens.places, is_wrong_token & (tokens.rows == row))
        name = tf.strings.join(["`text[", tf.strings.as_string(row), "]`"])

        def of_row() -> tf.Tensor:
            unclosed = tf.strings.join(
                [" ends while ", tf.strings.as_string(last[row]), " `(` are not closed."]
            )
            nothing = " holds no tree; expected one, such as `(3 (2 a) (4 film))`."
            return fail(name, tf.where(is_empty[row], nothing, unclosed))

        def of_token() -> tf.Tensor:
            first_reason = tf.where(wrong[:, places[0]])[0, 0]
            return _fail_at(tokens, places[0], tf.gather(list(reasons), first_reason))

        return tf.cond(tf.size(places) == 0, of_row, of_token)

    return tf.cond(tf.reduce_any(is_wrong), failed, lambda: tf.constant(True))


def _fail_at(tokens: _Tokens, place: tf.Tensor, reason: tf.Tensor) -> tf.Tensor:
    """Raises InvalidArgumentError, when the graph runs, with the text and the place of the fault.

    Args:
        tokens: The tokens.
        place: The place of a token, an int64 scalar.
        reason: The reason, a string scalar.
    """
    row = tokens.rows[place]
    characters = tf.strings.unicode_split(tokens.texts[row], "UTF-8")
    is_bracket = (characters == "(") | (characters == ")")
    is_between = is_bracket | tf.strings.regex_full_match(characters, _SPACE)
    begins_word = ~is_between & tf.concat([[True], is_between], 0)[:-1]
    character = tf.where(is_bracket | begins_word)[place - tokens.starts[row], 0]
    rest = tf.strings.reduce_join(characters[character : character + _SHOWN])
    is_cut = tf.size(characters, tf.int64) > character + _SHOWN
    return fail(
        "`text[",
        tf.strings.as_string(row),
        "]` has at character ",
        tf.strings.as_string(character + 1),
        ", `",
        tf.strings.regex_replace(rest, _SPACE, " "),
        tf.where(is_cut, " ...", ""),
        "`: ",
        reason,
    )


@dataclass(frozen=True)
class _Nodes:
    """The tree nodes of a batch of texts, in preorder, one text after another.

    Args:
        places: The token of each node, int64 `[nodes]`.
        rows: The text of each node, int64 `[nodes]`.
        numbers: The number of each node in its tree, int64 `[nodes]`.
        parents: The place of each node's parent in these lists, int64 `[nodes]`; -1 for roots.
        slots: The place of each node among its parent's children, int64 `[nodes]`.
        has_word: Whether each token is the word of a node, bool `[tokens]`.
        of_words: The place of each such word's node in these lists, int64 `[words]`.
        is_top: Whether each node is a bracket without a label around several trees, bool `[nodes]`.
    """

    places: tf.Tensor
    rows: tf.Tensor
    numbers: tf.Tensor
    parents: tf.Tensor
    slots: tf.Tensor
    has_word: tf.Tensor
    of_words: tf.Tensor
    is_top: tf.Tensor


def _labeled(tokens: _Tokens, depth: tf.Tensor) -> _Nodes:
    """The nodes of trees with labels: each is a bracket, and all tokens but labels are words."""
    has_word = tokens.is_word & ~tokens.has_before(tokens.is_open)

    def in_same_text(is_token: tf.Tensor) -> tf.Tensor:
        return tf.gather(tokens.count(is_token, tokens.rows), tokens.rows)

    # As in the Penn Treebank, a bracket without a label may stand around one tree, and is left out,
    # or around several, and is their root.
    num_inside = in_same_text(tokens.is_close & (depth == 1))
    has_words = in_same_text(has_word & (depth == 1)) > 0
    is_bare = tokens.is_first & tokens.has_after(tokens.is_open) & ~has_words
    is_extra = is_bare & (num_inside == 1)
    levels = depth - in_same_text(is_extra)
    return _nodes(tokens, tokens.is_open & ~is_extra, has_word, levels, is_bare & (num_inside > 1))


def _unlabeled(tokens: _Tokens, depth: tf.Tensor) -> _Nodes:
    """The nodes of trees without labels: brackets, and words that share a bracket."""
    is_alone = tokens.has_before(tokens.is_open) & tokens.has_after(tokens.is_close)
    is_node = tokens.is_word & ~is_alone
    levels = depth + tf.cast(is_node, tf.int64)
    is_top = tf.zeros_like(is_node)
    return _nodes(tokens, tokens.is_open | is_node, tokens.is_word, levels, is_top)


def _nodes(
    tokens: _Tokens,
    is_node: tf.Tensor,
    has_word: tf.Tensor,
    levels: tf.Tensor,
    is_top: tf.Tensor,
) -> _Nodes:
    """Finds the parent of each node.

    Args:
        tokens: The tokens.
        is_node: Whether each token is a tree node, bool `[tokens]`.
        has_word: Whether each token is the word of a node, bool `[tokens]`.
        levels: The level of each node, and for words the level of their node, int64 `[tokens]`; 1
            for roots.
        is_top: Whether each token is a bracket without a label around several trees, bool
            `[tokens]`.
    """
    size = tf.size(tokens.pieces, tf.int64)
    places = tf.boolean_mask(tokens.places, is_node)
    rows = tf.gather(tokens.rows, places)
    counts = tokens.count(is_node, tokens.rows)
    everyone = tf.range(tf.size(places, tf.int64))
    numbers = everyone - tf.gather(tf.cumsum(counts, exclusive=True), rows)
    keys = tf.gather(levels, places) * size + places
    order = tf.cast(tf.argsort(keys), tf.int64)
    in_order = tf.gather(keys, order)

    def last_until(key: tf.Tensor) -> tf.Tensor:
        place = tf.searchsorted(in_order, key, side="right", out_type=tf.int64) - 1
        return tf.gather(order, tf.maximum(place, 0))

    parents = tf.where(
        tf.gather(levels, places) == 1, tf.cast(-1, tf.int64), last_until(keys - size)
    )
    slots = everyone - first_in_group(tf.gather(parents, order))
    slots = tf.scatter_nd(order[:, tf.newaxis], slots, tf.shape(order, tf.int64))
    word_places = tf.boolean_mask(tokens.places, has_word)
    of_words = last_until(tf.gather(levels, word_places) * size + word_places)
    is_top = tf.gather(is_top, places)
    return _Nodes(places, rows, numbers, parents, slots, has_word, of_words, is_top)


def _check_nodes(
    tokens: _Tokens, nodes: _Nodes, arity: int | None, has_labels: bool | None
) -> tf.Tensor:
    """Raises InvalidArgumentError, when the graph runs, if a node contains the wrong things."""
    size = tf.size(nodes.places, tf.int64)
    # The sum leaves out -1, the parent of roots.
    num_trees = tf.math.unsorted_segment_sum(tf.ones_like(nodes.parents), nodes.parents, size)
    num_words = tf.math.unsorted_segment_sum(tf.ones_like(nodes.of_words), nodes.of_words, size)
    has_label = tf.gather(tokens.has_after(tokens.is_word), nodes.places)
    is_closed_at_once = tf.gather(tokens.has_after(tokens.is_close), nodes.places)
    # The nodes in question, the message, and the number to put into it.
    reasons = [(num_trees + num_words == 0, _EMPTY, num_trees)]
    if has_labels is not False:
        reasons += [
            ((num_words > 0) & (num_trees > 0), _WORD_BESIDE_TREE, num_words),
            (~has_label & ~is_closed_at_once & ~nodes.is_top, _NO_LABEL, num_words),
            (num_words > 1, _SEVERAL_WORDS, num_words),
        ]
    if has_labels is None:
        reasons.append((_may_be_words(tokens, nodes, num_trees), _MAY_BE_A_WORD, num_words))
    if arity is not None:
        reasons.append((num_trees > arity, _TOO_MANY.replace("ARITY", str(arity)), num_trees))
    wrong = tf.stack([is_such for is_such, _, _ in reasons])

    def failed() -> tf.Tensor:
        node, which = tf.unstack(tf.where(tf.transpose(wrong))[0])
        sentences = []
        for _, sentence, numbers in reasons:
            first, *rest = sentence.split("{}")
            number = [tf.strings.as_string(numbers[node])] if rest else []
            sentences.append(tf.strings.join([first, *number, *rest]))
        return _fail_at(tokens, nodes.places[node], tf.stack(sentences)[which])

    return tf.cond(tf.reduce_any(wrong), failed, lambda: tf.constant(True))


def _may_be_words(tokens: _Tokens, nodes: _Nodes, num_trees: tf.Tensor) -> tf.Tensor:
    """Whether the label of each node may be a word, bool `[nodes]`; see `bracket_labels`."""
    labels = tf.gather(tf.concat([tokens.pieces, [""]], 0), nodes.places + 1)

    def in_same_text(is_node: tf.Tensor) -> tf.Tensor:
        return tf.gather(tokens.count(is_node, nodes.rows), nodes.rows) > 0

    has_branches = in_same_text((num_trees > 1) & ~nodes.is_top)
    is_sure = tf.strings.regex_full_match(labels, SURE_LABEL) & ~nodes.is_top
    is_known = tf.strings.regex_full_match(labels, KNOWN_LABEL)
    is_label = (is_known | (has_branches & in_same_text(is_sure))) & (
        tf.strings.regex_full_match(labels, CASED_LABEL)
    )
    return ~nodes.is_top & ~is_label


def _arrays(tokens: _Tokens, nodes: _Nodes, arity: int | None) -> tuple[tf.Tensor, tf.Tensor]:
    batch = tf.size(tokens.texts, tf.int64)
    size = batch, tf.reduce_max(tf.concat([[1], nodes.numbers + 1], 0))
    children = children_of(nodes.rows, nodes.numbers, nodes.parents, nodes.slots, size, arity)
    words = tf.boolean_mask(tokens.pieces, nodes.has_word)
    for escape, character in (("\\\\/", "/"), ("\\\\\\*", "*")):
        words = tf.strings.regex_replace(words, escape, character)
    rows, numbers = (tf.gather(of, nodes.of_words) for of in (nodes.rows, nodes.numbers))
    return at_nodes(words, rows, numbers, size), children
