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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import tensorflow as tf

from kerasrec._src.errors import GraphError
from kerasrec._src.graph.types import Kind
from kerasrec._src.private import unseen_by_op_callbacks
from kerasrec._src.trace.known import Known
from kerasrec._src.trace.numbering import Numbering
from kerasrec._src.trace.row_meetings import (
    CHOICE_OP,
    Way,
    are_splits,
    at_the_end,
    met_at,
    way_back,
    without_identity,
)
from kerasrec._src.trace.row_reductions import (
    OF_ROWS,
    SEGMENT_OPS,
    is_log_of_sum,
    log_of_sum,
    width_of_counts,
)
from kerasrec._src.trace.token_count import is_count

_PADDING_OP = "RaggedTensorToTensor"
# Ops that make a list of rows, over which a loop such as tf.map_fn runs, and rows of a list.
_TO_LIST, _OF_LIST = "RaggedTensorToVariant", "RaggedTensorFromVariant"
# From row splits to lengths: `splits[1:] - splits[:-1]`.
_LENGTHS_OP, _TO_SPLITS = "Sub", (0, 0)
# Ops that compute the bounds of a slice: how far the result moves, from how far both inputs move.
_OF_BOUNDS: dict[str, Callable[[int, int], int | None]] = {
    "AddV2": lambda one, other: one + other,
    "Sub": lambda one, other: one - other,
    "Minimum": lambda one, other: one if one == other else None,
    "Maximum": lambda one, other: one if one == other else None,
}

