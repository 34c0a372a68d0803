"""The check that arrays form a tree."""

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from nltk import Tree
from numpy.typing import ArrayLike

from kerasrec._src.datasets.trees.child_rows import ChildRows, parents_first
from kerasrec._src.datasets.validation import has_floats, is_too_large
from kerasrec._src.int_range import LARGEST


def check_tree(
    tokens: Any,
    children: Any,
    labels: ArrayLike | None = None,
    num_classes: int | None = None,
    shared_nodes: bool = False,
) -> None:
    """Checks that arrays form one tree with tree node 0 as its root, padding (if any) at the end.

    Padding is a tree node with token 0, no children and label -1 to which nothing points.

    Args:
        tokens: Integers `[nodes]` or `[nodes, ids]`, from 0 to the largest int32; floats
            `[nodes, features]`; or a tuple of such arrays.
        children: Integers `[nodes, arity]`, -1 = no child; or a row of integers for each tree node,
            as from `encode_objects`, which may have features of edges.
        labels: Integers `[nodes]`, up to the largest int32; -1 = none. Or floats `[nodes]`, NaN =
            none; or one number, the label of the tree.
        num_classes: The number of classes. If it is given, labels must be less.
        shared_nodes: Whether a tree node may have several parents, as layers with this option take
            it. The arrays then form a directed acyclic graph.

    Raises:
        ValueError: If shapes or types do not fit; if the tree is empty; if a child, a token or a
            label is out of range, or a number not finite; if tree node 0 is not the root; if a tree
            node has two parents without `shared_nodes`, is in a cycle, or cannot be reached from
            tree node 0. The message names the tree node.
    """
    arrays = inputs_of(tokens)
    rows = ChildRows.from_children(children)
    for array in arrays:
        _check_inputs(array, len(rows))
    _check_edges(rows)
    has_child = np.zeros(len(rows), bool)
    has_child[rows.parents[rows.values != -1]] = True
    is_zero = np.all(
        [np.all(array.reshape(len(array), -1) == 0, axis=1) for array in arrays], axis=0
    )
    is_words = arrays[0].ndim == 1 or not len(arrays[0])
    if not len(rows) or (is_words and is_zero[0] and not has_child[0]):
        raise ValueError(
            "Empty tree: expected at least tree node 0 (the root), with a word (a token other "
            "than 0) or children."
        )
    has_label = _checked_labels(labels, len(rows), num_classes)
    parents, below = _edges(rows)
    if not shared_nodes:
        _check_one_parent(parents, below)
    reached = np.arange(len(rows)) == 0
    reached[below] = True
    # Nearly all trees have parents before children, and none that lack a parent themselves.
    if (below <= parents).any() or (has_child & ~reached).any():
        reached[:] = False
        reached[parents_first(parents, below, len(rows))] = True
    is_blank = is_zero & ~has_child & ~has_label
    last = np.flatnonzero(reached)[-1]
    lost = np.flatnonzero(~reached & (~is_blank | (np.arange(len(rows)) < last)))
    if len(lost):
        is_above = ~reached[parents]
        above = dict(zip(below[is_above].tolist(), parents[is_above].tolist(), strict=True))
        _raise_unreached(int(lost[0]), above)


def inputs_of(tokens: Any) -> tuple[np.ndarray, ...]:
    """The arrays that tree nodes read: one array, or ids and features.

    Args:
        tokens: An array, or a tuple of arrays.
    """
    are_several = isinstance(tokens, tuple) and any(np.ndim(column) for column in tokens)
    return tuple(map(np.asarray, tokens)) if are_several else (np.asarray(tokens),)


def _check_inputs(array: np.ndarray, nodes: int) -> None:
    is_integer = np.issubdtype(array.dtype, np.integer) or not array.size
    is_float = has_floats(array) and array.ndim == 2
    if not (is_integer and array.ndim in (1, 2)) and not is_float:
        raise ValueError(
            f"tokens is {array.dtype} {list(array.shape)}; expected integers [nodes] or "
            "[nodes, ids], or floats [nodes, features]: one tree, without a batch axis."
        )
    if len(array) != nodes:
        raise ValueError(
            f"tokens has {len(array)} tree nodes but children has {nodes}; expected "
            "tokens [nodes] and children [nodes, arity] with the same number of nodes."
        )
    if not array.size:
        return
    if is_float:
        wrong = np.flatnonzero((~np.isfinite(array) | is_too_large(array)).any(axis=1))
        if len(wrong):
            raise ValueError(
                f"A feature of tree node {wrong[0]} is not a finite number, as float32 has them."
            )
    elif array.min() < 0:
        node = int(np.argwhere(array < 0)[0, 0])
        raise ValueError(f"Token {array[node].min()} of tree node {node} is negative.")
    elif array.max() > LARGEST:
        node = int(np.argwhere(array > LARGEST)[0, 0])
        raise ValueError(
            f"Token {array[node].max()} of tree node {node} is too large; expected at most "
            f"{LARGEST}, the largest of int32."
        )


