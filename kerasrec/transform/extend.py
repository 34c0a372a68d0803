"""The stage `extend`: a tagged graph to its extended gradient graph.

Vasilakopoulos 2024, chapter 4, and Kostopoulou et al., section 4: a function of n arguments and m
outputs becomes one of n + m arguments and m + n outputs, the cotangents of outputs coming in and
those of arguments going out. A call and the call of its gradient share one label, so gradient nodes
find forward values under the same tag and nothing is computed twice. SWITCH and MERGE are each
other's gradients; CALL and RETURN too, ENTER and LEAVE, REPEAT and the sum over a row's entries.
"""

from __future__ import annotations

from dataclasses import replace

import tensorflow as tf

from kerasrec.graph.check import check_tagged_graph
from kerasrec.graph.graph import Body, CallSite, Node, TaggedGraph, Value
from kerasrec.graph.region import Branch
from kerasrec.graph.types import Kind, Type
from kerasrec.graph.writer import GraphWriter
from kerasrec.transform.primitives import PrimitiveWriter, Sparse
from kerasrec.transform.recompute import Group, in_groups, is_weight, variable_of
from kerasrec.transform.wanted import wanted_values

_ROW_IDS = Type(tf.int32, (None,), Kind.WAVE)


def extend(tagged: TaggedGraph) -> TaggedGraph:
    """The same graph with gradient nodes in every body; the tagged graph stays as it is."""
    wanted = wanted_values(tagged)
    bodies = {
        name: replace(
            body,
            gradient_parameters=[_gradient_parameter(output) for output in body.outputs],
            gradient_outputs=[_gradient_output(node, wanted) for node in body.parameters],
            gradient_nodes=[],
            accumulates=[],
        )
        for name, body in tagged.bodies.items()
    }
    graph = TaggedGraph(
        bodies, tagged.entry, dict(tagged.call_sites), list(tagged.shared), is_extended=True
    )
    collecting = _collecting(graph, wanted)
    for body in bodies.values():
        _BodyGradient(graph, body, wanted, collecting).run()
    for name in sorted(collecting):
        if not any(bodies[name].gradient_parameters):
            graph.obstacles.append(
                f"{name} has no gradient: it collects floats, or calls what does, but returns none "
                "of them, and gradients enter a function through what it returns. Return a float, "
                "too."
            )
    _call_gradient_from_outside(graph)
    check_tagged_graph(graph)
    return graph


def _collecting(graph: TaggedGraph, wanted: set[Value]) -> set[str]:
    """Functions that collect values with a gradient, themselves or through calls."""
    found = {
        body.name
        for body in graph.bodies.values()
        if any(node.inputs[0] in wanted for node in body.collects)
    }
    size = -1
    while size != len(found):
        size = len(found)
        found |= {
            site.caller
            for site in graph.call_sites.values()
            if site.caller and site.callee in found
        }
    return found


def _gradient_parameter(output: Node) -> Node | None:
    found = output.types[0]
    if not found.is_differentiable:
        return None
    return Node("MERGE", [], [found], None, output.source, {"name": "d_output"})


def _gradient_output(parameter: Node, wanted: set[Value]) -> Node | None:
    if parameter.output() not in wanted:
        return None
    name = f"d_{parameter.attributes['name']}"
    return Node("IDENTITY", [], parameter.types, None, parameter.source, {"name": name})


