"""Ragged rows: tensors computed from row splits, and ops that lead back to one value per token.

A `tf.RaggedTensor` with a row for each token consists of two tensors, splits and entries, neither
of which has one value per token. If a user reduces it, TensorFlow first computes row numbers from
the splits. It takes some forty ops for that, and a mask as long as the longest row for each row.
The tracer knows these numbers already, so it replaces a tensor that is computed in the same way.

Rows are known to be rows of tokens once a map, a call or a field has used them. They are also known
by the ops that compute their splits: `_has_row_for_each_token` lists these.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from kerasrec.errors import GraphError
from kerasrec.graph.types import Kind
from kerasrec.private import unseen_by_op_callbacks
from kerasrec.trace.known import Known
from kerasrec.trace.numbering import Numbering

SEGMENT_OPS = frozenset(
    {"UnsortedSegmentSum", "UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd"}
)
_PADDING_OP = "RaggedTensorToTensor"
# From row splits to lengths: `splits[1:] - splits[:-1]`.
_LENGTHS_OP, _TO_SPLITS = "Sub", (0, 0)
# Ops that compute the bounds of a slice: how far the result moves, from how far both inputs move.
_OF_BOUNDS: dict[str, Callable[[int, int], int | None]] = {
    "AddV2": lambda one, other: one + other,
    "Sub": lambda one, other: one - other,
    "Minimum": lambda one, other: one if one == other else None,
    "Maximum": lambda one, other: one if one == other else None,
}

Scope = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Rows:
    """Ragged rows, one for each token.

    Args:
        splits: The row splits, `[tokens + 1]`, as in a RaggedTensor.
        lengths: The lengths of the rows, int32 `[tokens]`.
        ids: Placeholder `[entries]`: which token each entry belongs to.
        count: The number of tokens, an int32 scalar.
        scope: The branches and maps that were being traced when the rows were first used.
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
        operations: All ops of a graph, after the placeholder of the splits.
        splits: The name of the row splits that they read.
        ids: The name of the row numbers of all entries.
        count: The name of the number of rows.
        lengths: The name of the lengths of rows.
        way: The way back from the row numbers to the splits: for each op, which input comes next.
    """

    operations: Sequence[tf.Operation]
    splits: str
    ids: str
    count: str
    lengths: str
    way: tuple[int, ...]


@functools.cache
def _reduction(dtype: tf.DType, shape: tf.TensorShape) -> _Reduction:
    """Returns how TensorFlow reduces rows whose splits have this dtype and shape."""
    with unseen_by_op_callbacks(), tf.Graph().as_default() as graph:
        splits = tf.compat.v1.placeholder(dtype, shape)
        rows = tf.RaggedTensor.from_row_splits(tf.zeros([0], tf.int32), splits, validate=False)
        _, ids, count = tf.reduce_sum(rows, axis=1).op.inputs
        lengths = rows.row_lengths()
    way = _way(ids, splits)
    if way is None:
        raise GraphError("TensorFlow does not compute row numbers of ragged rows from row splits.")
    operations = graph.get_operations()[1:]
    return _Reduction(operations, splits.name, ids.name, count.name, lengths.name, way)


def _way(tensor: tf.Tensor, source: tf.Tensor) -> tuple[int, ...] | None:
    """Returns a way back from a tensor to one that it is computed from; None if there is none."""
    if tensor is source:
        return ()
    for place, item in enumerate(tensor.op.inputs):
        way = _way(item, source)
        if way is not None:
            return (place, *way)
    return None


def _at_the_end(way: Sequence[int], tensor: tf.Tensor) -> tf.Tensor | None:
    """Returns the tensor at the end of a way; None if the way does not exist."""
    for place in way:
        if place >= len(tensor.op.inputs):
            return None
        tensor = tensor.op.inputs[place]
    return tensor


def _splits_of(tensor: tf.Tensor) -> tf.Tensor | None:
    """Returns the tensor at the place where the splits are, if `tensor` computes row numbers."""
    if tensor.dtype not in (tf.int32, tf.int64):
        return None
    return _at_the_end(_reduction(tensor.dtype, tf.TensorShape([None])).way, tensor)


@functools.cache
def _joining(specs: tuple[tuple[tf.DType, tf.TensorShape], ...]) -> tuple[Any, ...]:
    """Returns how TensorFlow joins rows: ops, names of values and splits, name of the new splits.

    Args:
        specs: The specs of the values and splits of each tensor, in turn.
    """
    with unseen_by_op_callbacks(), tf.Graph().as_default() as graph:
        given = [tf.compat.v1.placeholder(*spec) for spec in specs]
        rows = [
            tf.RaggedTensor.from_row_splits(values, splits, validate=False)
            for values, splits in zip(given[::2], given[1::2], strict=True)
        ]
        splits = tf.concat(rows, axis=1).row_splits
    return graph.get_operations()[len(given) :], [item.name for item in given], splits.name


class RowsFinder:
    """The ragged rows that a function uses.

    Args:
        graph: The graph that is traced.
    """

    def __init__(self, graph: tf.Graph):
        self._graph = graph
        self._numbering = Numbering(graph)
        self._rows: dict[int, list[Rows]] = {}
        self._ids: dict[int, int] = {}
        self._counts: dict[int, int] = {}
        self._lengths: set[int] = set()
        self._paddings: set[tuple[int, ...]] = set()
        self._learnt: set[int] = set()

    def find(self, splits: tf.Tensor, scope: Scope) -> Rows | None:
        """Returns the rows of these splits, if they were used in this scope or around it."""
        for rows in self._rows.get(self._numbering.number(splits), ()):
            if rows.scope == scope[: len(rows.scope)]:
                return rows
        return None

    def add(self, ragged: tf.RaggedTensor, scope: Scope) -> Rows:
        """Records the rows of a RaggedTensor that has one for each token."""
        number = self._numbering.number
        splits = ragged.row_splits
        self._learn(splits)
        padded = ragged.with_values(tf.zeros(tf.shape(ragged.values)[:1], tf.int32)).to_tensor()
        self._paddings.add(self._partition(padded.op))
        row_lengths = ragged.row_lengths()
        self._lengths.add(number(row_lengths))
        lengths = tf.cast(row_lengths, tf.int32)
        ids = tf.compat.v1.placeholder(splits.dtype, [None], "rows")
        rows = Rows(splits, lengths, ids, tf.shape(lengths)[0], scope)
        self._rows.setdefault(number(splits), []).append(rows)
        return rows

    def _learn(self, splits: tf.Tensor) -> None:
        """Records that splits are those of rows of tokens."""
        number = self._numbering.number(splits)
        # TensorFlow will compute what it needs of these rows in the same way again.
        reduction = _reduction(splits.dtype, splits.shape)
        numbers = self._numbering.numbers_as(reduction.operations, {reduction.splits: number})
        self._ids[numbers[reduction.ids]] = number
        self._counts[numbers[reduction.count]] = number
        self._lengths.add(numbers[reduction.lengths])
        self._paddings.add((number,))
        self._learnt.add(number)

    def learn(self, operation: tf.Operation, known: Mapping[str, Known]) -> None:
        """Records the rows that an op reduces, pads or measures, if they are rows of tokens.

        Args:
            operation: Any op.
            known: What is known of all tensors before it, by name.
        """
        splits = None
        if operation.type in SEGMENT_OPS:
            splits = _splits_of(operation.inputs[1])
        elif operation.type == _PADDING_OP:
            splits = operation.inputs[-1]
        elif operation.type == _LENGTHS_OP:
            splits = _at_the_end(_TO_SPLITS, operation.outputs[0])
        if splits is None or splits.shape.rank != 1 or splits.dtype not in (tf.int32, tf.int64):
            return
        if self._has_row_for_each_token(splits, known):
            self._learn(splits)

    def splits_of(self, tensor: tf.Tensor) -> tf.Tensor | None:
        """Returns the splits of rows of tokens whose row numbers a tensor computes, or None."""
        if not self._learnt:
            return None
        number = self._numbering.number
        splits = _splits_of(tensor)
        is_known = splits is not None and self._ids.get(number(tensor)) == number(splits)
        return splits if is_known else None

    def _has_row_for_each_token(self, splits: tf.Tensor, known: Mapping[str, Known]) -> bool:
        """Whether splits are those of one row for each token, in the order of the tokens."""
        if self._learnt and self._numbering.number(splits) in self._learnt:
            return True
        operation = splits.op
        given = list(operation.inputs)
        has_value = [_has_value_for_each_token(item, known) for item in given]
        are_shared = [known[item.name].kind is Kind.SHARED for item in given]
        if operation.type in ("Cast", "Identity"):
            return self._has_row_for_each_token(given[0], known)
        if operation.type == "RaggedRange" and splits.value_index == 0:
            is_right = [
                one or (shared and item.shape.rank == 0)
                for one, shared, item in zip(has_value, are_shared, given, strict=True)
            ]
            if all(is_right) and any(has_value):
                return True  # tf.ragged.range(n)
            return [self._moves(item, known) for item in given] == [1, 1, 0]  # rows[:, 1:]
        if operation.type == "RaggedGather":  # tf.gather(rows, node)
            return splits.value_index == 0 and all(are_shared[:-1]) and has_value[-1]
        if operation.type == "ConcatV2" and len(given) == 3:  # From lengths.
            sums, start = given[1].op, tf.get_static_value(given[0])
            return (
                start is not None
                and start.tolist() == [0]
                and sums.type == "Cumsum"
                and not (sums.get_attr("exclusive") or sums.get_attr("reverse"))
                and _has_value_for_each_token(sums.inputs[0], known)
            )
        return operation.type == "StridedSlice" and self._are_joined(splits, known)

    def _moves(self, tensor: tf.Tensor, known: Mapping[str, Known]) -> int | None:
        """Returns by how many entries a bound moves if its row begins one later; None if unknown.

        A number of the token and a shared scalar move by 0. The beginning and end of a row move
        by 1.
        """
        operation = tensor.op
        is_scalar = tensor.shape.rank == 0 and known[tensor.name].kind is Kind.SHARED
        if is_scalar or _has_value_for_each_token(tensor, known):
            return 0
        if operation.type in _OF_BOUNDS:
            one, other = (self._moves(item, known) for item in operation.inputs)
            return None if one is None or other is None else _OF_BOUNDS[operation.type](one, other)
        if operation.type != "StridedSlice" or operation.inputs[0].shape.rank != 1:
            return None
        begin, end, stride = (tf.get_static_value(item) for item in operation.inputs[1:])
        is_first = operation.get_attr("begin_mask") and end == [-1]
        is_last = operation.get_attr("end_mask") and begin == [1]
        is_bound = stride == [1] and (is_first or is_last)
        return 1 if is_bound and self._has_row_for_each_token(operation.inputs[0], known) else None

    def _are_joined(self, splits: tf.Tensor, known: Mapping[str, Known]) -> bool:
        """Whether splits are those of `tf.concat([rows, ...], axis=1)` of rows of tokens."""
        gather = splits.op.inputs[0].op
        if gather.type != "RaggedGather" or len(gather.inputs) != 3:
            return False
        joined_splits, joined_values = gather.inputs[0].op, gather.inputs[1].op
        if joined_splits.type != "ConcatV2" or joined_values.type != "ConcatV2":
            return False
        first, *others = list(joined_splits.inputs)[:-1]
        parts = [first, *(_at_the_end((0, 0), item) for item in others)]
        values = list(joined_values.inputs)[:-1]
        if len(parts) != len(values) or any(item is None for item in parts):
            return False
        if not all(self._has_row_for_each_token(item, known) for item in parts):
            return False
        given = [item for pair in zip(values, parts, strict=True) for item in pair]
        operations, names, found = _joining(tuple((item.dtype, item.shape) for item in given))
        places = dict(zip(names, map(self._numbering.number, given), strict=True))
        numbers = self._numbering.numbers_as(operations, places)
        return numbers[found] == self._numbering.number(splits)

    def first_op(self, rows: Rows) -> int:
        """Returns the place in the graph of the first op that computes the same splits."""
        return self._numbering.first_op(rows.splits)

    def all(self) -> list[Rows]:
        """Returns all rows that a map, a call or a field has used."""
        return [item for found in self._rows.values() for item in found]

    def known(self, tensor: tf.Tensor) -> list[tf.Tensor]:
        """Returns known tensors that are equal to one that TensorFlow computes from splits."""
        if not self._rows:
            return []
        number = self._numbering.number(tensor)
        if number in self._ids:
            return [rows.ids for rows in self._rows.get(self._ids[number], ())]
        if number in self._counts:
            return [rows.count for rows in self._rows.get(self._counts[number], ())]
        return []

    def has_unknown_reductions(self) -> bool:
        """Whether an op reduces or pads rows that are not known to be rows of tokens."""
        return any(
            operation.type in (*SEGMENT_OPS, _PADDING_OP) and not self.leads_back(operation)
            for operation in self._graph.get_operations()
        )

    def same(self, one: Rows, other: Rows) -> bool:
        """Whether two sets of rows are known to have the same lengths."""
        return self._numbering.number(one.splits) == self._numbering.number(other.splits)

    def leads_back(self, operation: tf.Operation) -> bool:
        """Whether an op makes one value per token from rows."""
        if not self._learnt:
            return False
        number = self._numbering.number
        if operation.type in SEGMENT_OPS:
            _, ids, count = operation.inputs
            return number(ids) in self._ids and number(count) in self._counts
        if operation.type == _PADDING_OP:
            return self._partition(operation) in self._paddings
        return any(number(output) in self._lengths for output in operation.outputs)

    def _partition(self, operation: tf.Operation) -> tuple[int, ...]:
        """Returns numbers of the inputs that tell a padding op where rows begin and end.

        These are all inputs after the third.
        """
        return tuple(self._numbering.number(tensor) for tensor in operation.inputs[3:])


def _has_value_for_each_token(tensor: tf.Tensor, known: Mapping[str, Known]) -> bool:
    """Whether a tensor has one number for each token, `[tokens]`."""
    return known[tensor.name].kind is Kind.TOKEN and tensor.shape.rank == 1