# Stands for the number of a tensor of entries, whatever they are.
_OF_ENTRIES = -1

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
        counts: The names of the number of rows: as in a reduction, and as `nrows` computes it.
        lengths: The name of the lengths of rows.
        ways: The ways back to the splits, from the row numbers and from each number of rows.
    """

    operations: Sequence[tf.Operation]
    splits: str
    ids: str
    counts: Sequence[str]
    lengths: str
    ways: Sequence[Way]


@functools.cache
def _reduction(dtype: tf.DType, shape: tf.TensorShape) -> _Reduction:
    """Returns how TensorFlow reduces rows whose splits have this dtype and shape."""
    with unseen_by_op_callbacks(), tf.Graph().as_default() as graph:
        splits = tf.compat.v1.placeholder(dtype, shape)
        rows = tf.RaggedTensor.from_row_splits(tf.zeros([0], tf.int32), splits, validate=False)
        _, ids, count = tf.reduce_sum(rows, axis=1).op.inputs
        lengths = rows.row_lengths()
        counts = [count, rows.nrows(tf.int32), rows.nrows(tf.int64)]
    ways = [way for item in (ids, *counts) if (way := way_back(item, splits)) is not None]
    if len(ways) < 1 + len(counts):
        raise GraphError("TensorFlow does not compute row numbers of ragged rows from row splits.")
    operations = graph.get_operations()[1:]
    names = [item.name for item in counts]
    return _Reduction(operations, splits.name, ids.name, names, lengths.name, ways)


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
        self._other_counts: set[int] = set()
        self._lengths: set[int] = set()
        self._places: dict[int, int] = {}
        self._true: set[int] = set()
        self._ways: dict[Way, None] = {}
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

    def _learn(self, splits: tf.Tensor) -> tuple[_Reduction, Mapping[str, int]]:
        """Records that splits are those of rows of tokens.

        Returns how TensorFlow reduces the rows, and the numbers of what it computes.
        """
        number = self._numbering.number(splits)
        # TensorFlow will compute what it needs of these rows in the same way again.
        reduction = _reduction(splits.dtype, splits.shape)
        numbers = self._numbering.numbers_as(reduction.operations, {reduction.splits: number})
        self._ids[numbers[reduction.ids]] = number
        self._ways.update(dict.fromkeys(reduction.ways))
        self._counts.update((numbers[name], number) for name in reduction.counts)
        self._lengths.add(numbers[reduction.lengths])
        self._paddings.add((number,))
        self._learnt.add(number)
        return reduction, numbers

    def learn(self, operation: tf.Operation, known: Mapping[str, Known]) -> None:
        """Records the rows that an op reduces, pads or measures, if they are rows of tokens.

        Args:
            operation: Any op.
            known: What is known of all tensors before it, by name.
        """
        if operation.type == CHOICE_OP:
            self._learn_meeting(operation, known)
            return
        if operation.type in SEGMENT_OPS and is_count(
            operation.inputs[2], lambda tensor: known[tensor.name].kind
        ):
            self._other_counts.add(self._numbering.number(operation.inputs[2]))
        splits = self._splits_read_by(operation)
        if splits is None or not are_splits(splits):
            return
        if self._has_row_for_each_token(splits, known):
            self._learn(splits)

    def _splits_read_by(self, operation: tf.Operation) -> tf.Tensor | None:
        """Returns the row splits that an op reads, or from which it takes row numbers."""
        if operation.type == _PADDING_OP:
            return operation.inputs[-1]
        if operation.type == _TO_LIST and len(operation.inputs) == 2:
            return operation.inputs[0]
        if operation.type == _LENGTHS_OP:
            found = at_the_end(_TO_SPLITS, operation.outputs[0])
            return found.op.inputs[0] if found is not None and found.op.type == "Shape" else found
        if operation.type not in OF_ROWS:
            return None
        place, _ = OF_ROWS[operation.type]
        given = operation.inputs[place]
        if place == 0:
            return given
        return at_the_end(_reduction(given.dtype, tf.TensorShape([None])).ways[0], given)

    def _learn_meeting(self, operation: tf.Operation, known: Mapping[str, Known]) -> None:
        """Records what is computed where rows of tokens meet something else with as many rows."""
        number, as_numbers = self._numbering.number, self._numbering.numbers_as
        for pair, meeting in met_at(operation):
            columns = [item for item in pair if not are_splits(item)]
            splits, *others = filter(are_splits, pair)
            if not all(known[item.name].kind is Kind.TOKEN for item in columns):
                continue
            if not self._has_row_for_each_token(splits, known):
                continue
            # Rows of which it is not known that they have the same lengths keep their assertions.
            if any(number(item) != number(splits) for item in others):
                continue
            given = dict(zip(meeting.given, map(number, pair), strict=True))
            given |= dict.fromkeys(meeting.entries, _OF_ENTRIES)
            found = as_numbers(meeting.operations, given)
            if found[meeting.choice] != number(operation.outputs[0]):
                continue
            reduction, numbers = self._learn(splits)
            counts = dict(zip((None, tf.int32, tf.int64), reduction.counts, strict=True))
            for name, same in (  # Each may be computed from those before it.
                (meeting.count, numbers[counts[splits.dtype]]),
                (meeting.lengths, numbers[reduction.lengths]),
                (meeting.splits, number(splits)),
                (meeting.ids, numbers[reduction.ids]),
            ):
                if name:
                    found = as_numbers(meeting.operations, given)
                    self._numbering.unite(found[name], same, operation)
            found = as_numbers(meeting.operations, given)
            self._places.update((found[name], number(splits)) for name in meeting.places)
            self._true.update(map(found.__getitem__, meeting.conditions))
            self._ways.update(dict.fromkeys(meeting.ways))

    def splits_of(self, tensor: tf.Tensor) -> tf.Tensor | None:
        """Returns the splits of rows of tokens whose row numbers a tensor computes, or None."""
        number = self._numbering.number
        wanted = self._ids.get(number(tensor)) if self._learnt else None
        return None if wanted is None else self._before(tensor, wanted)

    def _before(self, tensor: tf.Tensor, wanted: int) -> tf.Tensor | None:
        """Returns a tensor with a number from which TensorFlow has computed another tensor."""
        found = (at_the_end(way, tensor) for way in self._ways)
        return next(
            (item for item in found if item is not None and self._numbering.number(item) == wanted),
            None,
        )

    def same_as(self, operation: tf.Operation) -> tf.Tensor | None:
        """Returns a tensor before an op that is equal to the op's output, if rows meet a column."""
        if not self._places:
            return None
        number = self._numbering.number
        if operation.type == "GatherV2" and number(operation.inputs[1]) in self._places:
            return operation.inputs[0]
        if operation.type not in ("ConcatV2", "Identity"):
            return None
        splits = operation.outputs[0]
        if number(splits) not in self._learnt:
            return None
        return (
            without_identity(splits)
            if operation.type == "Identity"
            else self._before(splits, number(splits))
        )

    def always_holds(self, condition: tf.Tensor) -> bool:
        """Whether a condition that TensorFlow asserts where rows meet a column is always true."""
        if not self._places:
            return False
        number = self._numbering.number
        if number(condition) in self._true:
            return True
        return self._is_number_of_entries(condition)

    def _is_number_of_entries(self, condition: tf.Tensor) -> bool:
        """Whether a condition is that there are as many values of entries as row splits say.

        The values are computed from some that are looked up by row numbers or places of entries.
        """
        equal = condition.op.inputs[0].op if condition.op.type == "All" else condition.op
        if equal.type != "Equal":
            return False
        (splits, last), (shape, first) = map(_element, equal.inputs)
        if splits is None or shape is None or (last, first) != (-1, 0) or shape.op.type != "Shape":
            return False
        (values,) = shape.op.inputs
        number, of_rows = self._numbering.number, self._ids | self._places
        return number(splits) in [
            of_rows.get(number(item.op.inputs[1]))
            for item in values.op.inputs
            if item.op.type == "GatherV2" and item.shape.rank == values.shape.rank
        ]

    def reduction(self, operation: tf.Operation) -> Callable[[], tf.Tensor] | None:
        """Returns how to reduce or count the rows of all tokens instead of what an op does.

        Returns None if the op does neither, or is right as it is.
        """
        if self.counts_rows(operation):
            output = operation.outputs[0]
            splits = self._before(output, self._counts[self._numbering.number(output)])
            return None if splits is None else partial(_number_of_rows, splits, output.dtype)
        if is_log_of_sum(operation):
            return partial(log_of_sum, operation)
        if operation.type not in OF_ROWS or not self.leads_back(operation):
            return None
        is_counted = operation.type in SEGMENT_OPS
        if is_counted and self._numbering.number(operation.inputs[2]) in self._counts:
            return None
        place, reduce = OF_ROWS[operation.type]
        given = operation.inputs[place]
        splits = self.splits_of(given) if place else given
        if splits is None:
            return None
        entries = operation.inputs[1 - place]
        rows = tf.RaggedTensor.from_row_splits(entries, splits, validate=False)
        return lambda: reduce(operation, rows)

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
        if operation.type == _OF_LIST:
            return splits.value_index == 0 and len(operation.outputs) == 2 and has_value[0]
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
        parts = [first, *(at_the_end((0, 0), item) for item in others)]
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
        if number in self._counts and tensor.dtype == tf.int32:
            return [rows.count for rows in self._rows.get(self._counts[number], ())]
        return []

    def learn_all(
        self, operations: Iterable[tf.Operation], kind: Callable[[tf.Tensor], Kind]
    ) -> bool:
        """Takes rows that ops reduce, pad or compute on for rows of tokens.

        Args:
            operations: Some ops.
            kind: Returns the kind of a tensor.

        Returns:
            Whether there were such rows of which it was not known.
        """
        num_learnt = len(self._learnt)
        for operation in operations:
            pairs = [pair for pair, _ in met_at(operation)]
            read = [self._splits_read_by(operation), *(item for pair in pairs for item in pair)]
            for splits in read:
                if splits is not None and are_splits(splits) and kind(splits) is not Kind.SHARED:
                    self._learn(splits)
        return len(self._learnt) > num_learnt

    def same(self, one: Rows, other: Rows) -> bool:
        """Whether two sets of rows are known to have the same lengths."""
        return self._numbering.number(one.splits) == self._numbering.number(other.splits)

    def leads_back(self, operation: tf.Operation) -> bool:
        """Whether an op makes one value per token from rows."""
        if not self._learnt:
            return False
        number = self._numbering.number
        if operation.type in OF_ROWS:
            place, _ = OF_ROWS[operation.type]
            given = number(operation.inputs[place])
            if operation.type in SEGMENT_OPS:
                count = number(operation.inputs[2])
                return given in self._ids and (count in self._counts or count in self._other_counts)
            return given in self._ids if place else self._counts_in_rows(operation)
        if operation.type == _PADDING_OP:
            return self._partition(operation) in self._paddings
        if operation.type == _TO_LIST:
            return number(operation.inputs[0]) in self._learnt
        return any(number(output) in self._lengths for output in operation.outputs)

    def counts_rows(self, operation: tf.Operation) -> bool:
        """Whether an op computes how many rows of tokens there are."""
        if not self._learnt:
            return False
        return any(self._numbering.number(output) in self._counts for output in operation.outputs)

    def begins_with_count(self, shape: tf.Tensor) -> bool:
        """Whether the first size in a shape is known to be how many rows of tokens there are.

        `tf.math.unsorted_segment_mean` computes such a shape from its number of segments.
        """
        first = shape.op.inputs[0] if shape.op.type == "ConcatV2" else shape
        is_one = first.op.type in ("ExpandDims", "Pack", "StridedSlice")
        if is_one and first.op.inputs[0].shape.rank == 0:
            first = first.op.inputs[0]
        return self.counts_rows(first.op)

    def _counts_in_rows(self, operation: tf.Operation) -> bool:
        """Whether an op counts as many integers in each row of tokens."""
        is_of_tokens = self._numbering.number(operation.inputs[0]) in self._learnt
        return is_of_tokens and width_of_counts(operation) is not None

    def _partition(self, operation: tf.Operation) -> tuple[int, ...]:
        """Returns numbers of the inputs that tell a padding op where rows begin and end.

        These are all inputs after the third.
        """
        return tuple(self._numbering.number(tensor) for tensor in operation.inputs[3:])


def _element(tensor: tf.Tensor) -> tuple[tf.Tensor | None, int]:
    """Returns the vector that a scalar is taken from, None if there is none, and its place."""
    begin = tf.get_static_value(tensor.op.inputs[1]) if tensor.op.type == "StridedSlice" else None
    if begin is None or begin.size != 1 or not tensor.op.get_attr("shrink_axis_mask"):
        return None, 0
    return tensor.op.inputs[0], int(begin[0])


def _number_of_rows(splits: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    return tf.shape(splits[1:] - splits[:-1], dtype)[0]


def _has_value_for_each_token(tensor: tf.Tensor, known: Mapping[str, Known]) -> bool:
    """Whether a tensor has one number for each token, `[tokens]`."""
    return known[tensor.name].kind is Kind.TOKEN and tensor.shape.rank == 1
