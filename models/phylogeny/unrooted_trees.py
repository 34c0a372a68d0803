"""Unrooted trees of taxa: as arrays, and their neighbors.

Trees are `kerasrec.datasets.NewickTree`, in any order of nodes; one without a root has it at an
inner node, with three children.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kerasrec.datasets import NewickTree
from phylogeny.taxa import expect_taxa


class TreeArrays(NamedTuple):
    """A binary tree as arrays; leaves are its first nodes, and a node comes after its children.

    Attributes:
        children: int32 `[nodes, 2]`, -1 at leaves; the root is the last node.
        lengths: float64 `[nodes]`, of the branch above, 0 if it is missing.
        places: int32, which of the nodes each node of the `NewickTree` is; the same for those along
            a branch that was joined.
    """

    children: np.ndarray
    lengths: np.ndarray
    places: np.ndarray

    def __repr__(self) -> str:
        shapes = (f"{name}=<{of.dtype} {list(of.shape)}>" for name, of in self._asdict().items())
        return f"TreeArrays({', '.join(shapes)})"

    def fitted(self, tree: NewickTree, lengths: np.ndarray) -> NewickTree:
        """The tree that it was made of, with other lengths `[nodes]`.

        Branches that were joined into one share its length as they did before, and evenly where
        they had none. Above the root, lengths are missing.
        """
        given = np.fmax(tree.lengths, 0.0)
        total = np.bincount(self.places, given, len(lengths))[self.places]
        number = np.bincount(self.places)[self.places]
        share = np.where(total > 0.0, given / np.where(total > 0.0, total, 1.0), 1.0 / number)
        is_above_root = self.places == len(lengths) - 1
        return tree._replace(lengths=np.where(is_above_root, np.nan, share * lengths[self.places]))


def joined(tree: NewickTree) -> tuple[NewickTree, np.ndarray]:
    """The same tree without nodes that have one child: the branches that meet there become one.

    Their lengths are added. A missing length (NaN) counts as 0 in the sum, which is missing itself
    if all are.

    Returns:
        The tree, and which of its nodes each node has become, int32: the next one below that has
        not one child.
    """
    num_children = np.bincount(tree.parents + 1, minlength=len(tree.parents) + 1)[1:]
    keep = num_children != 1
    parents, lengths, ends = tree.parents.copy(), tree.lengths.copy(), np.arange(len(keep))
    for node in np.flatnonzero(keep):
        above = tree.parents[node]
        while above >= 0 and not keep[above]:
            ends[above] = node
            if not np.isnan(tree.lengths[above]):
                lengths[node] = np.nan_to_num(lengths[node]) + tree.lengths[above]
            above = tree.parents[above]
        parents[node] = above
    numbers = np.cumsum(keep) - 1
    parents = np.where(parents < 0, -1, numbers[parents])[keep].astype(np.int32)
    names = [name for name, kept in zip(tree.names, keep, strict=True) if kept]
    return NewickTree(names, parents, lengths[keep]), numbers[ends].astype(np.int32)


def unrooted(tree: NewickTree) -> NewickTree:
    """The same tree without nodes that have one child, and without a root that has two.

    If the root has two children, an inner one of them becomes the root, and the two branches become
    one, as in `joined`. Under models that look the same forwards and backwards in time, the
    likelihood does not depend on the root: only the sum of the two branches below it counts.
    """
    tree, _ = joined(tree)
    (root,) = np.flatnonzero(tree.parents < 0)
    below = np.flatnonzero(tree.parents == root)
    inner = [node for node in below if node in tree.parents]
    if len(below) != 2 or not inner:
        return tree
    # The old root keeps one child, so that it is left out.
    parents, lengths = tree.parents.copy(), tree.lengths.copy()
    parents[root], parents[inner[0]] = inner[0], -1
    lengths[root], lengths[inner[0]] = lengths[inner[0]], np.nan
    return joined(NewickTree(tree.names, parents, lengths))[0]


def as_arrays(
    tree: NewickTree, taxa: Sequence[str], scale: float = 1.0, shortest: float = 0.0
) -> TreeArrays:
    """A tree in which each inner node has two children.

    A node with more has nodes without a branch put in between, and one with a single child is left
    out, as by `joined`: so all trees of the same taxa have the same number of nodes,
    `2 * taxa - 1`.

    Args:
        tree: its leaves are named as `taxa`.
        taxa: in the order that leaves are to have, each once.
        scale: of lengths, which may be in years.
        shortest: the least length; shorter branches, and those without a length, get it.

    Raises:
        ValueError: If `taxa` are not the names of the leaves, each once.
    """
    expect_taxa(taxa, tree.taxa, "tree")
    tree, ends = joined(tree)
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
    return TreeArrays(children, lengths, places[ends])


def interchanges(tree: NewickTree) -> Iterator[NewickTree]:
    """The trees that are one nearest-neighbor interchange away, two for each inner branch.

    Branches keep their lengths. The tree must have three children at the root, and two at each
    other inner node.
    """
    rows = [row[row >= 0] for row in tree.children]
    for node, parent in enumerate(tree.parents):
        if parent >= 0 and len(rows[node]):
            neighbor = next(child for child in rows[parent] if child != node)
            for child in rows[node]:
                parents = tree.parents.copy()
                parents[child], parents[neighbor] = parent, node
                yield tree._replace(parents=parents)
