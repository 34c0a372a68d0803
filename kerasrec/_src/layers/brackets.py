"""From bracketed texts to words and children, with TensorFlow's ops.

A tree node is a bracket, or a word that stands beside others where brackets have no labels. Nodes
are sorted by depth, then by place. So the parent of a node is the last node of the level above that
stands before it, and siblings stand together. No loop runs over tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from kerasrec._src.layers.bracket_tokens import (
    BracketTokens,
    check_brackets,
    check_utf8,
    fail_at,
    tokens_of,
)
from kerasrec._src.text import CASED_LABEL, KNOWN_LABEL, SURE_LABEL

EMPTY = "an empty tree node; expected a word or trees in its bracket."
WORD_BESIDE_TREE = (
    "a tree node with a word beside a tree; expected one word, or trees alone. Put the word into a "
    "labeled bracket, or, if no bracket has a label, give has_labels=False."
)
NO_LABEL = (
    "a tree node without a label; expected one at the start of its bracket. If no bracket has a "
    "label, give has_labels=False."
)
SEVERAL_WORDS = (
    "a tree node with {} words; expected a label and one word. Put each word into a labeled "
    "bracket of its own, or, if no bracket has a label, give has_labels=False."
)
MAY_BE_A_WORD = (
    "a first word that may be the label of its bracket or a word of the sentence. Give "
    "has_labels=True if each bracket begins with a label, or has_labels=False if none does."
)
TOO_MANY = (
    "a tree node with {} children, more than arity=ARITY. Binarize the tree, give a larger `arity` "
    "here and to the tree layer, or take ChildSumTreeLSTM, for any number of children, and "
    "arity=None."
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


def parse_brackets(
    texts: tf.Tensor, arity: int | None, has_labels: bool | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Reads a batch of bracketed trees.

    Args:
        texts: The texts, string `[batch]`.
        arity: The largest number of children of a tree node; None for as many as there are.
        has_labels: Whether each bracket begins with a label; None if it does, but a label that may
            be a word is an error.

    Returns:
        The words, string `[batch, nodes]`, "" for none, and the children, int32
        `[batch, nodes, arity]`, -1 for none.

    Raises:
        tf.errors.InvalidArgumentError: If a text is not such a tree; the message says which, where
            and why.
    """
    with tf.control_dependencies([check_utf8(texts)]):
        found = tokens_of(tf.identity(texts))
    with tf.control_dependencies([check_brackets(found, has_labels is not False)]):
        depth = tf.identity(found.depth)
        nodes = (_unlabelled if has_labels is False else _labelled)(found, depth)
    with tf.control_dependencies([_check_nodes(found, nodes, arity, has_labels)]):
        return _arrays(found, nodes, arity)


def _labelled(found: BracketTokens, depth: tf.Tensor) -> _Nodes:
    """The nodes of trees with labels: each is a bracket, and all tokens but labels are words."""
    has_word = found.is_word & ~found.has_before(found.is_open)

    def in_same_text(is_token: tf.Tensor) -> tf.Tensor:
        size = tf.size(found.texts, tf.int64)
        counts = tf.math.unsorted_segment_sum(tf.cast(is_token, tf.int64), found.rows, size)
        return tf.gather(counts, found.rows)

    # As in the Penn Treebank, a bracket without a label may stand around one tree, and is left out,
    # or around several, and is their root.
    num_inside = in_same_text(found.is_close & (depth == 1))
    has_words = in_same_text(has_word & (depth == 1)) > 0
    is_bare = found.is_first & found.has_after(found.is_open) & ~has_words
    is_extra = is_bare & (num_inside == 1)
    levels = depth - in_same_text(is_extra)
    return _nodes(found, found.is_open & ~is_extra, has_word, levels, is_bare & (num_inside > 1))


def _unlabelled(found: BracketTokens, depth: tf.Tensor) -> _Nodes:
    """The nodes of trees without labels: brackets, and words that are not alone in a bracket."""
    is_alone = found.has_before(found.is_open) & found.has_after(found.is_close)
    is_node = found.is_word & ~is_alone
    levels = depth + tf.cast(is_node, tf.int64)
    is_top = tf.zeros_like(is_node)
    return _nodes(found, found.is_open | is_node, found.is_word, levels, is_top)


def _nodes(
    found: BracketTokens,
    is_node: tf.Tensor,
    has_word: tf.Tensor,
    levels: tf.Tensor,
    is_top: tf.Tensor,
) -> _Nodes:
    """Finds the parent of each node.

    Args:
        found: The tokens.
        is_node: Whether each token is a tree node, bool `[tokens]`.
        has_word: Whether each token is the word of a node, bool `[tokens]`.
        levels: The level of each node, and for words the level of their node, int64 `[tokens]`; 1
            for roots.
        is_top: Whether each token is a bracket without a label around several trees, bool
            `[tokens]`.
    """
    size = tf.size(found.tokens, tf.int64)
    places = tf.boolean_mask(found.places, is_node)
    rows = tf.gather(found.rows, places)
    counts = tf.math.unsorted_segment_sum(
        tf.ones_like(places), rows, tf.size(found.texts, tf.int64)
    )
    everyone = tf.range(tf.size(places, tf.int64))
    numbers = everyone - tf.gather(tf.cumsum(counts, exclusive=True), rows)
    keys = tf.gather(levels, places) * size + places
    order = tf.cast(tf.argsort(keys), tf.int64)
    in_order = tf.gather(keys, order)

    def last_until(key: tf.Tensor) -> tf.Tensor:
        found_at = tf.searchsorted(in_order, key, side="right", out_type=tf.int64) - 1
        return tf.gather(order, tf.maximum(found_at, 0))

    parents = tf.where(
        tf.gather(levels, places) == 1, tf.cast(-1, tf.int64), last_until(keys - size)
    )
    sorted_parents = tf.gather(parents, order)
    is_eldest = tf.concat([[True], sorted_parents[1:] != sorted_parents[:-1]], 0)[: tf.size(order)]
    eldest = tf.boolean_mask(everyone, is_eldest)
    slots = everyone - tf.gather(eldest, tf.cumsum(tf.cast(is_eldest, tf.int64)) - 1)
    slots = tf.scatter_nd(order[:, tf.newaxis], slots, tf.shape(order, tf.int64))
    word_places = tf.boolean_mask(found.places, has_word)
    of_words = last_until(tf.gather(levels, word_places) * size + word_places)
    is_top = tf.gather(is_top, places)
    return _Nodes(places, rows, numbers, parents, slots, has_word, of_words, is_top)


