"""The programs that the scalar engine can run, and the ops of them that may fail."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from kerasrec._src.emit.xla_formulas import where_failing
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.nodes import Check, Computed, Effect, operations
from kerasrec._src.graph.types import Type
from kerasrec._src.graph.values import Each, Node
from kerasrec._src.ops.table import DTYPES, Fails, Is, Xla, facts_of, has
from kerasrec._src.ops.views import gathers_rows


def obstacles(graph: TaggedGraph) -> list[str]:
    """The reasons why the scalar engine cannot run a program, for its user; empty if it can."""
    found = []
    for body in graph.bodies.values():
        arguments = [("an argument", node) for node in body.parameters if not node.is_carried]
        for what, end in [*arguments, *(("a result", node) for node in body.outputs)]:
            item = end.types[0]
            if not _is_number(item):
                found.append(f"{body.name} has {what} of type {item}, which is not a plain number")
        for collect in body.collects:
            what = "makes a value of a data type" if collect.has_keys else "collects values"
            found.append(f"{body.name} {what} at {collect.source}")
        for node in body.sweeps[0].nodes:
            if isinstance(node, Computed | Effect) and node.device:
                found.append(f"{body.name} is to run {node.op} on {node.device} at {node.source}")
            elif isinstance(node, Check | Effect):
                what = "asserts" if isinstance(node, Check) else "shows"
                found.append(f"{body.name} {what} something at {node.source}")
            elif isinstance(node.region, Each):
                found.append(f"{body.name} computes on the entries of rows at {node.source}")
            elif isinstance(node, Computed) and not _is_sound(node):
                found.append(f"{body.name} computes {_title(node)} at {node.source}")
    return found


def gradient_obstacles(graph: TaggedGraph) -> list[str]:
    """The reasons why the scalar engine cannot run the gradient of a program that it can run."""
    found = list(graph.obstacles)
    for body in graph.bodies.values():
        for node in body.sweeps[1].nodes:
            if isinstance(node, Computed) and not _is_sound(node):
                what = f"{_title(node)} at {node.source}"
                found.append(f"the gradient of {body.name} computes {what}")
        for node in body.accumulates:
            if len(node.inputs) > 1 or not node.to.type.is_static:
                found.append(f"the gradient of {body.name} sums into rows of a table")
    return found


def may_fail(node: Node) -> bool:
    """Whether TensorFlow's kernel of an op fails on some inputs where XLA goes on."""
    fails = facts_of(node.op).fails
    is_of_integers = fails in (Fails.ZERO_DIVISOR, Fails.NEGATIVE_EXPONENT)
    return node.types[0].dtype.is_integer if is_of_integers else fails is not None


def fault_of(node: Node, inputs: Sequence[tf.Tensor]) -> tuple[str, tf.Tensor]:
    """Returns the message for an op that `may_fail`, and whether it fails, bool `[1]`.

    Args:
        node: A node of a body.
        inputs: The tensors for its inputs.
    """
    kind, fails = facts_of(node.op).fails, where_failing(node, inputs)
    if kind is Fails.ROW_OUTSIDE:
        (rows, *_) = node.inputs[0].type.shape or (None,)
        known = "" if rows is None else f"[0, {rows}), the rows of "
        message = f"an index is outside {known}the table that tf.gather reads"
    elif kind is Fails.NEGATIVE_EXPONENT:
        message = "an integer to a negative power"
    else:
        message = "integer division by zero"
    return f"{message} at {node.source}.", tf.reshape(tf.reduce_any(fails), [1])


def _is_number(item: Type) -> bool:
    return item.shape == () and item.dtype in DTYPES


def _is_sound(node: Node) -> bool:
    """Whether XLA's result is known to be that of TensorFlow's own kernel."""
    if facts_of(node.op).xla is not Xla.EVERYWHERE or not _dtypes(node) <= DTYPES:
        return False
    facts = facts_of(node.op)
    casts_others = has(node.op, Is.CASTING) and not node.inputs[0].type.dtype.is_floating
    if facts.dtypes and node.types[0].dtype not in facts.dtypes and not casts_others:
        return False
    if facts.fails is Fails.ROW_OUTSIDE:  # Bounds can be checked for a table that all tokens share.
        return node.inputs[0].is_shared and gathers_rows(*operations([node]))
    return True


def _dtypes(node: Node) -> set[tf.DType]:
    return {item.dtype for item in node.types} | {value.type.dtype for value in node.inputs}


def _title(node: Node) -> str:
    """An op with its dtypes, as in `Cast of float32 to uint8`."""
    read = dict.fromkeys(value.type.dtype.name for value in node.inputs)
    made = dict.fromkeys(item.dtype.name for item in node.types)
    of = f" of {', '.join(read)}" if read else ""
    return f"{node.op}{of}" + (f" to {', '.join(made)}" if has(node.op, Is.CASTING) else "")
