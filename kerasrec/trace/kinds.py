"""Which tensors of a traced graph have one value per token.

A tensor that depends on tokens has one value per token if its leading axis is the token axis.
TensorFlow's shape inference leaves the size of that axis open. It cannot say whether an op cut,
joined or reduced the axis; the tables below say that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import tensorflow as tf

from kerasrec.errors import TraceError
from kerasrec.graph.types import Kind
from kerasrec.trace.functions import LOOPS
from kerasrec.trace.held_kinds import HOLDING, Known, outputs_of_held
from kerasrec.trace.rows import RowsFinder
from kerasrec.trace.source import source_of
from kerasrec.trace.token_axis import (
    AXIS_OPS,
    ELEMENTWISE,
    MIXED,
    REDUCTIONS,
    SIZES,
    Axes,
    axis_after,
    loses_tokens,
)
from kerasrec.trace.token_count import TokenCounts

# Their leading axis has an open size that depends on the values of tokens.
_COUNTING_OPS = frozenset(
    {"BroadcastGradientArgs", "Where", "Unique", "UniqueV2", "RaggedGather", "RaggedRange", "Range"}
)
# They add up rows, or change their order.
_ROW_OPS = frozenset({
    "RandomShuffle", "SegmentSum", "SegmentMean", "SegmentMax", "SegmentMin", "SegmentProd",
    "UnsortedSegmentSum", "UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd",
    "SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN",
})  # fmt: skip
# They work along the last axis, which is that of tokens if there is no other.
_LAST_AXIS_OPS = frozenset({"Softmax", "LogSoftmax", "TopKV2"})
# They add up all that they read, if their result has no axis of open size. Not the largest: a
# softmax of each row may subtract that of all rows.
_TOTALS = frozenset({"Sum", "Mean", "Prod", "EuclideanNorm", "L2Loss"})
# They put rows back where the tokens are.
_SCATTERS = frozenset(
    {"ScatterNd", "TensorScatterUpdate", "TensorScatterAdd", "DynamicStitch", "GatherNd"}
)


class _NotFollowedError(Exception):
    """What a function does with tokens cannot be told."""


class _ChangedLoopError(TraceError):
    """A loop was changed after it was made."""


@dataclass(eq=False)
class KindFinder:
    """Kinds of the tensors of a graph that TensorFlow has traced.

    Args:
        graph: it may grow between calls.
        rows: of ragged values; it may grow, too.
        kind_outside: the kind of a tensor that the graph captures from around it.
        is_trial: whether types are tried, so that ranks may be wrong.
    """

    graph: tf.Graph
    rows: RowsFinder
    kind_outside: Callable[[tf.Tensor], Kind]
    is_trial: bool = False

    def __post_init__(self) -> None:
        self._given: dict[str, Kind] = {}
        self._kinds: dict[str, Kind] = {}
        self._rows: dict[str, Fraction] = {}
        self._mixed: set[str] = set()
        # What is computed from all entries of rows together, as a softmax of all of them.
        self._of_all_entries: set[str] = set()
        # Where the token axis is, of tensors in which it is not the first.
        self._moved: dict[str, int] = {}
        self._counts = TokenCounts()
        # Lists of single tokens, and what is computed from their entries.
        self._single: set[str] = set()
        self._num_seen = 0

    def forget(self, since: int) -> None:
        """Looks at ops again, because more is known now than when they were first seen.

        Args:
            since: the place in the graph of the first op of which more is known.
        """
        for operation in self.graph.get_operations()[since : self._num_seen]:
            for output in operation.outputs:
                if output.name not in self._given:
                    self._kinds.pop(output.name, None)
                    self._mixed.discard(output.name)
                    self._of_all_entries.discard(output.name)
                self._rows.pop(output.name, None)
                self._moved.pop(output.name, None)
                self._counts.forget(output)
                self._single.discard(output.name)
        self._num_seen = min(self._num_seen, since)

    def add(self, tensor: tf.Tensor, kind: Kind) -> None:
        """Sets the kind of a tensor, before anything has asked for it."""
        self._given[tensor.name] = self._kinds[tensor.name] = kind
        if kind is Kind.WAVE:
            self._mixed.add(tensor.name)

    def kind(self, tensor: tf.Tensor) -> Kind:
        """The kind of a tensor of the graph."""
        operations = self.graph.get_operations()
        for operation in operations[self._num_seen :]:
            if not operation.outputs or operation.outputs[0].name not in self._kinds:
                self._see(operation)
        self._num_seen = len(operations)
        return self._kinds[tensor.name]

    def is_of_all_entries(self, tensor: tf.Tensor) -> bool:
        """Whether a tensor is computed from the entries of all rows together."""
        self.kind(tensor)
        return tensor.name in self._of_all_entries

    def _see(self, operation: tf.Operation) -> None:
        self._refuse_changed_loops(operation)
        kinds = [self._kinds[source.name] for source in operation.inputs]
        if operation.type == "Placeholder":
            (output,) = operation.outputs
            outside = [outer for outer, inner in self.graph.captures if inner is output]
            self._kinds[output.name] = self.kind_outside(*outside) if outside else Kind.SHARED
            return
        if all(kind is Kind.SHARED for kind in kinds):
            self._kinds.update((output.name, Kind.SHARED) for output in operation.outputs)
            return
        self.rows.learn(operation, self._kinds)
        leads_back = self.rows.leads_back(operation)
        held = self._outputs_of_held(operation)
        if held is not None:
            for output, known in zip(operation.outputs, held, strict=True):
                is_token = known.kind is Kind.TOKEN and _has_open_rows(output)
                self._set(output, replace(known, kind=Kind.TOKEN if is_token else Kind.WAVE))
            return
        axes = list(map(self._axis_of, operation.inputs, kinds))
        axis = None
        if not leads_back and operation.outputs and any(item is not None for item in axes):
            axis = axis_after(operation, axes, self.is_trial)
        if axis is not None and axis > 0:
            self._moved[operation.outputs[0].name] = axis
        is_shared = [kind is Kind.SHARED for kind in kinds]
        has_count = self._counts.learn(operation, axes, is_shared)
        if _is_of_single_tokens(operation, axes, self._single):
            self._single.update(output.name for output in operation.outputs)
        reads_total = not self.is_trial and _reads_total(operation, kinds)
        is_of_all_entries = reads_total or self._passes_on_all_entries(operation, leads_back)
        if leads_back:
            is_mixed = is_of_all_entries
        else:
            is_mixed = (
                axis == MIXED
                or (has_count and _has_open_rows(operation.outputs[0]))
                or reads_total
                or self._counts_rows(operation)
                or _mixes_tokens(operation, axes)
                or (
                    any(source.name in self._mixed for source in operation.inputs)
                    and operation.type not in _SCATTERS
                )
            )
        for output in operation.outputs:
            rows = Fraction(1) if leads_back else self._rows_of(operation, output)
            self._rows[output.name] = rows
            is_open = _has_open_rows(output)
            is_of_all = is_mixed or (
                not (leads_back or is_open or axis or self.is_trial)
                and 0 in axes
                and loses_tokens(operation, output)
            )
            is_token = not is_of_all and rows == 1 and is_open and not axis
            # As many rows as another axis has.
            is_token = is_token and not self._counts.is_of_other_axes(output)
            # Rows padded to the longest of them: how long that is depends on the other tokens.
            is_padded = leads_back and not output.shape[1:].is_fully_defined()
            self._kinds[output.name] = Kind.TOKEN if is_token and not is_padded else Kind.WAVE
            if is_of_all:
                self._mixed.add(output.name)
            if is_of_all_entries:
                self._of_all_entries.add(output.name)

    def _passes_on_all_entries(self, operation: tf.Operation, leads_back: bool) -> bool:
        """Whether values that are computed from all entries are among those of an op's result."""
        names = [source.name for source in operation.inputs]
        if operation.type in SIZES or not self._of_all_entries:
            return False
        # Other inputs are places and sizes, in which all entries may have a part.
        if operation.type not in ELEMENTWISE and not leads_back:
            names = names[:1]
        return any(name in self._of_all_entries for name in names)

    def _counts_rows(self, operation: tf.Operation) -> bool:
        """Whether an op computes how many tokens there are, plus or minus something."""
        if operation.type not in ("AddV2", "Sub") or operation.outputs[0].shape.rank != 0:
            return False
        return not self._counts.is_of_other_axes(operation.outputs[0])

    def _outputs_of_held(self, operation: tf.Operation) -> Sequence[Known] | None:
        """What the functions that an op holds say of its outputs; None where they say nothing.

        Rows of entries are followed in the graph of the body alone.
        """
        if operation.type not in HOLDING:
            return None
        given = list(map(self._known, operation.inputs))
        if not all(map(_is_followed, operation.inputs, given)):
            return None

        def find(graph: tf.Graph, known: Sequence[Known], count: int) -> list[Known]:
            inner = KindFinder(graph, RowsFinder(graph), self.kind_outside, self.is_trial)
            for tensor, item in zip(graph.inputs, known, strict=True):
                if item.kind is Kind.TOKEN and not tensor.shape[1:].is_fully_defined():
                    raise _NotFollowedError  # Axes of open size are not told apart from tokens.
                inner._set(tensor, item)
            outputs = graph.outputs[:count]
            for tensor in outputs:
                inner.kind(tensor)
            return list(map(inner._known, outputs))

        try:
            return outputs_of_held(operation, given, find)
        except (_NotFollowedError, _ChangedLoopError):  # The latter: a loop's gradient is inside.
            return None

    def _known(self, tensor: tf.Tensor) -> Known:
        name = tensor.name
        kind = self._kinds[name]
        return Known(
            kind,
            name in self._mixed,
            # Of several rows a token nothing is said: a function would take them for tokens.
            0 if kind is Kind.TOKEN else self._moved.get(name),
            self._counts.has(tensor),
            name in self._single,
        )

    def _set(self, tensor: tf.Tensor, known: Known) -> None:
        self._kinds[tensor.name] = known.kind
        if known.is_mixed:
            self._mixed.add(tensor.name)
        if known.axis:
            self._moved[tensor.name] = known.axis
        if known.is_count:
            self._counts.add(tensor)
        if known.is_single:
            self._single.add(tensor.name)

    def _refuse_changed_loops(self, operation: tf.Operation) -> None:
        """Raises TraceError for a loop that was changed after it was made.

        TensorFlow's gradient of a loop gives the loop more inputs, of ops that come after it, and
        more outputs, which an op that is seen before has not.
        """
        unknown = [source.op for source in operation.inputs if source.name not in self._kinds]
        if not unknown:
            return
        loop = operation if operation.type in LOOPS else unknown[0]
        source = source_of(loop.traceback or ())
        raise _ChangedLoopError(
            f"The gradient of a loop{f' at {source}' if source else ''} (tf.while_loop, tf.map_fn, "
            "tf.scan or their like) is taken by tf.gradients inside of a recursive function, and "
            "TensorFlow would change the loop for it. Put the loop and tf.gradients into one "
            "tf.function, and call that; or take the gradient of the recursive function."
        )

    def _axis_of(self, tensor: tf.Tensor, kind: Kind) -> int | None:
        """Where the token axis of a tensor is; the first also where each token has several rows."""
        name = tensor.name
        if kind is Kind.TOKEN:
            return 0
        if name in self._moved or name in self._mixed:
            return self._moved.get(name)
        has_rows = self._rows.get(name, 1) != 1 and _has_open_rows(tensor)
        return 0 if has_rows else None

    def _rows_of(self, operation: tf.Operation, output: tf.Tensor) -> Fraction:
        """How many rows of an output each token has, if its leading axis is open."""
        rows = max(self._rows.get(item.name, Fraction(1)) for item in operation.inputs)
        if operation.type == "Reshape":
            before, after = (_size_of_row(item) for item in (operation.inputs[0], output))
            if before and after:
                return self._rows.get(operation.inputs[0].name, Fraction(1)) * before / after
        return rows


