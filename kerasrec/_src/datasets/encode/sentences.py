"""From the trees of sentences to arrays and back.

In a constituency tree, words are leaves. In a dependency tree, every word is a tree node, and its
dependents are its children.
"""

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from nltk import Tree

from kerasrec._src.datasets.encode.checking import check_tree
from kerasrec._src.datasets.encode.vocabulary import (
    Vocabulary,
    class_of,
    expect_column,
    expect_vocabulary,
)
from kerasrec._src.datasets.trees.child_rows import ChildRows
from kerasrec._src.datasets.trees.constituency import preorder
from kerasrec._src.datasets.trees.dependency import OPTIONAL_COLUMNS, DependencyTree
from kerasrec._src.datasets.validation import expect, expect_word
from kerasrec._src.short_repr import short_repr

# Tokens, children and labels: an `EncodedTree`, or a tuple like it.
TreeArrays: TypeAlias = tuple[Any, Any, Any]


class EncodedTree(NamedTuple):
    """A tree as arrays; tree node 0 is the root.

    Attributes:
        tokens: Each tree node's word in the vocabulary, int32 `[nodes]`; 0 where it has none, as
            the inner tree nodes of a constituency tree. `encode_objects`, and `encode_dependencies`
            with `features`, may return other inputs here.
        children: The tree nodes below each one, int32 `[nodes, arity]`; -1 = no child.
            `encode_objects` returns a row of any length for each tree node.
        labels: The labels, int32 `[nodes]`; -1 = none. `encode_objects` may also return floats, or
            one label of the tree.
    """

    tokens: Any
    children: Any
    labels: Any

    def __repr__(self) -> str:
        return short_repr(self, self._asdict())


def encode_tree(
    tree: Tree,
    vocabulary: Vocabulary,
    arity: int | None = 2,
    labels: Mapping[Any, int] | None = None,
) -> EncodedTree:
    """Turns a constituency tree into arrays, its nodes in preorder.

    In preorder the root is tree node 0, parents come before their children, and leaves come in the
    order of the sentence: `tokens[tokens > 0]` is the sentence. The tree may have any height.

    Args:
        tree: An `nltk.Tree` with nodes that have one word, or 1 to `arity` trees, below them.
        vocabulary: The vocabulary that gives words their tokens.
        arity: The number of slots for the children of a tree node; if it has fewer children, the
            last slots stay empty. None for as many as the tree needs, for layers of any arity.
        labels: The class of each label. By default labels are integers, or text that reads as one;
            -1 stands for no label, and so do `None`, empty text, and text that ends in `|`, which
            `binarize` makes, unless they are in `labels`.

    Returns:
        An `EncodedTree`.

    Raises:
        ValueError: If `tree` is something else; if a tree node contains anything else, such as an
            empty word, or its label is not an integer and not in `labels`; or if a class is not an
            integer.
    """
    expect_vocabulary(vocabulary)
    words: dict[int, str] = {}
    parents: list[int] = []
    classes: list[int] = []
    for index, (node, parent, _) in enumerate(preorder(tree)):
        is_leaf = len(node) == 1 and isinstance(node[0], str)
        is_inner = 1 <= len(node) <= (arity or len(node)) and all(
            isinstance(child, Tree) for child in node
        )
        if is_leaf:
            expect_word(f"The word of tree node {index} (preorder)", node[0])
            words[index] = node[0]
        elif not is_inner:
            raise ValueError(
                f"Tree node {index} (label {node.label()!r}, preorder) holds "
                f"{_problem_of_children(node, arity)}"
            )
        parents.append(parent)
        classes.append(class_of(node.label(), labels, f"tree node {index} (preorder)"))
    tokens = np.zeros(len(classes), np.int32)
    tokens[list(words)] = vocabulary.encode(words.values())
    children = ChildRows.from_parents(parents).to_table(arity)
    return EncodedTree(tokens, children, np.array(classes, np.int32))


