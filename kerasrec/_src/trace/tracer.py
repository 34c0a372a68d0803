"""Runs one Python function once and records its actions.

TensorFlow records the ops in a `FuncGraph`; the tracer records actions that TensorFlow has no op
for: calls, conditionals, maps over ragged rows and collected values. In the TensorFlow graph, each
of these has a placeholder, and a function that later adds the nodes for it (`add_nodes`). The ops
of a branch, or of the function of a map, are those that were made while it ran (`scopes`).
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import tensorflow as tf

from kerasrec._src.errors import SignatureError, TraceError
from kerasrec._src.graph.types import Kind, Type
from kerasrec._src.graph.values import Region, Source
from kerasrec._src.ops.table import op_named
from kerasrec._src.private import unseen_by_op_callbacks, with_outer_graphs
from kerasrec._src.trace.kinds import KindFinder
from kerasrec._src.trace.mixing_hints import UNKNOWN_ROWS, has_hint, hint_for
from kerasrec._src.trace.rows import RowsFinder, TokenRows, operations_before
from kerasrec._src.trace.source import (
    at,
    at_this_line,
    current_source,
    here,
    name_of,
    source_of,
    undecorated,
)

_active = threading.local()
_traced_graphs: weakref.WeakSet[tf.Graph] = weakref.WeakSet()


class ReturnTypeUnknownError(Exception):
    """The return type of a callee is not known yet; the branch with the call is traced later.

    Args:
        state: The `FunctionState` of the callee.
    """

    # Whether an empty ragged row can end the recursion.
    can_end = False

    def __init__(self, state: Any):
        super().__init__(state.name)
        self.state = state


class TraceAgainError(Exception):
    """The facts now in `Outside.found` would have changed the trace: tracing begins again."""


class Returns(NamedTuple):
    """A function's return type: the nest, and the types of one token's values."""

    structure: Any
    types: list[Type]


@dataclass
class CallRecord:
    """A call: `arguments` go to the `FunctionState` of the callee, `results` are placeholders."""

    callee: Any
    arguments: list[tf.Tensor]
    results: list[tf.Tensor]
    source: Source | None


@dataclass(eq=False)
class Divided:
    """An op that divides the tokens of a function: a conditional, or a map over entries of rows.

    Args:
        source: The user's line.
        parts: The branches, or the function of the map.
        results: Placeholders for the results.
    """

    source: Source | None
    parts: list[Part] = field(default_factory=list, init=False)
    results: list[tf.Tensor] = field(default_factory=list, init=False)

    def regions(self, ops: Any, around: Region | None) -> Sequence[Region]:
        """Returns the region of each part.

        Args:
            ops: The `OpNodes` of the function.
            around: The region around all of them.
        """
        raise NotImplementedError

    def key_inside(self, ops: Any, operation: tf.Operation, key: tf.Tensor) -> tf.Tensor:
        """Returns the keys of the tokens inside, from those around, at the place of an op."""
        return key


@dataclass(eq=False)
class Part:
    """A branch of a conditional, or the function of a map.

    Args:
        of: The divided op of which it is a part.
        scope: It, and the parts around it, from the outermost.
        outputs: Its results; empty while types are unknown.
    """

    of: Divided
    scope: tuple[Part, ...]
    outputs: list[tf.Tensor] = field(default_factory=list)


@dataclass
class Outside:
    """The facts that all functions of a program share about its call from outside.

    Args:
        arguments: The structure of the program's arguments.
        found: Facts that one function has found out and all may use.
        is_trial: Whether return types are being tried.
    """

    arguments: Any
    found: dict[Any, Any] = field(default_factory=dict)
    is_trial: bool = False


@dataclass(eq=False)
class Tracer:
    """Records what one function does and returns while it is traced.

    Args:
        graph: The `FuncGraph` that TensorFlow records into.
        parameters: The placeholders of the function's arguments.
        are_numbers: For each of them, whether it is the user's own, not the number of a value of a
          data type.
        resolve_call: Called with (tracer, function, arguments) at each call; returns the state of
          the callee, its argument tensors, and the structure and types of its results.
        kind_outside: Returns the kind of a tensor that the function closes over.
        outside: The facts about the program's call from outside.
    """

    graph: tf.Graph
    parameters: Sequence[tf.Tensor]
    are_numbers: Sequence[bool]
    resolve_call: Callable[..., Any]
    kind_outside: Callable[[tf.Tensor], Kind]
    outside: Outside

    def __post_init__(self) -> None:
        # The device of tracing: ops on it were not placed by the user.
        self.device = self.parameters[0].op.device if self.parameters else ""
        self.calls: list[CallRecord] = []
        # By the name of a placeholder, or of an op that marks a place, what adds the nodes that it
        # stands for. It is called with the `OpNodes` of the function.
        self.add_nodes: dict[str, Callable[[Any], None]] = {}
        self.makes_values = False
        # The tables of made rows that it reads; and the tensors read, with the scope, by field and
        # object.
        self.reads: set[str] = set()
        self.known_reads: dict[Any, list[tuple[tuple[Part, ...], tf.Tensor]]] = {}
        self.outputs: list[tf.Tensor] = []
        self.returns = Returns(None, [])
        self.unknown: ReturnTypeUnknownError | None = None
        self.concrete: Any = None
        self.rows = RowsFinder(self.graph, replaces=True)
        self._kinds = KindFinder(self.graph, self.rows, self.kind_outside, self.outside.is_trial)
        # The scopes, from the first to the last, each with the number of ops before it.
        self._scopes: list[tuple[int, tuple[Part, ...]]] = [(0, ())]
        for parameter in self.parameters:
            self._kinds.add(parameter, Kind.TOKEN)

    def kind(self, tensor: tf.Tensor) -> Kind:
        """Returns the kind of a tensor of the graph: one value per token, shared, or neither."""
        return self._kinds.kind(tensor)

    def is_of_other_rows(self, tensor: tf.Tensor) -> bool:
        """Whether a tensor of entries is computed from entries of other tokens' rows."""
        entries = self._kinds.known(tensor).entries
        return entries is not None and entries.is_of_other_rows

    def type(self, tensor: tf.Tensor) -> Type:
        """Returns the type of a tensor of the graph."""
        return Type.of(tensor, self.kind(tensor))

    def token_type(self, tensor: tf.Tensor, what: str) -> Type:
        """Returns the type of one token's value; a shared tensor is the same for each token."""
        found = self.type(tensor)
        if found.kind is Kind.WAVE:
            mixing = self._kinds.mixing(tensor)
            is_of_other_rows = not mixing and self.is_of_other_rows(tensor)
            if not mixing and not is_of_other_rows:
                mixing = self._mixing_rows(tensor)
            place = at(source_of(mixing.traceback or ())) if mixing else ""
            hint = hint_for(mixing, is_of_other_rows)
            if self._is_of_unknown_rows(tensor):
                hint = UNKNOWN_ROWS
            line = "" if here() in f"{what}{place}" else at_this_line()
            raise TraceError(
                f"{first_upper(what)} is not one value per token: it was computed across "
                f"tokens{place} and has shape {tensor.shape}. {hint}{line}"
            )
        return Type(found.dtype, found.shape)

    def widened(self, tensor: Any) -> Type | None:
        """Returns the type that the number of a call gets where it meets a vector, or None.

        Args:
            tensor: The tensor that a branch returned and `token_type` refused.
        """
        mixing = self._kinds.mixing(tensor) if tf.is_symbolic_tensor(tensor) else None
        if not mixing or not op_named(mixing.type).is_elementwise or len(mixing.inputs) != 2:
            return None
        number, wide = sorted(mixing.inputs, key=lambda tensor: tensor.shape.rank or 0)
        called = {result.op for call in self.calls for result in call.results}
        if (number.shape.rank, tensor.shape.rank) != (1, wide.shape.rank) or called.isdisjoint(
            operations_before(number)
        ):
            return None
        return replace(self.type(wide), kind=Kind.TOKEN)

    def _mixing_rows(self, tensor: tf.Tensor) -> tf.Operation | None:
        """Returns the last op on ragged rows before a tensor that has no result for each token."""
        return next(
            (
                operation
                for operation in operations_before(tensor)
                if has_hint(operation) and self.kind(operation.outputs[0]) is not Kind.TOKEN
            ),
            None,
        )

    def _is_of_unknown_rows(self, tensor: tf.Tensor) -> bool:
        """Whether a tensor would have a value per token if ragged rows before it were of tokens."""
        if not self.rows.suppose(tensor, self.kind):
            return False
        self._kinds.forget()
        return self.kind(tensor) is Kind.TOKEN

    @property
    def is_running(self) -> bool:
        """Whether its function is running."""
        return self in getattr(_active, "stack", ())

    @property
    def scope(self) -> tuple[Part, ...]:
        """The branches and maps in which the function is running now, from the outermost."""
        return self._scopes[-1][1]

    def scopes(self) -> dict[str, tuple[Part, ...]]:
        """Returns the scope in which each op was made, by the op's name."""
        operations = self.graph.get_operations()
        starts = [start for start, _ in self._scopes]
        return {
            operation.name: scope
            for (start, scope), stop in zip(self._scopes, [*starts[1:], None], strict=True)
            for operation in operations[start:stop]
        }

    @contextlib.contextmanager
    def inside(self, divided: Divided) -> Iterator[Part]:
        """A context for running a new part of a conditional or a map, which it returns."""
        outer = self.scope
        part = Part(divided, outer)
        part.scope = (*outer, part)
        divided.parts.append(part)
        self._enter(part.scope)
        try:
            yield part
        finally:
            self._enter(outer)

    def _enter(self, scope: tuple[Part, ...]) -> None:
        self._scopes.append((len(self.graph.get_operations()), scope))

    def rows_of(self, ragged: tf.RaggedTensor) -> TokenRows:
        """Returns the rows of a RaggedTensor that has one row for each token."""
        splits = ragged.row_splits
        found = self.rows.find(splits, self.scope)
        if found is None:
            lengths = ragged.row_lengths()
            # This also finds all rows that are known by the ops so far.
            are_known = self.kind(lengths) is Kind.TOKEN and self.rows.are_of_tokens(splits)
            found = self.rows.add(splits, lengths, self.scope)
            self.add_nodes[found.ids.op.name] = lambda ops: ops.row_ids(found)
            self._kinds.add(found.lengths, Kind.TOKEN)
            self._kinds.add(found.ids, Kind.WAVE)
            if not are_known:
                self._kinds.forget()
        return found

    def tensor(self, value: Any, like: Type | None, what: str) -> tf.Tensor:
        """Returns a value from the user's function as a tensor of the graph.

        A Python number takes the dtype of `like` if both are ints or both are floats. Without
        `like`, it takes the dtype of the function's int (or float) arguments if all have the same.
        """
        if isinstance(value, tf.RaggedTensor):
            raise SignatureError(
                f"{first_upper(what)} is a tf.RaggedTensor, with rows of different lengths. Values "
                "of many tokens share one tensor, so only their token axis may be open: reduce it "
                "(tf.reduce_sum(..., axis=1)), pad it to one shape (`.to_tensor(shape=[None, n])`) "
                f"or work on its entries in kerasrec.map_fn.{at_this_line()}"
            )
        dtype = self._dtype_of_number(value, like)
        try:
            tensor = tf.convert_to_tensor(value, dtype=dtype)
        except (TypeError, ValueError) as error:
            if callable(value) and not isinstance(value, type):
                raise SignatureError(_about_function(what, value)) from error
            raise SignatureError(
                f"{first_upper(what)} cannot be converted to a tensor: {value!r} "
                f"({str(error).rstrip('.')}).{at_this_line()}"
            ) from error
        if getattr(tensor, "graph", None) is not self.graph:
            tensor = tf.identity(tensor)
        return tensor

    def tensors(self, values: Sequence[Any], like: Sequence[Type], what: str) -> list[tf.Tensor]:
        """Returns several values as tensors; `like` counts only if it has as many types."""
        types = like if len(like) == len(values) else [None] * len(values)
        return [self.tensor(value, hint, what) for value, hint in zip(values, types, strict=True)]

    def returned(
        self, result: Any, like: Sequence[Type], what: str, wanted: str
    ) -> tuple[list[tf.Tensor], Returns]:
        """Returns what the user's function returned, as flat tensors and as nest and types.

        Args:
            result: A nest of values.
            like: The same as for `tensors`.
            what: The result, for errors.
            wanted: The expected kind of result, for errors.
        """
        flat = tf.nest.flatten(result)
        if not flat or any(value is None for value in flat):
            raise SignatureError(f"{first_upper(what)} is {result!r}; {wanted}")
        outputs = self.tensors(flat, like, what)
        types = [self.token_type(tensor, what) for tensor in outputs]
        return outputs, Returns(tf.nest.map_structure(lambda _: 0, result), types)

    def _dtype_of_number(self, value: Any, like: Type | None) -> tf.DType | None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        own = itertools.compress(self.parameters, self.are_numbers)
        known = [like.dtype] if like is not None else [parameter.dtype for parameter in own]
        is_float = isinstance(value, float)
        same = {dtype for dtype in known if (dtype.is_floating if is_float else dtype.is_integer)}
        return same.pop() if len(same) == 1 else None

    def placeholders(
        self, types: Sequence[Type], add_nodes: Callable[[Any], None] | None = None
    ) -> list[tf.Tensor]:
        """Makes placeholders for values that TensorFlow has no op for.

        Args:
            types: Their types.
            add_nodes: A function that adds the nodes for them; it is called at the place of the
                first one.
        """
        with unseen_by_op_callbacks():  # They see the op that computes the value.
            results = [
                tf.compat.v1.placeholder(value_type.dtype, value_type.tensor_shape())
                for value_type in types
            ]
        for result, value_type in zip(results, types, strict=True):
            if value_type.kind is Kind.WAVE:
                self._kinds.add_entries(result)
            else:
                self._kinds.add(result, value_type.kind)
        if add_nodes:
            self.add_nodes[results[0].op.name] = add_nodes
        return results

    def call(self, function: Any, arguments: tuple[Any, ...], source: Source | None = None) -> Any:
        """Records a call of another function, or of this one again.

        Args:
            function: The function.
            arguments: The arguments by position.
            source: The user's line; by default the one that is running now.
        """
        source = source or current_source()
        callee, tensors, structure, types = self.resolve_call(self, function, arguments)
        results = self.placeholders(types, lambda ops: ops.call(record))
        record = CallRecord(callee, tensors, results, source)
        self.calls.append(record)
        return tf.nest.pack_sequence_as(structure, results)


