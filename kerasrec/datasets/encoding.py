"""Trees to arrays and back."""

from typing import NamedTuple

import numpy as np
from nltk import Tree

from kerasrec.datasets.checking import check_tree
from kerasrec.datasets.traversal import preorder
from kerasrec.datasets.vocabulary import Vocabulary


class EncodedTree(NamedTuple):
    """A tree as arrays; tree node 0 is the root.

    Attributes:
        tokens: int32 `[nodes]`; a tree node's word in the vocabulary, 0 where it has none, as the
            inner tree nodes of a constituency tree.
        children: int32 `[nodes, arity]`; the tree nodes below each one, -1 = no child.
        labels: int32 `[nodes]`; -1 = none.
    """

    tokens: np.ndarray
    children: np.ndarray
    labels: np.ndarray


def encode_tree(tree: Tree, vocabulary: Vocabulary) -> EncodedTree:
    """Turns a binary tree into arrays, its nodes in preorder.

    In preorder the root is tree node 0, parents come before their children, and leaves come in the
    order of the sentence: `tokens[tokens > 0]` is the sentence. Trees of any height are taken.

    Args:
        tree: An `nltk.Tree` whose nodes hold one word or two trees each. Labels are integers, or
            text that reads as one; `None` stands for no label.
        vocabulary: Gives words their tokens.

    Returns:
        An `EncodedTree`.

    Raises:
        ValueError: If a tree node holds anything but one word or two trees, or its label is no
            integer.
    """
    words: dict[int, str] = {}
    children: list[list[int]] = []
    labels: list[int] = []
    for index, (node, parent, slot) in enumerate(preorder(tree)):
        is_leaf = len(node) == 1 and isinstance(node[0], str)
        if not is_leaf and not (len(node) == 2 and all(isinstance(child, Tree) for child in node)):
            raise ValueError(
                f"Tree node {index} (label {node.label()!r}, preorder) holds {len(node)} "
                "child(ren); expected one word (str) or two trees (nltk.Tree). Binarise the tree "
                "first."
            )
        if is_leaf:
            words[index] = node[0]
        children.append([-1, -1])
        labels.append(_label(node.label(), index))
        if parent >= 0:
            children[parent][slot] = index
    tokens = np.zeros(len(labels), np.int32)
    tokens[list(words)] = vocabulary.encode(words.values())
    return EncodedTree(tokens, np.array(children, np.int32), np.array(labels, np.int32))


def decode_tree(encoded: EncodedTree, vocabulary: Vocabulary) -> Tree:
    """Turns arrays back into a tree.

    Args:
        encoded: An `EncodedTree`, or a tuple like it, with any arity and any order of tree nodes
            after the root; padding at the end is dropped.
        vocabulary: Gives tokens their words; unknown words come back as `"<unk>"`.

    Returns:
        An `nltk.Tree` with `int` labels, `None` where the label is -1.

    Raises:
        ValueError: If the arrays hold no tree (see `check_tree`), or a token is out of range.
    """
    tokens, children, labels = (np.asarray(array) for array in encoded)
    check_tree(tokens, children, labels)
    if tokens.max() >= len(vocabulary):
        raise ValueError(
            f"Token {tokens.max()} of tree node {tokens.argmax()} is out of range: the vocabulary "
            f"has {len(vocabulary)} entries. Pass the vocabulary that the tree was encoded with."
        )
    nodes = [Tree(None if label < 0 else label, []) for label in labels.tolist()]
    for node, token, row in zip(nodes, tokens.tolist(), children.tolist(), strict=True):
        below = [nodes[child] for child in row if child >= 0]
        node.extend(below or [vocabulary.words[token]])
    return nodes[0]


def _label(label: object, index: int) -> int:
    if label is None:
        return -1
    try:
        return int(label)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise ValueError(
            f"Label {label!r} of tree node {index} (preorder) is no integer. Map the labels to "
            "0, 1, ... first, or set them to None where there is none."
        ) from None