def _problem_of_children(node: Tree, arity: int | None) -> str:
    """Describes the fault in the content of a tree node, and how to fix it."""
    expected = f"expected one word (str), or 1 to {arity or 'any number of'} trees (nltk.Tree)"
    words = sum(isinstance(child, str) for child in node)
    trees = sum(isinstance(child, Tree) for child in node)
    if words and words + trees == len(node):
        others = f"and {trees} tree(s)" if trees else "together"
        return f"{words} word(s) {others}; {expected}. Put each word into a separate tree node."
    if arity is not None and trees == len(node) > arity:
        return (
            f"{trees} child(ren); {expected}. Binarize the tree first (see binarize), or pass a "
            f"larger arity, here and to the layer; child-sum layers (ChildSumTreeLSTM) take any: "
            f"for this tree node arity={trees}."
        )
    return f"{len(node)} child(ren); {expected}."


def decode_tree(encoded: TreeArrays, vocabulary: Vocabulary) -> Tree:
    """Turns arrays back into a constituency tree.

    Args:
        encoded: An `EncodedTree`, or a tuple like it, with any arity and any order of tree nodes
            after the root; padding at the end is dropped.
        vocabulary: The vocabulary that gives tokens their words; unknown words come back as
            `"<unk>"`.

    Returns:
        An `nltk.Tree` with `int` labels, `None` where the label is -1.

    Raises:
        ValueError: If the arrays do not form a tree (see `check_tree`), a token is out of range, or
            a tree node has both a word and children, as in dependency trees.
    """
    tokens, labels = np.asarray(encoded[0]), np.asarray(encoded[2])
    check_tree(tokens, encoded[1], labels)
    rows = ChildRows.from_children(encoded[1])
    children = rows.to_table(rows.arity)
    if tokens.max() >= len(vocabulary):
        raise ValueError(
            f"Token {tokens.max()} of tree node {tokens.argmax()} is out of range: the vocabulary "
            f"has {len(vocabulary)} entries. Pass the vocabulary that the tree was encoded with."
        )
    both = np.flatnonzero((tokens > 0) & (children >= 0).any(axis=1))
    if len(both):
        raise ValueError(
            f"Tree node {both[0]} has both a word and children; expected a constituency tree, with "
            "the token 0 at inner tree nodes."
        )
    nodes = [Tree(None if label < 0 else label, []) for label in labels.tolist()]
    for node, token, row in zip(nodes, tokens.tolist(), children.tolist(), strict=True):
        below = [nodes[child] for child in row if child >= 0]
        node.extend(below or [vocabulary.words[token]])
    return nodes[0]


