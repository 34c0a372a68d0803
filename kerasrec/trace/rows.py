"""Rows of ragged values: tensors derived from row splits, and ops that lead back to tokens.

A `tf.RaggedTensor` with a row for each token is two tensors, splits and entries, neither of which
has one value per token. When a user reduces it, TensorFlow first computes row numbers from the
splits, in some forty ops and with a mask as long as the longest row for each row. The tracer knows
these numbers already, and replaces a tensor that is computed in the same way by what it knows.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from kerasrec.trace.numbering import Numbering

_SEGMENT_OPS = frozenset(
    {"UnsortedSegmentSum", "UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd"}
)
_PADDING_OP = "RaggedTensorToTensor"

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
        graph: the graph that is traced.
    """

    def __init__(self, graph: tf.Graph):
        self._graph = graph
        self._numbering = Numbering(graph)
        self._rows: dict[int, list[Rows]] = {}
        self._ids: dict[int, int] = {}
        self._counts: dict[int, int] = {}
        self._lengths: set[int] = set()
        self._paddings: set[tuple[int, ...]] = set()

    def find(self, splits: tf.Tensor, scope: Scope) -> Rows | None:
        """The rows of these splits, if they were met in this scope or around it."""
        for rows in self._rows.get(self._numbering.number(splits), ()):
            if rows.scope == scope[: len(rows.scope)]:
                return rows
        return None

    def add(self, ragged: tf.RaggedTensor, scope: Scope) -> Rows:
        """Records the rows of a RaggedTensor that has one for each token."""
        number = self._numbering.number
        splits = ragged.row_splits
        # TensorFlow will compute what it needs of these rows in the same way again.
        probe = ragged.with_values(tf.zeros(tf.shape(ragged.values)[:1], tf.int32))
        start = len(self._graph.get_operations())
        tf.reduce_sum(probe, axis=1)
        probe.to_tensor()
        for operation in self._graph.get_operations()[start:]:
            if operation.type in _SEGMENT_OPS:
                self._ids[number(operation.inputs[1])] = number(splits)
                self._counts[number(operation.inputs[2])] = number(splits)
            if operation.type == _PADDING_OP:
                self._paddings.add(self._partition(operation))
        self._lengths.add(number(probe.row_lengths()))
        lengths = tf.cast(probe.row_lengths(), tf.int32)
        ids = tf.compat.v1.placeholder(splits.dtype, [None], "rows")
        rows = Rows(splits, lengths, ids, tf.shape(lengths)[0], scope)
        self._rows.setdefault(number(splits), []).append(rows)
        return rows

    def first_op(self, rows: Rows) -> int:
        """The place in the graph of the first op that computes the same splits."""
        return self._numbering.first_op(rows.splits)

    def all(self) -> list[Rows]:
        """All rows that were met."""
        return [item for found in self._rows.values() for item in found]

    def known(self, tensor: tf.Tensor) -> list[tf.Tensor]:
        """Known tensors that are equal to one that TensorFlow computes from splits."""
        if not self._rows:
            return []
        number = self._numbering.number(tensor)
        if number in self._ids:
            return [rows.ids for rows in self._rows[self._ids[number]]]
        if number in self._counts:
            return [rows.count for rows in self._rows[self._counts[number]]]
        return []

    def has_unknown_reductions(self) -> bool:
        """Whether rows were reduced or padded that are not known to be rows of tokens."""
        return any(
            operation.type in (*_SEGMENT_OPS, _PADDING_OP) and not self.leads_back(operation)
            for operation in self._graph.get_operations()
        )

    def same(self, one: Rows, other: Rows) -> bool:
        """Whether two rows are known to be of the same lengths."""
        return self._numbering.number(one.splits) == self._numbering.number(other.splits)

    def leads_back(self, operation: tf.Operation) -> bool:
        """Whether an op makes one value per token from rows."""
        if not self._rows:
            return False
        number = self._numbering.number
        if operation.type in _SEGMENT_OPS:
            _, ids, count = operation.inputs
            return number(ids) in self._ids and number(count) in self._counts
        if operation.type == _PADDING_OP:
            return self._partition(operation) in self._paddings
        return any(number(output) in self._lengths for output in operation.outputs)

    def _partition(self, operation: tf.Operation) -> tuple[int, ...]:
        """The inputs that tell a padding op where rows begin and end: all after the third."""
        return tuple(self._numbering.number(tensor) for tensor in operation.inputs[3:])
