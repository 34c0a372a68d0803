"""The children of a tree's nodes, in rows of any length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np
import tensorflow as tf

from kerasrec._src.short_repr import LONGEST


class ChildRows(Sequence[np.ndarray]):
    """For each tree node, a row of its children; memory depends only on the number of children.

    Args:
        values: The rows one after another, int32 `[edges]`; -1 = no child.
        splits: The places where rows begin, int64 `[nodes + 1]`; row `i` is
            `values[splits[i] : splits[i + 1]]`.
        edges: Features of the edge to each child, float32 `[edges, features]`; by default none.

    Attributes:
        values: The argument `values`.
        splits: The argument `splits`.
        edges: The argument `edges`.

    Example:

    >>> ChildRows(np.array([1, 2]), np.array([0, 2, 2, 2]))
    [[1, 2], [], []]
    """

    def __init__(
        self, values: np.ndarray, splits: np.ndarray, edges: np.ndarray | None = None
    ) -> None:
        self.values = values
        self.splits = splits
        self.edges = edges

    @classmethod
    def from_children(cls, children: Any) -> ChildRows:
        """Returns rows from another form of children.

        Args:
            children: `ChildRows`; integers `[nodes, arity]`; a `tf.RaggedTensor`
                `[nodes, (children)]`; or a list of lists.

        Raises:
            ValueError: If it is something else.
        """
        if isinstance(children, ChildRows):
            return children
        if isinstance(children, tf.RaggedTensor):
            return cls(children.flat_values.numpy(), children.row_splits.numpy())
        try:
            table = np.asarray(children)
        except ValueError:  # Rows of different lengths.
            return cls._of_lists(children)
        if table.ndim != 2 or not (np.issubdtype(table.dtype, np.integer) or not table.size):
            raise ValueError(
                f"children is {table.dtype} {list(table.shape)}; expected integers [nodes, arity], "
                "or a list of integers for each tree node: one tree, without a batch axis."
            )
        nodes, arity = table.shape
        return cls(table.ravel().astype(np.int64), np.arange(nodes + 1) * arity)

    @classmethod
    def _of_lists(cls, rows: Sequence[Any]) -> ChildRows:
        arrays = [np.asarray(row if len(row) else np.zeros(0, int)) for row in rows]
        for node, row in enumerate(arrays):
            if row.ndim != 1 or not np.issubdtype(row.dtype, np.integer):
                raise ValueError(
                    f"The children of tree node {node} are {rows[node]!r}; expected a list of "
                    "integers, the numbers of tree nodes."
                )
        lengths = [len(row) for row in arrays]
        return cls(np.concatenate(arrays), np.cumsum([0, *lengths]))

    @classmethod
    def from_parents(cls, parents: Sequence[int] | np.ndarray) -> ChildRows:
        """Rows of the tree nodes below each one, in ascending order.

        Args:
            parents: Integers `[nodes]`, the tree node above each one; -1 = none.

        Example:

        >>> ChildRows.from_parents([-1, 0, 0, 1])
        [[1, 2], [3], [], []]
        """
        above = np.asarray(parents, np.int64)
        below = np.flatnonzero(above >= 0)
        order = np.argsort(above[below], kind="stable")
        lengths = np.bincount(above[below], minlength=len(above))
        return cls(below[order].astype(np.int32), np.concatenate([[0], np.cumsum(lengths)]))

    @property
    def lengths(self) -> np.ndarray:
        """The length of each row, int64 `[nodes]`."""
        return np.diff(self.splits)

    @property
    def arity(self) -> int:
        """The length of the longest row."""
        return int(self.lengths.max(initial=0))

    @property
    def parents(self) -> np.ndarray:
        """The tree node of each entry of `values`, int64 `[edges]`."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def to_table(self, arity: int | None = None) -> np.ndarray:
        """The rows as int32 `[nodes, arity]`, filled up with -1.

        Args:
            arity: The length of each row, which must be enough; by default that of the longest one,
                and at least 1.
        """
        arity = max(1, self.arity) if arity is None else arity
        return self._filled_up(self.values.astype(np.int32), arity, -1)

    def edge_table(self, arity: int, num_features: int) -> np.ndarray:
        """The features of edges, float32 `[nodes, arity, features]`, filled up with 0.

        Args:
            arity: The length of each row, which must be enough.
            num_features: The number of features.
        """
        return self._filled_up(self.edges_or_zeros(num_features), arity, 0)

    def edges_or_zeros(self, num_features: int) -> np.ndarray:
        """The features of edges, float32 `[edges, features]`; zeros if there are none."""
        if self.edges is None:
            return np.zeros([len(self.values), num_features], np.float32)
        return np.asarray(self.edges, np.float32)

    def _filled_up(self, values: np.ndarray, arity: int, filler: int) -> np.ndarray:
        """A value for each entry as `[nodes, arity, ...]`."""
        table = np.full((len(self), arity, *values.shape[1:]), filler, values.dtype)
        slots = np.arange(len(self.values)) - self.splits[self.parents]
        table[self.parents, slots] = values
        return table

    def __len__(self) -> int:
        return len(self.splits) - 1

    @overload
    def __getitem__(self, node: int) -> np.ndarray: ...

    @overload
    def __getitem__(self, node: slice) -> list[np.ndarray]: ...

    def __getitem__(self, node: int | slice) -> np.ndarray | list[np.ndarray]:
        """The children of a tree node, int32 `[children]`; of several, a list of them."""
        if isinstance(node, slice):
            return [self[each] for each in range(*node.indices(len(self)))]
        node = range(len(self))[node]
        return self.values[self.splits[node] : self.splits[node + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(np.split(self.values, self.splits[1:-1]))

    def tolist(self) -> list[list[int]]:
        """The rows as lists."""
        return [row.tolist() for row in self]

    def __repr__(self) -> str:
        if len(self) + len(self.values) > LONGEST:
            return f"<ChildRows of {len(self):,} tree nodes and {len(self.values):,} children>"
        return repr(self.tolist())


def num_edge_features_of(trees: Iterable[ChildRows]) -> int | None:
    """The number of features of an edge in some trees; None if edges have none."""
    return next((tree.edges.shape[1] for tree in trees if tree.edges is not None), None)


def parents_first(parents: np.ndarray, below: np.ndarray, num_nodes: int) -> np.ndarray:
    """The nodes of a graph in an order in which parents come before their children.

    Nodes in a cycle, and those that cannot be reached from node 0, are left out.

    Args:
        parents: The parent of each edge, int64 `[edges]`.
        below: The child of each edge, int64 `[edges]`.
        num_nodes: The number of nodes.
    """
    children: list[list[int]] = [[] for _ in range(num_nodes)]
    for parent, child in zip(parents.tolist(), below.tolist(), strict=True):
        children[parent].append(child)
    num_waited_for = np.bincount(below, minlength=num_nodes)
    order, ready = [], [0]
    while ready:
        order.append(ready.pop())
        for child in reversed(children[order[-1]]):
            num_waited_for[child] -= 1
            if not num_waited_for[child]:
                ready.append(child)
    return np.array(order)
