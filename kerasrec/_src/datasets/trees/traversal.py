"""Walks over trees without recursion, so that trees may have any height."""

from collections.abc import Callable, Iterator
from typing import Any

from nltk import Tree

from kerasrec._src.datasets.expected import expect


def preorder(tree: Tree) -> Iterator[tuple[Tree, int, int]]:
    """Visits a tree's nodes in the order in which they are numbered, which is preorder.

    The root comes first, then each child's tree, left to right. So parents come
    before their children, and leaves come in the order of the sentence.

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
        "Make an nltk.Tree from text with read_tree or nltk.Tree.fromstring; for a DependencyTree "
        "there are encode_dependencies and encode_left_right.",
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