def first_upper(text: str) -> str:
    """Returns a text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def _about_function(what: str, function: Callable[..., Any]) -> str:
    """Returns the message that something is a function, and how to make it a value."""
    name = name_of(undecorated(function))
    shown = "lambda ...: ..." if name == "<lambda>" else name
    return (
        f"{first_upper(what)} cannot be converted to a tensor: it is the function {name}. Call it; "
        f"or, to pass on the function itself, make it a value: kerasrec.functions([{shown}])[0], "
        "or several functions in the list and an integer for each token as the index."
        f"{at_this_line()}"
    )


def is_traced(tensor: tf.Tensor) -> bool:
    """Whether a tensor belongs to the graph of a recursive function."""
    return getattr(tensor, "graph", None) in _traced_graphs


def is_inside_traced_graph() -> bool:
    """Whether the default graph is one that TensorFlow builds inside a traced function."""
    _, *around = with_outer_graphs(tf.compat.v1.get_default_graph())
    return any(tracer.graph in around for tracer in getattr(_active, "stack", []))


def tracer_for(name: str) -> Tracer:
    """Returns the active tracer; raises TraceError if `name` is called where there is none."""
    tracer = active_tracer()
    if tracer is None and is_inside_traced_graph():
        raise TraceError(
            f"{name} was called in the body of tf.cond, tf.while_loop, tf.map_fn or a tf.function, "
            "inside a recursive function. Call it in the body of the recursive function itself, in "
            "kerasrec.while_loop or in kerasrec.map_fn." + at_this_line()
        )
    if tracer is None:
        raise TraceError(
            f"{name} was called outside a recursive function. Use it in the body of a function "
            "decorated with @kerasrec.recursive." + at_this_line()
        )
    return tracer


def token_types(values: Sequence[Any], what: str) -> list[Type]:
    """The types of one token's values; none outside of recursive functions.

    Raises:
        TraceError: If a value is not one per token; `what` names the values.
    """
    tracer = active_tracer()
    if tracer is None:
        return []
    return [tracer.token_type(tensor, what) for tensor in tracer.tensors(values, (), what)]


def active_tracer() -> Tracer | None:
    """Returns the tracer of the function that is being traced, if its graph is being built now."""
    stack = getattr(_active, "stack", [])
    if stack and tf.compat.v1.get_default_graph() is stack[-1].graph:
        return stack[-1]
    return None


def run_traced(
    function: Callable[[Tracer], None],
    specs: Sequence[tf.TensorSpec],
    make_tracer: Callable[[tf.Graph, Sequence[tf.Tensor]], Tracer],
) -> Tracer:
    """Runs a function on a tracer with placeholders of the given specs, and returns the tracer.

    Args:
        function: The function.
        specs: The specs of the placeholders.
        make_tracer: Makes the tracer of a graph and its placeholders.
    """
    tracers: list[Tracer] = []

    def run_python_function(*parameters: tf.Tensor) -> None:  # `source.py` knows it by name.
        tracer = make_tracer(tf.compat.v1.get_default_graph(), parameters)
        tracers.append(tracer)
        _traced_graphs.add(tracer.graph)
        stack = _active.__dict__.setdefault("stack", [])
        stack.append(tracer)
        try:
            with unseen_by_op_callbacks(are_unseen=False):
                function(tracer)
        finally:
            stack.pop()

    # In eager mode, this pauses tapes: under a persistent one, TensorFlow wraps loops in functions.
    with tf.init_scope() if tf.executing_eagerly() else contextlib.nullcontext():
        concrete = tf.function(run_python_function, autograph=False).get_concrete_function(*specs)
    tracers[-1].concrete = concrete  # TensorFlow runs a function that makes variables twice.
    return tracers[-1]