def _check_edges(rows: ChildRows) -> None:
    if rows.edges is None:
        return
    if not has_floats(rows.edges) or rows.edges.ndim != 2 or len(rows.edges) != len(rows.values):
        raise ValueError(
            f"The features of edges are {rows.edges.dtype} {list(rows.edges.shape)}; expected "
            f"floats [edges, features] for the {len(rows.values)} entries of children."
        )
    wrong = np.flatnonzero((~np.isfinite(rows.edges) | is_too_large(rows.edges)).any(axis=1))
    if len(wrong):
        raise ValueError(
            f"A feature of an edge of tree node {rows.parents[wrong[0]]} is not a finite number, "
            "as float32 has them."
        )


def _checked_labels(labels: ArrayLike | None, nodes: int, num_classes: int | None) -> np.ndarray:
    """Returns whether each node has a label, bool `[nodes]`; a tree's label belongs to no node."""
    if labels is None:
        return np.zeros(nodes, bool)
    array = np.asarray(labels)
    is_float = has_floats(array) and array.size > 0
    if array.ndim > 1 or not (is_float or np.issubdtype(array.dtype, np.integer) or not array.size):
        raise ValueError(
            f"labels is {array.dtype} {list(array.shape)}; expected integers or floats [nodes], or "
            "one number for the tree: one tree, without a batch axis."
        )
    if array.ndim and len(array) != nodes:
        raise ValueError(f"labels has {len(array)} tree nodes but tokens has {nodes}.")
    flat = array.reshape(-1)
    if is_float:
        wrong = np.flatnonzero(np.isinf(flat) | is_too_large(flat))
        expected = "a finite number, as float32 has them, or NaN for none"
    else:
        last = LARGEST if num_classes is None else num_classes - 1
        wrong = np.flatnonzero((flat < -1) | (flat > last))
        expected = f"0 to {last}, or -1 for none"
    if len(wrong):
        place = f"tree node {wrong[0]}" if array.ndim else "the tree"
        raise ValueError(f"Label {flat[wrong[0]]} of {place} is out of range; expected {expected}.")
    if not array.ndim:
        return np.zeros(nodes, bool)
    return ~np.isnan(flat) if is_float else flat != -1


def _edges(rows: ChildRows) -> tuple[np.ndarray, np.ndarray]:
    """Returns the parent and the child of each edge, both `[edges]`."""
    nodes, parents, below = len(rows), rows.parents, rows.values
    wrong = np.flatnonzero((below < -1) | (below >= nodes))
    if len(wrong):
        node = parents[wrong[0]]
        raise ValueError(
            f"Child {wrong[0] - rows.splits[node]} of tree node {node} is {below[wrong[0]]}, out "
            f"of range; expected a tree node from 1 to {nodes - 1}, or -1 for no child."
        )
    parents, below = parents[below >= 0], below[below >= 0]
    if (below == 0).any():
        raise ValueError(
            f"Tree node 0 must be the root, but it is a child of tree node "
            f"{parents[below == 0][0]}. Number the tree nodes so that the root comes first."
        )
    return parents, below


def _check_one_parent(parents: np.ndarray, below: np.ndarray) -> None:
    shared = np.flatnonzero(np.bincount(below) > 1)
    if len(shared):
        above = parents[below == shared[0]]
        raise ValueError(
            f"Tree node {shared[0]} is a child of tree nodes {' and '.join(map(str, above))}; a "
            "tree node has one parent. Pass shared_nodes=True, also to the layer, or give each "
            "parent a copy."
        )


def _raise_unreached(node: int, parents: Mapping[int, int]) -> None:
    """Raises for a tree node that is in a cycle, below one, or below a node that has no parent.

    Args:
        node: The tree node.
        parents: A parent of each one that has any, which cannot be reached either.
    """
    path = {node: 0}  # The place of each tree node on the way up.
    while node in parents:
        node = parents[node]
        if node in path:
            cycle = [*list(path)[path[node] :], node]
            raise ValueError(
                f"Tree nodes {' -> '.join(map(str, reversed(cycle)))} form a cycle; expected a "
                "tree, without cycles."
            )
        path[node] = len(path)
    raise ValueError(
        f"Tree node {node} cannot be reached from tree node 0, the root. Make it a child of "
        "another tree node; padding (token 0, no children, label -1) comes after the last tree "
        "node only."
    )