class _BodyGradient:
    """Walks one body backwards and collects the cotangent of every value."""

    def __init__(self, graph: TaggedGraph, body: Body, wanted: set[Value], collecting: set[str]):
        self.graph = graph
        self.body = body
        self.wanted = wanted
        self.collecting = collecting
        self.nodes: list[Node] = []
        self.writer = GraphWriter(self.nodes)
        self.writer.reuse(body.nodes)
        self.primitives = PrimitiveWriter(body, self.writer, graph.shared)
        self.cotangents: dict[Value, list[Value]] = {}
        self.sites = {
            call: site
            for site in graph.call_sites.values()
            if site.caller == body.name
            for call in site.calls
        }

    def run(self) -> None:
        body = self.body
        self.nodes += [node for node in body.gradient_parameters if node is not None]
        for output, node in zip(body.outputs, body.gradient_parameters, strict=True):
            if node is not None:
                self._add(output.inputs[0], node.output())
        for part in reversed(in_groups(body)):
            if isinstance(part, Group):
                self._group(part)
            else:
                self._node(part)
        for parameter, out in zip(body.parameters, body.gradient_outputs, strict=True):
            if out is not None:
                value = parameter.output()
                out.inputs.append(self._total(value) or self._zeros(value))
                self.nodes.append(out)
        body.gradient_nodes = _needed(self.nodes, body)

    def _node(self, node: Node) -> None:
        if node.op == "COLLECT":
            self._collect(node)
        elif node.op == "MERGE" and node not in self.body.parameters:
            self._merge(node)
        elif node.op == "SWITCH":
            self._switch(node)
        elif node.op == "BROADCAST":
            self._broadcast(node)
        elif node.op in ("REPEAT", "ENTER", "LEAVE"):
            self._rows(node)
        elif node.op == "CALL":
            site = self.sites[node]
            if node is site.calls[-1]:
                self._call(site)
        elif node.is_primitive:
            self._primitive(node)

    def _primitive(self, node: Node) -> None:
        cotangents = {}
        for value in node.outputs:
            total = self._total(value)
            if total is not None:
                cotangents[value.index] = total
        inputs = [value for value in node.inputs if value in self.wanted]
        if not cotangents or not inputs:
            return
        try:
            found = self.primitives.gradients(node, cotangents, inputs)
        except LookupError:
            self._obstacle(f"{node.op} at {node.source}", "TensorFlow has none for it")
            return
        for value, cotangent in found.items():
            self._add(value, cotangent)

    def _obstacle(self, where: str, reason: str) -> None:
        self.graph.obstacles.append(f"{self.body.name} has no gradient through {where}: {reason}.")

    def _group(self, group: Group) -> None:
        cotangents = {}
        for value in (value for node in group.nodes for value in node.outputs):
            total = self._total(value)
            if total is not None:
                cotangents[value] = total
        sources = [value for value in group.inputs if value in self.wanted or is_weight(value)]
        if not cotangents or not sources:
            return
        obstacle = group.obstacle()
        if obstacle:
            self._obstacle(group.title, obstacle)
            return
        wanted = {value: self._variable(value) if is_weight(value) else value for value in sources}
        # What is one value a token is kept for whoever reads it; sums over tokens wait for the end.
        for is_token in (True, False):
            part = {
                value: target
                for value, target in wanted.items()
                if (value.type.kind is Kind.TOKEN) == is_token
            }
            if part:
                for value, cotangent in self.primitives.recomputed(group, cotangents, part).items():
                    self._add(value, cotangent)

    def _variable(self, handle: Value) -> Value:
        """The value of a variable, which takes the cotangents of its handle."""
        variable = variable_of(handle)

        def read(handle: tf.Tensor) -> tf.Tensor:
            value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=variable.dtype)
            return tf.ensure_shape(value, variable.shape)

        value = self.primitives.apply(read, [handle], None, handle.node.source, Kind.SHARED)
        self.wanted.add(value)
        return value

    def _merge(self, node: Node) -> None:
        total = self._total(node.output())
        if total is None:
            return
        predicate = node.attributes["predicate"]
        for branch, value in enumerate(node.inputs):
            if value in self.wanted:
                inside = Branch(node.region, predicate, branch, len(node.inputs))
                self._add(value, self.writer.into(total, inside))

    def _switch(self, node: Node) -> None:
        value, predicate = node.inputs
        totals = [self._total(output) for output in node.outputs]
        if value not in self.wanted or not any(totals):
            return
        inputs = [
            total or self._zeros(output) for total, output in zip(totals, node.outputs, strict=True)
        ]
        merge = Node(
            "MERGE", inputs, [value.type], node.region, node.source, {"predicate": predicate}
        )
        self._add(value, self.writer.add(merge).output())

    def _broadcast(self, node: Node) -> None:
        total = self._total(node.output())
        if total is not None and node.inputs[0] in self.wanted:
            summed = self.primitives.apply(
                _sum_of_tokens, [total], node.region, node.source, Kind.WAVE
            )
            self._add(node.inputs[0], summed)

    def _rows(self, node: Node) -> None:
        total = self._total(node.output())
        value, lengths = node.inputs[:2]
        if total is None or value not in self.wanted:
            return
        if node.op == "LEAVE":
            entries = self.writer.enter(total, [lengths], value.region, value.type, node.source)
            self._add(value, entries)
            return
        rows = self.writer.leave(total, lengths, value.region)
        if node.op == "REPEAT":
            ids = Node("ROWS", [lengths], [_ROW_IDS], value.region, node.source)
            inputs = [rows, self.writer.add(ids).output(), value]
            rows = self.primitives.apply(_sum_of_rows, inputs, value.region, node.source)
        self._add(value, rows)

    def _collect(self, node: Node) -> None:
        value, index = node.inputs
        if value not in self.wanted:
            return
        name = node.attributes["name"]
        shape = None if value.type.shape is None else (None, *value.type.shape)
        table = self._table_cotangent(name, Type(value.type.dtype, shape, Kind.SHARED))
        looked_up = self.primitives.apply(tf.gather, [table, index], node.region, node.source)
        self._add(value, looked_up)

    def _table_cotangent(self, name: str, found: Type) -> Value:
        for node in self.graph.shared:
            if node.attributes.get("cotangent_of_table") == name:
                return node.output()
        attributes = {"name": f"d_{name}", "cotangent_of_table": name}
        node = Node("SHARED", [], [found], attributes=attributes)
        self.graph.shared.append(node)
        return node.output()

    def _call(self, site: CallSite) -> None:
        callee = self.graph.bodies[site.callee]
        totals = [self._total(node.output()) for node in site.returns]
        is_wanted = any(totals) or callee.name in self.collecting
        if not is_wanted or not any(callee.gradient_parameters):
            return
        region, source = site.calls[0].region, site.calls[0].source
        attributes = site.calls[0].attributes
        calls: list[Node | None] = []
        for total, node, parameter in zip(
            totals, site.returns, callee.gradient_parameters, strict=True
        ):
            if parameter is None:
                calls.append(None)
                continue
            value = total or self._zeros(node.output())
            call = self.writer.add(Node("CALL", [value], [value.type], region, source, attributes))
            parameter.inputs.append(call.output())
            calls.append(call)
        control = [call for call in calls if call is not None]
        returns: list[Node | None] = []
        for call, out in zip(site.calls, callee.gradient_outputs, strict=True):
            if out is None:
                returns.append(None)
                continue
            back = Node("RETURN", [out.output()], out.types, region, source, attributes, control)
            returns.append(self.writer.add(back))
            if call.inputs[0] in self.wanted:
                self._add(call.inputs[0], back.output())
        self.graph.call_sites[site.label] = replace(
            site, gradient_calls=tuple(calls), gradient_returns=tuple(returns)
        )

    def _add(self, value: Value, cotangent: Value | Sparse) -> None:
        """Notes one contribution to the cotangent of `value`."""
        if value not in self.wanted:
            return
        inputs = list(cotangent) if isinstance(cotangent, tuple) else [cotangent]
        if not value.is_shared:
            self.cotangents.setdefault(value, []).extend(inputs)
            return
        node = Node(
            "ACCUMULATE", inputs, [], inputs[0].region, inputs[0].node.source, {"to": value}
        )
        self.nodes.append(node)
        self.body.accumulates.append(node)

    def _total(self, value: Value) -> Value | None:
        """The sum of what was noted for a value; None where there is nothing."""
        parts = self.cotangents.pop(value, [])
        if len(parts) < 2:
            return parts[0] if parts else None
        return self.primitives.apply(
            lambda *tensors: tf.add_n(tensors),
            parts,
            value.region,
            value.node.source,
            value.type.kind,
        )

    def _zeros(self, value: Value) -> Value:
        return self.primitives.apply(tf.zeros_like, [value], value.region, value.node.source)


