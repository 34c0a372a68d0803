"""With `memo=True`: arguments that are keys of calls, and arguments that all calls share.

Calls of one root token are one call if their integers, bools and strings are equal; these arguments
are their keys. Any other argument, such as a float or a vector, must come unchanged from the root,
except in loops: a loop that changes one belongs to the call that begins it. Therefore the argument
is not passed to the calls. Instead, it becomes a table with a row for each root token. All tokens
share the table, and each token carries the number of its root. If a body takes an entry out of its
row by `tf.gather(x, i, batch_dims=1)`, the entry is read from the table directly, and the row is
not copied for each token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import tensorflow as tf

from kerasrec._src.errors import TraceError
from kerasrec._src.graph.graph import FunctionGraph, FunctionGraphs
from kerasrec._src.graph.nodes import Merge, Parameter, Primitive, Repeat, Switch, constant_of
from kerasrec._src.graph.types import Kind, Type
from kerasrec._src.graph.values import Node, Region, Source, Value
from kerasrec._src.graph.writer import GraphWriter
from kerasrec._src.ops.table import Is, has
from kerasrec._src.trace.signature import check_shapes
from kerasrec._src.trace.source import at
from kerasrec._src.transform.primitives import PrimitiveWriter

PerRoot: TypeAlias = dict[Parameter, int]
"""The PARAMETERs with one value for all calls of a root, each with its place among the arguments of
the program."""

_VARIES = -1


def is_key(node: Parameter) -> bool:
    """Whether an argument is part of a call's key: one integer, bool or string for each token."""
    kind = node.types[0]
    return not node.is_carried and kind.shape == () and not kind.is_differentiable


def per_root_of(graphs: FunctionGraphs) -> PerRoot:
    """Returns the arguments, other than keys, that are the same for all calls of a root token.

    Raises:
        TraceError: If an argument of a function is neither a key nor the same for all calls.
        SignatureError: If that of a loop has an open shape.
    """
    places = {node: place for node, place in graphs.places.items() if not _tells_apart(node)}
    varies: dict[Parameter, Source | None] = {}
    before: dict[Parameter, int] = {}
    while before != places:
        before = dict(places)
        for function in graphs:
            for call in function.call_sites:
                parameters = graphs.functions[call.callee].parameters
                for value, node in zip(call.inputs, parameters, strict=True):
                    origin = _parameter_of(value)
                    place = _VARIES if origin is None else places.get(origin)
                    if place is None or _tells_apart(node):
                        continue
                    if places.setdefault(node, place) != place:
                        places[node] = _VARIES
                    if places[node] == _VARIES:
                        varies.setdefault(node, call.source)
    for function in graphs:
        for node in function.parameters:
            if node in varies and function.is_loop:
                check_shapes(function.name, [node.name], node.types)
            elif node in varies:
                raise _not_the_same(graphs.entry, function, node, varies[node])
    return {node: place for node, place in places.items() if place != _VARIES}


def _tells_apart(node: Parameter) -> bool:
    """Whether each token has its own value of an argument: a key, or a value that tokens carry."""
    return node.is_carried or is_key(node)


def _parameter_of(value: Value) -> Parameter | None:
    """The argument that a value always equals; None if it may be anything else."""
    node = value.node
    if isinstance(node, Merge):
        origins = {_parameter_of(item) for item in node.inputs}
        return origins.pop() if len(origins) == 1 else None
    if isinstance(node, Switch | Repeat) or has(node.op, Is.PASSING):
        return _parameter_of(node.inputs[0])
    return node if isinstance(node, Parameter) else None


def _not_the_same(
    entry: str, function: FunctionGraph, node: Parameter, source: Source | None
) -> TraceError:
    return TraceError(
        f"{function.name} is called with another {node.name!r} ({node.types[0]}){at(source)} than "
        f"it was given, and {entry} has memo=True, which holds for all functions that it calls. "
        "There calls are told apart by integers, bools and strings, one for each token; floats and "
        "vectors must be passed on unchanged. Pass the whole tensor, and read an entry by "
        "an integer, as in tf.gather(x, i, batch_dims=1); or leave out memo=True."
    )


def differs_by_root(graphs: FunctionGraphs, per_root: PerRoot) -> TraceError:
    """Returns the error for `memo="batch"` if the roots have arguments other than keys."""
    node = next(node for node in graphs.functions[graphs.entry].parameters if node in per_root)
    return TraceError(
        f"{graphs.entry} has memo='batch', where equal calls of different root tokens are one, and "
        f"takes {node.name!r} ({node.types[0]}), of which each root token has its own. Use "
        "memo=True; or let the function close over it, if it is the same for all."
    )


@dataclass(frozen=True)
class TableRows:
    """A row of a table, or an entry of that row, for each token of a region.

    Args:
        table: A SHARED value `[roots, ...]`.
        indices: TOKEN values of the region or of one around it: the number of the root, then the
            indices in its row.
        region: The region whose tokens have the rows.
        source: The user's line.
    """

    table: Value
    indices: tuple[Value, ...]
    region: Region | None
    source: Source | None

    def within(self, node: Node, moved: Callable[[Value], Value]) -> tuple[Value, ...] | None:
        """Returns the indices of a node's outputs in the table; None if it computes anything."""
        if isinstance(node, Switch | Repeat):
            return self.indices
        if not isinstance(node, Primitive) or not has(node.op, Is.GATHERING):
            return None
        _, index, axis = node.inputs
        is_entry = node.operation.get_attr("batch_dims") == 1 and index.type.shape == ()
        if is_entry and constant_of(axis) == 1:
            return (*self.indices, moved(index))
        return None

    def read(self, writer: GraphWriter, primitives: PrimitiveWriter) -> Value:
        """Adds the nodes that read the rows from the table, and returns the value read."""
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


def table_type(node: Parameter) -> Type:
    """The type of an argument's table: a SHARED tensor with a row for each root."""
    kind = node.types[0]
    return Type(kind.dtype, (None, *(kind.shape or ())), Kind.SHARED)
