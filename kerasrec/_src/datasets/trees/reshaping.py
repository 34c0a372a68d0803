"""Changes numbers of children in constituency trees: none has a single child, or more than two.

`nltk.treetransforms` is not used, because it changes the tree that it gets, fails on integer
labels, and refuses trees that are more than 500 high.
"""

from typing import Any, Literal

from nltk import Tree

from kerasrec._src.datasets.trees.traversal import rebuilt

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
        A new `nltk.Tree` whose nodes have one or two children each.

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
