"""With `memo=True`: which arguments say which call it is, and which are the same for all calls.

Calls of one root token are one call if their integers, bools and strings are equal. Anything else
that is passed, such as a float or a vector, must come unchanged from the root. So it is no argument
of the calls: it is a table with a row for each root, which all tokens share, and a token carries
the number of its root. An entry that a body takes out of its row by `tf.gather(x, i,
batch_dims=1)` is read from the table directly, without a copy of the row for each token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import tensorflow as tf

from kerasrec.errors import TraceError
from kerasrec.graph.graph import FunctionGraph, FunctionGraphs
from kerasrec.graph.nodes import Merge, Parameter, Primitive, Repeat, Switch
from kerasrec.graph.types import Kind, Type
from kerasrec.graph.values import Node, Region, Source, Value
from kerasrec.graph.writer import GraphWriter
from kerasrec.trace.source import at
from kerasrec.transform.primitives import PrimitiveWriter

PerRoot: TypeAlias = dict[Parameter, int]
"""PARAMETERs that are the same for all calls of a root, and the place of the program's argument."""

_VARIES = -1


def is_key(node: Parameter) -> bool:
    """Whether an argument tells calls apart: an integer, a bool or a string for each token."""
    found = node.types[0]
    return not node.is_carried and found.shape == () and not found.is_differentiable


def per_root_of(graphs: FunctionGraphs) -> PerRoot:
    """The arguments that all calls of a root token have in common, other than keys.

    Raises:
        TraceError: an argument is no key and is not the same for all calls.
    """
    entry = graphs.functions[graphs.entry]
    found = {node: place for place, node in enumerate(entry.parameters) if not _tells_apart(node)}
    varies: dict[Parameter, Source | None] = {}
    before: dict[Parameter, int] = {}
    while before != found:
        before = dict(found)
        for function in graphs:
            for call in function.call_sites:
                parameters = graphs.functions[call.callee].parameters
                for value, node in zip(call.inputs, parameters, strict=True):
                    origin = _parameter_of(value)
                    place = _VARIES if origin is None else found.get(origin)
                    if place is None or _tells_apart(node):
                        continue
                    if found.setdefault(node, place) != place:
                        found[node] = _VARIES
                    if found[node] == _VARIES:
                        varies.setdefault(node, call.source)
    for function in graphs:
        for node in function.parameters:
            if node in varies:
                raise _not_the_same(graphs.entry, function, node, varies[node])
    return found


def _tells_apart(node: Parameter) -> bool:
    """Whether each token has an argument of its own: a key, or what tokens carry."""
    return node.is_carried or is_key(node)


def _parameter_of(value: Value) -> Parameter | None:
    """The argument that a value is, unchanged."""
    node = value.node
    if isinstance(node, Merge):
        found = {_parameter_of(item) for item in node.inputs}
        return found.pop() if len(found) == 1 else None
    if isinstance(node, Switch | Repeat) or node.op == "Identity":
        return _parameter_of(node.inputs[0])
    return node if isinstance(node, Parameter) else None


def _not_the_same(
    entry: str, function: FunctionGraph, node: Parameter, source: Source | None
) -> TraceError:
    where = at(source)
    what = f"{node.name!r} ({node.types[0]})"
    if function.is_loop:
        return TraceError(
            f"A kerasrec.while_loop{where} changes {what}, and {entry} has memo=True, where a loop "
            "counts as a function that calls itself: only integers, bools and strings may change "
            "from turn to turn. Use tf.while_loop if the loop calls no recursive function; or "
            "leave out memo=True."
        )
    return TraceError(
        f"{function.name} is called with another {what}{where} than it was given, and {entry} has "
        "memo=True, which holds for all functions that it calls. There calls are told apart by "
        "integers, bools and strings, one for each token; floats and vectors must be passed on "
        "unchanged. Pass the whole tensor, and read what a call needs by an integer, as in "
        "tf.gather(x, i, batch_dims=1); or leave out memo=True."
    )


def differs_by_root(graphs: FunctionGraphs, per_root: PerRoot) -> TraceError:
    """The error for an argument because of which calls of different roots cannot be one."""
    node = next(node for node in graphs.functions[graphs.entry].parameters if node in per_root)
    return TraceError(
        f"{graphs.entry} has memo='batch', where equal calls of different root tokens are one, and "
        f"takes {node.name!r} ({node.types[0]}), of which each root token has its own. Use "
        "memo=True; or let the function close over it, if it is the same for all."
    )


@dataclass(frozen=True)
class Rows:
    """A row of a table for each token of a region, or an entry in that row.

    Args:
        table: SHARED, `[roots, ...]`.
        indices: TOKENs of the region or of one around it, the number of the root first.
        region: whose tokens have it.
        source: the user's line.
    """

    table: Value
    indices: tuple[Value, ...]
    region: Region | None
    source: Source | None

    def within(self, node: Node, moved: Callable[[Value], Value]) -> tuple[Value, ...] | None:
        """The indices of what a node reads of the rows, if they tell all of it."""
        if isinstance(node, Switch | Repeat):
            return self.indices
        if not isinstance(node, Primitive) or node.op != "GatherV2":
            return None
        _, index, axis = node.inputs
        is_entry = node.operation.get_attr("batch_dims") == 1 and index.type.shape == ()
        if is_entry and _constant(axis) == 1:
            return (*self.indices, moved(index))
        return None

    def read(self, writer: GraphWriter, primitives: PrimitiveWriter) -> Value:
        """Adds the nodes that read the rows."""
        indices = [writer.into(value, self.region) for value in self.indices]
        apply, region, source = primitives.apply, self.region, self.source
        if len(indices) == 1:
            return apply(tf.gather, [self.table, *indices], region, source)
        is_long = any(value.type.dtype == tf.int64 for value in indices)
        dtype = tf.int64 if is_long else tf.int32

        def stacked(*tensors: tf.Tensor) -> tf.Tensor:
            return tf.stack([tf.cast(item, dtype) for item in tensors], 1)

        places = apply(stacked, indices, region, source)
        return apply(tf.gather_nd, [self.table, places], region, source)


def _constant(value: Value) -> int | None:
    node = value.node
    if not isinstance(node, Primitive) or node.op != "Const":
        return None
    return int(tf.make_ndarray(node.operation.get_attr("value")))


def table_type(node: Parameter) -> Type:
    """The type of the rows of all roots, as one shared tensor."""
    found = node.types[0]
    return Type(found.dtype, (None, *(found.shape or ())), Kind.SHARED)