def _check_nodes(
    found: BracketTokens, nodes: _Nodes, arity: int | None, has_labels: bool | None
) -> tf.Tensor:
    """Raises InvalidArgumentError, when the graph runs, if a node contains the wrong things."""
    size = tf.size(nodes.places, tf.int64)
    # The sum leaves out -1, the parent of roots.
    num_trees = tf.math.unsorted_segment_sum(tf.ones_like(nodes.parents), nodes.parents, size)
    num_words = tf.math.unsorted_segment_sum(tf.ones_like(nodes.of_words), nodes.of_words, size)
    has_label = tf.gather(found.has_after(found.is_word), nodes.places)
    is_closed_at_once = tf.gather(found.has_after(found.is_close), nodes.places)
    # The nodes in question, how to say what is wrong, and a number to put in.
    reasons = [(num_trees + num_words == 0, EMPTY, num_trees)]
    if has_labels is not False:
        reasons += [
            ((num_words > 0) & (num_trees > 0), WORD_BESIDE_TREE, num_words),
            (~has_label & ~is_closed_at_once & ~nodes.is_top, NO_LABEL, num_words),
            (num_words > 1, SEVERAL_WORDS, num_words),
        ]
    if has_labels is None:
        reasons.append((_may_be_words(found, nodes, num_trees), MAY_BE_A_WORD, num_words))
    if arity is not None:
        reasons.append((num_trees > arity, TOO_MANY.replace("ARITY", str(arity)), num_trees))
    wrong = tf.stack([is_such for is_such, _, _ in reasons])

    def failed() -> tf.Tensor:
        node, which = tf.unstack(tf.where(tf.transpose(wrong))[0])
        sentences = []
        for _, sentence, numbers in reasons:
            first, *rest = sentence.split("{}")
            number = [tf.strings.as_string(numbers[node])] if rest else []
            sentences.append(tf.strings.join([first, *number, *rest]))
        return fail_at(found, nodes.places[node], tf.stack(sentences)[which])

    return tf.cond(tf.reduce_any(wrong), failed, lambda: tf.constant(True))


def _may_be_words(found: BracketTokens, nodes: _Nodes, num_trees: tf.Tensor) -> tf.Tensor:
    """Whether the label of each node may be a word, bool `[nodes]`; see `bracket_labels`."""
    labels = tf.gather(tf.concat([found.tokens, [""]], 0), nodes.places + 1)

    def in_same_text(is_node: tf.Tensor) -> tf.Tensor:
        size = tf.size(found.texts, tf.int64)
        counts = tf.math.unsorted_segment_sum(tf.cast(is_node, tf.int64), nodes.rows, size)
        return tf.gather(counts, nodes.rows) > 0

    has_branches = in_same_text((num_trees > 1) & ~nodes.is_top)
    is_sure = tf.strings.regex_full_match(labels, SURE_LABEL) & ~nodes.is_top
    is_known = tf.strings.regex_full_match(labels, KNOWN_LABEL)
    is_label = (is_known | (has_branches & in_same_text(is_sure))) & (
        tf.strings.regex_full_match(labels, CASED_LABEL)
    )
    return ~nodes.is_top & ~is_label


def _arrays(found: BracketTokens, nodes: _Nodes, arity: int | None) -> tuple[tf.Tensor, tf.Tensor]:
    batch = tf.size(found.texts, tf.int64)
    num_nodes = tf.reduce_max(tf.concat([[1], nodes.numbers + 1], 0))
    child = tf.boolean_mask(tf.range(tf.size(nodes.places, tf.int64)), nodes.parents >= 0)
    parent, slots = tf.gather(nodes.parents, child), tf.gather(nodes.slots, child)
    num_slots = tf.reduce_max(tf.concat([[1], slots + 1], 0)) if arity is None else arity
    where = [tf.gather(nodes.rows, child), tf.gather(nodes.numbers, parent)]
    children = tf.tensor_scatter_nd_update(
        tf.fill(tf.stack([batch, num_nodes, num_slots]), -1),
        tf.stack([*where, slots], 1),
        tf.cast(tf.gather(nodes.numbers, child), tf.int32),
    )
    words = tf.boolean_mask(found.tokens, nodes.has_word)
    for escape, character in (("\\\\/", "/"), ("\\\\\\*", "*")):
        words = tf.strings.regex_replace(words, escape, character)
    of_words = nodes.of_words
    where = [tf.gather(nodes.rows, of_words), tf.gather(nodes.numbers, of_words)]
    numbers = tf.scatter_nd(
        tf.stack(where, 1),
        tf.range(1, tf.size(of_words) + 1),
        tf.stack([batch, num_nodes]),
    )
    return tf.gather(tf.concat([[""], words], 0), numbers), children
