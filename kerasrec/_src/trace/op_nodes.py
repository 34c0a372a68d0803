"""Makes the nodes of a function graph for the ops that TensorFlow recorded, each in its region."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import tensorflow as tf

from kerasrec._src.errors import GraphError
from kerasrec._src.graph import nodes
from kerasrec._src.graph.graph import FunctionGraph
from kerasrec._src.graph.types import Kind, Type
from kerasrec._src.graph.values import Branch, Each, Node, Region, Source, Value
from kerasrec._src.graph.writer import GraphWriter
from kerasrec._src.trace.effects import assigns, check_repeatable, has_effect, is_state_of_a_seed
from kerasrec._src.trace.functions import as_function, held_functions
from kerasrec._src.trace.source import source_of
from kerasrec._src.trace.tracer import (
    BranchRecord,
    ConditionalRecord,
    MapRecord,
    Tracer,
    is_traced,
)


class Regions:
    """The regions of the ops that a tracer recorded, and of ops added at the places of these.

    Args:
        tracer: The tracer, after its function has run.
        tokens: Returns a tensor as one value for each token of a region.
    """

    def __init__(self, tracer: Tracer, tokens: Callable[[tf.Tensor, Region | None], Value]):
        self._maps = sorted(tracer.maps, key=lambda record: record.body.start)
        self._tokens = tokens
        self._predicates: dict[int, Value] = {}
        operations = tracer.graph.get_operations()
        self._places = {operation.name: place for place, operation in enumerate(operations)}
        spans: list[tuple[BranchRecord, Callable[[Region | None], Region]]] = [
            (branch, partial(self._branch, record, place))
            for record in tracer.conditionals
            for place, branch in enumerate(record.branches)
        ]
        spans += [(mapped.body, partial(self.each, mapped)) for mapped in tracer.maps]
        self._spans = sorted(spans, key=lambda span: (span[0].start, -span[0].stop))

    def of(self, operation: tf.Operation) -> Region | None:
        """Returns the innermost branch or map that was running when the op was made."""
        region = None
        for span, inside in self._spans:
            if self._is_in(operation, span):
                region = inside(region)
        return region

    def of_entries(self, record: MapRecord) -> Region:
        """Returns the region of the entries of a map."""
        region = self.of(record.entries[0].op)
        if region is None:
            raise GraphError(f"Entries at {record.source} enter no region.")
        return region

    def maps_around(self, operation: tf.Operation) -> list[MapRecord]:
        """Returns the maps that were running when the op was made, from the outermost."""
        return [record for record in self._maps if self._is_in(operation, record.body)]

    def put(self, added: tf.Operation, operation: tf.Operation) -> None:
        """Puts an added op at the place of another one."""
        self._places[added.name] = self._places[operation.name]

    def each(self, record: MapRecord, region: Region | None) -> Region:
        """Returns the region of the entries of a map that is itself in `region`."""
        return Each(region, self._tokens(record.rows[0].lengths, region))

    def predicate(self, record: ConditionalRecord, region: Region | None) -> Value:
        """Returns the value that chooses the branch of a conditional in `region`."""
        if id(record) not in self._predicates:
            self._predicates[id(record)] = self._tokens(record.predicate, region)
        return self._predicates[id(record)]

    def _branch(self, record: ConditionalRecord, place: int, region: Region | None) -> Region:
        return Branch(region, self.predicate(record, region), place, len(record.branches))

    def _is_in(self, operation: tf.Operation, span: BranchRecord) -> bool:
        return span.start <= self._places[operation.name] < span.stop


@dataclass(eq=False)
class OpNodes:
    """The nodes of one function, and the value of each of its tensors.

    Args:
        name: The name of the function.
        tracer: The function's tracer, after the function has run.
        source: Where the user's function starts.
        owners: The graphs of functions whose tensors this one may close over, by the TensorFlow
            graph of each.
    """

    name: str
    tracer: Tracer
    source: Source | None
    owners: Mapping[tf.Graph, FunctionGraph]

    def __post_init__(self) -> None:
        graph = self.tracer.graph
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []
        self.writer = GraphWriter(self.nodes)
        self.parameters: list[nodes.Parameter] = []
        self.assignments: list[Node] = []
        self.regions = Regions(self.tracer, self.tokens)
        self._sources: dict[str, Source | None] = {}
        self._variables = {id(variable.handle): variable for variable in graph.variables}
        self._captured = {inner.op.name: outer for outer, inner in graph.captures}

    def value(self, tensor: tf.Tensor) -> Value:
        """Returns the value of a tensor."""
        return self.values[tensor.name]

    def into(self, tensor: tf.Tensor, region: Region | None) -> Value:
        """Returns a tensor as the tokens of a region see it."""
        return self.writer.into(self.value(tensor), region)

    def tokens(self, tensor: tf.Tensor, region: Region | None) -> Value:
        """Returns a tensor as one value for each token of a region."""
        pivot = self.parameters[0].output()
        return self.writer.as_tokens(self.value(tensor), region, pivot)

    def source_of(self, operation: tf.Operation) -> Source | None:
        """Returns the user's line for an op."""
        if operation.name in self._sources:
            return self._sources[operation.name]
        return source_of(operation.traceback or ()) or self.source

    def put(self, added: tf.Operation, operation: tf.Operation, source: Source | None) -> None:
        """Puts an added op at the place of another one, and sets its source."""
        self.regions.put(added, operation)
        self._sources[added.name] = source

    def parameter(self, name: str, found: Type, is_carried: bool = False) -> Value:
        """Adds an argument to the function."""
        node = nodes.Parameter([], [found], None, self.source, name=name, is_carried=is_carried)
        self.parameters.append(self.writer.add(node))
        return node.output()

    def made(self, operation: tf.Operation, make: Callable[[], tf.Tensor]) -> tf.Tensor:
        """Makes a tensor that is computed at the place of an op, beside the op or instead of it."""
        graph = self.tracer.graph
        start = len(graph.get_operations())
        with graph.as_default():
            made = make()
        for added in graph.get_operations()[start:]:
            self.regions.put(added, operation)
            self.primitive(added, operation)
        return made

    def replace(self, operation: tf.Operation, make: Callable[[], tf.Tensor]) -> None:
        """Makes a tensor instead of the output of an op."""
        self.values[operation.outputs[0].name] = self.value(self.made(operation, make))

    def primitive(self, operation: tf.Operation, user: tf.Operation | None = None) -> None:
        """Adds a node for an op of the user's program, or for an op that replaces one."""
        types = [self.tracer.type(output) for output in operation.outputs]
        is_shared = types[0].kind is Kind.SHARED
        region = None if is_shared else self.regions.of(operation)
        inputs = [self.into(tensor, region) for tensor in operation.inputs]
        source = self.source_of(user or operation)
        if types[0].kind is Kind.WAVE:
            check_repeatable(self.name, operation, source)
        node = nodes.Primitive(inputs, types, region, source, **self._run_by(operation))
        self.writer.add(node)
        for output, value in zip(operation.outputs, node.outputs, strict=True):
            self.values[output.name] = value

    def effect(self, operation: tf.Operation) -> None:
        """Adds an EFFECT for an op that shows something and whose outputs, if any, are not read."""
        region = self.regions.of(operation)
        inputs = [self.into(tensor, region) for tensor in operation.inputs]
        source = self.source_of(operation)
        self.writer.add(nodes.Effect(inputs, [], region, source, **self._run_by(operation)))

    def assign(self, operation: tf.Operation) -> None:
        """Adds a node that gives a Keras seed its next state, once; refuses other assignments."""
        source = self.source_of(operation)
        inputs = [self.value(tensor) for tensor in operation.inputs]
        variable = self._variables.get(id(self._captured.get(operation.inputs[0].op.name)))
        if not is_state_of_a_seed(variable) or not all(value.is_shared for value in inputs):
            raise assigns(self.name, source)
        node = nodes.Primitive(inputs, [], None, source, operation=operation)
        self.assignments.append(self.writer.add(node))

    def gather(self, operation: tf.Operation) -> None:
        """Replaces a gather from a variable by a read and a gather, because of its gradient."""
        handle, indices = operation.inputs

        def gather() -> tf.Tensor:
            read = tf.raw_ops.ReadVariableOp(resource=handle, dtype=operation.outputs[0].dtype)
            read = tf.ensure_shape(read, self._variables[id(self._captured[handle.op.name])].shape)
            if "batch_dims" not in operation.node_def.attr:
                return tf.gather_nd(read, indices)
            return tf.gather(read, indices, batch_dims=operation.get_attr("batch_dims"))

        self.replace(operation, gather)

    def is_inlined(self, operation: tf.Operation) -> bool:
        """Whether an op is a constant that TensorFlow made of a small float tensor from outside.

        Such a tensor has a gradient, so it becomes a SHARED value.
        """
        return operation.name in self._captured and operation.outputs[0].dtype.is_floating

    def shared(self, operation: tf.Operation) -> None:
        """Adds the value of a tensor from outside, or from the function that owns it."""
        outer = self._captured[operation.name]
        if is_traced(outer):
            value = self.owners[outer.graph].traced.values[outer.name]
            self._take(value.node)
            self.values[operation.outputs[0].name] = value
            return
        variable = self._variables.get(id(outer))
        types = [self.tracer.type(operation.outputs[0])]
        name = _outer_name(operation, outer, variable)
        node = nodes.Shared([], types, name=name, tensor=outer, variable=variable)
        self.values[operation.outputs[0].name] = self.writer.add(node).output()

    def _take(self, node: Node) -> None:
        """Adds a node of another function that depends on no token, with all nodes before it."""
        if node not in self.nodes:
            for value in node.inputs:
                self._take(value.node)
            self.writer.add(node)

    def _run_by(self, operation: tf.Operation) -> dict[str, Any]:
        """Returns fields of a node that an engine needs to make the op again."""
        holds_functions = bool(held_functions(operation.node_def))
        return {
            "operation": operation,
            "device": operation.device if operation.device != self.tracer.device else "",
            "function": self._function(operation) if holds_functions else None,
            "has_effect": holds_functions and has_effect(operation),
        }

    def _function(self, operation: tf.Operation) -> tf.types.experimental.ConcreteFunction:
        handles = [self._captured.get(tensor.op.name) for tensor in operation.inputs]
        with self.tracer.graph.as_default():
            return as_function(operation, [self._variables.get(id(handle)) for handle in handles])


def _outer_name(operation: tf.Operation, outer: tf.Tensor, variable: tf.Variable | None) -> str:
    """Returns the name of a tensor or variable from outside.

    Args:
        operation: The placeholder for it in the function.
        outer: The tensor, or the handle of the variable.
        variable: The variable; None for a tensor.
    """
    if variable is not None:
        return str(variable.name).removesuffix(":0")
    return str(outer.op.name if tf.is_symbolic_tensor(outer) else operation.name)
