"""Ragged rows: tensors computed from row splits, and ops that lead back to one value per token.

A `tf.RaggedTensor` with a row for each token consists of two tensors, splits and entries, neither
of which has one value per token. If a user reduces it, TensorFlow first computes row numbers from
the splits. The tracer knows these numbers already, so it replaces a tensor that is computed in the
same way (`row_traces.py`).

The last entry of sorted row numbers determines how many results an op on them has, and the rows of
the last tokens may be empty. Therefore it becomes a reduction of the rows, as do a reduction to a
number of rows that is computed in another way, and a count of integers.

Rows are known to be rows of tokens by the op that computes their splits: `_makes_rows` lists these.
Others become known when a map, a call or a field uses them.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import tensorflow as tf

from kerasrec._src.graph.types import Kind
from kerasrec._src.ops.shapes import (
    bounded_size,
    first_size,
    lengths_of_splits,
    moves_of_bound,
)
from kerasrec._src.ops.table import Is, Ragged, has, op_named
from kerasrec._src.ops.views import compared_as_equal, cut_of_rows, is_log_of_sum
from kerasrec._src.trace.numbering import Numbering
from kerasrec._src.trace.op_outputs import begins_with_count
from kerasrec._src.trace.row_traces import (
    Role,
    are_splits,
    may_choose,
    of_joined,
    of_meeting,
    of_splits,
)
from kerasrec._src.trace.tensor_facts import Known

# The roles of tensors that tell a padding op where rows begin and end.
_PARTITIONS = ([Role.SPLITS], [Role.COUNT, Role.IDS])
# Stands for the number of a tensor of entries, whatever they are.
_OF_ENTRIES = -1
# Where rows meet another tensor, the inputs with both numbers of rows of the op that chooses which
# of them is repeated.
_NUMBERS_OF_ROWS = (1, 3)
_REDUCING = (Ragged.REDUCES, Ragged.REDUCES_SORTED, Ragged.COUNTS_INTEGERS)

Scope = tuple[object, ...]


@dataclass(frozen=True, eq=False)
class TokenRows:
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

    def places(self) -> tf.Tensor:
        """Returns the place of each entry in its row, int32 `[entries]`."""
        before = tf.cumsum(self.lengths, exclusive=True)
        return tf.range(tf.size(self.ids)) - tf.gather(before, self.ids)


class RowsFinder:
    """The ragged rows that a function uses.

    Args:
        graph: The graph that is traced.
        replaces: Whether ops of the graph are replaced, as `reduction` describes.
    """

    def __init__(self, graph: tf.Graph, replaces: bool = False):
        self._replaces = replaces
        self._numbering = Numbering(graph)
        # By the number of a tensor, its role and the number of the row splits.
        self._roles: dict[int, tuple[Role, int]] = {}
        # By the number of row splits, the rows that maps, calls and fields have used.
        self._rows: dict[int, list[TokenRows]] = {}
        self._have_met = False

    def find(self, splits: tf.Tensor, scope: Scope) -> TokenRows | None:
        """Returns the rows of these splits, if they were used in this scope or around it."""
        for rows in self._rows.get(self._numbering.number(splits), ()):
            if rows.scope == scope[: len(rows.scope)]:
                return rows
        return None

    def add(self, splits: tf.Tensor, lengths: tf.Tensor, scope: Scope) -> TokenRows:
        """Records the splits and lengths of rows, one for each token."""
        self._learn(splits)
        number = self._numbering.number(splits)
        self._roles[self._numbering.number(lengths)] = Role.LENGTHS, number
        lengths = tf.cast(lengths, tf.int32)
        ids = tf.compat.v1.placeholder(splits.dtype, [None], "rows")
        rows = TokenRows(splits, lengths, ids, tf.shape(lengths)[0], scope)
        self._rows.setdefault(number, []).append(rows)
        return rows

    def _learn(self, splits: tf.Tensor) -> Mapping[Role, int]:
        """Records that splits are those of rows of tokens.

        Returns a number of each role that tensors computed from the splits may have.
        """
        number = self._numbering.number(splits)
        computed = of_splits(splits.dtype, splits.shape)
        numbers = self._numbering.numbers_as(computed.steps, {computed.given[0]: number})
        self._roles[number] = Role.SPLITS, number
        self._roles |= {numbers[name]: (role, number) for name, role in computed.roles.items()}
        found = {role: numbers[name] for name, role in list(computed.roles.items())[::-1]}
        return {**found, Role.SPLITS: number}

    def _role(self, tensor: tf.Tensor) -> tuple[Role | None, int]:
        """Returns what a tensor is of rows of tokens, and the number of their splits."""
        if not self._roles:
            return None, 0
        return self._roles.get(self._numbering.number(tensor), (None, 0))

    def learn(self, operation: tf.Operation, known: Mapping[str, Known]) -> None:
        """Records what an op makes, if these are rows of tokens or computed from such rows.

        Args:
            operation: Any op.
            known: The facts about all tensors before it, by name.
        """
        if may_choose(operation):
            self._learn_meeting(operation, known)
        elif op_named(operation.type).ragged is Ragged.REDUCES and begins_with_count(
            operation.inputs[2], lambda tensor: known[tensor.name].kind
        ):
            number = self._numbering.number(operation.inputs[2])
            self._roles.setdefault(number, (Role.OTHER_COUNT, 0))
        elif self._makes_rows(operation, known):
            self._learn(operation.outputs[0])

    def _learn_meeting(self, operation: tf.Operation, known: Mapping[str, Known]) -> None:
        """Records what is computed where rows of tokens meet something else with as many rows."""
        if len(operation.inputs) <= _NUMBERS_OF_ROWS[-1]:
            return
        counted = (self._counted(operation.inputs[place], known) for place in _NUMBERS_OF_ROWS)
        met = [tensor for tensor in counted if tensor is not None]
        rows = list(filter(are_splits, met))
        number, as_numbers = self._numbering.number, self._numbering.numbers_as
        # Rows of which it is not known that they have the same lengths keep their assertions.
        if len(met) < 2 or not rows or len(set(map(number, rows))) > 1:
            return
        for pair in (met, met[::-1]):
            meeting = of_meeting(tuple((tensor.dtype, tensor.shape) for tensor in pair))
            if meeting is None:
                continue
            given = dict.fromkeys(meeting.given, _OF_ENTRIES)
            given |= dict(zip(meeting.given, map(number, pair), strict=False))
            if as_numbers(meeting.steps, given)[meeting.choice] != number(operation.outputs[0]):
                continue
            same = self._learn(rows[0])
            equal = {name: same[role] for name, role in meeting.roles.items() if role in same}
            numbers = as_numbers(meeting.steps, given, equal)
            self._numbering.again_from(operation)
            for name, role in meeting.roles.items():
                self._roles.setdefault(numbers[name], (role, same[Role.SPLITS]))
            self._have_met = True

    def _counted(self, count: tf.Tensor, known: Mapping[str, Known]) -> tf.Tensor | None:
        """Returns row splits of tokens, or a column, if a number is that of its rows, else None."""
        while True:
            role, splits = self._role(count)
            if role is Role.COUNT:
                return self._before(count, splits)
            if has(count.op.type, Is.SHAPE):
                (column,) = count.op.inputs
                is_column = (column.shape.rank or 0) > 1 and column.shape[1] == 1
                return column if is_column and known[column.name].kind is Kind.TOKEN else None
            if not has(count.op.type, Is.SLICING | Is.SAME_NUMBERS):
                return None
            count = count.op.inputs[0]

    def _before(self, tensor: tf.Tensor, number: int) -> tf.Tensor | None:
        """Returns the nearest tensor with a number from which another tensor is computed."""
        return next(
            (
                source
                for operation in operations_before(tensor)
                for source in operation.inputs
                if self._numbering.number(source) == number
            ),
            None,
        )

    def splits_of(self, tensor: tf.Tensor) -> tf.Tensor | None:
        """Returns the splits of rows of tokens whose row numbers a tensor computes, or None."""
        role, splits = self._role(tensor)
        return self._before(tensor, splits) if role is Role.IDS else None

    def same_as(self, operation: tf.Operation) -> tf.Tensor | None:
        """Returns a tensor before an op that is equal to the op's output, if rows meet a column."""
        if not self._have_met:
            return None
        if has(operation.type, Is.GATHERING) and self._role(operation.inputs[1])[0] is Role.PLACES:
            return operation.inputs[0]
        if not has(operation.type, Is.JOINING | Is.PASSING):
            return None
        role, splits = self._role(operation.outputs[0])
        return self._before(operation.outputs[0], splits) if role is Role.SPLITS else None

    def always_holds(self, condition: tf.Tensor) -> bool:
        """Whether a condition that TensorFlow asserts where rows meet a column is always true."""
        if not self._have_met:
            return False
        if self._role(condition)[0] is Role.TRUE:
            return True
        compared = compared_as_equal(condition)
        if compared is None or not compared[0].dtype.is_integer:
            return False
        numbers = set(map(self._numbering.number, compared))
        return len(numbers) == 1 or self._are_numbers_of_entries(compared)

    def _are_numbers_of_entries(self, compared: Sequence[tf.Tensor]) -> bool:
        """Whether two numbers are the last of row splits and how many values entries have.

        The values are computed from some that are looked up by row numbers or places of entries.
        """
        (splits, last), (shape, first) = map(_element, compared)
        if splits is None or shape is None or (last, first) != (-1, 0):
            return False
        if not has(shape.op.type, Is.SHAPE):
            return False
        (values,) = shape.op.inputs
        number = self._numbering.number(splits)
        return any(
            self._role(source.op.inputs[1]) in ((Role.IDS, number), (Role.PLACES, number))
            for source in values.op.inputs
            if has(source.op.type, Is.GATHERING) and source.shape.rank == values.shape.rank
        )

    def reduction(self, operation: tf.Operation) -> Callable[[], tf.Tensor] | None:
        """Returns how to reduce or count the rows of all tokens instead of running an op.

        Returns None if the op does neither, or is right as it is.
        """
        if self.counts_rows(operation):
            (output,) = operation.outputs
            splits = self._before(output, self._role(output)[1])
            return None if splits is None else partial(_number_of_rows, splits, output.dtype)
        if is_log_of_sum(operation):
            return partial(_log_of_sum, operation)
        ragged = op_named(operation.type).ragged
        if ragged not in _REDUCING or not self.leads_back(operation):
            return None
        if ragged is Ragged.REDUCES and self.counts_rows(operation.inputs[2].op):
            return None
        entries, ids, *_ = operation.inputs
        splits = self.splits_of(ids)
        if ragged is Ragged.COUNTS_INTEGERS:
            splits, entries, *_ = operation.inputs
        if splits is None:
            return None
        rows = tf.RaggedTensor.from_row_splits(entries, splits, validate=False)
        return partial(_reduced, operation, rows)

    def _makes_rows(self, operation: tf.Operation, known: Mapping[str, Known]) -> bool:
        """Whether an op's first output is the splits of one row for each token, in their order."""
        if not operation.outputs or not are_splits(operation.outputs[0]):
            return False
        given = list(operation.inputs)
        has_value = [_has_value_for_each_token(tensor, known) for tensor in given]
        are_shared = [known[tensor.name].kind is Kind.SHARED for tensor in given]
        op = op_named(operation.type)
        match op.ragged:
            case Ragged.MAKES_RANGES:
                moves = [self._moves(tensor, known) for tensor in given]
                return moves == [1, 1, 0] or (moves == [0, 0, 0] and any(has_value))
            case Ragged.FROM_LIST:
                return len(operation.outputs) == 2 and has_value[0]
            case Ragged.LOOKS_UP:
                return all(are_shared[:-1]) and has_value[-1]
        if has(operation.type, Is.CASTING):
            return self.are_of_tokens(given[0])
        if has(operation.type, Is.SLICING):
            return self._are_joined(operation.outputs[0])
        lengths = lengths_of_splits(operation)
        return lengths is not None and _has_value_for_each_token(lengths, known)

    def are_of_tokens(self, tensor: tf.Tensor) -> bool:
        """Whether a tensor is known to be the splits of one row for each token, in their order."""
        return self._role(tensor)[0] is Role.SPLITS

    def _moves(self, tensor: tf.Tensor, known: Mapping[str, Known]) -> int | None:
        """Returns by how many entries a bound moves if its row begins one later; None if unknown.

        A number of the token and a shared scalar move by 0. The beginning and end of a row move
        by 1.
        """
        operation = tensor.op
        is_scalar = tensor.shape.rank == 0 and known[tensor.name].kind is Kind.SHARED
        if is_scalar or _has_value_for_each_token(tensor, known):
            return 0
        moved = moves_of_bound(operation)
        if moved:
            one, other = (self._moves(item, known) for item in operation.inputs)
            return None if one is None or other is None else moved(one, other)
        if not has(operation.type, Is.SLICING) or operation.inputs[0].shape.rank != 1:
            return None
        is_bound = cut_of_rows(operation) in (slice(None, -1, 1), slice(1, None, 1))
        return 1 if is_bound and self.are_of_tokens(operation.inputs[0]) else None

    def _are_joined(self, splits: tf.Tensor) -> bool:
        """Whether splits are those of `tf.concat([rows, ...], axis=1)` of rows of tokens."""
        gather = splits.op.inputs[0].op
        if op_named(gather.type).ragged is not Ragged.LOOKS_UP or len(gather.inputs) != 3:
            return False
        joined_splits, joined_values = gather.inputs[0].op, gather.inputs[1].op
        if any(not has(made.type, Is.JOINING) for made in (joined_splits, joined_values)):
            return False
        # Splits after the first ones are `splits[1:] + number_of_entries_before`.
        parts = [
            next(filter(self.are_of_tokens, _with_sources(part)), part)
            for part in list(joined_splits.inputs)[:-1]
        ]
        values = list(joined_values.inputs)[:-1]
        if len(parts) != len(values) or not all(map(self.are_of_tokens, parts)):
            return False
        given = [tensor for pair in zip(values, parts, strict=True) for tensor in pair]
        trace = of_joined(tuple((tensor.dtype, tensor.shape) for tensor in given))
        numbers = dict(zip(trace.given, map(self._numbering.number, given), strict=True))
        (name,) = trace.roles
        found = self._numbering.numbers_as(trace.steps, numbers)[name]
        return found == self._numbering.number(splits)

    def known(self, tensor: tf.Tensor) -> list[tf.Tensor]:
        """Returns known tensors that are equal to one that TensorFlow computes from splits."""
        role, splits = self._role(tensor)
        if role is Role.IDS:
            return [rows.ids for rows in self._rows.get(splits, ())]
        if role is Role.COUNT and tensor.dtype == tf.int32:
            return [rows.count for rows in self._rows.get(splits, ())]
        return []

    def suppose(self, tensor: tf.Tensor, kind: Callable[[tf.Tensor], Kind]) -> bool:
        """Takes everything that may be row splits before a tensor for those of rows of tokens.

        Args:
            tensor: The tensor.
            kind: Returns the kind of a tensor.

        Returns:
            Whether there was anything.
        """
        found = [
            source
            for operation in operations_before(tensor)
            for source in operation.inputs
            if are_splits(source) and kind(source) is Kind.WAVE and not self._role(source)[0]
        ]
        for splits in found:
            if not self._role(splits)[0]:
                self._learn(splits)
        return bool(found)

    def same(self, one: TokenRows, other: TokenRows) -> bool:
        """Whether two sets of rows are known to have the same lengths."""
        return self._numbering.number(one.splits) == self._numbering.number(other.splits)

    def leads_back(self, operation: tf.Operation) -> bool:
        """Whether an op makes one value per token from rows."""
        if not self._roles:
            return False
        ragged = op_named(operation.type).ragged
        roles = [self._role(tensor)[0] for tensor in operation.inputs] if ragged else []
        match ragged:
            case Ragged.REDUCES:
                return roles[1] is Role.IDS and roles[2] in (Role.COUNT, Role.OTHER_COUNT)
            case Ragged.REDUCES_SORTED:
                # As it is, it has no results for the last rows if these are empty.
                return roles[1] is Role.IDS and self._replaces
            case Ragged.COUNTS_INTEGERS:
                return roles[0] is Role.SPLITS and bounded_size(operation.inputs[2]) is not None
            case Ragged.PADS:
                return roles[3:] in _PARTITIONS
            case Ragged.TO_LIST:
                return roles[0] is Role.SPLITS
        return any(self._role(output)[0] is Role.LENGTHS for output in operation.outputs)

    def counts_rows(self, operation: tf.Operation) -> bool:
        """Whether an op computes how many rows of tokens there are."""
        return any(self._role(output)[0] is Role.COUNT for output in operation.outputs)

    def begins_with_count(self, shape: tf.Tensor) -> bool:
        """Whether the first size in a shape is known to be how many rows of tokens there are.

        `tf.math.unsorted_segment_mean` computes such a shape from its number of segments.
        """
        return self.counts_rows(first_size(shape).op)


