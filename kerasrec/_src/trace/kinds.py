"""Finds which tensors of a traced graph have one value per token.

A tensor that depends on tokens has one value per token if its leading axis is the token axis, and
no op before it combined several tokens. Tokens are followed from op to op (`op_outputs.py`), and
through the functions that an op holds: a call, a conditional or a loop. Such a function sees
several tokens together and may mix them. For instance, a loop mixes tokens if it goes on until all
of them are done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import tensorflow as tf

from kerasrec._src.errors import TraceError
from kerasrec._src.graph.types import Kind
from kerasrec._src.ops.table import Holds, Is, Ragged, has, is_given, op_named
from kerasrec._src.ops.views import has_open_rows
from kerasrec._src.private import graph_held
from kerasrec._src.trace.functions import is_loop
from kerasrec._src.trace.op_outputs import outputs_of_op
from kerasrec._src.trace.rows import RowsFinder
from kerasrec._src.trace.source import source_of
from kerasrec._src.trace.tensor_facts import Known, Size

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
        rows: The rows of ragged values in the graph. More may also be added between calls.
        kind_outside: Returns the kind of a tensor that the graph captures from outside.
        is_trial: Whether return types are being tried, so that ranks may be wrong.
    """

    graph: tf.Graph
    rows: RowsFinder
    kind_outside: Callable[[tf.Tensor], Kind]
    is_trial: bool = False

    def __post_init__(self) -> None:
        # The facts about each tensor, by its name.
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
        return None if op_named(operation.type).ragged in _MAKE_ROWS else operation

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
        if held is not None or not operation.outputs:
            return held or []
        is_reshape = has(operation.type, Is.RESHAPING)
        if is_reshape and self.rows.begins_with_count(operation.inputs[1]):
            inputs = [inputs[0], Known(Kind.WAVE, size=Size(is_count=True))]
        return outputs_of_op(operation, inputs, self.rows.leads_back(operation), self.is_trial)

    def _outputs_of_held(
        self, operation: tf.Operation, inputs: Sequence[Known]
    ) -> Sequence[Known] | None:
        """Returns what is known of an op's outputs from functions that it holds; None if nothing.

        Entries of ragged rows are not followed into such functions.
        """
        if op_named(operation.type).holds is None:
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


def _is_followed(tensor: tf.Tensor, known: Known) -> bool:
    """Whether enough is known of a tensor to follow it into a function; not of ragged entries."""
    is_open = known.kind is Kind.WAVE and known.axis is None and tensor.shape.rank != 0
    return known.is_mixed or known.is_single or not is_open


def _as_output(output: tf.Tensor, known: Known) -> Known:
    """Returns the facts about an output, from those about it inside the function."""
    if known.kind is Kind.TOKEN and not has_open_rows(output):
        return replace(known, kind=Kind.WAVE, axis=None)
    return replace(known, kind=Kind.WAVE) if known.kind is Kind.SHARED else known


Find = Callable[[tf.Graph, Sequence[Known], int], Sequence[Known]]
"""A function that returns the facts about the first outputs of a function's graph.

It gets the graph, the facts about its inputs, and the number of outputs. There may be more: when a
function has been called, TensorFlow adds some for its gradient.
"""


def outputs_of_held(operation: tf.Operation, given: Sequence[Known], find: Find) -> Sequence[Known]:
    """Returns the facts about an op's outputs, from the functions that the op holds.

    Args:
        operation: An op that holds functions.
        given: The facts about its inputs.
        find: Follows tokens through a function.
    """
    holds = op_named(operation.type).holds
    if holds is Holds.TURN:
        return _outputs_of_loop(operation, given, find)
    names = holds.value if holds else ()
    graphs = [graph for name in names for graph in graph_held(operation, name)]
    if holds is Holds.CALLEE:
        return find(graphs[0], given, len(operation.outputs))
    chooser, *others = given
    found = [find(graph, others, len(operation.outputs)) for graph in graphs]
    return _chosen_by(chooser, [_either(items) for items in zip(*found, strict=True)])


def _outputs_of_loop(
    operation: tf.Operation, given: Sequence[Known], find: Find
) -> Sequence[Known]:
    (body,), (condition,) = (graph_held(operation, name) for name in Holds.TURN.value)
    known, before, num_turns = list(given), None, 0
    while known != before:
        before, num_turns = known, num_turns + 1
        # Each turn may pass numbers of rows from one value to another. After as many turns as there
        # are values, they have reached all of them.
        settles = num_turns <= len(given)
        known = [
            _carried(one, other, tensor, settles)
            for one, other, tensor in zip(
                known, find(body, known, len(given)), operation.inputs, strict=True
            )
        ]
    (goes_on,) = find(condition, known, 1)
    mixed = _chosen_by(goes_on, known)
    is_for_each_entry = goes_on.entries is not None and goes_on.entries.is_size
    if goes_on.is_single or (goes_on.is_mixed and not is_for_each_entry):
        return mixed
    # There is one turn for each token, or entry of rows, which writes its own element of a list.
    is_list = [tensor.dtype == tf.variant for tensor in operation.inputs]
    return [one if own else other for own, one, other in zip(is_list, known, mixed, strict=True)]


def _carried(before: Known, after: Known, tensor: tf.Tensor, settles: bool) -> Known:
    """Returns the facts about a value that a loop passes to its next turn.

    `tf.map_fn` passes on only lists. Any other value of a single token would reach the next token,
    as with `tf.scan`. A value whose number of rows changes from turn to turn is not followed.

    Args:
        before: The facts about it before the turn.
        after: The facts about it after the turn.
        tensor: The tensor that the loop starts with.
        settles: Whether the number of rows may still change.
    """
    found = before.or_else(after)
    if not settles and found.rows != before.rows:
        return replace(found.mixed(), rows=before.rows)
    return found.mixed() if found.is_single and tensor.dtype != tf.variant else found


def _chosen_by(chooser: Known, items: Sequence[Known]) -> Sequence[Known]:
    """Returns what is known of results whose branch, or number of turns, `chooser` decides."""
    if not (chooser.is_mixed or chooser.size.is_count or chooser.is_single):
        return items
    return [item.mixed() for item in items]


def _either(items: Sequence[Known]) -> Known:
    first, *others = items
    for other in others:
        first = first.or_else(other)
    return first