def _has_open_rows(tensor: tf.Tensor) -> bool:
    shape = tensor.shape
    return shape.rank is None or (shape.rank >= 1 and shape[0] is None)


def _reads_total(operation: tf.Operation, kinds: Sequence[Kind]) -> bool:
    """Whether an op computes from all entries of rows, or of a stack of what tokens have."""
    source, output = operation.inputs[0], operation.outputs[0] if operation.outputs else None
    if output is None or kinds[0] is not Kind.WAVE or not source.dtype.is_floating:
        return False
    if operation.type in ("Softmax", "LogSoftmax"):
        return source.shape.rank == 1 and source.shape[0] is None
    if operation.type not in _TOTALS or None in (source.shape.rank, output.shape.rank):
        return False
    return None in source.shape and output.shape.is_fully_defined()


def _size_of_row(tensor: tf.Tensor) -> int | None:
    """How many numbers a row has; None where that is open, or rows are not."""
    if not _has_open_rows(tensor) or tensor.shape.rank is None:
        return None
    return tensor.shape[1:].num_elements()


def _mixes_tokens(operation: tf.Operation, axes: Axes) -> bool:
    """Whether an op cuts, joins, reorders or reduces the token axis, where it is the first."""
    if operation.type in _COUNTING_OPS:
        return True
    if operation.type == "ConcatV2" and 0 in axes:
        return tf.get_static_value(operation.inputs[-1]) == 0
    if axes[0] != 0:
        return False
    if operation.type in _ROW_OPS:
        return True
    if operation.type == "ReverseSequence":
        return operation.get_attr("seq_dim") == 0
    if operation.type in REDUCTIONS:
        return not _has_open_rows(operation.outputs[0])
    if operation.type == "GatherV2":
        axis = tf.get_static_value(operation.inputs[2])
        return axis == 0 and operation.get_attr("batch_dims") == 0
    if operation.type == "StridedSlice":
        return _cuts_first_axis(operation)
    if operation.type in _LAST_AXIS_OPS:
        return operation.inputs[0].shape.rank == 1
    if operation.type in AXIS_OPS:
        along = tf.get_static_value(operation.inputs[-1])
        return along is not None and bool((np.asarray(along) == 0).any())
    return False


def _is_followed(tensor: tf.Tensor, known: Known) -> bool:
    """Whether all is known of a tensor that a function needs; not of rows of entries, for one."""
    is_open = known.kind is Kind.WAVE and known.axis is None and tensor.shape.rank != 0
    return known.is_mixed or known.is_single or not is_open


def _is_of_single_tokens(operation: tf.Operation, axes: Axes, single: set[str]) -> bool:
    """Whether an op makes a list of single tokens, or computes from an entry of such a list."""
    if operation.type == "TensorListFromTensor":
        return axes[0] == 0
    is_stacked = operation.type == "TensorListStack"
    return not is_stacked and any(source.name in single for source in operation.inputs)


def _cuts_first_axis(operation: tf.Operation) -> bool:
    if operation.get_attr("ellipsis_mask") & 1 or operation.get_attr("new_axis_mask") & 1:
        return False
    is_whole = operation.get_attr("begin_mask") & operation.get_attr("end_mask") & 1
    strides = tf.get_static_value(operation.inputs[3])
    return not is_whole or strides is None or strides[0] != 1