def operations_before(tensor: tf.Tensor) -> Iterator[tf.Operation]:
    """Yields all ops that a tensor is computed from, the last ones first."""
    pending, seen = collections.deque([tensor.op]), {tensor.op}
    while pending:
        operation = pending.popleft()
        yield operation
        for source in operation.inputs:
            if source.op not in seen:
                seen.add(source.op)
                pending.append(source.op)


def _with_sources(tensor: tf.Tensor) -> Iterator[tf.Tensor]:
    """Yields a tensor, and all that it is computed from, the nearest ones first."""
    yield tensor
    for operation in operations_before(tensor):
        yield from operation.inputs


def _element(tensor: tf.Tensor) -> tuple[tf.Tensor | None, int]:
    """Returns the vector that a scalar is taken from, None if there is none, and its place."""
    taken = cut_of_rows(tensor.op) if has(tensor.op.type, Is.SLICING) else None
    return (tensor.op.inputs[0], taken) if isinstance(taken, int) else (None, 0)


def _count(operation: tf.Operation, rows: tf.RaggedTensor) -> tf.Tensor:
    dtype, weights = operation.outputs[0].dtype, operation.inputs[3]
    counts = tf.one_hot(rows.values, bounded_size(operation.inputs[2]), dtype=dtype)
    if operation.get_attr("binary_output"):
        return tf.minimum(tf.reduce_sum(rows.with_values(counts), 1), tf.ones([], dtype))
    if weights.shape[0] != 0:
        counts *= tf.expand_dims(weights, 1)
    return tf.reduce_sum(rows.with_values(counts), 1)


