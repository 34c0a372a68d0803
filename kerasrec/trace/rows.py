"""Rows of ragged values: tensors derived from row splits, and ops that lead back to tokens.

A `tf.RaggedTensor` with a row for each token is two tensors, splits and entries, neither of which
has one value per token. When a user reduces it, TensorFlow first computes row numbers from the
splits, in some forty ops and with a mask as long as the longest row for each row. The tracer knows
these numbers already, and replaces a tensor that is computed in the same way by what it knows.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
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


@dataclass(frozen=True)
class _Reduction:
    """How TensorFlow reduces rows.

    Args:
        operations: all of a graph, after the placeholder of the splits.
        splits: the name of the row splits that they read.
        ids: the name of the row numbers of all entries.
        count: the name of the number of rows.
    """

    operations: Sequence[tf.Operation]
    splits: str
    ids: str
    count: str


@functools.cache
def _reduction(dtype: tf.DType, shape: tf.TensorShape) -> _Reduction:
    """How rows are reduced whose splits have this dtype and shape."""
    with tf.Graph().as_default() as graph:
        splits = tf.compat.v1.placeholder(dtype, shape)
        rows = tf.RaggedTensor.from_row_splits(tf.zeros([0], tf.int32), splits, validate=False)
        _, ids, count = tf.reduce_sum(rows, axis=1).op.inputs
    return _Reduction(graph.get_operations()[1:], splits.name, ids.name, count.name)


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
        reduction = _reduction(splits.dtype, splits.shape)
        numbers = self._numbering.numbers_as(
            reduction.operations, {reduction.splits: number(splits)}
        )
        self._ids[numbers[reduction.ids]] = number(splits)
        self._counts[numbers[reduction.count]] = number(splits)
        padded = ragged.with_values(tf.zeros(tf.shape(ragged.values)[:1], tf.int32)).to_tensor()
        self._paddings.add(self._partition(padded.op))
        row_lengths = ragged.row_lengths()
        self._lengths.add(number(row_lengths))
        lengths = tf.cast(row_lengths, tf.int32)
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
