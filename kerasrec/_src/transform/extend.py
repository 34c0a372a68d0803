"""The stage `extend`: a tagged graph to its extended gradient graph.

Vasilakopoulos 2024, chapter 4, and Kostopoulou et al., section 4: a function of n arguments and m
outputs becomes one of n + m arguments and m + n outputs. The m new arguments are the cotangents of
its outputs, and the n new outputs are the cotangents of its arguments. A call and the call of its
gradient share one label, so gradient nodes find forward values under the same tag, and nothing is
computed twice. SWITCH and MERGE are each other's gradients, as are CALL and RETURN, ENTER_ROWS and
LEAVE_ROWS, REPEAT and the sum over a row's entries, and PUT and GET: readers of a row add to the
row's cotangent, and the op that made the row finds all of it there, since it runs after all
readers.

An extended graph can be extended again, for second derivatives. Its bodies already have two sweeps,
the values and the gradient. Each sweep gets a separate gradient, the last sweep first: of S
sweeps, sweep S + i is the gradient of sweep S - 1 - i. The sums of ACCUMULATE nodes are results of
the gradient, so they also have cotangents, which are SHARED values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import tensorflow as tf

from kerasrec._src.graph import nodes
from kerasrec._src.graph.graph import (
    Body,
    CallSite,
    Linkage,
    Sweep,
    TaggedGraph,
    needed,
    order_of,
    present,
)
from kerasrec._src.graph.types import Kind, Type
from kerasrec._src.graph.values import Branch, Node, Region, Value, branches
from kerasrec._src.graph.writer import GraphWriter
from kerasrec._src.ops.table import Is, Ragged, has, op_named
from kerasrec._src.transform.primitives import Cotangent, PrimitiveWriter, UnknownDrawError
from kerasrec._src.transform.reads import (
    Reads,
    connected_results,
    grown,
    only_adds_or_moves,
    wanted_values,
    with_reads,
)
from kerasrec._src.transform.recompute import Group, in_groups, is_weight, unrepeatable, variable_of
from kerasrec._src.transform.tag import call_from_outside, new_linkage, set_linkage

Totals = dict[Value, Value]
"""For outputs of a node that have a cotangent, the cotangent."""

_ROW_IDS = Type(tf.int32, (None,), Kind.WAVE)
# Nodes through which values enter or leave a body.
_ENDS = (nodes.Call, nodes.Return, nodes.Entrance, nodes.Result, nodes.Accumulate, nodes.Put)


def extend(graph: TaggedGraph) -> TaggedGraph:
    """Returns a new graph: the given one, with the gradients of all its sweeps.

    Args:
        graph: A tagged graph, which may be extended already. It is not changed.
    """
    wanted = wanted_values(graph)
    collecting = _collecting(graph, wanted)
    # Only for the first gradient: derivatives of a gradient op inherit its `read_by`.
    results = connected_results(graph) if graph.num_sweeps == 1 else None
    # With `memo`, a call may have several callers, which may read different results of it. Then
    # only the results that the outside reads are considered.
    reads = Reads(graph) if graph.num_sweeps == 1 and graph.memo is None else None
    if reads is not None:
        graph = with_reads(graph, reads, wanted)
    bodies = {}
    for name, body in graph.bodies.items():
        read = None if name in collecting else results  # The gradient enters those in any case.
        gradients = [_gradient_of(sweep, wanted, read) for sweep in reversed(body.sweeps)]
        bodies[name] = replace(body, sweeps=[*body.sweeps, *gradients])
    sites = {
        label: replace(site, linkages=site.linkages + (Linkage(),) * graph.num_sweeps)
        for label, site in graph.call_sites.items()
    }
    extended = replace(
        graph,
        bodies=bodies,
        call_sites=sites,
        shared=list(graph.shared),
        obstacles=[],
        read_by=dict(graph.read_by),
    )
    for body in bodies.values():
        _BodyGradient(extended, body, wanted, collecting, results, reads).run()
    for name in sorted(collecting):
        if not any(bodies[name].sweeps[1].parameters):
            extended.obstacles.append(
                f"{name} has no gradient: it collects floats, or calls a function that does, but "
                "returns no float, and gradients enter a function through its results. Return a "
                "float as well."
            )
    # The second derivative and those after it run the whole program again.
    reason = unrepeatable(graph) if graph.num_sweeps > 1 else None
    if reason:
        extended.obstacles.append(f"{graph.entry} has no second derivative: {reason}.")
    for index in range(graph.num_sweeps, extended.num_sweeps):
        # If no gradient can enter the entry, the outside does not call it.
        if index > 1 or any(bodies[graph.entry].sweeps[index].parameters):
            call_from_outside(extended, index)
    extended.check()
    return extended


def _collecting(graph: TaggedGraph, wanted: set[Value]) -> set[str]:
    """The names of functions that collect or make values with a gradient, also through calls."""
    names = {
        body.name
        for body in graph.bodies.values()
        for node in body.sweeps[0].nodes
        if isinstance(node, nodes.Put) or (isinstance(node, nodes.Collect) and node.has_gradient)
        if node.inputs[0] in wanted
    }
    calls = [(site.caller, site.callee) for site in graph.call_sites.values() if site.caller]
    return grown(names, lambda names: {caller for caller, callee in calls if callee in names})


def _gradient_of(
    sweep: Sweep, wanted: set[Value], results: dict[Value, frozenset[str]] | None
) -> Sweep:
    """Returns the gradient of a sweep, as yet with its entrances and exits only.

    Args:
        sweep: The sweep to differentiate.
        wanted: The values that need a cotangent.
        results: The results that depend on each value. An output on which no result depends has
            no entrance. With None, all differentiable outputs have one.
    """

    def entrance(output: nodes.Result | None) -> nodes.Entrance | None:
        if output is None or not output.types[0].is_differentiable:
            return None
        if results is not None and not results.get(output.output()):
            return None
        name = f"d_{output.name or 'output'}"
        return nodes.Entrance([], output.types, None, output.source, name=name)

    def exit_of(parameter: nodes.Entrance | None) -> nodes.Result | None:
        if parameter is None or parameter.output() not in wanted:
            return None
        name = f"d_{parameter.name}"
        return nodes.Result([], parameter.types, None, parameter.source, name=name)

    return Sweep([*map(entrance, sweep.outputs)], [*map(exit_of, sweep.parameters)], [], [])


@dataclass(eq=False)
class _BodyGradient:
    """Walks one body backwards and collects the cotangent of every value."""

    graph: TaggedGraph
    body: Body
    wanted: set[Value]
    collecting: set[str]
    results: dict[Value, frozenset[str]] | None
    reads: Reads | None

    def __post_init__(self) -> None:
        graph, body, results = self.graph, self.body, self.results or {}
        self.every_result = frozenset().union(*(results.get(value, ()) for value in self.wanted))
        self.num_sweeps = graph.num_sweeps // 2
        self.order = order_of(self.num_sweeps)
        self.sources = graph.sources()
        self.writer = GraphWriter([])
        self.writer.reuse(body.nodes)
        keys = [] if graph.memo else [node.output() for node in body.parameters if node.is_key]
        given = body.traced, self.writer, graph.shared
        self.primitives = PrimitiveWriter(*given, next(iter(keys), None))
        self.cotangents: dict[Value, list[Value]] = {}
        # Maps the last CALL of each linkage to the linkage's label. The body is walked backwards:
        # at this node, everything that reads the returns has been visited, and nothing that the
        # arguments depend on. Values that tokens carry for `reads.py` are passed before the
        # arguments.
        place = {node: index for index, node in enumerate(body.nodes)}
        self.linkages: dict[Node, int] = {
            max(present(linkage.calls), key=place.__getitem__, default=None)
            or present(linkage.returns)[0]: site.label
            for site in graph.call_sites.values()
            if site.caller == body.name
            for linkage in site.linkages
            if any(linkage.calls) or any(linkage.returns)
        }

    def run(self) -> None:
        for index in reversed(range(self.num_sweeps)):
            self._sweep(index)
        self.body.traced = (*self.body.traced, self.primitives.scratch)
        added = self.body.sweeps[self.num_sweeps :]
        own = [node for sweep in added for node in sweep.nodes]
        kept = set(needed([node for node in own if isinstance(node, _ENDS)], own))
        for sweep in added:
            sweep.nodes = [node for node in sweep.nodes if node in kept]

    def _sweep(self, index: int) -> None:
        """Builds the gradient of one sweep."""
        self.index = index
        sweep, self.gradient = self.body.sweeps[index], self._gradient_in(self.body)
        self.writer.nodes = self.gradient.nodes
        self.gradient.nodes += present(self.gradient.parameters)
        for output, node in zip(sweep.outputs, self.gradient.parameters, strict=True):
            if output is not None and node is not None:
                self._add(output.inputs[0], node.output())
        for part in reversed(in_groups(sweep)):
            if isinstance(part, Group):
                self._group(part)
            else:
                self._node(part)
        for parameter, out in zip(sweep.parameters, self.gradient.outputs, strict=True):
            if parameter is not None and out is not None:
                value = parameter.output()
                out.inputs.append(self._total(value) or self._zeros(value))
                self.gradient.nodes.append(out)

    def _gradient_in(self, body: Body) -> Sweep:
        """The sweep of a body that is the gradient of the current sweep."""
        return body.sweeps[-1 - self.index]

    def _node(self, node: Node) -> None:
        if node in self.linkages:
            self._call(self.graph.call_sites[self.linkages[node]])
        elif type(node) in RULES:
            totals = self._totals(node.outputs)
            if not node.types or (totals and not self.wanted.isdisjoint(self.sources(node))):
                RULES[type(node)](self, node, totals)

    def _primitive(self, node: nodes.Primitive, totals: Totals) -> None:
        if has(node.op, Is.IN_PYTHON):
            reason = "TensorFlow computes it only in the graph that calls the Python function"
            self._obstacle(f"tf.py_function at {node.source}", reason)
            return
        region, start = self._region_of_gradient(node), len(self.writer.nodes)
        try:
            gradients = self._gradients(node, totals, region)
        except LookupError:
            self._obstacle(f"{node.op} at {node.source}", "TensorFlow has none for it")
        except UnknownDrawError as error:
            self._obstacle(f"{node.op} at {node.source}", str(error))
        else:
            self._add_gradients([node], start, region, gradients)

    def _gradients(
        self, node: nodes.Primitive, totals: Totals, region: Region | None
    ) -> list[tuple[Value, Cotangent]]:
        """Returns what an op contributes to the cotangents of its inputs.

        TensorFlow's rules for some ops read at run time facts that are known here.
        """
        apply, source, facts = self.primitives.apply, node.source, op_named(node.op)
        value, total = node.inputs[0], next(iter(totals.values()))
        is_of_rows = facts.ragged is Ragged.REDUCES and facts.reduction is tf.reduce_sum
        if is_of_rows and isinstance(node.inputs[1].node, nodes.Rows):
            # A gather. TensorFlow's rule needs a dozen ops, because segment ids may be negative.
            rows = apply(tf.gather, [total, node.inputs[1]], region, source, value.type.kind)
            return [(value, (rows,))]
        if has(node.op, Is.JOINING) and _joins_columns(node):
            # A split. TensorFlow's rule cuts out each part by the shapes of all parts.
            *values, axis = node.inputs
            sizes = [(part.type.shape or ())[_axis_of_one(axis)] for part in values]
            number = _static(axis)
            parts = self.primitives.apply_all(
                lambda tensor: tf.split(tensor, sizes, number), [total], region, source
            )
            return [(part, (cotangent,)) for part, cotangent in zip(values, parts, strict=True)]
        axes = _axes_of_each(node) if has(node.op, Is.AVERAGING | Is.SUMMING) else ()
        if axes:
            # A broadcast. TensorFlow's rule finds out from shapes which axes were reduced.
            shape = value.type.shape or ()
            kept = [1 if axis in axes else dim for axis, dim in enumerate(shape, start=1)]
            is_mean = has(node.op, Is.AVERAGING)
            count = math.prod(shape[axis - 1] or 0 for axis in axes) if is_mean else 1

            def with_axes(tensor: tf.Tensor) -> tf.Tensor:
                reshaped = tf.reshape(tensor, [-1, *kept])
                return reshaped if count == 1 else reshaped / count

            def spread(tensor: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
                return tf.broadcast_to(tensor, tf.shape(like))

            first = apply(with_axes, [total], region, source)
            return [(value, (apply(spread, [first, value], region, source),))]
        wanted = [value for value in node.inputs if value in self.wanted]
        return list(self.primitives.gradients(node, totals, wanted, region).items())

    def _region_of_gradient(self, node: Node) -> Region | None:
        """Returns the region of an op's gradient: the tokens that have a cotangent."""
        return self.graph.where_read.get(node, node.region)

    def _add_gradients(
        self,
        nodes: Sequence[Node],
        start: int,
        region: Region | None,
        gradients: Iterable[tuple[Value, Cotangent]],
    ) -> None:
        """Adds what some ops contribute to the cotangents of values.

        It is zero if no result that depends on the ops is read. This is known only when a gradient
        is asked for. If all results depend on the ops, some result is always read.

        Args:
            nodes: The ops.
            start: The place of the first op of their gradient among the writer's nodes.
            region: The region of their gradient.
            gradients: Values, each with a contribution to its cotangent.
        """
        last, read_by = nodes[-1], self.graph.read_by
        if self.results is not None and not only_adds_or_moves(nodes):
            values = [value for node in nodes for value in node.outputs]
            results = frozenset().union(*(self.results.get(value, ()) for value in values))
            if not results >= self.every_result:
                read_by[last] = results
        if last in read_by:
            read_by.update(dict.fromkeys(self.writer.nodes[start:], read_by[last]))
        for value, (first, *indices) in gradients:
            if last in read_by:
                is_read = self._shared_cotangent(read_by[last], Type(tf.bool, ()))
                kind = first.type.kind
                first = self.primitives.apply(_or_zero, [is_read, first], region, last.source, kind)
            self._add_from(region, value, (first, *indices))

    def _obstacle(self, where: str, reason: str) -> None:
        order = ("gradient", "second derivative", "third derivative")[min(self.order, 3) - 1]
        self.graph.obstacles.append(f"{self.body.name} has no {order} through {where}: {reason}.")

    def _group(self, group: Group) -> None:
        cotangents = self._totals(value for node in group.nodes for value in node.outputs)
        sources = [value for value in group.inputs if value in self.wanted or is_weight(value)]
        if not cotangents or not sources:
            return
        obstacle = group.obstacle()
        if obstacle:
            self._obstacle(group.title, obstacle)
            return
        wanted = {value: self._variable(value) if is_weight(value) else value for value in sources}
        region = self._region_of_gradient(group.nodes[-1])
        # As two ops: values per token are kept for their readers, sums over tokens run at the end.
        for is_token in (True, False):
            part = {
                value: target
                for value, target in wanted.items()
                if (value.type.kind is Kind.TOKEN) == is_token
            }
            if part:
                start = len(self.writer.nodes)
                try:
                    gradients = self.primitives.recomputed(group, cotangents, part, region)
                except LookupError:
                    self._obstacle(group.title, "TensorFlow has none for an op in it")
                    return
                self._add_gradients(group.nodes, start, region, gradients.items())

    def _variable(self, handle: Value) -> Value:
        """Returns the value of a variable, which takes the cotangents of the variable's handle."""
        variable = variable_of(handle)

        def read(handle: tf.Tensor) -> tf.Tensor:
            value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=variable.dtype)
            return tf.ensure_shape(value, variable.shape)

        value = self.primitives.apply(read, [handle], None, handle.node.source, Kind.SHARED)
        self.wanted.add(value)
        return value

    def _merge(self, node: nodes.Merge, totals: Totals) -> None:
        regions = branches(node.region, node.predicate, len(node.inputs))
        for value, inside in zip(node.inputs, regions, strict=True):
            if value in self.wanted:
                self._add(value, self.writer.into(totals[node.output()], inside))

    def _switch(self, node: nodes.Switch, totals: Totals) -> None:
        value, predicate = node.inputs
        inputs = [totals.get(output) or self._zeros(output) for output in node.outputs]
        merge = nodes.Merge(inputs, [value.type], node.region, node.source, predicate=predicate)
        self._add(value, self.writer.add(merge).output())

    def _broadcast(self, node: nodes.Broadcast, totals: Totals) -> None:
        if node.inputs[0] in self.wanted:
            given = list(totals.values()), node.region, node.source, Kind.WAVE
            self._add(node.inputs[0], self.primitives.apply(_sum_of_tokens, *given))

    def _rows(self, node: nodes.Repeat | nodes.Enter | nodes.Leave, totals: Totals) -> None:
        value, lengths = node.inputs[:2]
        total = totals[node.output()]
        if isinstance(node, nodes.Leave):
            entries = self.writer.enter(total, [lengths], value.region, value.type, node.source)
            self._add(value, entries)
            return
        rows = self.writer.leave(total, lengths, value.region)
        if isinstance(node, nodes.Repeat):
            ids = nodes.Rows([lengths], [_ROW_IDS], value.region, node.source)
            inputs = [rows, self.writer.add(ids).output(), value]
            rows = self.primitives.apply(_sum_of_rows, inputs, value.region, node.source)
        self._add(value, rows)

    def _collect(self, node: nodes.Collect, _: Totals) -> None:
        value, *index = node.inputs
        if not index or value not in self.wanted or self.order > 1:
            return
        shape = None if value.type.shape is None else (None, *value.type.shape)
        table = self._shared_cotangent(node.name, Type(value.type.dtype, shape))
        if node.has_keys:
            keys = self._shared_cotangent(nodes.keys_of(node.name), Type(tf.int64, (None,)))
            index = [
                self.primitives.apply(tf.searchsorted, [keys, *index], node.region, node.source)
            ]
        looked_up = self.primitives.apply(tf.gather, [table, *index], node.region, node.source)
        self._add(value, looked_up)

    def _put(self, node: nodes.Put, _: Totals) -> None:
        value, key = node.inputs
        if value in self.wanted:
            self._add(value, self._in_table(nodes.Get, node, [key], value.type).output())

    def _get(self, node: nodes.Get, totals: Totals) -> None:
        self._in_table(nodes.Put, node, [totals[node.output()], *node.inputs])

    def _in_table(
        self,
        kind: type[nodes.Put | nodes.Get],
        of: nodes.Put | nodes.Get,
        inputs: list[Value],
        *types: Type,
    ) -> Node:
        """Adds a PUT or a GET in the table of the cotangents of another one's table."""
        name = f"d{self.order if self.order > 1 else ''}_{of.name}"
        node = kind(inputs, [*types], of.region, of.source, name=name, rows=of.rows)
        return self.writer.add(node)

    def _accumulate(self, node: nodes.Accumulate, _: Totals) -> None:
        if order_of(self.index) < self.order - 1:
            return  # The sum is a result of an earlier derivative.
        cotangent = self._shared_cotangent(node.to, node.to.type)
        value, *indices = node.inputs
        if indices:
            cotangent = self.primitives.apply(
                tf.gather, [cotangent, *indices], node.region, node.source, value.type.kind
            )
        self._add(value, cotangent)

    def _shared_cotangent(self, of: str | Value | frozenset[str], kind: Type) -> Value:
        """Returns the cotangent of a sum over all tokens: a table, by its name, or a gradient.

        For a set of results, returns whether any of them has a cotangent in the first derivative.
        Higher derivatives use the same answer.
        """
        key = (1 if isinstance(of, frozenset) else self.order, of)
        for node in self.graph.shared:
            if isinstance(node, nodes.SumCotangent) and node.key == key:
                return node.output()
        if isinstance(of, frozenset):
            name = f"reads {' or '.join(sorted(of)) or 'nothing'}"
        else:
            name = "d_" * self.order + (of if isinstance(of, str) else nodes.name_of(of.node))
        node = nodes.SumCotangent(
            [], [Type(kind.dtype, kind.shape, Kind.SHARED)], name=name, key=key
        )
        self.graph.shared.append(node)
        return node.output()

    def _call(self, site: CallSite) -> None:
        before = site.linkages[self.index]
        callee = self._gradient_in(self.graph.bodies[site.callee])
        totals = [self._total(node.output()) if node else None for node in before.returns]
        if not self._is_visited(site, totals):
            return
        values = [
            total or (self._zeros(node.output()) if node and parameter else None)
            for total, node, parameter in zip(
                totals, before.returns, callee.parameters, strict=True
            )
        ]
        linkage = new_linkage(site, values, callee)
        self.gradient.nodes += [*present(linkage.calls), *present(linkage.returns)]
        for call, back in zip(before.calls, linkage.returns, strict=True):
            if call is not None and back is not None:
                self._add(call.inputs[0], back.output())
        set_linkage(self.graph, site.label, len(site.linkages) - 1 - self.index, linkage)

    def _is_visited(self, site: CallSite, totals: list[Value | None]) -> bool:
        """Whether the gradient enters a call, because of its results or of sums made inside."""
        if self.order > 1:  # The second derivative visits the same calls as the first gradient.
            return any(totals) or bool(site.linkages[1].calls)
        callee = self.graph.bodies[site.callee]
        has_entrance = any(self._gradient_in(callee).parameters)
        return has_entrance and (any(totals) or site.callee in self.collecting)

    def _add_from(self, region: Region | None, value: Value, cotangent: Cotangent) -> None:
        """Adds a contribution that is computed in a region; it is zero for other tokens."""
        contribution, *indices = (self.writer.into(item, region) for item in cotangent)
        if isinstance(region, Branch) and region.parent == value.region and not value.is_shared:
            _, other = region.siblings
            inputs = [contribution, self._zeros(self.writer.into(value, other))]
            types, source = [value.type], contribution.node.source
            merge = nodes.Merge(inputs, types, value.region, source, predicate=region.selector)
            self.writer.know(self.writer.add(merge).output(), contribution)
            contribution = merge.output()
        self._add(value, contribution, *indices)

    def _add(self, value: Value, *cotangent: Value) -> None:
        """Adds one contribution to the cotangent of `value`, with indices if it is sparse."""
        if value not in self.wanted or self._is_dropped(value):
            return
        inputs = list(cotangent)
        if not value.is_shared:
            self.cotangents.setdefault(value, []).extend(inputs)
            return
        node = nodes.Accumulate(inputs, [], inputs[0].region, inputs[0].node.source, to=value)
        self.gradient.nodes.append(node)
        self.gradient.sinks.append(node)

    def _is_dropped(self, value: Value) -> bool:
        """Whether no call reads a result that depends on a value."""
        return self.reads is not None and not value.is_shared and not self.reads.of(value)

    def _total(self, value: Value) -> Value | None:
        """Returns the sum of the contributions to a value's cotangent; None if there are none."""
        parts = self.cotangents.pop(value, [])
        if len(parts) < 2:
            return parts[0] if parts else None
        source, kind = value.node.source, value.type.kind
        return self.primitives.apply(_sum_of, parts, value.region, source, kind)

    def _totals(self, values: Iterable[Value]) -> Totals:
        """The totals of those values that have one."""
        pairs = [(value, self._total(value)) for value in values]
        return {value: total for value, total in pairs if total is not None}

    def _zeros(self, value: Value) -> Value:
        return self.primitives.apply(tf.zeros_like, [value], value.region, value.node.source)


