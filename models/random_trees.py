"""Random labeled trees, and how well two trees match.

The task is the synthetic one of Alvarez-Melis and Jaakkola 2017, section 4.1, with other
probabilities, see `Grammar`.
"""

from collections import Counter
from collections.abc import Sequence
from string import ascii_uppercase as LETTERS
from typing import NamedTuple

import numpy as np
from nltk import Tree

MAX_LEVELS = 5
SIZES = range(2, 21)


class Grammar:
    """Draws trees from the root down.

    A tree node's label depends on the labels of its parent and its previous sibling; whether it has
    children and a next sibling depends on its own label and on the level it stands on. For each
    pair of labels the distribution of the next is drawn from a Dirichlet distribution of parameter
    0.1; roots have any label. For each label the chances of children and of a sibling are uniform
    from 0 to 1; that of children is less by a fifth on each level. Trees have 2 to 20 nodes on at
    most 5 levels; their leaves are words (`str`).

    Args:
        random: draws the distributions and then all trees.
    """

    def __init__(self, random: np.random.Generator):
        self._random = random
        size = len(LETTERS)
        # The last row and column are for no parent and no previous sibling.
        self._labels = random.dirichlet(np.full(size, 0.1), size=(size + 1, size + 1))
        self._labels[size, size] = 1 / size
        self._children, self._sibling = random.uniform(size=[2, size])

    def tree(self) -> Tree:
        """Draws a tree."""
        while True:
            tree = self._siblings(len(LETTERS), level=1)[0]
            if isinstance(tree, Tree) and len(breadth_first(tree)) in SIZES:
                return tree

    def distinct_trees(self, number: int) -> list[Tree]:
        """Draws trees until there are so many different ones, and shuffles them.

        Likely trees come early, so the first ones differ from the last.
        """
        trees: dict[str, Tree] = {}
        while len(trees) < number:
            tree = self.tree()
            trees[str(tree)] = tree
        drawn = list(trees.values())
        return [drawn[place] for place in self._random.permutation(number)]

    def _siblings(self, parent: int, level: int) -> list[Tree | str]:
        siblings: list[Tree | str] = []
        label = len(LETTERS)
        while True:
            label = self._random.choice(len(LETTERS), p=self._labels[parent, label])
            chance = self._children[label] * (1 - (level - 1) / MAX_LEVELS)
            grows = level < MAX_LEVELS and self._random.random() < chance
            below = self._siblings(label, level + 1) if grows else []
            siblings.append(Tree(LETTERS[label], below) if below else LETTERS[label])
            if level == 1 or self._random.random() > self._sibling[label]:
                return siblings


def breadth_first(tree: Tree) -> list[str]:
    """Lists the labels level by level, without brackets: a model's only input."""
    level, labels = [tree], []
    while level:
        labels += [name(node) for node in level]
        level = [child for node in level if isinstance(node, Tree) for child in node]
    return labels


def edges(tree: Tree) -> list[tuple[str, str]]:
    """Lists the labels of every tree node and its parent."""
    return [(name(node), name(child)) for node in tree.subtrees() for child in node]


def name(node: Tree | str) -> str:
    return node.label() if isinstance(node, Tree) else node


class Match(NamedTuple):
    """How well one tree matches another; edges are pairs of labels, and order does not count.

    Attributes:
        node_precision: share of the found tree's nodes that are in the true tree.
        node_recall: share of the true tree's nodes that were found.
        edge_precision: the same of edges.
        edge_recall: the same of edges.
        exact: 1 for the same tree, else 0.
    """

    node_precision: float
    node_recall: float
    edge_precision: float
    edge_recall: float
    exact: float


def match(true: Tree, found: Tree) -> Match:
    """Compares two trees as bags of nodes and bags of edges."""
    shares = []
    for bag in (breadth_first, edges):
        wanted, given = Counter(bag(true)), Counter(bag(found))
        both = (wanted & given).total()
        shares += [both / max(given.total(), 1), both / wanted.total()]
    return Match(*shares, exact=float(true == found))


def figures(matches: Sequence[Match]) -> dict[str, float]:
    """Means over trees, and the F1 of mean precision and mean recall."""
    means = {key: float(np.mean([getattr(one, key) for one in matches])) for key in Match._fields}
    for kind in ("node", "edge"):
        precision, recall = means[f"{kind}_precision"], means[f"{kind}_recall"]
        means[f"{kind}_f1"] = 2 * precision * recall / max(precision + recall, 1e-9)
    return means


def evaluate(trees: Sequence[Tree], found: Sequence[Tree]) -> dict[str, dict[str, float]]:
    """Figures of all trees, and by the number of levels."""
    matches = [match(*pair) for pair in zip(trees, found, strict=True)]
    levels = [tree.height() for tree in trees]
    groups = {"all trees": figures(matches)}
    for level in sorted(set(levels)):
        chosen = [one for one, height in zip(matches, levels, strict=True) if height == level]
        groups[f"{level} levels ({len(chosen)} trees)"] = figures(chosen)
    return groups