def encode_dependencies(
    tree: DependencyTree,
    vocabulary: Vocabulary,
    labels: Sequence[Any] | None = None,
    features: Mapping[str, Vocabulary] | None = None,
) -> EncodedTree:
    """Turns a dependency tree into arrays, in which a word's children are its dependents.

    The words come in the order `tree.order`: tree node `i` is the word `tree.words[tree.order[i]]`,
    and tree node 0 is the root. Put other values of words into the order of tree nodes in the same
    way: `np.array(values)[tree.order]`.

    Args:
        tree: A dependency tree.
        vocabulary: The vocabulary that gives words their tokens.
        labels: A label for each word, in the order of the sentence: an integer, or text that reads
            as one; -1 or `None` for a word without a label; `None` if no word has one.
        features: Further columns that tree nodes read, each with its vocabulary, such as `{"upos":
            Vocabulary.from_trees(trees, column="upos")}`: `"upos"`, `"relations"`, `"lemmas"`,
            `"xpos"`, `"feats"`, `"deps"` or `"misc"`.

    Returns:
        An `EncodedTree`: tokens int32 `[words]`, 1 or more; children int32 `[words, arity]` in the
        order of the sentence, filled up with -1, where the arity is the largest number of
        dependents of a word (and at least 1); labels int32 `[words]`, -1 = none. With `features`,
        tokens is a tuple of such arrays: that of the words, then one for each column, in which 0
        stands for a word without a value, and 1 for a value that the vocabulary lacks.
        `tree_batches` makes `((words, upos, children), labels)` of it.

    Raises:
        ValueError: If `tree` is something else; if there is not one label for each word, or one is
            not an integer; or if `features` has another column, or no vocabulary for one.

    Example:

    >>> tree = DependencyTree(["it", "works"], [1, -1], upos=["PRON", "VERB"])
    >>> words = kerasrec.datasets.Vocabulary.from_trees([tree])
    >>> tags = kerasrec.datasets.Vocabulary.from_trees([tree], column="upos")
    >>> kerasrec.datasets.encode_dependencies(tree, words, features={"upos": tags}).tokens
    (array([3, 2], dtype=int32), array([3, 2], dtype=int32))
    """
    expect_vocabulary(vocabulary)
    nodes = nodes_of_words(tree)
    heads = np.array(tree.heads)[tree.order]
    # In preorder, the dependents of a word ascend in the order of the sentence.
    children = ChildRows.from_parents(np.where(heads < 0, -1, nodes[heads]))
    tokens: Any = vocabulary.encode(tree.words)[tree.order]
    if features is not None:
        columns = [column[tree.order] for column in _columns(tree, features)]
        tokens = (tokens, *columns) if columns else tokens
    return EncodedTree(tokens, children.to_table(), labels_of_nodes(tree, labels))


def _columns(tree: DependencyTree, features: Mapping[str, Vocabulary]) -> list[np.ndarray]:
    """The tokens of the columns of a tree, each int32 `[words]`; 0 for a word without a value."""
    if not isinstance(features, Mapping):
        raise ValueError(
            f"features is {features!r}; expected a dict of columns and their vocabularies, such as "
            '{"upos": Vocabulary.from_trees(trees, column="upos")}.'
        )
    columns = []
    for name, vocabulary in features.items():
        expect_column("A key of features", name, OPTIONAL_COLUMNS)
        expect_vocabulary(vocabulary, f"features[{name!r}]")
        values = np.array(getattr(tree, name) or [""] * len(tree.words), object)
        columns.append(np.zeros(len(values), np.int32))
        columns[-1][values != ""] = vocabulary.encode(values[values != ""])
    return columns


def nodes_of_words(tree: DependencyTree) -> np.ndarray:
    """Returns the tree node of each word, the inverse of `tree.order`: int32 `[words]`.

    Args:
        tree: A dependency tree.

    Raises:
        ValueError: If it is something else.
    """
    expect(
        "tree",
        tree,
        DependencyTree,
        "Read one with read_conllu, or make one with dependencies_from_constituents; use "
        "encode_tree for an nltk.Tree.",
    )
    return np.argsort(tree.order).astype(np.int32)


def labels_of_nodes(tree: DependencyTree, labels: Sequence[Any] | None) -> np.ndarray:
    """Puts labels of words into the order of tree nodes.

    Args:
        tree: A dependency tree.
        labels: A label for each word, as `class_of` takes them; `None` if no word has one.

    Returns:
        The labels, int32 `[words]`, -1 = none.

    Raises:
        ValueError: If there is not one label for each word, or one is not an integer.
    """
    if labels is None:
        labels = [None] * len(tree.words)
    if isinstance(labels, str | bytes):  # Its letters would be taken for labels.
        raise ValueError(
            f"labels is {reprlib.repr(labels)}, one text; expected a list with a label for each "
            "word. Pass list(labels) for the letters of a text."
        )
    if len(labels) != len(tree.words):
        raise ValueError(
            f"{len(labels)} label(s) for a dependency tree of {len(tree.words)} word(s); expected "
            "one for each word, in the order of the sentence, None for a word without."
        )
    classes = [
        class_of(label, None, f"word {place} '{word}'")
        for place, (label, word) in enumerate(zip(labels, tree.words, strict=True))
    ]
    return np.array(classes, np.int32)[tree.order]
