"""The nodes of one function, while they are made from records of TensorFlow and the tracer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import tensorflow as tf

from kerasrec._src.errors import TraceError
from kerasrec._src.graph import nodes
from kerasrec._src.graph.carried import FOR_ERRORS, carried_inside, key_of_made
from kerasrec._src.graph.graph import FunctionGraph
from kerasrec._src.graph.types import Kind, Type
from kerasrec._src.graph.values import Node, Region, Source, Value
from kerasrec._src.graph.writer import GraphWriter
from kerasrec._src.trace.effects import assigns, check_repeatable, has_effect, is_state_of_a_seed
from kerasrec._src.trace.functions import as_function, held_functions
from kerasrec._src.trace.rows import TokenRows
from kerasrec._src.trace.source import source_of
from kerasrec._src.trace.tracer import CallRecord, Part, Tracer, is_traced

# The type of an extra result, which is always zero. Gradients enter a function through its results,
# so a function without a differentiable result may need this one.
ENTRANCE = Type(tf.float32, ())


@dataclass(frozen=True)
class FreeTensor:
    """A tensor that one function closes over and another computes for each of its tokens.

    Args:
        tensor: A tensor in the graph of the function that owns it.
        name: Its name in prints.
        type: Its type, of kind TOKEN.
    """

    tensor: tf.Tensor
    name: str
    type: Type


@dataclass
class ProgramFacts:
    """The facts about a program once all its functions are traced.

    Args:
        for_blocks: Whether the program is for the engine "compiled". Then calls of a `tf.function`
            are replaced by its ops, not only if it has effects, and some ops take another form
            (`for_blocks.py`).
        makes_values: Whether a function of the program makes values of data types that are kept.
        reads: The tables of made rows that the program reads in the same run.
        returns_made: Whether it returns a value that it may have made.
        draws: Whether random numbers are drawn by keys of tokens.
        carried: The types of the values that tokens carry, by name.
        free: For each function, the tensors that it takes in addition to its own arguments.
        owners: The graphs built so far, by the TensorFlow graph of each function. A function that
            owns tensors is built before the functions that close over them.
        labels: The labels of call sites.
        places: The numbers of places where values are made.
    """

    for_blocks: bool
    makes_values: bool
    reads: Collection[str]
    returns_made: bool
    draws: bool
    carried: Mapping[str, Type]
    free: Mapping[str, Sequence[FreeTensor]]
    owners: dict[tf.Graph, FunctionGraph] = field(default_factory=dict)
    labels: itertools.count[int] = field(default_factory=itertools.count)
    places: itertools.count[int] = field(default_factory=itertools.count)


class OpNodes:
    """The nodes of one function, and the value of each of its tensors.

    Args:
        name: The name of the function.
        source: Where the user's function starts.
        names: The names of its arguments.
        tracer: The function's tracer, after the function has run.
        facts: The facts about the program.
        add_nodes: Adds the nodes for an op of the graph.
    """

    def __init__(
        self,
        name: str,
        source: Source,
        names: Sequence[str],
        tracer: Tracer,
        facts: ProgramFacts,
        add_nodes: Callable[[tf.Operation], None],
    ):
        self.name, self.source, self.tracer, self.facts = name, source, tracer, facts
        self._add_nodes = add_nodes
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []
        self.writer = GraphWriter(self.nodes)
        self.parameters: list[nodes.Parameter] = []
        self.assignments: list[Node] = []
        self._scopes = tracer.scopes()
        self._regions: dict[Part, Region] = {}
        self._sources: dict[str, Source | None] = {}
        self._variables = {id(variable.handle): variable for variable in tracer.graph.variables}
        self._captured = {inner.op.name: outer for outer, inner in tracer.graph.captures}
        for tensor, label in zip(tracer.parameters, names, strict=True):
            self.values[tensor.name] = self._parameter(label, tracer.type(tensor))
        # The values of tensors that the function closes over, or passes on to one that does.
        self._free = {
            free.tensor.ref(): self._parameter(free.name, free.type) for free in facts.free[name]
        }
        for outer, inner in tracer.graph.captures:
            if tf.is_symbolic_tensor(outer) and outer.ref() in self._free:
                self.values[inner.name] = self._free[outer.ref()]
        self._carried: dict[str, tf.Tensor] = {}
        for label, found in facts.carried.items():
            self._carried[label] = self.placeholder(found)
            parameter = self._parameter(label, found, is_carried=True)
            self.values[self._carried[label].name] = parameter

    def placeholder(self, found: Type) -> tf.Tensor:
        """Makes a placeholder in the function's graph."""
        with self.tracer.graph.as_default():
            (placeholder,) = self.tracer.placeholders([found])
        return placeholder

    def _parameter(self, name: str, found: Type, is_carried: bool = False) -> Value:
        node = nodes.Parameter([], [found], None, self.source, name=name, is_carried=is_carried)
        self.parameters.append(self.writer.add(node))
        return node.output()

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

    def region_of(self, operation: tf.Operation) -> Region | None:
        """Returns the region of an op: the innermost branch or map in which it was made."""
        scope = self._scopes[operation.name]
        return self.region_in(scope) if scope else None

    def region_in(self, scope: tuple[Part, ...]) -> Region:
        """Returns the region of the last of some branches and maps inside each other."""
        *around, part = scope
        if part not in self._regions:
            outer = self.region_in(tuple(around)) if around else None
            regions = part.of.regions(self, outer)
            self._regions.update(zip(part.of.parts, regions, strict=True))
        return self._regions[part]

    def source_of(self, operation: tf.Operation) -> Source | None:
        """Returns the user's line for an op."""
        if operation.name in self._sources:
            return self._sources[operation.name]
        return source_of(operation.traceback or ()) or self.source

    def put(self, added: tf.Operation, operation: tf.Operation, source: Source | None) -> None:
        """Puts an added op at the place of another one, and adds its nodes."""
        self._scopes[added.name] = self._scopes[operation.name]
        self._sources[added.name] = source
        self._add_nodes(added)

    def made(self, operation: tf.Operation, make: Callable[[], tf.Tensor]) -> tf.Tensor:
        """Makes a tensor that is computed at the place of an op, with the op or instead of it."""
        graph, source = self.tracer.graph, self.source_of(operation)
        start = len(graph.get_operations())
        with graph.as_default():
            made = make()
        for added in graph.get_operations()[start:]:
            self.put(added, operation, source)
        return made

    def replace(self, operation: tf.Operation, make: Callable[[], tf.Tensor]) -> None:
        """Makes a tensor instead of the output of an op."""
        self.values[operation.outputs[0].name] = self.value(self.made(operation, make))

    def add(self, tensors: Sequence[tf.Tensor], node: Node) -> None:
        """Adds a node whose first outputs are the values of some tensors."""
        self.writer.add(node)
        for tensor, value in zip(tensors, node.outputs, strict=False):
            self.values[tensor.name] = value

    def call(self, record: CallRecord) -> None:
        """Adds a call of a function, which also takes its closure and tokens' carried values."""
        operation = record.results[0].op
        region = self.region_of(operation)
        inputs = [self.tokens(tensor, region) for tensor in record.arguments]
        name = record.callee.name
        inputs += [self._passed_on(free, region, record) for free in self.facts.free[name]]
        label = next(self.facts.labels)
        for carried, tensor in self._carried.items():
            around = self.key(operation) if carried == "key" else tensor
            inside = self.made(operation, partial(carried_inside, carried, label, around))
            inputs.append(self.into(inside, region))
        types = [self.tracer.type(tensor) for tensor in record.results]
        types += [ENTRANCE] * self.needs_entrance(record.results)
        node = nodes.CallOf(inputs, types, region, record.source, callee=name, label=label)
        self.add(record.results, node)

    def _passed_on(self, free: FreeTensor, region: Region | None, record: CallRecord) -> Value:
        """Returns a tensor that the callee closes over, as an argument of its call."""
        if free.tensor.graph is not self.tracer.graph:
            return self.writer.into(self._free[free.tensor.ref()], region)
        if free.tensor.name not in self.values:
            raise TraceError(
                f"{self.name} calls {record.callee.name} at {record.source} before it computes "
                f"{free.name}, which {record.callee.name} closes over. Pass it as an argument."
            )
        return self.into(free.tensor, region)

    def needs_entrance(self, results: Sequence[tf.Tensor]) -> bool:
        """Whether a function needs an extra result, for gradients of its new values to enter."""
        if not self.facts.makes_values:
            return False
        return not any(self.tracer.type(tensor).is_differentiable for tensor in results)

    @property
    def for_errors(self) -> list[tf.Tensor]:
        """The carried values by which errors name a token."""
        return [self._carried[name] for name in FOR_ERRORS]

    def key(self, operation: tf.Operation) -> tf.Tensor:
        """Returns the keys of the tokens that reach an op; each entry of a row has its own."""
        key = self._carried["key"]
        for part in self._scopes[operation.name]:
            key = part.of.key_inside(self, operation, key)
        return key

    def make_key(self, key: tf.Tensor) -> None:
        """Computes the keys of values that tokens make, instead of a placeholder for them."""
        number = next(self.facts.places)
        self.replace(key.op, partial(key_of_made, number, self.key(key.op)))

    def row_ids(self, rows: TokenRows) -> None:
        """Adds the row number of each entry of rows, instead of the placeholder for it."""
        region = self.region_of(rows.ids.op)
        self.values[rows.ids.name] = self.rows(rows.lengths, self.tracer.type(rows.ids), region)

    def rows(self, lengths: tf.Tensor, type_of_ids: Type, region: Region | None) -> Value:
        """Adds the row numbers of the entries of rows of some lengths."""
        given = self.tokens(lengths, region)
        node = nodes.Rows([given], [type_of_ids], region, given.node.source)
        return self.writer.add(node).output()

    def primitive(self, operation: tf.Operation) -> None:
        """Adds a node for an op."""
        kind = self.tracer.kind(operation.outputs[0])
        if kind is Kind.WAVE:
            check_repeatable(self.name, operation, self.source_of(operation))
        region = None if kind is Kind.SHARED else self.region_of(operation)
        types = [self.tracer.type(output) for output in operation.outputs]
        self.add(operation.outputs, self._node(nodes.Primitive, operation, types, region))

    def effect(self, operation: tf.Operation) -> None:
        """Adds an EFFECT for an op that shows something and whose outputs, if any, are not read."""
        self.writer.add(self._node(nodes.Effect, operation, [], self.region_of(operation)))

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
            value = self.facts.owners[outer.graph].traced.values[outer.name]
            self._take(value.node)
            self.values[operation.outputs[0].name] = value
            return
        variable = self._variables.get(id(outer))
        types = [self.tracer.type(operation.outputs[0])]
        name = _outer_name(operation, outer, variable)
        self.add(
            operation.outputs, nodes.Shared([], types, name=name, tensor=outer, variable=variable)
        )

    def _take(self, node: Node) -> None:
        """Adds a node of another function that depends on no token, with all nodes before it."""
        if node not in self.nodes:
            for value in node.inputs:
                self._take(value.node)
            self.writer.add(node)

    def _node(
        self,
        node: type[nodes.Primitive | nodes.Effect],
        operation: tf.Operation,
        types: list[Type],
        region: Region | None,
    ) -> Node:
        """Returns a node with all that an engine needs to make an op again."""
        holds_functions = bool(held_functions(operation.node_def))
        return node(
            [self.into(tensor, region) for tensor in operation.inputs],
            types,
            region,
            self.source_of(operation),
            operation=operation,
            device=operation.device if operation.device != self.tracer.device else "",
            function=self._function(operation) if holds_functions else None,
            has_effect=holds_functions and has_effect(operation),
        )

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
