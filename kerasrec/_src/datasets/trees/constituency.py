"""Constituency trees, `nltk.Tree`s of any height: how to visit, reshape and make them.

`nltk.treetransforms` is not used, because it changes the tree that it gets, fails on integer
labels, and refuses trees that are more than 500 high.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

from nltk import Tree

from kerasrec._src.datasets.validation import expect, expect_word


def preorder(tree: Tree) -> Iterator[tuple[Tree, int, int]]:
    """Visits a tree's nodes in the order in which they are numbered, which is preorder.

    The root comes first, then each child's tree, left to right: parents come before their children,
    and leaves come in the order of the sentence.

    Args:
        tree: An `nltk.Tree`. Its words are not tree nodes: they belong to the node above them.

    Yields:
        Tuples `(node, parent, slot)`: `parent` counts the visited nodes from 0, and `slot` is the
        place among the parent's children. Both are -1 at the root.

    Raises:
        ValueError: If `tree` is something else.
    """
    expect(
        "tree",
        tree,
        Tree,
        "Make an nltk.Tree from text with parse_sst or nltk.Tree.fromstring; use "
        "encode_dependencies or encode_left_right for a DependencyTree.",
    )
    waiting = [(tree, -1, -1)]
    visited = 0
    while waiting:
        node, parent, slot = waiting.pop()
        yield node, parent, slot
        for place, child in reversed(list(enumerate(node))):
            if isinstance(child, Tree):
                waiting.append((child, visited, place))
        visited += 1


def rebuilt(tree: Tree, make: Callable[[Any, list[Tree | str]], Tree]) -> Tree:
    """Builds a new tree from the leaves up, without changing the given one.

    Args:
        tree: An `nltk.Tree`.
        make: Takes a tree node's label and its content, words and trees built already, and returns
            the tree that replaces it.

    Returns:
        The result for the root.

    Raises:
        ValueError: If `tree` is something else.
    """
    visits = list(preorder(tree))
    inside = [list(node) for node, _, _ in visits]
    for index in reversed(range(len(visits))):
        node, parent, slot = visits[index]
        made = make(node.label(), inside[index])
        if parent >= 0:
            inside[parent][slot] = made
    return made


# Ends the labels of tree nodes that binarize adds.
MARKER = "|"


def collapse_unary(tree: Tree, join: str = "+") -> Tree:
    """Makes one tree node of each chain of tree nodes with a single tree below.

    `(S (VP (VB look)))` becomes `(S+VP+VB look)`. Each remaining tree node has one word, or two or
    more trees, below it.

    Args:
        tree: An `nltk.Tree` of any height. It is not changed.
        join: The text between the labels of a chain. If not all labels of a chain are text, but for
            example classes, the chain keeps the uppermost.

    Returns:
        A new `nltk.Tree`.

    Raises:
        ValueError: If `tree` is something else.
    """

    def make(label: Any, inside: list[Tree | str]) -> Tree:
        child = inside[0] if len(inside) == 1 else None
        if not isinstance(child, Tree):
            return Tree(label, inside)
        if isinstance(label, str) and isinstance(child.label(), str):
            label = join.join(filter(None, (label, child.label())))
        child.set_label(label)
        return child

    return rebuilt(tree, make)


def binarize(tree: Tree, branching: Literal["left", "right"]) -> Tree:
    """Nests the children of tree nodes that have more than two in pairs.

    `(NP a b c d)`, if its children are trees, becomes

        (NP a (NP| b (NP| c d)))    branching right
        (NP (NP| (NP| a b) c) d)    branching left

    The new tree nodes stand for no constituent: their labels end in `|`, which `encode_tree` takes
    for no label. Words, their order, and all other tree nodes stay.

    Args:
        tree: An `nltk.Tree` of any height. It is not changed.
        branching: `"left"` or `"right"`.

    Returns:
        A new `nltk.Tree` with one or two children at each node.

    Raises:
        ValueError: If `tree` or `branching` is something else.
    """
    if branching not in ("left", "right"):
        raise ValueError(f"branching is {branching!r}; expected 'left' or 'right'.")

    def make(label: Any, inside: list[Tree | str]) -> Tree:
        if len(inside) < 3:
            return Tree(label, inside)
        marker = f"{'' if label is None else label}{MARKER}"
        if branching == "right":
            nested, *others = reversed(inside)
            for child in others[:-1]:
                nested = Tree(marker, [child, nested])
            return Tree(label, [others[-1], nested])
        nested, *others = inside
        for child in others[:-1]:
            nested = Tree(marker, [nested, child])
        return Tree(label, [nested, others[-1]])

    return rebuilt(tree, make)


def make_tree(
    text: str | Sequence[str],
    shape: Literal["balanced", "left", "right"] = "balanced",
    label: Any = None,
) -> Tree:
    """Puts the words of a sentence into a binary tree of a shape that depends only on their number.

    | shape | `a b c d` | height, over n words |
    |---|---|---|
    | `"balanced"` | `((a b) (c d))` | the logarithm of n: the most that can run at once |
    | `"left"` | `(((a b) c) d)` | n: the sentence is read from left to right |
    | `"right"` | `(a (b (c d)))` | n: the sentence is read from right to left |

    `"balanced"` gives the balanced and the others give the linear dataset of Jeong et al. 2018,
    section 6.3.

    Args:
        text: A sentence, which is split at ASCII spaces, tabs and line breaks, as the readers of
            files do; or its words, which are taken as they are.
        shape: The shape of the tree: `"balanced"`, `"left"` or `"right"`.
        label: The label of the root, such as the sentence's class.

    Returns:
        An `nltk.Tree` with one word or two trees below each node; their label is `None`,
        except for the root's.

    Raises:
        ValueError: If `text` is something else, there are no words, a word is empty, contains
            an unpaired surrogate or is not a `str`, or `shape` is none of the three.
    """
    if not isinstance(text, Iterable):
        raise ValueError(f"text is {text!r}; expected a sentence, or a list of its words.")
    words = re.findall(r"[^ \t\r\n]+", text) if isinstance(text, str) else list(text)
    if not words:
        raise ValueError("text has no words; expected a sentence, or at least one word.")
    for place, word in enumerate(words):
        expect_word(f"Word {place} of text", word)
    shapes: dict[str, Callable[[list[Tree]], Tree]] = {
        "balanced": _balanced,
        "left": _left,
        "right": _right,
    }
    if shape not in shapes:
        raise ValueError(f"shape is {shape!r}; expected one of {', '.join(shapes)}.")
    tree = shapes[shape]([Tree(None, [word]) for word in words])
    tree.set_label(label)
    return tree


def _balanced(trees: list[Tree]) -> Tree:
    if len(trees) == 1:
        return trees[0]
    middle = (len(trees) + 1) // 2
    return Tree(None, [_balanced(trees[:middle]), _balanced(trees[middle:])])


def _left(trees: list[Tree]) -> Tree:
    tree, *others = trees
    for other in others:
        tree = Tree(None, [tree, other])
    return tree


def _right(trees: list[Tree]) -> Tree:
    tree, *others = reversed(trees)
    for other in others:
        tree = Tree(None, [other, tree])
    return tree
