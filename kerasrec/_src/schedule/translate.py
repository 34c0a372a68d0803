"""Translates the nodes of a graph to instructions."""

from __future__ import annotations

from kerasrec._src.errors import GraphError
from kerasrec._src.graph import nodes
from kerasrec._src.graph.graph import Body
from kerasrec._src.graph.nodes import (
    Accumulate,
    Call,
    Check,
    Collect,
    Computed,
    Enter,
    Entrance,
    Leave,
    Merge,
    Repeat,
    Result,
    Switch,
)
from kerasrec._src.graph.types import Kind
from kerasrec._src.graph.values import Each, Node, Region, branches
from kerasrec._src.ops.table import Is, has
from kerasrec._src.schedule.instructions import (
    Broadcast,
    Count,
    Effect,
    Fire,
    Gather,
    Instruction,
    Pass,
    Reduce,
    RowOf,
    Stitch,
    Tokens,
)


def regions_of(body: Body) -> list[tuple[Region, ...]]:
    """Returns the regions of a body, in groups with the same selector."""
    groups: dict[tuple[Region, ...], None] = {}
    for node in body.nodes:
        inside = [node.region, *(value.region for value in node.outputs)]
        if isinstance(node, Merge):
            inside += branches(node.region, node.predicate, len(node.inputs))
        if isinstance(node, nodes.Rows):
            inside.append(node.entries)
        for region in filter(None, inside):
            groups.update(dict.fromkeys(item.siblings for item in region.path()))
    return list(groups)


def instructions_of(body: str, node: Node) -> list[Instruction]:
    """Returns what a node does, as instructions; nodes of call linkage have none here.

    Args:
        body: The name of the node's body.
        node: A node of a tagged or extended graph.
    """
    if isinstance(node, Call | nodes.Return | Result | Entrance):
        return []
    if isinstance(node, Collect | Accumulate):
        return [Reduce(node)]
    if isinstance(node, Check | nodes.Effect):
        return [Effect(node, Tokens(body, node.region))]
    if isinstance(node, Switch):
        return [
            Gather(value, (node.inputs[0], region), at_use=True)
            for value in node.outputs
            if (region := value.region)
        ]
    if isinstance(node, Computed) and not counts_tokens(node):
        is_wave = node.types[0].kind is Kind.WAVE
        return [Fire(node, tuple(node.inputs), tuple(node.outputs), at_use=is_wave)]
    return [_of_one_output(body, node)]


def _of_one_output(body: str, node: Node) -> Instruction:
    output, region = node.output(), node.region
    if isinstance(node, Merge):
        inside = branches(region, node.predicate, len(node.inputs))
        return Stitch(output, (*node.inputs, *inside))
    if isinstance(node, nodes.Broadcast):
        return Broadcast(output, (node.inputs[0], Tokens(body, region)), at_use=True)
    if isinstance(node, Repeat) and region:
        return Gather(output, (node.inputs[0], region), at_use=True)
    if isinstance(node, nodes.Rows):
        return RowOf(output, (Each(region, node.inputs[0]),), at_use=True)
    if isinstance(node, Leave):
        return Pass(output, (node.inputs[0],), at_use=True)
    if isinstance(node, Enter):
        lengths = node.inputs[1:] if len(node.inputs) > 2 else []
        return Pass(output, (node.inputs[0], *lengths))
    if counts_tokens(node):
        return Count(output, (Tokens(body, node.inputs[0].region),), at_use=True)
    raise GraphError(f"{node.op} has no instruction.")


def counts_tokens(node: Node) -> bool:
    """Whether a node computes a shape of tokens in which only their number is open."""
    return (
        has(node.op, Is.SHAPE)
        and node.inputs[0].type.kind is Kind.TOKEN
        and node.inputs[0].type.is_static
    )