def _log_of_sum(operation: tf.Operation) -> tf.Tensor:
    """The logarithm of sums, whose gradient is zero where a sum is zero.

    There, all entries of the row are -inf, or there are none. The gradient that TensorFlow would
    compute, infinity times zero, is NaN.
    """
    (total,) = operation.inputs
    is_zero = tf.equal(total, 0)
    found = tf.math.log(tf.where(is_zero, tf.ones_like(total), total))
    return tf.where(is_zero, tf.constant(-math.inf, total.dtype), found)


def _reduced(operation: tf.Operation, rows: tf.RaggedTensor) -> tf.Tensor:
    """Reduces all rows in the way of an op; the rows hold the entries that the op reads."""
    op = op_named(operation.type)
    if op.reduction is None:
        return _count(operation, rows)
    if rows.dtype == tf.string:
        return op.reduction(rows, 1, separator=operation.get_attr("separator").decode())
    found = op.reduction(rows, 1)
    if op.ragged is Ragged.REDUCES or op.reduction in (tf.reduce_sum, tf.reduce_prod):
        return found
    # Other ops on sorted row numbers give zero for empty rows.
    lengths = tf.reshape(rows.row_lengths(), [-1] + [1] * (found.shape.rank - 1))
    return tf.where(lengths > 0, found, tf.zeros_like(found))


def _number_of_rows(splits: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    return tf.shape(splits[1:] - splits[:-1], dtype)[0]


def _has_value_for_each_token(tensor: tf.Tensor, known: Mapping[str, Known]) -> bool:
    """Whether a tensor has one number for each token, `[tokens]`."""
    return known[tensor.name].kind is Kind.TOKEN and tensor.shape.rank == 1
