"""The check that arrays hold a tree."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from kerasrec.int_range import LARGEST


def check_tree(
    tokens: ArrayLike,
    children: ArrayLike,
    labels: ArrayLike | None = None,
    num_classes: int | None = None,
) -> None:
    """Checks that arrays hold one tree with tree node 0 as its root, padding (if any) at the end.

    Padding is a tree node with token 0, no children and label -1 that nothing points to.

    Args:
        tokens: Integers `[nodes]`, 0 to the largest of int32.
        children: Integers `[nodes, arity]`; -1 = no child.
        labels: Integers `[nodes]`, to the largest of int32; -1 = none.
        num_classes: If given, labels must be less.

    Raises:
        ValueError: If shapes or types do not fit; if the tree is empty; if a child, a token or a
            label is out of range; if tree node 0 is not the root; if a tree node has two parents,
            is in a cycle, or cannot be reached from tree node 0. The message names the tree node.
    """
    tokens, children = _integers("tokens", tokens, 1), _integers("children", children, 2)
    if len(tokens) != len(children):
        raise ValueError(
            f"tokens has {len(tokens)} tree nodes but children has {len(children)}; expected "
            "tokens [nodes] and children [nodes, arity] with the same number of nodes."
        )
    if not len(tokens) or (tokens[0] == 0 and (children[0] == -1).all()):
        raise ValueError(
            "Empty tree: expected at least tree node 0 (the root), with a word (a token other "
            "than 0) or children."
        )
    if tokens.min() < 0:
        node = int(tokens.argmin())
        raise ValueError(f"Token {tokens[node]} of tree node {node} is negative.")
    if tokens.max() > LARGEST:
        node = int(tokens.argmax())
        raise ValueError(
            f"Token {tokens[node]} of tree node {node} is too large; expected at most {LARGEST}, "
            "the largest of int32."
        )
    labels = _checked_labels(labels, len(tokens), num_classes)
    parents = _parents(children)
    reached = _reached(children)
    is_blank = (tokens == 0) & (children == -1).all(axis=1) & (labels == -1)
    last = np.flatnonzero(reached)[-1]
    lost = np.flatnonzero(~reached & (~is_blank | (np.arange(len(tokens)) < last)))
    if len(lost):
        _raise_unreached(int(lost[0]), parents)


def _integers(name: str, values: ArrayLike, rank: int) -> np.ndarray:
    array = np.asarray(values)
    shape = ("[nodes]", "[nodes, arity]")[rank - 1]
    if array.ndim != rank or not (np.issubdtype(array.dtype, np.integer) or not array.size):
        raise ValueError(
            f"{name} is {array.dtype} {list(array.shape)}; expected integers {shape}: one tree, "
            "without a batch axis."
        )
    return array


def _checked_labels(labels: ArrayLike | None, nodes: int, num_classes: int | None) -> np.ndarray:
    if labels is None:
        return np.full(nodes, -1)
    labels = _integers("labels", labels, 1)
    if len(labels) != nodes:
        raise ValueError(f"labels has {len(labels)} tree nodes but tokens has {nodes}.")
    last = LARGEST if num_classes is None else num_classes - 1
    wrong = np.flatnonzero((labels < -1) | (labels > last))
    if len(wrong):
        raise ValueError(
            f"Label {labels[wrong[0]]} of tree node {wrong[0]} is out of range; expected 0 to "
            f"{last}, or -1 for none."
        )
    return labels


def _parents(children: np.ndarray) -> np.ndarray:
    """Returns each tree node's parent `[nodes]`, -1 for none; raises if a node has two."""
    nodes = len(children)
    wrong = np.argwhere((children < -1) | (children >= nodes))
    if len(wrong):
        node, slot = wrong[0]
        raise ValueError(
            f"Child {slot} of tree node {node} is {children[node, slot]}, out of range; expected "
            f"a tree node from 1 to {nodes - 1}, or -1 for no child."
        )
    above, slots = np.nonzero(children >= 0)
    below = children[above, slots]
    if (below == 0).any():
        raise ValueError(
            f"Tree node 0 must be the root, but it is a child of tree node "
            f"{above[below == 0][0]}. Number the tree nodes so that the root comes first."
        )
    shared = np.flatnonzero(np.bincount(below, minlength=nodes) > 1)
    if len(shared):
        raise ValueError(
            f"Tree node {shared[0]} is a child of tree nodes "
            f"{' and '.join(map(str, above[below == shared[0]]))}; a tree node has one parent. "
            "Give each parent a copy."
        )
    parents = np.full(nodes, -1)
    parents[below] = above
    return parents


def _reached(children: np.ndarray) -> np.ndarray:
    reached = np.zeros(len(children), bool)
    level = np.zeros(1, np.int64)
    while len(level):
        reached[level] = True
        level = children[level].ravel()
        level = level[level >= 0]
    return reached


def _raise_unreached(node: int, parents: np.ndarray) -> None:
    path = {node: 0}  # The place of each tree node on the way up.
    above = node
    while parents[above] >= 0:
        above = int(parents[above])
        if above in path:
            cycle = [*list(path)[path[above] :], above]
            raise ValueError(
                f"Tree nodes {' -> '.join(map(str, reversed(cycle)))} form a cycle; expected a "
                "tree, whose every path of children ends."
            )
        path[above] = len(path)
    raise ValueError(
        f"Tree node {node} cannot be reached from tree node 0, the root. Make it a child of "
        "another tree node; padding (token 0, no children, label -1) comes after the last tree "
        "node only."
    )


def check_nth_tree(index: int, tree: Sequence[ArrayLike], arity: int | None, hint: str) -> None:
    """Checks one of several encoded trees, and that it has no more slots than `arity`.

    Args:
        index: Its place among them.
        tree: Its tokens, children and labels.
        arity: Slots for children that there are; `None` for as many as it has.
        hint: What to do where there are too few; `{}` stands for how many it needs.

    Raises:
        ValueError: If it is malformed (see `check_tree`) or has more slots; the message says which.
    """
    tokens, children, labels = tree
    try:
        check_tree(tokens, children, labels)
    except ValueError as error:
        raise ValueError(f"encoded_trees[{index}]: {error}") from error
    slots = np.shape(children)[1]
    if arity is not None and slots > arity:
        raise ValueError(
            f"encoded_trees[{index}] has {slots} slots for children, but arity is {arity}"
            f"{hint.format(slots)}"
        )
