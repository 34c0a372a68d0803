"""Finds which tensors of a traced graph have one value per token.

A tensor that depends on tokens has one value per token if its leading axis is the token axis, and
no op before it combined several tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import tensorflow as tf

from kerasrec._src.errors import TraceError
from kerasrec._src.graph.types import Kind
from kerasrec._src.ops.axes import Place, each, reshaped
from kerasrec._src.ops.shapes import entries_of
from kerasrec._src.ops.table import Ragged, facts_of, is_given, places_after
from kerasrec._src.ops.views import has_open_rows
from kerasrec._src.trace.functions import is_loop
from kerasrec._src.trace.held_kinds import outputs_of_held
from kerasrec._src.trace.known import Entries, Known, Size
from kerasrec._src.trace.row_mixing import entries_after
from kerasrec._src.trace.rows import RowsFinder
from kerasrec._src.trace.source import source_of
from kerasrec._src.trace.token_count import has_count_as_value, sizes_after
from kerasrec._src.trace.token_mixing import (
    is_of_one_token,
    is_of_single_tokens,
    loses_tokens,
    mixes_tokens,
)

_MAKE_ROWS = (Ragged.LOOKS_UP, Ragged.MAKES_RANGES, Ragged.FROM_LIST)


class _NotFollowedError(Exception):
    """Tokens cannot be followed through a function."""


class _ChangedLoopError(TraceError):
    """A loop was changed after it was made."""


@dataclass(eq=False)
class KindFinder:
    """Finds the kinds of the tensors of a graph that TensorFlow has traced.

    Args:
        graph: The graph. It may grow between calls.
        rows: The rows of ragged values in the graph. More may be added between calls, too.
        kind_outside: Returns the kind of a tensor that the graph captures from outside.
        is_trial: Whether return types are being tried, so that ranks may be wrong.
    """

    graph: tf.Graph
    rows: RowsFinder
    kind_outside: Callable[[tf.Tensor], Kind]
    is_trial: bool = False

    def __post_init__(self) -> None:
        # What is known of each tensor, by its name.
        self._known: dict[str, Known] = {}
        self._given: dict[str, Known] = {}
        self._num_seen = 0

    def forget(self) -> None:
        """Forgets what is known of the outputs of ops: more is known now of their inputs."""
        self._known, self._num_seen = dict(self._given), 0

    def add(self, tensor: tf.Tensor, kind: Kind) -> None:
        """Sets the kind of a tensor. Nothing must have asked for the kind before."""
        self._known[tensor.name] = self._given[tensor.name] = Known.given(kind)

    def add_entries(self, tensor: tf.Tensor) -> None:
        """Records that a tensor holds all entries of rows; otherwise the same as `add`."""
        self._known[tensor.name] = self._given[tensor.name] = Known.given_entries()

    def kind(self, tensor: tf.Tensor) -> Kind:
        """Returns the kind of a tensor of the graph."""
        return self.known(tensor).kind

    def known(self, tensor: tf.Tensor) -> Known:
        """Returns what is known of a tensor of the graph."""
        operations = self.graph.get_operations()
        for operation in operations[self._num_seen :]:
            if not operation.outputs or operation.outputs[0].name not in self._known:
                found = self._outputs_of(operation)
                pairs = zip(operation.outputs, found, strict=True)
                self._known.update((output.name, item) for output, item in pairs)
        self._num_seen = len(operations)
        return self._known[tensor.name]

    def mixing(self, tensor: tf.Tensor) -> tf.Operation | None:
        """Returns the op that combined several tokens into one value, from which a tensor comes.

        Returns None if there is no such op. Also returns None if the op made ragged rows, since
        their entries always belong to several tokens.
        """
        operation = None
        while operation is not tensor.op and self.known(tensor).is_mixed:
            operation = tensor.op
            tensor = next((item for item in operation.inputs if self.known(item).is_mixed), tensor)
        if not operation or not operation.inputs:
            return None
        return None if facts_of(operation.type).ragged in _MAKE_ROWS else operation

    def _outputs_of(self, operation: tf.Operation) -> Sequence[Known]:
        """Returns what is known of the outputs of an op."""
        self._refuse_changed_loops(operation)
        if is_given(operation):
            (output,) = operation.outputs
            outside = [outer for outer, inner in self.graph.captures if inner is output]
            kind = self.kind_outside(*outside) if outside else Kind.SHARED
            return [Known.given(kind)]
        inputs = [self._known[source.name] for source in operation.inputs]
        if all(item.kind is Kind.SHARED for item in inputs):
            return [Known(Kind.SHARED)] * len(operation.outputs)
        self.rows.learn(operation, self._known)
        same = self.rows.same_as(operation)
        if same is not None:
            return [self._known[same.name]]
        held = self._outputs_of_held(operation, inputs)
        return self._outputs_of_op(operation, inputs) if held is None else held

    def _outputs_of_op(self, operation: tf.Operation, inputs: Sequence[Known]) -> Sequence[Known]:
        """Returns what is known of the outputs of an op by the op's type."""
        if not operation.outputs:
            return []
        rule = facts_of(operation.type).axes
        if rule is reshaped and self.rows.begins_with_count(operation.inputs[1]):
            inputs = [inputs[0], Known(Kind.WAVE, size=Size(is_count=True))]
        leads_back = self.rows.leads_back(operation)
        sizes = sizes_after(operation, inputs)
        places: Sequence[Place] = [None] * len(operation.outputs)
        entries: Sequence[Entries | None] = [None] * len(operation.outputs)
        if leads_back:
            is_mixed = any(item.entries.is_of_other_rows for item in inputs if item.entries)
            if is_mixed:
                entries = [Entries(is_total=True)] * len(operation.outputs)
        else:
            axes = [item.axis for item in inputs]
            # While return types are tried, ranks may be wrong.
            if not (self.is_trial and rule in (each, reshaped) and not any(axes)):
                places = places_after(operation, axes)
            is_mixed = mixes_tokens(operation, inputs, places) or has_count_as_value(
                operation, inputs, sizes[0]
            )
            if not self.is_trial:
                entries = entries_after(operation, inputs)
        found = []
        outputs = zip(operation.outputs, places, sizes, entries, strict=True)
        for output, place, size, of_entries in outputs:
            rows = Fraction(1) if leads_back else _rows_after(operation, inputs, output)
            is_moved = isinstance(place, int) and place > 0
            is_open = has_open_rows(output)
            is_of_all = is_mixed or (
                not (leads_back or is_open or is_moved or self.is_trial)
                and any(item.axis == 0 for item in inputs)
                and loses_tokens(operation, output)
            )
            has_rows = is_open and not is_of_all and not is_moved
            # Rows are padded to the longest of them, whose length depends on other tokens.
            is_padded = leads_back and not output.shape[1:].is_fully_defined()
            # With `is_of_other_axes`, the number of rows is the size of another axis.
            is_token = has_rows and rows == 1 and not (is_padded or size.is_of_other_axes)
            first = 0 if is_token or (has_rows and rows != 1) else None
            found.append(
                Known(
                    Kind.TOKEN if is_token else Kind.WAVE,
                    axis=place if isinstance(place, int) and place > 0 else first,
                    rows=rows,
                    is_mixed=is_of_all,
                    is_single=is_of_single_tokens(operation, inputs),
                    entries=of_entries,
                    size=size,
                )
            )
        if is_of_one_token(operation, inputs):
            is_mixed = any(item.is_mixed for item in inputs)
            return [replace(item, kind=Kind.WAVE, axis=None, is_mixed=is_mixed) for item in found]
        return found

    def _outputs_of_held(
        self, operation: tf.Operation, inputs: Sequence[Known]
    ) -> Sequence[Known] | None:
        """Returns what is known of an op's outputs from functions that it holds; None if nothing.

        Entries of ragged rows are not followed into such functions.
        """
        if facts_of(operation.type).holds is None:
            return None
        if not all(map(_is_followed, operation.inputs, inputs)):
            return None

        def find(graph: tf.Graph, known: Sequence[Known], count: int) -> list[Known]:
            inner = KindFinder(graph, RowsFinder(graph), self.kind_outside, self.is_trial)
            for tensor, item in zip(graph.inputs, known, strict=True):
                # A loop's condition also gets everything that its body captures, without shapes.
                is_open = item.axis == 0 and not tensor.shape[1:].is_fully_defined()
                if is_open and tensor.consumers():
                    raise _NotFollowedError  # Open axes cannot be told from the token axis.
                inner._known[tensor.name] = item
            return list(map(inner.known, graph.outputs[:count]))

        try:
            found = outputs_of_held(operation, inputs, find)
        except (_NotFollowedError, _ChangedLoopError):  # The latter if it takes a loop's gradient.
            return None
        return list(map(_as_output, operation.outputs, found))

    def _refuse_changed_loops(self, operation: tf.Operation) -> None:
        """Raises TraceError for a loop that was changed after it was made.

        TensorFlow's gradient of a loop adds inputs to the loop, which come from later ops. It also
        adds outputs, of which nothing is known if the loop was looked at before.
        """
        unknown = [source.op for source in operation.inputs if source.name not in self._known]
        if not unknown:
            return
        loop = operation if is_loop(operation.type) else unknown[0]
        source = source_of(loop.traceback or ())
        raise _ChangedLoopError(
            f"The gradient of a loop{f' at {source}' if source else ''} (tf.while_loop, tf.map_fn, "
            "tf.scan or their like) is taken by tf.gradients inside of a recursive function, and "
            "TensorFlow would change the loop for it. Put the loop and tf.gradients into one "
            "tf.function, and call that; or take the gradient of the recursive function."
        )


