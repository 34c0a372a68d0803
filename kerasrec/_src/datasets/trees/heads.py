"""From constituency to dependency trees, given which child is the head of each tree node."""

from collections.abc import Callable
from typing import Any

from nltk import Tree

from kerasrec._src.datasets.trees.dependency import DependencyTree
from kerasrec._src.datasets.trees.traversal import preorder


def dependencies_from_heads(
    tree: Tree, is_left_head: Callable[[Tree], bool]
) -> tuple[DependencyTree, list[Any]]:
    """Turns each constituent into its head word, on which the words of its other parts depend.

    The head word of a leaf is its word; that of any other tree node is the head word of its head
    child. The head word of the other child depends on it. The result is projective. The tree may
    have any height.

    Args:
        tree: An `nltk.Tree` whose nodes have one word, or one or two trees, below them.
        is_left_head: Returns, for a tree node with two trees below it, whether the left one is its
            head.

    Returns:
        A `DependencyTree`, without parts of speech and relations; and, for the argument `labels` of
        `encode_dependencies`, for each word the label, as it is, of the largest constituent whose
        head word it is.

    Raises:
        ValueError: If `tree` is something else, or a tree node contains anything else.
    """
    visits = list(preorder(tree))
    words: list[str] = []
    # For each tree node: its children's numbers, and its head word.
    below: list[list[int]] = [[] for _ in visits]
    head_words = [-1] * len(visits)
    for index, (node, parent, _) in enumerate(visits):
        if parent >= 0:
            below[parent].append(index)
        kinds = [isinstance(child, str) for child in node]
        if kinds == [True]:
            head_words[index] = len(words)
            words.append(node[0])
        elif True in kinds or len(kinds) not in (1, 2):
            raise ValueError(
                f"Tree node {index} (label {node.label()!r}, preorder) holds {len(node)} "
                "child(ren); expected one word (str), or one or two trees (nltk.Tree). Binarize "
                "the tree first."
            )
    heads = [-1] * len(words)
    labels: list[Any] = [None] * len(words)
    for index in reversed(range(len(visits))):
        node = visits[index][0]
        if below[index]:
            head, *others = (
                below[index] if len(node) < 2 or is_left_head(node) else below[index][::-1]
            )
            head_words[index] = head_words[head]
            for other in others:
                heads[head_words[other]] = head_words[index]
        labels[head_words[index]] = node.label()
    return DependencyTree(words, heads), labels
