"""The ops that XLA can run in place of TensorFlow's own kernels, and those that may fail there."""

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
from kerasrec._src.graph.nodes import Check, Collect, Computed, Effect, Primitive
from kerasrec._src.graph.types import Kind
from kerasrec._src.graph.values import Value
from kerasrec._src.ops.table import DTYPES, Is, Xla, facts_of, has
from kerasrec._src.ops.views import gathers_rows, static_value
from kerasrec._src.schedule.instructions import Fire

_DTYPES = DTYPES | {tf.float16, tf.bfloat16}


def obstacles(graph: TaggedGraph) -> list[str]:
    """The reasons why a program cannot be compiled, in words for its user; empty if it can."""
    found = [text for body in graph.bodies.values() for text in _obstacles_of(body)]
    if graph.memo and has_rows(graph):
        found.insert(0, "it has memo=True, and computes on the entries of rows")
    return found


def has_rows(graph: TaggedGraph) -> bool:
    """Whether a program computes on the entries of ragged rows."""
    return any(map(has_entries, graph.bodies.values()))


def _obstacles_of(body: Body) -> Iterator[str]:
    for node in body.nodes:
        reason = refusal(node)
        if reason:
            yield f"{body.name} {reason} at {node.source}"
    for node in body.nodes:
        where = f"at {node.source}"
        if isinstance(node, Check | Effect):
            what = "asserts" if isinstance(node, Check) else "shows"
            yield f"{body.name} {what} something {where}"
        elif isinstance(node, Collect) and node.has_keys:
            yield f"{body.name} makes a value of a data type {where}"
        elif isinstance(node, Computed) and node.device:
            yield f"{body.name} is to run {node.op} on {node.device} {where}"
    for node in body.nodes:
        where = f"at {node.source}"
        if isinstance(node, Computed) and not (_is_known(node) or is_of_entries_alone(node)):
            yield f"{body.name} computes {node.op} {where}"
        elif any(item.kind is Kind.TOKEN and not item.is_static for item in node.types):
            yield f"{body.name} has a value whose size only a run knows {where}"
        elif any(item.dtype not in _DTYPES for item in node.types):
            yield f"{body.name} computes {node.types[0].dtype.name} {where}"
    for node in body.nodes:
        if mixes_rows(node) and not refusal(node):
            yield f"{body.name} computes {node.op}, which might combine tokens, at {node.source}"


def _is_known(node: Computed) -> bool:
    facts = facts_of(node.op)
    if facts.xla is Xla.NOWHERE or not isinstance(node, Primitive):
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
    kind = facts_of(one.node.op).fails
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
