"""Appends nodes to a graph and switches values into the branches that read them."""

from __future__ import annotations

from kerasrec.errors import TraceError
from kerasrec.graph.graph import Node, Region, Value
from kerasrec.graph.types import Kind, Type


class GraphWriter:
    """Appends nodes to a list, switching values into the branches that read them."""

    def __init__(self, nodes: list[Node]):
        self.nodes = nodes
        self._switched: dict[tuple[Value, Region | None], Value] = {}

    def reuse(self, nodes: list[Node]) -> None:
        """Lets SWITCHes that stand in a graph already serve new readers."""
        for node in nodes:
            if node.op == "SWITCH":
                for output in node.outputs:
                    self._switched[(node.inputs[0], output.region)] = output

    def add(self, node: Node) -> Node:
        """Appends a node."""
        self.nodes.append(node)
        return node

    def into(self, value: Value, region: Region | None) -> Value:
        """`value` as the tokens of `region` see it.

        A TOKEN from around the region passes a SWITCH for each branch on the way; a WAVE value is
        computed again from what the region's tokens give.
        """
        here = value.region
        if value.is_shared or here == region:
            return value
        if region is None or (here is not None and here not in region.path()):
            raise _left_its_branch(value)
        key = (value, region)
        if key not in self._switched:
            outer = self.into(value, region.parent)
            if outer != value:
                self._switched[key] = self.into(outer, region)
            elif value.type.kind is Kind.WAVE:
                self._switched[key] = self._again(value, region)
            else:
                self._switched[key] = self._switch(value, region)
        return self._switched[key]

    def _switch(self, value: Value, region: Region) -> Value:
        node = self.add(
            Node(
                "SWITCH",
                [value, region.predicate],
                [value.type] * region.num_branches,
                region.parent,
                value.node.source,
            )
        )
        for branch, output in enumerate(node.outputs):
            sibling = Region(region.parent, region.predicate, branch, region.num_branches)
            self._switched[(value, sibling)] = output
        return node.outputs[region.branch]

    def _again(self, value: Value, region: Region) -> Value:
        node = value.node
        inputs = [self.into(source, region) for source in node.inputs]
        copy = self.add(Node(node.op, inputs, node.types, region, node.source, node.attributes))
        for one, two in zip(node.outputs, copy.outputs, strict=True):
            self._switched[(one, region)] = two
        return copy.output(value.index)

    def as_tokens(self, value: Value, region: Region | None, pivot: Value) -> Value:
        """`value` as one value for each token of `region`; `pivot` is any TOKEN of the function."""
        value = self.into(value, region)
        if not value.is_shared:
            return value
        trigger = self.into(region.predicate if region else pivot, region)
        shared = value.type
        node = Node(
            "BROADCAST",
            [value, trigger],
            [Type(shared.dtype, shared.shape)],
            region,
            value.node.source or trigger.node.source,
        )
        return self.add(node).output()


def _left_its_branch(value: Value) -> TraceError:
    where = f" made at {value.node.source.where}" if value.node.source else ""
    return TraceError(
        f"A tensor{where} inside one branch of a conditional is used outside that branch, where "
        "other tokens have no value for it. Return it from the branch and use what "
        "kerasrec.cond or kerasrec.switch returns."
    )
