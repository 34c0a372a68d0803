"""From dependency trees to arrays: every word is a tree node, and its dependents its children."""

import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from kerasrec._src.datasets.encode.child_rows import ChildRows
from kerasrec._src.datasets.encode.classes import class_of
from kerasrec._src.datasets.encode.sentences import EncodedTree
from kerasrec._src.datasets.encode.vocabulary import Vocabulary, expect_vocabulary
from kerasrec._src.datasets.expected import expect
from kerasrec._src.datasets.trees.dependency import DependencyTree


def encode_dependencies(
    tree: DependencyTree, vocabulary: Vocabulary, labels: Sequence[Any] | None = None
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

    Returns:
        An `EncodedTree`: tokens int32 `[words]`, 1 or more; children int32 `[words, arity]` in the
        order of the sentence, filled up with -1, where the arity is the largest number of
        dependents of a word (and at least 1); labels int32 `[words]`, -1 = none.

    Raises:
        ValueError: If `tree` is something else; if there is not one label for each word, or one is
            not an integer.
    """
    expect_vocabulary(vocabulary)
    nodes = nodes_of_words(tree)
    heads = np.array(tree.heads)[tree.order]
    # In preorder, the dependents of a word ascend in the order of the sentence.
    children = ChildRows.from_parents(np.where(heads < 0, -1, nodes[heads]))
    return EncodedTree(
        vocabulary.encode(tree.words)[tree.order], children.table(), labels_of_nodes(tree, labels)
    )


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
        "Read one with read_conllu, or make one with dependencies_from_heads; for an nltk.Tree "
        "there is encode_tree.",
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