def check_nth_tree(
    index: int,
    tree: Sequence[Any],
    former: Sequence[Any] | None,
    arity: int | None,
    hint: str,
    shared_nodes: bool = False,
) -> Sequence[Any]:
    """Checks one of several encoded trees, and that it has no more slots than `arity`.

    Args:
        index: The tree's place among them.
        tree: The tree's tokens, children and labels.
        former: The result for the tree before; `None` for the first.
        arity: The number of slots for children; `None` for as many as the tree has.
        hint: A fix for too few slots; `{}` stands for the number that the tree needs.
        shared_nodes: The argument of `check_tree`.

    Returns:
        The arrays to compare the next tree with, see `check_alike`.

    Raises:
        ValueError: If it is not an encoded tree, is malformed (see `check_tree`), has more slots,
            or is of another kind than those before; the message names it.
    """
    if isinstance(tree, Tree | Mapping | str) or not hasattr(tree, "__len__") or len(tree) != 3:
        raise ValueError(
            f"encoded_trees[{index}] is {reprlib.repr(tree)} (type {type(tree).__name__}); "
            "expected (tokens, children, labels), as encode_tree, encode_dependencies and "
            "encode_objects make it of a tree."
        )
    tokens, children, labels = tree
    try:
        check_tree(tokens, children, labels, shared_nodes=shared_nodes)
    except ValueError as error:
        raise ValueError(f"encoded_trees[{index}]: {error}") from error
    slots = ChildRows.from_children(children).arity
    if arity is not None and slots > arity:
        raise ValueError(
            f"encoded_trees[{index}] has {slots} slots for children, but arity is {arity}"
            f"{hint.format(slots)}"
        )
    return tree if former is None else check_alike(index, tree, former)


def check_alike(index: int, tree: Sequence[Any], former: Sequence[Any]) -> Sequence[Any]:
    """Checks that one of several encoded trees has arrays of the same kinds as those before.

    Args:
        index: The tree's place among them.
        tree: The tree's tokens, children and labels, which have been checked.
        former: The arrays of a former tree, one with labels if there was any.

    Returns:
        The arrays to compare the next tree with. A tree without labels may be of any kind of
        labels, and a tree without children may have any features of edges.

    Raises:
        ValueError: If one tree has other inputs than the other, other features of edges, or another
            kind of labels.
    """
    mine, others = (is_labeled(arrays[2]) for arrays in (tree, former))
    rows, former_rows = (ChildRows.from_children(arrays[1]) for arrays in (tree, former))
    kinds = [("tokens", _kind_of_inputs)]
    if _tells_edges(rows) and _tells_edges(former_rows):
        kinds.append(("features of edges", _kind_of_edges))
    if (mine and others) or np.ndim(tree[2]) != np.ndim(former[2]):
        kinds.append(("labels", _kind_of_labels))
    for name, kind in kinds:
        if kind(tree) != kind(former):
            raise ValueError(
                f"encoded_trees[{index}] has {name} of the kind {kind(tree)}, but trees before it "
                f"of the kind {kind(former)}; expected the same for all trees."
            )
    return (
        tree[0],
        former_rows if _tells_edges(former_rows) else rows,
        tree[2] if mine and not others else former[2],
    )


def is_labeled(labels: Any) -> bool:
    """Whether a tree has any label, or float labels, which have a known kind even without any."""
    return has_floats(labels) or bool(np.any(np.asarray(labels) != -1))


def as_floats(labels: Any) -> np.ndarray:
    """Labels of a tree among others with float labels, which may have none itself; float32."""
    nothing = np.full(np.shape(labels), np.nan)
    return np.asarray(labels if has_floats(labels) else nothing, np.float32)


def _kind_of_inputs(tree: Sequence[Any]) -> str:
    kinds = [
        f"{'float' if has_floats(array) else 'int'} "
        f"[{', '.join(['nodes', *map(str, array.shape[1:])])}]"
        for array in inputs_of(tree[0])
    ]
    return " and ".join(kinds)


def _tells_edges(rows: ChildRows) -> bool:
    """Whether a tree shows if edges have features: not if it has no edges."""
    return rows.edges is not None or bool((rows.values >= 0).any())


def _kind_of_edges(tree: Sequence[Any]) -> str:
    edges = ChildRows.from_children(tree[1]).edges
    return "none" if edges is None else f"float [edges, {edges.shape[1]}]"


def _kind_of_labels(tree: Sequence[Any]) -> str:
    labels = np.asarray(tree[2])
    dtype = "float" if has_floats(labels) else "int"
    return f"{dtype} {'[nodes]' if labels.ndim else '(of the tree)'}"