def _sum_of_tokens(tensor: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tensor, axis=0)


def _sum_of_rows(entries: tf.Tensor, ids: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
    return tf.math.unsorted_segment_sum(entries, ids, tf.shape(tokens)[0])


def _needed(nodes: list[Node], body: Body) -> list[Node]:
    """The gradient nodes that something leaves the body through."""
    own = set(nodes)
    needed: set[Node] = set()
    waiting = [node for node in nodes if node.op in ("CALL", "ACCUMULATE", "RETURN")]
    waiting += [node for node in body.gradient_outputs if node is not None]
    waiting += [node for node in body.gradient_parameters if node is not None]
    while waiting:
        node = waiting.pop()
        if node in own and node not in needed:
            needed.add(node)
            waiting += [value.node for value in node.inputs]
    return [node for node in nodes if node in needed]


def _call_gradient_from_outside(graph: TaggedGraph) -> None:
    """The outside hands in the cotangents of the entry's outputs, under the root's label."""
    root, body = graph.root, graph.bodies[graph.entry]
    attributes = root.calls[0].attributes
    calls: list[Node | None] = []
    for parameter in body.gradient_parameters:
        if parameter is None:
            calls.append(None)
            continue
        argument = Node("ARGUMENT", [], parameter.types, None, None, {"name": "d_output"})
        call = Node("CALL", [argument.output()], parameter.types, None, None, attributes)
        parameter.inputs.append(call.output())
        calls.append(call)
    control = [call for call in calls if call is not None]
    returns = tuple(
        None
        if out is None or not control
        else Node("RETURN", [out.output()], out.types, None, None, attributes, control)
        for out in body.gradient_outputs
    )
    graph.call_sites[root.label] = replace(
        root, gradient_calls=tuple(calls), gradient_returns=returns
    )
