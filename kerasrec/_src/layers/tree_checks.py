"""Checks, when the graph runs, that `children` are trees and that their words are allowed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from kerasrec._src.errors import WITHOUT_FRAMES
from kerasrec._src.links import Links, in_cycles, links_of
from kerasrec._src.private import not_inlined, unseen_by_op_callbacks


@dataclass(frozen=True)
class WordRules:
    """The words that tree nodes may have.

    Args:
        num_words: The number of words; those that are read must be at least 0 and less than this.
            None if it is unknown.
        read_inner_inputs: True if inner nodes read words; False if their words are ignored; None if
            they must have 0, which stands for no word.
    """

    num_words: int | None
    read_inner_inputs: bool | None

    def allow(self, words: tf.Tensor, links: Links) -> tf.Tensor:
        """Whether each node may have its word.

        A node that is not called must have no word, as padding has none, since it would be lost.

        Args:
            words: The words, int or string `[size]`; or whether each node has features, bool.
            links: The links of the nodes.

        Returns:
            Whether each word is allowed, bool `[size]`.
        """
        allowed = self._allow(words, links.has_children)
        return tf.where(links.is_called, allowed, has_no_word(words))

    def _allow(self, words: tf.Tensor, has_children: tf.Tensor) -> tf.Tensor:
        """Whether each node that is called may have its word; bool `[size]`."""
        dtype = words.dtype
        if dtype == tf.bool:
            return tf.ones_like(words)
        if dtype == tf.string:  # The embedding knows words from others.
            return (words == "") | ~has_children | (self.read_inner_inputs is not None)
        anything = (dtype.min, dtype.max)
        read = anything
        if self.num_words is not None:
            read = (max(0, dtype.min), min(self.num_words - 1, dtype.max))
        inner = {True: read, False: anything, None: (0, 0)}[self.read_inner_inputs]
        smallest, largest = (
            tf.constant(at_leaf, dtype)
            if at_leaf == at_inner
            else tf.where(has_children, tf.constant(at_inner, dtype), tf.constant(at_leaf, dtype))
            for at_leaf, at_inner in zip(read, inner, strict=True)
        )
        return (words >= smallest) & (words <= largest)


def has_no_word(words: tf.Tensor) -> tf.Tensor:
    """Whether each stands for no word; words int, string or bool `[size]`, result bool."""
    return words == ("" if words.dtype == tf.string else tf.zeros([], words.dtype))


def check(is_right: tf.Tensor, sentence: str, *values: Any) -> list[tf.Operation]:
    """Raises InvalidArgumentError when the graph runs, or at once in eager code.

    Args:
        is_right: A bool scalar.
        sentence: The message, with `{}` for each of the values.
        values: The tensors to put into the sentence.

    Returns:
        Operations on which every op that needs the check must have a control dependency.
    """
    if tf.executing_eagerly() and is_right:
        return []
    text = tf.strings.format(sentence, list(values))
    return [tf.raw_ops.Assert(condition=is_right, data=[text], name=WITHOUT_FRAMES)]


def check_none(wrong: tf.Tensor, sentence: str, *values: tf.Tensor) -> list[tf.Operation]:
    """Checks, like `check`, that nothing is wrong.

    Args:
        wrong: Whether each element is wrong, bool of any shape.
        sentence: The message, with `{}` for the place of the first wrong element, and one more for
            each of the values.
        values: Scalars, and tensors from which the element at that place is shown.
    """
    place = tf.where(wrong)[:1]
    shown = [tf.gather_nd(value, place) if value.shape.rank else value for value in values]
    return check(~tf.reduce_any(wrong), sentence, place, *shown)


def same_sizes(x: tf.Tensor, children: tf.Tensor) -> tf.Tensor:
    """Whether `x` and `children` may be of the same trees, a bool scalar."""
    return tf.reduce_all(tf.shape(x)[:2] == tf.shape(children)[:2])


def check_sizes(x: Any, children: Any, name: str = "x") -> list[tf.Operation]:
    """Checks, when the graph runs, that `x` and `children` may be of the same trees.

    Both are padded, or both are ragged.
    """
    sentence = f"`{name}` and `children` must have the same numbers of trees and of nodes in a "
    sentence += "tree. "
    if not isinstance(children, tf.RaggedTensor):
        mine, theirs = tf.shape(x)[:2], tf.shape(children)[:2]
        is_right = tf.reduce_all(mine == theirs)
        return check(is_right, sentence + "[trees, nodes]: {} and {}", mine, theirs)
    sentence += "Nodes in each tree: {} and {}"
    mine, theirs = x.row_lengths(), children.row_lengths()
    return check(_are_equal(mine, theirs), sentence, mine, theirs)


def _are_equal(mine: tf.Tensor, theirs: tf.Tensor) -> tf.Tensor:
    """Whether two vectors are equal; those of different sizes cannot be compared one by one."""
    return tf.cond(
        tf.size(mine) == tf.size(theirs),
        lambda: tf.reduce_all(mine == theirs),
        lambda: tf.constant(False),
    )


def check_edges(edges: Any, children: Any) -> list[tf.Operation]:
    """Checks, when the graph runs, that there is an edge for each place of a child.

    Both are padded, or both are ragged.
    """
    sentence = "`edges` must have a row for each entry of `children`, -1 among them. "
    if not isinstance(children, tf.RaggedTensor):
        mine, theirs = tf.shape(edges)[:3], tf.shape(children)
        sentence += "[trees, nodes, children]: {} and {}"
        return check(tf.reduce_all(mine == theirs), sentence, mine, theirs)
    splits = [tf.concat([of.row_splits, of.values.row_splits], 0) for of in (edges, children)]
    sizes = [tf.shape(of.flat_values)[0] for of in (edges, children)]
    return check(_are_equal(*splits), sentence + "Entries: {} and {}", *sizes)


def check_indices(children: tf.Tensor) -> list[tf.Operation]:
    """Checks, when the graph runs, that each index is -1 or a node of its tree."""
    nodes = tf.shape(children)[1]
    return [
        *check(nodes > 0, "`children` has no tree nodes; every tree needs its root at node 0."),
        *check_none(
            (children < -1) | (children >= tf.cast(nodes, children.dtype)),
            "`children` has an index out of range: it must be -1 (no child) or a node of the same "
            "tree. [tree, node, child]: {} index: {} nodes in a tree: {}",
            children,
            nodes,
        ),
    ]


def check_rows(children: tf.RaggedTensor, links: Links, arity: int | None) -> list[tf.Operation]:
    """Checks rows of indices when the graph runs, as `check_indices` checks those of a table.

    Args:
        children: The children, int32 or int64 `[batch, (nodes), (children)]`.
        links: Their links.
        arity: The largest number of children of a tree node; None for any number.
    """
    sizes, lengths, given = (
        children.row_lengths(),
        children.values.row_lengths(),
        children.flat_values,
    )
    empty, edge = _first(sizes == 0), _first((given != -1) & ~links.is_child)
    parent = tf.gather(links.parents, edge)
    place, slot = links.tree_and_node(parent), edge - tf.searchsorted(links.parents, parent)
    checks = [
        *check(
            tf.size(empty) == 0,
            "`children` has no tree nodes in tree {}; every tree needs its root at node 0.",
            empty,
        ),
        *check(
            tf.size(edge) == 0,
            "`children` has an index out of range: it must be -1 (no child) or a node of the same "
            "tree. [tree, node, child]: {} index: {} nodes in the tree: {}",
            tf.concat([place, slot[:, tf.newaxis]], 1),
            tf.gather(given, edge),
            tf.gather(sizes, place[:, 0]),
        ),
    ]
    if arity is not None:
        long = _first(lengths > arity)
        checks += check(
            tf.size(long) == 0,
            f"`children` has a tree node with more than {arity} children, the arity of the layer. "
            "Give the layer a larger arity, or binarize the trees; ChildSumTreeLSTM takes any "
            "number of children. [tree, node]: {} children: {}",
            links.tree_and_node(long),
            tf.gather(lengths, long),
        )
    return checks


def _first(where: tf.Tensor) -> tf.Tensor:
    """The place of the first True of `[size]`, int32 `[1]`; `[0]` if there is none."""
    return tf.cast(tf.where(where)[:1, 0], tf.int32)


@dataclass(frozen=True)
class Problem:
    """Something that may be wrong with tree nodes.

    Args:
        sentence: The message.
        where: The nodes that have the problem, bool `[size]`.
        shows_word: Whether the message gives the node's word.
    """

    sentence: str
    where: tf.Tensor
    shows_word: bool = False


def check_nodes(
    problems: list[Problem], links: Links, words: tf.Tensor | None = None
) -> list[tf.Operation]:
    """Fails, when the graph runs, with the first problem and the first node that has it.

    Args:
        problems: The problems, in the order in which they are looked for.
        links: The links of the nodes.
        words: The words, int or string `[size]`, needed for problems of words.
    """
    first = tf.where(tf.stack([problem.where for problem in problems]), name="found")[:1]
    problem, number = tf.unstack(tf.cast(first, tf.int32), axis=1)
    text = [
        tf.gather([problem.sentence for problem in problems], problem),
        tf.strings.format(" [tree, node]: {}", links.tree_and_node(number)),
    ]
    if words is not None:
        word = tf.strings.format(" word: {}", tf.gather(words, number))
        shows_word = tf.gather([problem.shows_word for problem in problems], problem)
        text.append(tf.where(shows_word, word, ""))
    message = tf.strings.reduce_join(tf.strings.join(text))
    is_right = tf.size(number) == 0
    return [tf.raw_ops.Assert(condition=is_right, data=[message], name=WITHOUT_FRAMES)]


def problems_of_links(
    links: Links, shares: bool = False, has_padding: bool = True
) -> list[Problem]:
    """The possible problems of links: parents, the root, cycles, and nodes that no parent names.

    Args:
        links: The links of the nodes.
        shares: Whether a node may have several parents.
        has_padding: Whether the last nodes may be padding; in rows, each node is one of a tree.
    """
    two_parents = Problem(
        "`children` is not a tree: a node has two parents (-1 stands for no child). If nodes may "
        "be shared, give the layer shared_nodes=True.",
        links.num_parents > 1,
    )
    what = "an acyclic graph" if shares else "a tree"
    would_be_lost, is_unread = ", so that it would not be read", ~links.is_called
    if has_padding:
        would_be_lost = ", before one that is: it would not be read, and padding comes last"
        is_unread = links.is_skipped
    unread = Problem(
        f"`children` has a node that is the child of no node{would_be_lost}. Make it a child, or "
        "leave it out of `x` and `children`.",
        is_unread,
    )
    return [
        *([] if shares else [two_parents]),
        Problem(
            "`children` must have the root at node 0, but node 0 is a child (-1 stands for no "
            "child). Number the nodes so that the root comes first.",
            links.is_root & (links.num_parents > 0),
        ),
        Problem(
            "`children` must have the root at node 0, but another node has children and no parent.",
            ~links.is_root & (links.num_parents == 0) & links.has_children,
        ),
        Problem(
            f"`children` is not {what}: nodes form a cycle.",
            in_circles(links) if shares else in_cycles(links),
        ),
        unread,
    ]


def in_circles(links: Links) -> tf.Tensor:
    """Whether each node is below itself, or between two that are; bool `[size]`.

    The number of steps from node to node is that of the longest path.
    """
    numbers = tf.reshape(links.numbers, [-1])
    size = tf.size(links.roots)
    edges = tf.where(numbers < size)[:, 0]
    parents, children = tf.gather(links.parents, edges), tf.gather(numbers, edges)
    return _goes_on(parents, children, size) & _goes_on(children, parents, size)


def _goes_on(ones: tf.Tensor, others: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Whether an endless path begins at each node, bool `[size]`, by the ends of all edges."""

    def turn(before: tf.Tensor, now: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        follows = tf.cast(tf.gather(now, others), tf.int32)
        return now, tf.math.unsorted_segment_max(follows, ones, size) > 0

    everything = tf.fill([size], True)
    _, now = tf.while_loop(
        lambda before, now: tf.reduce_any(before != now),
        turn,
        turn(everything, everything),
    )
    return now


def problems_of_words(words: tf.Tensor, links: Links, rules: WordRules) -> list[Problem]:
    """The possible problems of words: one that is not read, or that has no vector.

    Args:
        words: The words of all nodes of the batch, int or string `[size]`; or whether each node has
            features, bool.
        links: The links of the trees.
        rules: The words that are allowed.
    """
    wrong = ~rules.allow(words, links)
    lost = wrong & ~links.is_called
    unread = wrong & links.has_children if rules.read_inner_inputs is None else tf.zeros_like(wrong)
    nothing = "an empty text" if words.dtype == tf.string else "0"
    thing = "features" if words.dtype == tf.bool else "a word"
    padding = "zeros" if words.dtype == tf.bool else f"{nothing}, the word of padding"
    return [
        Problem(
            "`x` has a word that `embedding` has no vector for: words must be from 0 to "
            f"{(rules.num_words or 0) - 1}, and 0 stands for no word.",
            wrong & ~unread & ~lost,
            shows_word=True,
        ),
        Problem(
            "`x` has a word at an inner tree node, where the layer reads none. Give the layer "
            "read_inner_inputs=True to read it or read_inner_inputs=False to leave it out, or put "
            f"{nothing} there, which stands for no word.",
            unread,
            shows_word=True,
        ),
        Problem(
            f"`x` has {thing} at a tree node that is the child of no node, so that it would not be "
            "read. Make it a child, or leave it out of `x` and `children`. If it is padding, give "
            f"it {padding}.",
            lost,
            shows_word=words.dtype != tf.bool,
        ),
    ]


@functools.cache
def tree_checks(
    children_spec: tf.TypeSpec,
    word_dtype: tf.DType | None,
    rules: WordRules | None,
    arity: int | None,
    shares: bool,
) -> Callable[..., tf.Tensor]:
    """Returns a `tf.function` that fails with the first thing that is wrong with trees.

    It is traced only once, and not for each layer, because it has more than a hundred ops, which
    seldom run.

    Args:
        children_spec: The spec of the children, int32 or int64 `[batch, nodes, arity]`, or ragged
            `[batch, (nodes), (children)]`.
        word_dtype: The dtype of the words, int or string `[size]`, of all nodes of the batch, or
            bool for whether they have features; None if it takes none.
        rules: The words that are allowed.
        arity: The largest number of children in a row, if they are ragged; None for any number.
        shares: Whether a node may have several parents.

    Returns:
        A function of the children, and words, if any; it returns True.
    """

    def run(children: Any, words: tf.Tensor | None = None) -> tf.Tensor:
        is_ragged = isinstance(children, tf.RaggedTensor)
        links = links_of(children)
        checks = check_rows(children, links, arity) if is_ragged else check_indices(children)
        with tf.control_dependencies(checks):
            problems = problems_of_links(links, shares, has_padding=not is_ragged)
            if words is not None and rules is not None:
                problems += problems_of_words(words, links, rules)
            checks = check_nodes(problems, links, words)
        with tf.control_dependencies(checks):
            return tf.constant(True)

    signature = [children_spec]
    if word_dtype is not None:
        signature.append(tf.TensorSpec([None], word_dtype))
    return not_inlined(unseen_by_op_callbacks()(run), input_signature=signature)
