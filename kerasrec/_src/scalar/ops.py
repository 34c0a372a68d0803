"""The programs that the scalar engine can run, and the errors of ops that fail."""

from __future__ import annotations

from collections.abc import Iterator

from kerasrec._src.graph.graph import Body, TaggedGraph
from kerasrec._src.graph.nodes import Check, Collect, Computed, Effect, makes_value, operations
from kerasrec._src.graph.values import Each, Node
from kerasrec._src.ops.table import DTYPES, Is, Xla, has, op_named
from kerasrec._src.ops.views import gathers_rows
from kerasrec._src.ops.xla import Fails


def obstacles(graph: TaggedGraph) -> list[str]:
    """The reasons why the scalar engine cannot run a program, for its user; empty if it can."""
    bodies = graph.bodies.values()
    return [f"{body.name} {reason}" for body in bodies for reason in _obstacles_of(body)]


def _obstacles_of(body: Body) -> Iterator[str]:
    arguments = [node for node in body.parameters if not node.is_carried]
    kinds = [("an argument", node.types[0]) for node in arguments]
    for what, kind in [*kinds, *(("a result", node.types[0]) for node in body.outputs)]:
        if kind.shape != () or kind.dtype not in DTYPES:
            yield f"has {what} of type {kind}, which is not a plain number"
    for node in body.sweeps[0].nodes:
        if makes_value(node):
            yield f"makes a value of a data type at {node.source}"
        elif isinstance(node, Collect):
            yield f"collects values at {node.source}"
    for node in body.sweeps[0].nodes:
        if isinstance(node, Computed | Effect) and node.device:
            yield f"is to run {node.op} on {node.device} at {node.source}"
        elif isinstance(node, Check | Effect):
            yield f"{'asserts' if isinstance(node, Check) else 'shows'} something at {node.source}"
        elif isinstance(node.region, Each):
            yield f"computes on the entries of rows at {node.source}"
        elif isinstance(node, Computed) and not _is_sound(node):
            yield f"computes {_title(node)} at {node.source}"


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


def fault_of(node: Node) -> str:
    """The message for an op that fails where XLA goes on."""
    fails = op_named(node.op).fails
    if fails is Fails.ROW_OUTSIDE:
        (rows, *_) = node.inputs[0].type.shape or (None,)
        known = "" if rows is None else f"[0, {rows}), the rows of "
        message = f"an index is outside {known}the table that tf.gather reads"
    elif fails is Fails.NEGATIVE_EXPONENT:
        message = "an integer to a negative power"
    else:
        message = "integer division by zero"
    return f"{message} at {node.source}."


def _is_sound(node: Node) -> bool:
    """Whether XLA's result is known to be that of TensorFlow's own kernel."""
    op, read = op_named(node.op), {value.type.dtype for value in node.inputs}
    made = {kind.dtype for kind in node.types}
    if op.xla is not Xla.EVERYWHERE or not read | made <= DTYPES:
        return False
    casts_others = has(node.op, Is.CASTING) and not node.inputs[0].type.dtype.is_floating
    if op.dtypes and node.types[0].dtype not in op.dtypes and not casts_others:
        return False
    if op.fails is Fails.ROW_OUTSIDE:  # Bounds can be checked for a table that all tokens share.
        return node.inputs[0].is_shared and gathers_rows(*operations([node]))
    return True


def _title(node: Node) -> str:
    """An op with its dtypes, as in `Cast of float32 to uint8`."""
    read = dict.fromkeys(value.type.dtype.name for value in node.inputs)
    made = dict.fromkeys(kind.dtype.name for kind in node.types)
    of = f" of {', '.join(read)}" if read else ""
    return f"{node.op}{of}" + (f" to {', '.join(made)}" if has(node.op, Is.CASTING) else "")
