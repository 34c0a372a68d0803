"""The one order in which tree nodes are numbered, without recursion, so that height is no limit."""

from collections.abc import Iterator

from nltk import Tree


def preorder(tree: Tree) -> Iterator[tuple[Tree, int, int]]:
    """Visits a tree's nodes in preorder: the root first, then each child's tree, left to right.

    Parents come before their children, and leaves come in the order of the sentence.

    Args:
        tree: An `nltk.Tree`. Its words are no tree nodes: they belong to the node above them.

    Yields:
        `(node, parent, slot)`: `parent` counts the visited nodes from 0, and `slot` is the place
        among the parent's children. Both are -1 at the root.
    """
    waiting = [(tree, -1, -1)]
    visited = 0
    while waiting:
        node, parent, slot = waiting.pop()
        yield node, parent, slot
        for place, child in reversed(list(enumerate(node))):
            if isinstance(child, Tree):
                waiting.append((child, visited, place))
        visited += 1
