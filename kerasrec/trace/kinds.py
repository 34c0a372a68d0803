"""Which tensors of a traced graph have one value per token.

A tensor that depends on tokens has one value per token if its leading axis is the token axis.
TensorFlow's shape inference leaves the size of that axis open. It cannot say whether an op cut,
joined or reduced the axis; the tables below say that.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import tensorflow as tf

from kerasrec.graph.types import Kind
from kerasrec.trace import held
from kerasrec.trace.known import SHARED, Known
from kerasrec.trace.powers import NONE, UNKNOWN, Power, are_values, depends, powers_after
from kerasrec.trace.rows import RowsFinder
from kerasrec.trace.token_axis import ELEMENTWISE, MIXED, REDUCTIONS, SIZES, axis_after

# Their leading axis has an open size that depends on the values of tokens.
_COUNTING_OPS = frozenset(
    {"BroadcastGradientArgs", "Where", "Unique", "UniqueV2", "RaggedGather", "RaggedRange", "Range"}
)
# They work along the last axis, which is that of tokens if there is no other.
_LAST_AXIS_OPS = frozenset({"Softmax", "LogSoftmax", "TopKV2"})
# They work along the axes that their last input names.
_AXIS_OPS = frozenset({"Cumsum", "Cumprod", "ReverseV2", "CumulativeLogsumexp", "Roll"})
# They put rows where indices say, and at which input of the op these are.
_SCATTERS = {"ScatterNd": 0, "GatherNd": 1, "DynamicStitch": 0} | dict.fromkeys(
    (f"TensorScatter{name}" for name in ("Update", "Add", "Sub", "Max", "Min")), 1
)
# They work on all rows of their first input together.
_WHOLE_OPS = frozenset(
    {"RandomShuffle", "InvertPermutation", "ListDiff"}
    | {f"Segment{name}" for name in ("Sum", "Mean", "Prod", "Max", "Min")}
    | {f"UnsortedSegment{name}" for name in ("Sum", "Prod", "Max", "Min")}
)


@dataclass(eq=False)
class KindFinder:
    """Kinds of the tensors of a graph that TensorFlow has traced.

    Args:
        graph: it may grow between calls.
        rows: of ragged values; it may grow, too.
        kind_outside: the kind of a tensor that the graph captures from around it.
        is_trial: whether types are tried, so that ranks may be wrong.
        counters: of the body of a loop, the names of the inputs that change.
    """

    graph: tf.Graph
    rows: RowsFinder
    kind_outside: Callable[[tf.Tensor], Kind]
    is_trial: bool = False
    counters: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self._given: set[str] = set()
        self._known: dict[str, Known] = {}
        self._num_seen = 0

    def forget(self, since: int) -> None:
        """Looks at ops again, because more is known now than when they were first seen.

        Args:
            since: the place in the graph of the first op of which more is known.
        """
        for operation in self.graph.get_operations()[since : self._num_seen]:
            for output in operation.outputs:
                if output.name not in self._given:
                    self._known.pop(output.name, None)
        self._num_seen = min(self._num_seen, since)

    def add(self, tensor: tf.Tensor, kind: Kind) -> None:
        """Sets the kind of a tensor, before anything has asked for it."""
        self.set(tensor, Known(kind, is_mixed=kind is Kind.WAVE))

    def set(self, tensor: tf.Tensor, known: Known) -> None:
        """Says what is known of a tensor, before anything has asked for it."""
        self._given.add(tensor.name)
        self._known[tensor.name] = known

    def kind(self, tensor: tf.Tensor) -> Kind:
        """The kind of a tensor of the graph."""
        return self.known(tensor).kind

    def known(self, tensor: tf.Tensor) -> Known:
        """What is known of a tensor of the graph."""
        operations = self.graph.get_operations()
        for operation in operations[self._num_seen :]:
            if not operation.outputs or operation.outputs[0].name not in self._known:
                self._see(operation)
        self._num_seen = len(operations)
        return self._known[tensor.name]

    def _see(self, operation: tf.Operation) -> None:
        given = [self._known[source.name] for source in operation.inputs]
        if operation.type == "Placeholder":
            (output,) = operation.outputs
            outside = [outer for outer, inner in self.graph.captures if inner is output]
            self._known[output.name] = Known(self.kind_outside(*outside)) if outside else SHARED
            return
        if all(known.kind is Kind.SHARED for known in given):
            self._known.update((output.name, SHARED) for output in operation.outputs)
            return
        self.rows.learn(operation, lambda tensor: self._known[tensor.name].kind)
        found = self._after_held(operation, given)
        if found is None:
            found = self._after_list(operation, given)
        if found is None:
            found = self._after_entries(operation, given)
        if found is None:
            found = self._after(operation, given)
        for output, known in zip(operation.outputs, found, strict=True):
            if known.depends and known.by is None:
                known = replace(known, by=_cause(operation, given))
            self._known[output.name] = known

    def _after(self, operation: tf.Operation, given: Sequence[Known]) -> list[Known]:
        """Of the outputs of an op, from what is known of its inputs."""
        leads_back = self.rows.leads_back(operation)
        axes = [known.place for known in given]
        axis = None
        if not leads_back and operation.outputs and any(item is not None for item in axes):
            axis = axis_after(operation, axes, self.is_trial)
        elif not leads_back:
            axis = _axis_of_shape(operation, given)
        is_cut = _is_cut(operation, given)
        is_mixed = not leads_back and (
            axis == MIXED
            or _mixes_tokens(operation, given)
            or _scatters_by_value(operation, given)
            or (is_cut and operation.type not in ELEMENTWISE | {"Reshape"})
            or (any(item.is_mixed for item in given) and operation.type not in _SCATTERS)
        )
        is_size = all(known.is_size or known.kind is Kind.SHARED for known in given)
        if operation.type in SIZES:
            is_size, powers = True, _powers_of_sizes(operation, given)
        elif leads_back or _holds_graphs(operation):
            powers = [NONE] * len(operation.outputs)
        else:
            powers = powers_after(operation, [_power(known) for known in given])
        is_token = []
        for output in operation.outputs:
            rows = Fraction(1) if leads_back else _rows_of(operation, given, output)
            # Rows padded to the longest of them: how long that is depends on the other tokens.
            is_padded = leads_back and not output.shape[1:].is_fully_defined()
            has_rows = rows == 1 and _has_open_rows(output) and not axis and not is_cut
            is_token.append((rows, has_rows and not is_padded))
        is_mixed = is_mixed or any(
            holds and depends(power) for (_, holds), power in zip(is_token, powers, strict=True)
        )
        found: list[Known] = []
        for output, (rows, holds), power in zip(operation.outputs, is_token, powers, strict=True):
            if not is_size and not leads_back and _is_of_all(output, operation, given):
                power = UNKNOWN
            kind = Kind.TOKEN if holds and not is_mixed else Kind.WAVE
            place = axis if axis is not None and axis > 0 and not found else None
            found.append(Known(kind, rows, place, is_mixed, power, is_size, is_cut=is_cut))
        return found

    def _after_held(self, operation: tf.Operation, given: Sequence[Known]) -> list[Known] | None:
        """Of a loop, a conditional or a call of TensorFlow; None where it is not looked into."""
        if not _holds_graphs(operation) or not all(map(_can_enter, given, operation.inputs)):
            return None
        return held.known_after(operation, given, self._of_graph)

    def _of_graph(
        self, graph: tf.Graph, given: Sequence[Known], counters: frozenset[str] = frozenset()
    ) -> list[Known]:
        """Of the outputs of a graph that an op holds, from what is known of its inputs."""
        finder = KindFinder(
            graph, RowsFinder(graph), lambda _: Kind.SHARED, self.is_trial, counters
        )
        for tensor, known in zip(graph.inputs, given, strict=True):
            finder.set(tensor, known)
        return [finder.known(tensor) for tensor in graph.outputs]

    def _after_list(self, operation: tf.Operation, given: Sequence[Known]) -> list[Known] | None:
        """Of an op on a list with an entry a token; None for others."""
        if operation.type == "TensorListFromTensor" and given[0].kind is Kind.TOKEN:
            return [Known(Kind.WAVE, is_list=True)]
        if operation.type == "TensorListGetItem" and given[0].is_list:
            number = self._iteration(operation.inputs[1])
            if number is None:
                return [Known(Kind.WAVE, power=UNKNOWN)]
            return [Known(Kind.WAVE, entry=number)]
        if operation.type == "TensorListSetItem" and self._collects(operation, given[2]):
            is_same = given[2].entry == self._iteration(operation.inputs[1])
            is_mixed = given[0].depends or not is_same
            return [Known(Kind.WAVE, is_list=True, is_mixed=is_mixed)]
        return None

    def _collects(self, operation: tf.Operation, item: Known) -> bool:
        """Whether a list that goes from iteration to iteration takes an entry of this one."""
        handle = operation.inputs[0]
        while handle.op.type in ("Identity", "TensorListSetItem"):
            handle = handle.op.inputs[0]
        return handle.name in self.counters and _is_of(item, self.graph)

    def _iteration(self, index: tf.Tensor) -> Hashable:
        """The number of the iteration that an index is; None if it is something else."""
        while index.op.type == "Identity":
            (index,) = index.op.inputs
        return (self.graph, index.name) if index.name in self.counters else None

    def _after_entries(self, operation: tf.Operation, given: Sequence[Known]) -> list[Known] | None:
        """Of an op in a loop over tokens that reads an entry; None for others."""
        entries = {known.entry for known in given if known.entry is not None}
        if not entries:
            return None
        others = [known for known in given if known.entry is None]
        if len(entries) == 1 and all(
            known.kind is Kind.SHARED or (known.is_size and not known.depends) for known in others
        ):
            return [Known(Kind.WAVE, entry=entries.pop()) for _ in operation.outputs]
        is_mixed = len(entries) > 1 or any(
            known.is_mixed or known.place is not None for known in others
        )
        return [Known(Kind.WAVE, is_mixed=is_mixed, power=UNKNOWN) for _ in operation.outputs]


def _is_of(known: Known, graph: tf.Graph) -> bool:
    """Whether something was read in an iteration of the loop with this body."""
    return isinstance(known.entry, tuple) and known.entry[0] is graph


def _cause(operation: tf.Operation, given: Sequence[Known]) -> tf.Operation:
    """The op because of which the outputs of an op are of all tokens together."""
    pairs = zip(given, are_values(operation), strict=True)
    first = [known.by for known, is_value in pairs if known.is_mixed or is_value]
    if operation.type in _COUNTING_OPS and not any(known.is_mixed for known in given):
        return operation
    return next((by for by in first if by is not None), operation)


def _holds_graphs(operation: tf.Operation) -> bool:
    return operation.type in held.HOLDERS


def _can_enter(known: Known, tensor: tf.Tensor) -> bool:
    """Whether it is understood what a function does to an input. Ragged rows are not."""
    return not known.is_mixed and (
        known.kind is not Kind.WAVE
        or known.is_size
        or known.entry is not None
        or tensor.dtype == tf.variant
        or known.depends
    )


def _power(known: Known) -> Power:
    """What is mixed cannot get into values again, but as the places where an op puts them."""
    return NONE if known.is_mixed else known.power


def _axis_of_shape(operation: tf.Operation, given: Sequence[Known]) -> int | None:
    """Where the token axis is of values that are the same for all tokens, given a shape."""
    place = {"Fill": 0, "BroadcastTo": 1}.get(operation.type)
    if place is None or given[place].power.ndim != 1:
        return None
    axes = np.flatnonzero(given[place].power)
    return MIXED if len(axes) > 1 else int(axes[0]) if len(axes) else None


def _is_cut(operation: tf.Operation, given: Sequence[Known]) -> bool:
    """Whether rows of tokens are cut anew, so that the first axis is not that of tokens."""
    if operation.type == "Reshape" and given[0].kind is Kind.TOKEN:
        shape = operation.outputs[0].shape
        return not _has_open_rows(operation.outputs[0]) and not shape.is_fully_defined()
    return operation.type not in {"Reshape"} | SIZES and any(known.is_cut for known in given)


def _powers_of_sizes(operation: tf.Operation, given: Sequence[Known]) -> list[Power]:
    """Of the shape, size or rank of tensors."""
    found = []
    for known, tensor in zip(given, operation.inputs, strict=True):
        rank, place = tensor.shape.rank, known.place
        if operation.type == "Rank" or known.kind is Kind.SHARED:
            power = NONE
        elif rank is None:
            power = UNKNOWN
        elif place is not None:
            power = np.eye(rank)[place]
        else:
            power = np.array([np.nan if size is None else 0.0 for size in tensor.shape])
        found.append(np.asarray(power.sum()) if operation.type == "Size" else power)
    return found


def _is_of_all(output: tf.Tensor, operation: tf.Operation, given: Sequence[Known]) -> bool:
    """Whether an output without a token axis was computed from values that have one."""
    if output.dtype in (tf.variant, tf.resource) or not output.shape.is_fully_defined():
        return False
    return any(
        known.place is not None
        or (known.kind is Kind.WAVE and not known.is_size and tensor.dtype != tf.variant)
        for known, tensor in zip(given, operation.inputs, strict=True)
    )


def _rows_of(operation: tf.Operation, given: Sequence[Known], output: tf.Tensor) -> Fraction:
    """How many rows of an output each token has, if its leading axis is open."""
    if operation.type == "Reshape":
        before, after = (_size_of_row(item) for item in (operation.inputs[0], output))
        if before and after:
            return given[0].rows * before / after
    return max(known.rows for known in given)


def _scatters_by_value(operation: tf.Operation, given: Sequence[Known]) -> bool:
    """Whether an op puts rows of tokens where values say, and not where tokens are."""
    place = _SCATTERS.get(operation.type)
    if place is None:
        return False
    count = len(given) // 2 if operation.type == "DynamicStitch" else 1
    indices = given[place : place + count]
    others = [*given[:place], *given[place + count :]]
    return any(known.place == 0 for known in others) and any(
        known.kind is not Kind.WAVE for known in indices
    )


def _has_open_rows(tensor: tf.Tensor) -> bool:
    shape = tensor.shape
    return shape.rank is None or (shape.rank >= 1 and shape[0] is None)


def _size_of_row(tensor: tf.Tensor) -> int | None:
    """How many numbers a row has; None where that is open, or rows are not."""
    if not _has_open_rows(tensor) or tensor.shape.rank is None:
        return None
    return tensor.shape[1:].num_elements()


def _mixes_tokens(operation: tf.Operation, given: Sequence[Known]) -> bool:
    """Whether an op cuts, joins, reorders or reduces the token axis."""
    kinds = [known.kind for known in given]
    if operation.type in _COUNTING_OPS:
        return True
    if operation.type in ("AddV2", "Sub") and operation.outputs[0].shape.rank == 0:
        # The number of tokens, plus or minus something.
        return any(depends(known.power) for known in given)
    if operation.type in ("Slice", "StridedSlice") and kinds[0] is Kind.SHARED:
        # As many rows of a table as there are tokens: a row for the place of each.
        return any(depends(known.power) for known in given[1:])
    if operation.type == "ConcatV2" and Kind.TOKEN in kinds:
        return tf.get_static_value(operation.inputs[-1]) == 0
    if kinds[0] is not Kind.TOKEN:
        return False
    if operation.type in _WHOLE_OPS:
        return True
    if operation.type in REDUCTIONS:
        return not _has_open_rows(operation.outputs[0])
    if operation.type == "GatherV2":
        axis = tf.get_static_value(operation.inputs[2])
        return axis == 0 and operation.get_attr("batch_dims") == 0
    if operation.type == "StridedSlice":
        return _cuts_first_axis(operation)
    if operation.type in _LAST_AXIS_OPS:
        return operation.inputs[0].shape.rank == 1
    if operation.type in _AXIS_OPS:
        axes = tf.get_static_value(operation.inputs[-1])
        return axes is not None and bool((np.asarray(axes) == 0).any())
    return False


def _cuts_first_axis(operation: tf.Operation) -> bool:
    if operation.get_attr("ellipsis_mask") & 1 or operation.get_attr("new_axis_mask") & 1:
        return False
    is_whole = operation.get_attr("begin_mask") & operation.get_attr("end_mask") & 1
    strides = tf.get_static_value(operation.inputs[3])
    return not is_whole or strides is None or strides[0] != 1
