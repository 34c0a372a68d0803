"""The ops that XLA can run instead of TensorFlow's kernels, and those that may fail there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import tensorflow as tf

from kerasrec._src.frames.rows_xla.entries import (
    has_entries,
    is_of_entries_alone,
    looks_up_ragged,
    mixes_rows,
    refusal,
)
from kerasrec._src.graph.graph import Body, TaggedGraph
from kerasrec._src.graph.nodes import Check, Computed, Effect, Primitive, makes_value
from kerasrec._src.graph.types import Kind
from kerasrec._src.graph.values import Node, Value
from kerasrec._src.ops.table import DTYPES, Is, Xla, has, op_named
from kerasrec._src.ops.views import gathers_rows, static_value
from kerasrec._src.schedule.instructions import Fire
from kerasrec._src.schedule.stages import needs_queues

EQUAL_CALLS_ARE_ONE = "it has memo=True or shared_nodes=True"
_DTYPES = DTYPES | {tf.float16, tf.bfloat16}


def obstacles(graph: TaggedGraph) -> list[str]:
    """The reasons why a program cannot be compiled, in words for its user; empty if it can."""
    bodies = graph.bodies.values()
    found = [
        f"{body.name} {reason} at {node.source}"
        for body in bodies
        for node, reason in _obstacles_of(body)
    ]
    if graph.memo and any(map(has_entries, bodies)):
        found.insert(0, f"{EQUAL_CALLS_ARE_ONE}, and computes on the entries of rows")
    if graph.memo and needs_queues(graph):
        found.insert(0, f"{EQUAL_CALLS_ARE_ONE}, and its calls are known only as it runs")
    return found


def _obstacles_of(body: Body) -> Iterator[tuple[Node, str]]:
    """Yields nodes that cannot be compiled, and why, the plainest reasons first."""
    refused = {node: reason for node in body.nodes if (reason := refusal(node))}
    yield from refused.items()
    for node in body.nodes:
        if isinstance(node, Check | Effect):
            yield node, f"{'asserts' if isinstance(node, Check) else 'shows'} something"
        elif makes_value(node):
            yield node, "makes a value of a data type"
        elif isinstance(node, Computed) and node.device:
            yield node, f"is to run {node.op} on {node.device}"
    for node in body.nodes:
        if isinstance(node, Computed) and not (_is_known(node) or is_of_entries_alone(node)):
            yield node, f"computes {node.op}"
        elif any(kind.kind is Kind.TOKEN and not kind.is_static for kind in node.types):
            yield node, "has a value with a size that is known only at run time"
        elif any(kind.dtype not in _DTYPES for kind in node.types):
            yield node, f"computes {node.types[0].dtype.name}"
    for node in body.nodes:
        if mixes_rows(node) and node not in refused:
            yield node, f"computes {node.op}, which might combine tokens,"


def _is_known(node: Computed) -> bool:
    op = op_named(node.op)
    if op.xla is Xla.NOWHERE or not isinstance(node, Primitive):
        return False
    if has(node.op, Is.GATHERING) and not gathers_rows(node.operation):
        return False
    if has(node.op, Is.LOOKUP):  # Bounds can be checked for a table that all tokens share.
        return node.inputs[0].is_shared
    if has(node.op, Is.SCATTERING):  # The gradient of GatherNd.
        return node.inputs[2].is_shared
    if has(node.op, Is.CLAMPED):
        return all(static_value(tensor) is not None for tensor in node.operation.inputs[1:])
    return True


def failing(
    one: Fire, inputs: Sequence[tf.Tensor], sizes_of_tables: Mapping[Value, tf.Tensor]
) -> tf.Tensor | None:
    """Whether TensorFlow's own kernel fails, bool `[width]` or a scalar; None if it never does.

    Args:
        one: The op.
        inputs: The tensors for its inputs.
        sizes_of_tables: The number of rows of each SHARED value that has been padded.
    """
    table = one.inputs[0] if one.inputs else None
    kind = op_named(one.node.op).fails
    fails = kind and kind.where(inputs, sizes_of_tables.get(table) if table else None)
    if fails is None or (has(one.node.op, Is.LOOKUP) and not (table and table.is_shared)):
        return None
    return _any_of_row(fails, one.inputs[2 if looks_up_ragged(one.node) else 1])


def _any_of_row(fails: tf.Tensor, value: Value) -> tf.Tensor:
    """Whether anything fails: bool `[width]` for a value of tokens, a scalar for a SHARED one."""
    first = 0 if value.is_shared else 1
    if fails.shape.rank == first:
        return fails
    return tf.reduce_any(fails, axis=list(range(first, fails.shape.rank)))