# The gradient of each kind of node. That of a CALL is `_call`; `_group` runs groups again.
RULES: dict[type[Node], Callable[..., None]] = {
    nodes.Accumulate: _BodyGradient._accumulate,
    nodes.Broadcast: _BodyGradient._broadcast,
    nodes.Collect: _BodyGradient._collect,
    nodes.Enter: _BodyGradient._rows,
    nodes.Get: _BodyGradient._get,
    nodes.Leave: _BodyGradient._rows,
    nodes.Merge: _BodyGradient._merge,
    nodes.Primitive: _BodyGradient._primitive,
    nodes.Put: _BodyGradient._put,
    nodes.Repeat: _BodyGradient._rows,
    nodes.Switch: _BodyGradient._switch,
}


def _axes_of_each(node: nodes.Primitive) -> frozenset[int]:
    """The axes that a sum or mean reduces, if these and the shape of a token are known.

    Empty if they are not, or if the token axis is reduced.
    """
    kind, given = node.inputs[0].type, tf.get_static_value(node.operation.inputs[1])
    if kind.kind is not Kind.TOKEN or not kind.is_static or given is None:
        return frozenset()
    rank = 1 + len(kind.shape or ())
    axes = frozenset(int(axis) % rank for axis in given.reshape(-1))
    return frozenset() if 0 in axes or 0 in (kind.shape or ()) else axes


def _joins_columns(node: Node) -> bool:
    """Whether a ConcatV2 joins TOKENs of known shapes along an axis other than the token axis."""
    *values, axis = node.inputs
    is_known = all(value.type.kind is Kind.TOKEN and value.type.is_static for value in values)
    return is_known and _static(axis) not in (None, 0, -1 - len(values[0].type.shape or ()))


def _or_zero(is_read: tf.Tensor, cotangent: tf.Tensor) -> tf.Tensor:
    return tf.where(is_read, cotangent, tf.zeros_like(cotangent))


def _static(value: Value) -> int | None:
    """The number that a constant holds; None for other values."""
    number = nodes.constant_of(value)
    return None if number is None else int(number)


def _axis_of_one(axis: Value) -> int:
    """Converts an axis of a tensor of tokens to an axis of one token's value."""
    number = _static(axis) or 0
    return number - 1 if number > 0 else number


def _sum_of(*tensors: tf.Tensor) -> tf.Tensor:
    return tf.add_n(tensors)


def _sum_of_tokens(tensor: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tensor, axis=0)


def _sum_of_rows(entries: tf.Tensor, ids: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
    return tf.math.unsorted_segment_sum(entries, ids, tf.shape(tokens)[0])
