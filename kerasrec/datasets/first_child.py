"""Trees of any arity as binary ones, and back, for models that generate them from the root down.

Source: Knuth 1968, The Art of Computer Programming, volume 1, section 2.3.2 (natural
correspondence).
"""

from typing import Any

import numpy as np
from nltk import Tree
from numpy.typing import ArrayLike

from kerasrec.datasets.checking import check_tree
from kerasrec.datasets.encoding import EncodedTree
from kerasrec.datasets.vocabulary import Vocabulary, expect_vocabulary

# The slots of `children`.
FIRST_CHILD, NEXT_SIBLING = range(2)


def encode_first_child(tree: Tree, vocabulary: Vocabulary) -> EncodedTree:
    """Turns a tree of any arity, with a token at every tree node, into arrays of two slots.

    Slot 0 holds a tree node's first child, slot 1 its next sibling. Tree nodes come in preorder, as
    they would in the tree itself.

    Args:
        tree: An `nltk.Tree`. Labels give tree nodes their tokens; a word (`str`) is a leaf, and so
            is a tree that holds nothing.
        vocabulary: Gives labels and words their tokens.

    Returns:
        An `EncodedTree`: tokens int32 `[nodes]`, 1 or more; children int32 `[nodes, 2]`, -1 = none;
        labels int32 `[nodes]`, the tokens, which such a model is to predict.

    Raises:
        ValueError: If a label is not a `str`.
    """
    expect_vocabulary(vocabulary)
    names: list[str] = []
    children: list[list[int]] = []
    waiting: list[tuple[list[Any], int, int, int]] = [([tree], 0, -1, FIRST_CHILD)]
    while waiting:
        siblings, place, above, slot = waiting.pop()
        node, number = siblings[place], len(names)
        name = node.label() if isinstance(node, Tree) else node
        if not isinstance(name, str):
            raise ValueError(
                f"Tree node {number} (preorder) has the label {name!r}; expected a str, which the "
                "vocabulary gives its token."
            )
        names.append(name)
        children.append([-1, -1])
        if above >= 0:
            children[above][slot] = number
        if place + 1 < len(siblings):
            waiting.append((siblings, place + 1, number, NEXT_SIBLING))
        if isinstance(node, Tree) and len(node):
            waiting.append((node, 0, number, FIRST_CHILD))
    tokens = vocabulary.encode(names)
    return EncodedTree(tokens, np.array(children, np.int32), tokens.copy())


def decode_first_child(tokens: ArrayLike, children: ArrayLike, vocabulary: Vocabulary) -> Tree:
    """Turns arrays as `encode_first_child` makes them, or a model generates them, into a tree.

    Args:
        tokens: Integers `[nodes]`; tree node 0 is the root, and the others may come in any order.
            Padding at the end is dropped.
        children: Integers `[nodes, 2]`, first child and next sibling; -1 = none.
        vocabulary: Gives tokens their words; unknown ones come back as `"<unk>"`.

    Returns:
        An `nltk.Tree`. Below its root, leaves are words (`str`).

    Raises:
        ValueError: If the arrays hold no tree (see `check_tree`), the arity is not 2, a token is
            out of range or 0, or the root has a next sibling.
    """
    tokens, children = np.asarray(tokens), np.asarray(children)
    check_tree(tokens, children)
    if children.shape[1] != 2 or children[0, NEXT_SIBLING] >= 0:
        found = (
            f"has {children.shape[1]} slots a tree node"
            if children.shape[1] != 2
            else f"gives the root tree node {children[0, NEXT_SIBLING]} as next sibling"
        )
        raise ValueError(
            f"children {found}; expected 2 slots, first child and next sibling, and a root that "
            "has no sibling."
        )
    whole = Tree("", [])
    waiting: list[tuple[int, Tree]] = [(0, whole)]
    while waiting:
        node, parent = waiting.pop()
        if not 0 < tokens[node] < len(vocabulary):
            raise ValueError(
                f"Token {tokens[node]} of tree node {node} is not a word of the vocabulary; "
                f"expected 1 to {len(vocabulary) - 1}."
            )
        name = vocabulary.words[tokens[node]]
        first, following = children[node].tolist()
        made = Tree(name, []) if first >= 0 or node == 0 else name
        parent.append(made)
        if following >= 0:
            waiting.append((following, parent))
        if first >= 0:
            waiting.append((first, made))
    return whole[0]
