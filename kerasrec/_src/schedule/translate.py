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
    Fire,
    Gather,
    Instruction,
    InTable,
    Observe,
    Pass,
    Reduce,
    RowOf,
    Stitch,
    TokenCount,
    Zeros,
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
    region, inputs, outputs = node.region, tuple(node.inputs), tuple(node.outputs)
    match node:
        case Call() | nodes.Return() | Result() | Entrance():
            return []
        case Collect() | Accumulate():
            return [Reduce(node)]
        case Check() | nodes.Effect():
            return [Observe(node, TokenCount(body, region))]
        case nodes.New() | nodes.Put() | nodes.Get():
            return [InTable(node, outputs, TokenCount(body, region))]
        case Computed() if counts_tokens(node):
            return [Count(outputs[0], (TokenCount(body, inputs[0].region),), at_use=True)]
        case Computed() if makes_zeros(node):
            return [Zeros(outputs[0], (TokenCount(body, region),), at_use=True)]
        case Computed():
            return [Fire(node, inputs, outputs, at_use=node.types[0].kind is Kind.WAVE)]
        case Switch() | Repeat():
            pairs = ((value, value.region) for value in outputs)
            return [Gather(value, (inputs[0], to), at_use=True) for value, to in pairs if to]
        case Merge():
            inside = branches(region, node.predicate, len(inputs))
            return [Stitch(outputs[0], (*inputs, *inside))]
        case nodes.Broadcast():
            return [Broadcast(outputs[0], (inputs[0], TokenCount(body, region)), at_use=True)]
        case nodes.Rows():
            return [RowOf(outputs[0], (Each(region, inputs[0]),), at_use=True)]
        case Leave():
            return [Pass(outputs[0], inputs[:1], at_use=True)]
        case Enter():  # Lengths of several values must agree.
            return [Pass(outputs[0], inputs if len(inputs) > 2 else inputs[:1])]
    raise GraphError(f"{node.op} has no instruction.")


def counts_tokens(node: Node) -> bool:
    """Whether a node computes a shape of tokens in which only their number is open."""
    return (
        has(node.op, Is.SHAPE)
        and node.inputs[0].type.kind is Kind.TOKEN
        and node.inputs[0].type.is_static
    )


def makes_zeros(node: Node) -> bool:
    """Whether a node makes zeros of which only the number of tokens is open."""
    return has(node.op, Is.ZEROS) and node.types[0].kind is Kind.TOKEN and node.types[0].is_static
