"""The stage `prune`: leaves out of function graphs values that nobody reads, calls included.

TensorFlow prunes a graph before it runs it (Kostopoulou 2018, section 3.1). Here that reaches
across functions, as far as demand is known before a run (Vasilakopoulos 2024, section 7.2). Values
that the outside reads are demanded, and so are effects: assertions, prints and collected values. A
node that is demanded demands its inputs. A result of a call demands the same result of the
function, and a parameter demands its argument in every call. Thus a parameter that a function only
passes on to itself is not demanded, and neither is a result that a function only reads of itself.

A call stays if a result of it is demanded, or if its function has effects, itself or by calls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from kerasrec._src.graph.graph import FunctionGraph, FunctionGraphs, Traced, needed
from kerasrec._src.graph.nodes import CallOf, Check, Collect, Effect, Parameter, Primitive, Put
from kerasrec._src.graph.values import Node, Value
from kerasrec._src.trace.effects import stays_unread
from kerasrec._src.transform.reads import grown


def prune(graphs: FunctionGraphs) -> FunctionGraphs:
    """Returns the graphs with only demanded nodes; functions that nobody calls are left out.

    Args:
        graphs: The graphs of all functions. They are not changed.
    """
    demand = _Demand(graphs)
    functions: dict[str, FunctionGraph] = {}
    assignments: list[Node] = []
    for function in graphs:
        if function.name in demand.results:
            functions[function.name] = _Pruning(function, demand).run()
        else:
            nodes = function.nodes
            assignments += needed(filter(_is_assignment, nodes), nodes)
    entry = functions[graphs.entry]
    if assignments:
        functions[graphs.entry] = replace(entry, nodes=[*entry.nodes, *assignments])
    left_out = [
        place
        for place, node in enumerate(graphs.functions[graphs.entry].parameters)
        if node not in demand.nodes and not node.is_carried
    ]
    pruned = FunctionGraphs(functions, graphs.entry, frozenset(left_out))
    pruned.check()
    return pruned


def _is_effect(node: Node) -> bool:
    """Whether a node does more than compute outputs, so that it stays if these are not read."""
    if isinstance(node, Primitive):
        return stays_unread(node)
    return isinstance(node, Check | Effect | Collect | Put)


def _is_assignment(node: Node) -> bool:
    """Whether a node gives a Keras seed its next state. That happens once, whatever is called."""
    return isinstance(node, Primitive) and not node.types


def _collects_with_gradient(node: Node) -> bool:
    has_gradient = isinstance(node, Put) or (isinstance(node, Collect) and node.has_gradient)
    return has_gradient and node.inputs[0].type.is_differentiable


class _Demand:
    """The demanded nodes and values.

    Args:
        graphs: The graphs of all functions.

    Attributes:
        nodes: The nodes that are demanded.
        values: The values that are read.
        results: For each function that stays, the places of its results that are read.
    """

    def __init__(self, graphs: FunctionGraphs):
        self.graphs = graphs
        self.nodes: set[Node] = set()
        self.values: set[Value] = set()
        self.results: dict[str, set[int]] = {}
        self._waiting: list[Value] = []
        self._acting = self._functions_with(_is_effect)
        self._collecting = self._functions_with(_collects_with_gradient)
        self._calls: dict[str, list[CallOf]] = defaultdict(list)
        self._places = {
            node: (function.name, place)
            for function in graphs
            for place, node in enumerate(function.parameters)
        }
        entry = graphs.functions[graphs.entry]
        self._enter(entry)
        for place in range(len(entry.outputs)):
            self._return(entry.name, place)
        while self._waiting or self._add_missing():
            self._read(self._waiting.pop())

    def is_whole(self, name: str) -> bool:
        """Whether a function keeps all its arguments and results."""
        function = self.graphs.functions[name]
        keeps_arguments = self.nodes.issuperset(function.parameters)
        return keeps_arguments and self.results_of(name) == function.outputs

    def results_of(self, name: str) -> list[Value]:
        """Returns the values that a function returns: those that are read, or else an argument."""
        function = self.graphs.functions[name]
        results = [function.outputs[place] for place in sorted(self.results[name])]
        return results or [
            next(node.output() for node in function.parameters if node in self.nodes)
        ]

    def _functions_with(self, is_wanted: Callable[[Node], bool]) -> set[str]:
        """The functions that have such a node, themselves or by calls."""
        own = {function.name for function in self.graphs if any(map(is_wanted, function.nodes))}
        calls = [
            (function.name, call.callee) for function in self.graphs for call in function.call_sites
        ]
        return grown(own, lambda names: {caller for caller, callee in calls if callee in names})

    def _enter(self, function: FunctionGraph) -> None:
        """Keeps a function, and demands its effects whether its results are read or not."""
        if function.name in self.results:
            return
        self.results[function.name] = set()
        for node in function.nodes:
            acts = isinstance(node, CallOf) and node.callee in self._acting
            if acts or _is_effect(node) or _is_assignment(node):
                self._demand(node)

    def _read(self, value: Value) -> None:
        if value in self.values:
            return
        self.values.add(value)
        self._demand(value.node)
        if isinstance(value.node, CallOf):
            self._return(value.node.callee, value.index)

    def _return(self, name: str, place: int) -> None:
        self.results[name].add(place)
        self._waiting.append(self.graphs.functions[name].outputs[place])

    def _demand(self, node: Node) -> None:
        if node in self.nodes:
            return
        self.nodes.add(node)
        if node.region:
            self._waiting += [region.selector for region in node.region.path()]
        if isinstance(node, CallOf):
            callee = self.graphs.functions[node.callee]
            self._enter(callee)
            self._calls[callee.name].append(node)
            pairs = zip(node.inputs, callee.parameters, strict=True)
            self._waiting += [value for value, parameter in pairs if parameter in self.nodes]
        elif isinstance(node, Parameter):
            name, place = self._places[node]
            self._waiting += [call.inputs[place] for call in self._calls[name]]
        else:
            self._waiting += [*node.inputs, *node.named.values()]

    def _add_missing(self) -> bool:
        """Demands what functions need besides, if they lack it; returns whether any did.

        An argument determines which tokens a function has. A float that it returns lets the
        gradient of collected values enter.
        """
        for name, results in self.results.items():
            function = self.graphs.functions[name]
            if self.nodes.isdisjoint(function.parameters):
                self._waiting.append(function.parameters[0].output())
            floats = [
                place
                for place, value in enumerate(function.outputs)
                if value.type.is_differentiable
            ]
            if name in self._collecting and floats and results.isdisjoint(floats):
                self._return(name, floats[0])
        return bool(self._waiting)


class _Pruning:
    """Copies what is demanded of a function.

    Args:
        function: The function. It is not changed.
        demand: The demand in the program.
    """

    def __init__(self, function: FunctionGraph, demand: _Demand):
        self._function, self._demand = function, demand
        self._moved: dict[Value, Value] = {}

    def run(self) -> FunctionGraph:
        """Returns the function; the same if all of it is demanded."""
        function, demand = self._function, self._demand
        names = {function.name, *(call.callee for call in function.call_sites)}
        if demand.nodes.issuperset(function.nodes) and all(map(demand.is_whole, names)):
            return function
        nodes = [self._copy(node) for node in function.nodes if node in demand.nodes]
        outputs = self._demand.results_of(function.name)
        values = function.traced.values.items()
        moved = {name: self._moved[value] for name, value in values if value in self._moved}
        return replace(
            function,
            parameters=[node for node in nodes if isinstance(node, Parameter)],
            outputs=[self._moved[value] for value in outputs],
            nodes=nodes,
            traced=Traced(function.traced.concrete, moved),
        )

    def _copy(self, node: Node) -> Node:
        region = node.region and node.region.copy(self._moved.__getitem__)
        outputs = node.outputs
        if isinstance(node, CallOf):
            parameters = self._demand.graphs.functions[node.callee].parameters
            pairs = zip(node.inputs, parameters, strict=True)
            inputs = [value for value, parameter in pairs if parameter in self._demand.nodes]
            outputs = [node.output(place) for place in sorted(self._demand.results[node.callee])]
            types = [value.type for value in self._demand.results_of(node.callee)]
            node = replace(node, inputs=inputs, types=types)
        elif isinstance(node, Primitive) and outputs and self._demand.values.isdisjoint(outputs):
            node, outputs = _as_effect(node), []
        copy = node.copy(self._moved.__getitem__, region)
        self._moved.update(zip(outputs, copy.outputs, strict=False))
        return copy


def _as_effect(node: Primitive) -> Effect:
    """Returns the node of an op that shows something, and of which nothing is read."""
    return Effect(
        node.inputs,
        [],
        node.region,
        node.source,
        device=node.device,
        function=node.function,
        has_effect=node.has_effect,
        operation=node.operation,
    )
