"""Unrooted trees of taxa: as arrays, and their neighbours.

Trees are `kerasrec.datasets.NewickTree`, in any order of nodes; one without a root has it at an
inner node, with three children.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kerasrec.datasets import NewickTree


class TreeArrays(NamedTuple):
    """A binary tree as arrays; leaves are its first nodes, and a node comes after its children.

    Attributes:
        children: int32 `[nodes, 2]`, -1 at leaves; the root is the last node.
        lengths: float64 `[nodes]`, of the branch above, 0 where there is none.
        places: int32, which of the nodes each node of the `NewickTree` is.
    """

    children: np.ndarray
    lengths: np.ndarray
    places: np.ndarray

    def fitted(self, tree: NewickTree, lengths: np.ndarray) -> NewickTree:
        """The tree that it was made of, with other lengths `[nodes]`."""
        lengths = np.where(tree.parents < 0, np.nan, lengths[self.places])
        return tree._replace(lengths=lengths)


def unrooted(tree: NewickTree) -> NewickTree:
    """The same tree; if its root has two children, an inner one of them becomes the root.

    Under models that look the same forwards and backwards in time, the likelihood says nothing
    about where a root is: only the sum of the two branches below it counts.
    """
    (root,) = np.flatnonzero(tree.parents < 0)
    below = np.flatnonzero(tree.parents == root)
    inner = [node for node in below if node in tree.parents]
    if len(below) != 2 or not inner:
        return tree
    (other,) = below[below != inner[0]]
    parents, lengths = tree.parents.copy(), tree.lengths.copy()
    lengths[other] += lengths[inner[0]]
    parents[other], parents[inner[0]] = inner[0], -1
    keep = np.arange(len(parents)) != root
    numbers = np.cumsum(keep) - 1
    parents = np.where(parents < 0, -1, numbers[parents])[keep].astype(np.int32)
    names = [name for name, kept in zip(tree.names, keep, strict=True) if kept]
    return NewickTree(names, parents, np.where(parents < 0, np.nan, lengths[keep]))


def as_arrays(
    tree: NewickTree, taxa: Sequence[str], scale: float = 1.0, shortest: float = 0.0
) -> TreeArrays:
    """A tree in which each inner node has two children.

    A node with more has nodes without a branch put in between: so all trees of the same taxa have
    the same number of nodes, `2 * taxa - 1`.

    Args:
        tree: its leaves are named as `taxa`.
        taxa: in the order that leaves are to have.
        scale: of lengths, which may be in years.
        shortest: what is less, or not known, becomes so long.
    """
    number = {name: place for place, name in enumerate(taxa)}
    children = np.full([2 * len(taxa) - 1, 2], -1, np.int32)
    rows = [row[row >= 0].tolist() for row in tree.children]
    (root,) = np.flatnonzero(tree.parents < 0)
    order = [int(root)]
    for node in order:  # which grows
        order += rows[node]
    places, made = np.zeros(len(rows), np.int32), len(taxa)
    for node in reversed(order):
        if rows[node]:
            top, *others = places[rows[node]]
            for other in others:
                children[made] = top, other
                top, made = made, made + 1
            places[node] = top
        else:
            places[node] = number[tree.names[node]]
    lengths = np.zeros(len(children))
    lengths[places] = np.fmax(scale * tree.lengths, shortest)
    lengths[-1] = 0.0
    return TreeArrays(children, lengths, places)


def interchanges(tree: NewickTree) -> Iterator[NewickTree]:
    """The trees that are one nearest-neighbour interchange away, two for each inner branch.

    Branches keep their lengths. The tree must have three children at the root, and two at each
    other inner node.
    """
    rows = [row[row >= 0] for row in tree.children]
    for node, parent in enumerate(tree.parents):
        if parent >= 0 and len(rows[node]):
            neighbour = next(child for child in rows[parent] if child != node)
            for child in rows[node]:
                parents = tree.parents.copy()
                parents[child], parents[neighbour] = parent, node
                yield tree._replace(parents=parents)