def _rows_after(operation: tf.Operation, inputs: Sequence[Known], output: tf.Tensor) -> Fraction:
    """Returns how many rows each token has in an output with an open leading axis."""
    if facts_of(operation.type).axes is reshaped:
        before, after = _size_of_row(operation.inputs[0]), _size_of_row(output)
        if after is None and has_open_rows(output):
            sizes = entries_of(operation.inputs[1])[1:]
            is_known = sizes and all(isinstance(size, int) for size in sizes)
            after = math.prod(size for size in sizes if isinstance(size, int)) if is_known else None
        if before and after:
            return inputs[0].rows * before / after
    return max(item.rows for item in inputs)


def _size_of_row(tensor: tf.Tensor) -> int | None:
    """Returns how many numbers a row has; None if this is open, or if the leading axis is not."""
    if not has_open_rows(tensor) or tensor.shape.rank is None:
        return None
    return tensor.shape[1:].num_elements()


def _is_followed(tensor: tf.Tensor, known: Known) -> bool:
    """Whether enough is known of a tensor to follow it into a function; not of ragged entries."""
    is_open = known.kind is Kind.WAVE and known.axis is None and tensor.shape.rank != 0
    return known.is_mixed or known.is_single or not is_open


def _as_output(output: tf.Tensor, known: Known) -> Known:
    """Returns what is known of an output, from what is known of it inside the function."""
    if known.kind is Kind.TOKEN and not has_open_rows(output):
        return replace(known, kind=Kind.WAVE, axis=None)
    return replace(known, kind=Kind.WAVE) if known.kind is Kind.SHARED else known
