"""Rows of ragged values: which tensors speak of them, and which ops lead back to tokens.

A `tf.RaggedTensor` with a row for each token is two tensors, splits and entries, neither of which
is one value a token. What TensorFlow records when a user reduces it begins with working out row
numbers from the splits, in some forty ops and with a mask of the longest row for each row. The
tracer knows them already: a tensor that is the same computation stands for what it knows.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from kerasrec.trace.numbering import Numbering

_SEGMENT_OPS = frozenset(
    {"UnsortedSegmentSum", "UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd"}
)

Scope = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of tokens.

    Args:
        splits: `[tokens + 1]`, as of a RaggedTensor.
        lengths: int32 `[tokens]`.
        ids: placeholder `[entries]`: which token each entry belongs to.
        count: int32 scalar, how many tokens there are.
        scope: the branches and maps that were being traced when the rows were met.
    """

    splits: tf.Tensor
    lengths: tf.Tensor
    ids: tf.Tensor
    count: tf.Tensor
    scope: Scope


class RowsFinder:
    """The rows that a function was seen to use.

    Args:
        graph: that is traced.
    """

    def __init__(self, graph: tf.Graph):
        self._graph = graph
        self._numbering = Numbering(graph)
        self._rows: dict[int, list[Rows]] = {}
        self._ids: dict[int, int] = {}
        self._counts: dict[int, int] = {}
        self._lengths: set[int] = set()

    def find(self, splits: tf.Tensor, scope: Scope) -> Rows | None:
        """The rows of these splits, if they were met around this scope."""
        for rows in self._rows.get(self._numbering.number(splits), ()):
            if rows.scope == scope[: len(rows.scope)]:
                return rows
        return None

    def add(self, splits: tf.Tensor, scope: Scope) -> Rows:
        """Takes note of the splits of a RaggedTensor with one row a token."""
        number = self._numbering.number
        lengths = splits[1:] - splits[:-1]
        # What TensorFlow makes of these splits, it will make of them again.
        probe = tf.RaggedTensor.from_row_splits(tf.zeros([0], tf.int32), splits, validate=False)
        self._lengths.update({number(lengths), number(probe.row_lengths())})
        start = len(self._graph.get_operations())
        tf.reduce_sum(probe, axis=1)
        for operation in self._graph.get_operations()[start:]:
            if operation.type in _SEGMENT_OPS:
                self._ids[number(operation.inputs[1])] = number(splits)
                self._counts[number(operation.inputs[2])] = number(splits)
        lengths = tf.cast(lengths, tf.int32)
        ids = tf.compat.v1.placeholder(splits.dtype, [None], "rows")
        rows = Rows(splits, lengths, ids, tf.shape(lengths)[0], scope)
        self._rows.setdefault(number(splits), []).append(rows)
        return rows

    def all(self) -> list[Rows]:
        """All rows that were met."""
        return [item for found in self._rows.values() for item in found]

    def known(self, tensor: tf.Tensor) -> list[tf.Tensor]:
        """Tensors that are equal to one that TensorFlow works out from splits."""
        if not self._rows:
            return []
        number = self._numbering.number(tensor)
        if number in self._ids:
            return [rows.ids for rows in self._rows[self._ids[number]]]
        if number in self._counts:
            return [rows.count for rows in self._rows[self._counts[number]]]
        return []

    def same(self, one: Rows, other: Rows) -> bool:
        """Whether two rows are known to be of the same lengths."""
        return self._numbering.number(one.splits) == self._numbering.number(other.splits)

    def leads_back(self, operation: tf.Operation) -> bool:
        """Whether an op makes one row a token of what rows have."""
        if not self._rows:
            return False
        number = self._numbering.number
        if operation.type in _SEGMENT_OPS:
            _, ids, count = operation.inputs
            return number(ids) in self._ids and number(count) in self._counts
        if operation.type == "RaggedTensorToTensor":
            return number(operation.inputs[-1]) in self._rows
        return any(number(output) in self._lengths for output in operation.outputs)
