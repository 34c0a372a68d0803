"""From what a tracer recorded to a function graph.

Ops become nodes in the order they were made. A conditional becomes a MERGE for each result, and
every value that a branch reads from around it goes through a SWITCH (Kostopoulou et al.,
section 2.2; Vasilakopoulos 2024, figure 4.4). Entries of ragged rows ENTER a region of their own,
what is read from around it is REPEATed, and results LEAVE it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import tensorflow as tf

from kerasrec.errors import GraphError, SignatureError, TraceError
from kerasrec.graph import nodes
from kerasrec.graph.carried import FOR_ERRORS, carried_inside, key_of_entry, key_of_made
from kerasrec.graph.graph import FunctionGraph, Traced, needed
from kerasrec.graph.types import Kind, Type
from kerasrec.graph.values import Branch, Each, Node, Region, Source, Value, branches
from kerasrec.graph.writer import GraphWriter
from kerasrec.trace.closures import FreeTensor
from kerasrec.trace.effects import (
    Assertion,
    assertion_of,
    calls_an_effect,
    checks_numerics,
    has_effect,
    is_refused,
    is_state_of_a_seed,
)
from kerasrec.trace.functions import (
    STATELESS_RANDOM,
    as_function,
    held_functions,
    unrepeatable_op,
)
from kerasrec.trace.inline import inlined
from kerasrec.trace.rows import Rows
from kerasrec.trace.source import source_of
from kerasrec.trace.tracer import (
    BranchRecord,
    CallRecord,
    CollectRecord,
    ConditionalRecord,
    MapRecord,
    Tracer,
    is_traced,
)

# A result that is zero: gradients enter a function through what it returns.
_ENTRANCE = Type(tf.float32, ())


@dataclass
class Closures:
    """What functions close over that other functions own.

    Args:
        free: For each function, the tensors that it takes in addition to its own arguments.
        owners: The graphs that are built already, by what TensorFlow traced for them. Owners are
          built before those that close over their tensors.
    """

    free: dict[str, list[FreeTensor]]
    owners: dict[tf.Graph, FunctionGraph] = field(default_factory=dict)


@dataclass
class Carried:
    """What tokens carry, see `graph/carried.py`.

    Args:
        types: Their types, by name.
        first_label: The first label of the function's call sites.
        first_key: The number of the first place where the function makes a value.
    """

    types: dict[str, Type]
    first_label: int
    first_key: int


@dataclass(eq=False)
class Builder:
    """Makes the function graph of what a tracer recorded.

    Args:
        name: The function's name.
        tracer: The tracer, after its function has run.
        parameter_names: The names of the flat arguments, in order.
        source: Where the user's function starts.
        closures: The closures of all functions of the program.
        carried: What tokens carry.
        is_loop: Whether the function is a loop.
    """

    name: str
    tracer: Tracer
    parameter_names: Sequence[str]
    source: Source | None
    closures: Closures
    carried: Carried
    is_loop: bool = False

    def __post_init__(self) -> None:
        tracer = self.tracer
        self.values: dict[str, Value] = {}
        self.predicates: dict[int, Value] = {}
        self.nodes: list[Node] = []
        self.writer = GraphWriter(self.nodes)
        self.parameters: list[nodes.Parameter] = []
        self.effects: list[Node] = []
        self.carries: dict[str, tf.Tensor] = {}
        self.labels = itertools.count(self.carried.first_label)
        self.made_by: dict[str, Callable[[], None]] = {}
        self.sources: dict[str, Source | None] = {}
        for tensor, label in zip(tracer.parameters, self.parameter_names, strict=True):
            self.values[tensor.name] = self._parameter(label, tracer.type(tensor))
        self.lifted: dict[Any, Value] = {}
        for free in self.closures.free[self.name]:
            self.lifted[free.tensor.ref()] = self._parameter(free.name, free.type)
        for outer, inner in tracer.graph.captures:
            if tf.is_symbolic_tensor(outer) and outer.ref() in self.lifted:
                self.values[inner.name] = self.lifted[outer.ref()]
        for call in tracer.calls:
            self.made_by[call.results[0].op.name] = partial(self._call, call)
        for record in tracer.conditionals:
            self.made_by[record.results[0].op.name] = partial(self._merge, record)
        for rows in tracer.rows.all():
            self.made_by[rows.ids.op.name] = partial(self._row_ids, rows)
        for mapped in tracer.maps:
            for place, entry in enumerate(mapped.entries):
                self.made_by[entry.op.name] = partial(self._enter, mapped, place)
            self.made_by[mapped.results[0].op.name] = partial(self._leave, mapped)
        for collected in tracer.collects:
            self.made_by[collected.anchor.name] = partial(self._collect, collected)
        self.variables = {id(variable.handle): variable for variable in tracer.graph.variables}
        self.captured = {inner.op.name: outer for outer, inner in tracer.graph.captures}
        for number, key in enumerate(tracer.keys, self.carried.first_key):
            self.made_by[key.op.name] = partial(self._new_key, key, number)
        self._carry()

    def _parameter(self, name: str, found: Type, is_carried: bool = False) -> Value:
        node = nodes.Parameter([], [found], None, self.source, name=name, is_carried=is_carried)
        self.parameters.append(self.writer.add(node))
        return node.output()

    def _carry(self) -> None:
        """Makes the function take what tokens carry, and pass it to its calls."""
        for name, found in self.carried.types.items():
            with self.tracer.graph.as_default():
                (self.carries[name],) = self.tracer.placeholders([found])
            parameter = self._parameter(name, found, is_carried=True)
            self.values[self.carries[name].name] = parameter

    def run(self) -> FunctionGraph:
        """The function graph."""
        operations = self.tracer.graph.get_operations()
        spans: list[tuple[BranchRecord, Callable[[Region | None], Region]]] = [
            (branch, partial(self._branch, record, place))
            for record in self.tracer.conditionals
            for place, branch in enumerate(record.branches)
        ]
        spans += [(mapped.body, partial(self._each, mapped)) for mapped in self.tracer.maps]
        self._spans = sorted(spans, key=lambda span: (span[0].start, -span[0].stop))
        self._index = {operation.name: place for place, operation in enumerate(operations)}
        for operation in operations:
            self._operation(operation)
        values = [self._tokens(tensor, None) for tensor in self.tracer.outputs]
        if self._needs_entrance(self.tracer.outputs):
            entrance = self._made(self.tracer.parameters[0].op, lambda: tf.zeros([]))
            values.append(self._tokens(entrance, None))
        roots = [*self.parameters, *self.effects, *(value.node for value in values)]
        roots += [node for node in self.nodes if isinstance(node, nodes.CallOf | nodes.Collect)]
        self._show_unread(needed(roots, self.nodes))
        roots += [node for node in self.nodes if isinstance(node, nodes.Check | nodes.Effect)]
        kept = needed(roots, self.nodes)
        self._refuse_effects_before_tokens(kept)
        return FunctionGraph(
            self.name,
            self.parameters,
            values,
            kept,
            Traced(self.tracer.concrete, self.values),
            self.source,
            self.is_loop,
        )

    def _value(self, tensor: tf.Tensor) -> Value:
        return self.values[tensor.name]

    def _region(self, operation: tf.Operation) -> Region | None:
        """The innermost branch or map that was running when the op was made."""
        place = self._index[operation.name]
        region = None
        for span, inside in self._spans:
            if span.start <= place < span.stop:
                region = inside(region)
        return region

    def _branch(self, record: ConditionalRecord, place: int, region: Region | None) -> Region:
        return Branch(region, self._predicate(record, region), place, len(record.branches))

    def _each(self, record: MapRecord, region: Region | None) -> Region:
        return Each(region, self._tokens(record.rows[0].lengths, region))

    def _predicate(self, record: ConditionalRecord, region: Region | None) -> Value:
        if id(record) not in self.predicates:
            self.predicates[id(record)] = self._tokens(record.predicate, region)
        return self.predicates[id(record)]

    def _tokens(self, tensor: tf.Tensor, region: Region | None) -> Value:
        pivot = self.parameters[0].output()
        return self.writer.as_tokens(self._value(tensor), region, pivot)

    def _operation(self, operation: tf.Operation) -> None:
        assertion = assertion_of(operation)
        if operation.name in self.made_by:
            self.made_by[operation.name]()
        elif operation.type.startswith("Assign"):
            self._assign(operation)
        elif assertion:
            self._check(operation, assertion)
        elif is_refused(operation):
            raise self._refusal(operation)
        elif calls_an_effect(operation) and self._inline(operation):
            return
        elif not operation.outputs and has_effect(operation):
            self._effect(operation)
        elif operation.outputs and operation.outputs[0].name not in self.values:
            known = self._known(operation)
            if known is not None:
                self.values[operation.outputs[0].name] = known
            elif operation.type == "Placeholder" or self._is_inlined(operation):
                self._shared(operation)
            elif operation.type in ("ResourceGather", "ResourceGatherNd"):
                self._gather(operation)
            elif checks_numerics(operation):
                self._check_numerics(operation)
            else:
                self._primitive(operation)

    def _inline(self, call: tf.Operation) -> bool:
        """Puts what a `tf.function` does in place of its call; False if that cannot be done."""
        found = inlined(call)
        if found is None:
            return False
        kinds = [self.tracer.kind(tensor) for tensor in found.outputs]
        if kinds != [self.tracer.kind(tensor) for tensor in call.outputs]:
            return False  # The ops that read the outputs were taken for other kinds.
        source = self._source_of(call)
        for copy, original in found.operations:
            self._index[copy.name] = self._index[call.name]
            self.sources[copy.name] = source_of(original.traceback or ()) or source
            self._operation(copy)
        for output, tensor in zip(call.outputs, found.outputs, strict=True):
            self.values[output.name] = self._value(tensor)
        return True

    def _is_inlined(self, operation: tf.Operation) -> bool:
        """Whether TensorFlow made a constant of a small tensor from outside; it has a gradient."""
        return operation.name in self.captured and operation.outputs[0].dtype.is_floating

    def _shared(self, operation: tf.Operation) -> None:
        outer = self.captured[operation.name]
        if is_traced(outer):
            value = self.closures.owners[outer.graph].traced.values[outer.name]
            self._take(value.node)
            self.values[operation.outputs[0].name] = value
            return
        variable = self.variables.get(id(outer))
        types = [self.tracer.type(operation.outputs[0])]
        name = _outer_name(operation, outer, variable)
        node = nodes.Shared([], types, name=name, tensor=outer, variable=variable)
        self.values[operation.outputs[0].name] = self.writer.add(node).output()

    def _take(self, node: Node) -> None:
        """Adds a node that depends on no token, which another function owns."""
        if node not in self.nodes:
            for value in node.inputs:
                self._take(value.node)
            self.writer.add(node)

    def _primitive(self, operation: tf.Operation, user: tf.Operation | None = None) -> None:
        """A node for an op of the user's program, or for an op that replaces one."""
        types = [self.tracer.type(output) for output in operation.outputs]
        is_shared = types[0].kind is Kind.SHARED
        region = None if is_shared else self._region(operation)
        inputs = [self.writer.into(self._value(tensor), region) for tensor in operation.inputs]
        source = self._source_of(user or operation)
        if types[0].kind is Kind.WAVE:
            self._check_repeatable(operation, source)
        node = nodes.Primitive(inputs, types, region, source, **self._run_by(operation))
        self.writer.add(node)
        for output, value in zip(operation.outputs, node.outputs, strict=True):
            self.values[output.name] = value

    def _run_by(self, operation: tf.Operation) -> dict[str, Any]:
        """What the engine needs to make an op again: fields of a node."""
        holds_functions = bool(held_functions(operation.node_def))
        return {
            "operation": operation,
            "device": operation.device if operation.device != self.tracer.device else "",
            "function": self._function(operation) if holds_functions else None,
            "has_effect": holds_functions and has_effect(operation),
        }

    def _source_of(self, operation: tf.Operation) -> Source | None:
        if operation.name in self.sources:
            return self.sources[operation.name]
        return source_of(operation.traceback or ()) or self.source

    def _made(self, operation: tf.Operation, make: Callable[[], tf.Tensor]) -> tf.Tensor:
        """A tensor that is computed where an op stands, in addition to the op or instead of it."""
        graph = self.tracer.graph
        start = len(graph.get_operations())
        with graph.as_default():
            made = make()
        for added in graph.get_operations()[start:]:
            self._index[added.name] = self._index[operation.name]
            self._primitive(added, operation)
        return made

    def _check(self, operation: tf.Operation, assertion: Assertion) -> None:
        """A CHECK of the tokens that reach an op."""
        condition = self._made(operation, lambda: self._each_holds(assertion.condition))
        data = [
            self._made(operation, partial(tf.convert_to_tensor, item)) for item in assertion.data
        ]
        region = self._region(operation)
        token = [self.carries[name] for name in FOR_ERRORS]
        values = [self._value(tensor) for tensor in (condition, *token, *data)]
        inputs = [self.writer.into(value, region) for value in values]
        source = self._source_of(operation)
        self.writer.add(nodes.Check(inputs, [], region, source, summarize=assertion.summarize))
        for output in operation.outputs:
            self.values[output.name] = self._value(assertion.condition)

    def _each_holds(self, condition: tf.Tensor) -> tf.Tensor:
        """A condition on tokens: `[tokens]` if each token has its own, otherwise 0-d."""
        before = condition.op.inputs[0] if condition.op.type == "All" else condition
        if self.tracer.kind(before) is Kind.TOKEN and before.shape.rank is not None:
            return tf.reduce_all(before, list(range(1, before.shape.rank)))
        return tf.reduce_all(condition)

    def _check_numerics(self, operation: tf.Operation) -> None:
        (tensor,) = operation.inputs
        finite = self._made(operation, lambda: tf.math.is_finite(tensor))
        message = operation.get_attr("message").decode()
        self._check(operation, Assertion(finite, [f"{message}: NaN or infinity in", tensor], None))
        if self._value(tensor).is_shared:
            # The op itself would run before it is known whether any token reaches it.
            self.values[operation.outputs[0].name] = self._value(tensor)
        else:
            self._primitive(operation)

    def _effect(self, operation: tf.Operation) -> None:
        """An op that shows something and has no outputs."""
        region = self._region(operation)
        inputs = [self.writer.into(self._value(tensor), region) for tensor in operation.inputs]
        source = self._source_of(operation)
        self.writer.add(nodes.Effect(inputs, [], region, source, **self._run_by(operation)))

    def _show_unread(self, kept: list[Node]) -> None:
        """Keeps ops that show something even if their outputs are not read."""
        primitives = [node for node in self.nodes if isinstance(node, nodes.Primitive)]
        for operation in [node.operation for node in primitives if node not in kept]:
            if not checks_numerics(operation) and has_effect(operation):
                self._effect(operation)

    def _refuse_effects_before_tokens(self, kept: list[Node]) -> None:
        """Raises TraceError for effects in what all tokens share, which runs before any token."""
        for node in [item for item in kept if isinstance(item, nodes.Primitive)]:
            is_shared = any(value.is_shared for value in node.outputs)
            if is_shared and has_effect(node.operation):
                raise TraceError(
                    f"{self.name}: {node.op} at {node.source} asserts or shows something and reads "
                    "no token. It would run once, even if no token reaches it. Move it out of the "
                    "recursive function, or let it read a tensor that depends on tokens."
                )

    def _refusal(self, operation: tf.Operation) -> TraceError:
        return TraceError(
            f"{self.name}: {operation.type} at {self._source_of(operation)} may change something, "
            "or read what other ops change. Calls run in no fixed order, so the result would not "
            "be defined. Return the new value, or keep it with kerasrec.collect, and make the "
            "change outside the function; if the op reads no token, move it outside."
        )

    def _check_repeatable(self, operation: tf.Operation, source: Source | None) -> None:
        """Raises TraceError if a WAVE value, which is computed again at each use, could differ."""
        name = None
        if operation.type == "RngReadAndSkip":
            return  # It gives the key of one draw; the draw itself is checked.
        if held_functions(operation.node_def) or operation.op_def.is_stateful:
            name = unrepeatable_op([operation])
        elif operation.type.startswith(STATELESS_RANDOM):
            name = operation.type
        if name:
            raise TraceError(
                f"{self.name}: {name} at {source} draws random numbers, or changes something, in "
                "a loop or for all tokens together. It would not do so once for each call. Draw "
                "what you need outside of loops, with the token axis first: "
                "tf.random.uniform(tf.shape(x)) for an x of shape [tokens, ...]; for the entries "
                "of ragged rows, inside kerasrec.map_fn."
            )

    def _function(self, operation: tf.Operation) -> tf.types.experimental.ConcreteFunction:
        handles = [self.captured.get(tensor.op.name) for tensor in operation.inputs]
        with self.tracer.graph.as_default():
            return as_function(operation, [self.variables.get(id(handle)) for handle in handles])

    def _assign(self, operation: tf.Operation) -> None:
        """The next state of a Keras seed, which depends on no token, is assigned once."""
        source = self._source_of(operation)
        inputs = [self._value(tensor) for tensor in operation.inputs]
        variable = self.variables.get(id(self.captured.get(operation.inputs[0].op.name)))
        if not is_state_of_a_seed(variable) or not all(value.is_shared for value in inputs):
            raise TraceError(
                f"{self.name} assigns to a variable, at {source}. Calls run in no fixed order, so "
                "the variable's value would not be defined. Return the value or use "
                "kerasrec.collect, and assign outside the function."
            )
        node = nodes.Primitive(inputs, [], None, source, operation=operation)
        self.effects.append(self.writer.add(node))

    def _gather(self, operation: tf.Operation) -> None:
        """A gather from a variable becomes a read and a gather from a tensor, for its gradient."""
        handle, indices = operation.inputs

        def gather() -> tf.Tensor:
            read = tf.raw_ops.ReadVariableOp(resource=handle, dtype=operation.outputs[0].dtype)
            read = tf.ensure_shape(read, self.variables[id(self.captured[handle.op.name])].shape)
            if operation.type == "ResourceGatherNd":
                return tf.gather_nd(read, indices)
            return tf.gather(read, indices, batch_dims=operation.get_attr("batch_dims"))

        gathered = self._made(operation, gather)
        self.values[operation.outputs[0].name] = self.values[gathered.name]

    def _call(self, record: CallRecord) -> None:
        region = self._region(record.results[0].op)
        inputs = [self._tokens(tensor, region) for tensor in record.arguments]
        inputs += [
            self._pass_on(free, region, record) for free in self.closures.free[record.callee]
        ]
        inputs += self._carried_inside(record, region)
        types = [self.tracer.type(tensor) for tensor in record.results]
        if self._needs_entrance(record.results):
            types.append(_ENTRANCE)
        node = nodes.CallOf(inputs, types, region, record.source, callee=record.callee)
        self.writer.add(node)
        for tensor, value in zip(record.results, node.outputs, strict=False):
            self.values[tensor.name] = value

    def _needs_entrance(self, results: Sequence[tf.Tensor]) -> bool:
        """Whether a function gets a result for the gradient of what it makes to enter by."""
        makes = "key" in self.carried.types
        return makes and not any(self.tracer.type(item).is_differentiable for item in results)

    def _carried_inside(self, record: CallRecord, region: Region | None) -> list[Value]:
        """What the tokens that a call makes carry."""
        operation, label = record.results[0].op, next(self.labels)
        found = []
        for name, tensor in self.carries.items():
            here = self._key(operation) if name == "key" else tensor
            inside = self._made(operation, partial(carried_inside, name, label, here))
            found.append(self.writer.into(self._value(inside), region))
        return found

    def _new_key(self, key: tf.Tensor, number: int) -> None:
        made = self._made(key.op, partial(key_of_made, number, self._key(key.op)))
        self.values[key.name] = self._value(made)

    def _key(self, operation: tf.Operation) -> tf.Tensor:
        """The keys of the tokens that reach an op; each entry of a row has its own."""
        key = self.carries["key"]
        for record in sorted(self.tracer.maps, key=lambda item: item.body.start):
            if record.body.start <= self._index[operation.name] < record.body.stop:
                key = self._made(operation, partial(key_of_entry, self._place(record), key))
        return key

    def _place(self, record: MapRecord) -> tf.Tensor:
        """The place of each entry in its row, int32 `[entries]`."""
        rows = record.rows[0]
        with self.tracer.graph.as_default():
            (place,) = self.tracer.placeholders([Type(tf.int32, ())])
        places = self._made(rows.ids.op, partial(_places, rows))
        region = self._region(record.entries[0].op)
        if region is None:
            raise GraphError(f"Entries at {record.source} enter no region.")
        self.values[place.name] = self.writer.enter(
            self.writer.into(self._value(places), region.parent),
            [region.selector],
            region,
            self.tracer.type(place),
            record.source,
        )
        return place

    def _known(self, operation: tf.Operation) -> Value | None:
        """What an op computes from the splits of rows, if it is known already where it stands."""
        for tensor in self.tracer.rows.known(operation.outputs[0]):
            value = self.values.get(tensor.name)
            region = self._region(operation)
            if value is not None and value.region in (None, *(region.path() if region else ())):
                return value
        return self._own_row_ids(operation)

    def _own_row_ids(self, operation: tf.Operation) -> Value | None:
        """The row numbers that an op computes from splits, of rows that nothing but ops has had."""
        ids = operation.outputs[0]
        splits = self.tracer.rows.splits_of(ids)
        if splits is None or self.tracer.rows.known(ids):
            return None
        lengths = self._made(operation, lambda: tf.cast(splits[1:] - splits[:-1], tf.int32))
        return self._rows_node(lengths, Type.of(ids, Kind.WAVE), self._region(operation))

    def _row_ids(self, rows: Rows) -> None:
        region = self._region(rows.ids.op)
        ids = self._rows_node(rows.lengths, self.tracer.type(rows.ids), region)
        self.values[rows.ids.name] = ids

    def _rows_node(self, lengths: tf.Tensor, type_of_ids: Type, region: Region | None) -> Value:
        given = self._tokens(lengths, region)
        node = nodes.Rows([given], [type_of_ids], region, given.node.source)
        return self.writer.add(node).output()

    def _enter(self, record: MapRecord, place: int) -> None:
        entry, own = record.entries[place], record.rows[place]
        region = self._region(entry.op)
        if region is None:
            raise GraphError(f"Entries at {record.source} enter no region.")
        lengths = [region.selector]
        if not self.tracer.rows.same(own, record.rows[0]):
            lengths.append(self._tokens(own.lengths, region.parent))
        self.values[entry.name] = self.writer.enter(
            self.writer.into(self._value(record.values[place]), region.parent),
            lengths,
            region,
            self.tracer.type(entry),
            record.source,
        )

    def _leave(self, record: MapRecord) -> None:
        region = self._region(record.results[0].op)
        inside = self._each(record, region)
        for output, result in zip(record.body.outputs, record.results, strict=True):
            value = self._tokens(output, inside)
            if not value.type.is_static:
                raise SignatureError(
                    f"What the function given to kerasrec.map_fn at {record.source} returns has "
                    f"an open shape, {value.type} per entry. Set the shape with tf.ensure_shape, "
                    "or pad to one shape."
                )
            self.values[result.name] = self.writer.leave(value, inside.selector, region)

    def _pass_on(self, free: FreeTensor, region: Region | None, record: CallRecord) -> Value:
        """What a callee closes over, as an argument of its call."""
        if free.tensor.graph is not self.tracer.graph:
            return self.writer.into(self.lifted[free.tensor.ref()], region)
        if free.tensor.name not in self.values:
            raise TraceError(
                f"{self.name} calls {record.callee} at {record.source} before it computes "
                f"{free.name}, which {record.callee} closes over. Pass it as an argument."
            )
        return self.writer.into(self._value(free.tensor), region)

    def _merge(self, record: ConditionalRecord) -> None:
        region = self._region(record.results[0].op)
        predicate = self._predicate(record, region)
        regions = branches(region, predicate, len(record.branches))
        for place, result in enumerate(record.results):
            inputs = [
                self._tokens(branch.outputs[place], inside)
                for branch, inside in zip(record.branches, regions, strict=True)
            ]
            types = [self.tracer.type(result)]
            node = nodes.Merge(inputs, types, region, record.source, predicate=predicate)
            self.values[result.name] = self.writer.add(node).output()

    def _collect(self, record: CollectRecord) -> None:
        region = self._region(record.anchor)
        inputs = [self._tokens(record.value, region)]
        size = None
        if record.index is not None:
            inputs.append(self._tokens(record.index, region))
        if record.size is not None:
            size = self._value(record.size)
            if not size.is_shared:
                raise SignatureError(
                    f"`size` of kerasrec.collect at {record.source} depends on the tokens, but a "
                    "table has one size for the whole run. Pass one that does not depend on them."
                )
        node = nodes.Collect(inputs, [], region, record.source, name=record.name, size=size)
        self.writer.add(node)


def _places(rows: Rows) -> tf.Tensor:
    """The place of each entry in its row."""
    before = tf.cumsum(rows.lengths, exclusive=True)
    ids = tf.cast(rows.ids, tf.int32)
    return tf.range(tf.size(ids)) - tf.gather(before, ids)


def _outer_name(operation: tf.Operation, outer: tf.Tensor, variable: tf.Variable | None) -> str:
    """What a tensor or variable is called where it comes from.

    Args:
        operation: The placeholder that stands for it in the function.
        outer: The tensor; for a variable, its handle.
        variable: The variable; None for a tensor.
    """
    if variable is not None:
        return str(variable.name).removesuffix(":0")
    return str(outer.op.name if tf.is_symbolic_tensor(outer) else operation.name)
