"""Builds a function graph from what a tracer recorded.

Ops become nodes in the order in which they were made. Each result of a conditional becomes a MERGE,
and each value that a branch reads from outside passes a SWITCH (Kostopoulou et al., section 2.2;
Vasilakopoulos 2024, figure 4.4). Entries of ragged rows ENTER a region of their own, values that
the region reads from outside are REPEATed, and its results LEAVE it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from kerasrec._src.errors import SignatureError, TraceError
from kerasrec._src.graph import nodes
from kerasrec._src.graph.graph import FunctionGraph, Traced, needed
from kerasrec._src.graph.types import Kind, Type
from kerasrec._src.graph.values import Node, Region, Value, branches
from kerasrec._src.ops.table import Is, has, is_given
from kerasrec._src.trace.added_arguments import Carrying, FreeTensor, ProgramFacts
from kerasrec._src.trace.draws import drawn, hold_draws, is_draw_of_tokens, seed_of
from kerasrec._src.trace.effects import (
    Assertion,
    assertion_of,
    calls_an_effect,
    changes_something,
    check_effects_read_tokens,
    checks_numerics,
    dumps,
    has_effect,
    is_refused,
    watched_by,
)
from kerasrec._src.trace.function_state import FunctionState
from kerasrec._src.trace.functions import inlined, is_call
from kerasrec._src.trace.loop import Loop
from kerasrec._src.trace.op_nodes import OpNodes
from kerasrec._src.trace.products import as_einsum
from kerasrec._src.trace.rows import TokenRows
from kerasrec._src.trace.source import source_of
from kerasrec._src.trace.tracer import (
    CallRecord,
    CollectRecord,
    ConditionalRecord,
    MapRecord,
)

# The type of an extra result, which is always zero. Gradients enter a function through its results,
# so a function without a differentiable result may need this one.
_ENTRANCE = Type(tf.float32, ())


class Builder:
    """Builds the function graph from what a tracer recorded.

    Args:
        state: The function, after it was traced.
        facts: What is known of the program.
    """

    def __init__(self, state: FunctionState, facts: ProgramFacts):
        self.state, self.facts = state, facts
        self.name = state.name
        self.tracer = tracer = state.tracer
        self.ops = OpNodes(self.name, tracer, state.source, facts.owners)
        self.values = self.ops.values
        for tensor, label in zip(tracer.parameters, state.signature.names, strict=True):
            self.values[tensor.name] = self.ops.parameter(label, tracer.type(tensor))
        self.lifted: dict[Any, Value] = {}
        for free in facts.free[self.name]:
            self.lifted[free.tensor.ref()] = self.ops.parameter(free.name, free.type)
        for outer, inner in tracer.graph.captures:
            if tf.is_symbolic_tensor(outer) and outer.ref() in self.lifted:
                self.values[inner.name] = self.lifted[outer.ref()]
        self.carrying = Carrying(self.ops, facts)
        self.made_by: dict[str, Callable[[], None]] = {}
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
        for key in tracer.keys:
            self.made_by[key.op.name] = partial(self.carrying.make_key, key, next(facts.places))

    def run(self) -> FunctionGraph:
        """Returns the function graph."""
        ops, outputs = self.ops, self.tracer.outputs
        for operation in self.tracer.graph.get_operations():
            self._operation(operation)
        values = [ops.tokens(tensor, None) for tensor in outputs]
        if self._needs_entrance(outputs):
            entrance = ops.made(self.tracer.parameters[0].op, lambda: tf.zeros([]))
            values.append(ops.tokens(entrance, None))
        roots = [*ops.parameters, *ops.assignments, *(value.node for value in values)]
        roots += [node for node in ops.nodes if isinstance(node, nodes.CallOf | nodes.Collect)]
        self._show_unread(needed(roots, ops.nodes))
        roots += [node for node in ops.nodes if isinstance(node, nodes.Check | nodes.Effect)]
        kept = needed(roots, ops.nodes)
        check_effects_read_tokens(self.name, kept)
        return FunctionGraph(
            self.name,
            ops.parameters,
            values,
            kept,
            Traced(self.tracer.concrete, self.values),
            self.state.source,
            isinstance(self.state.function, Loop),
        )

    def _operation(self, operation: tf.Operation) -> None:
        assertion = assertion_of(operation)
        if operation.name in self.made_by:
            self.made_by[operation.name]()
        elif has(operation.type, Is.ASSIGNING):
            self.ops.assign(operation)
        elif assertion:
            self._check(operation, assertion)
        elif is_refused(operation):
            source = self.ops.source_of(operation)
            raise changes_something(self.name, operation, source)
        elif self._may_inline(operation) and self._inline(operation):
            return
        elif not operation.outputs and has_effect(operation):
            self.ops.effect(operation)
        elif operation.outputs and operation.outputs[0].name not in self.values:
            known = self._known(operation)
            reduction = self.tracer.rows.reduction(operation)
            if known is not None:
                self.values[operation.outputs[0].name] = known
            elif reduction:
                self._instead(operation, reduction)
            elif is_given(operation) or self.ops.is_inlined(operation):
                self.ops.shared(operation)
            elif has(operation.type, Is.OF_VARIABLE):
                self.ops.gather(operation)
            elif (watched := watched_by(operation)) is not None:
                self._watch(operation, watched)
            elif checks_numerics(operation):
                self._check_numerics(operation)
            elif dumps(operation) and self.ops.value(operation.inputs[0]).is_shared:
                # It would run before any token does; its input says nothing of them.
                self.values[operation.outputs[0].name] = self.ops.value(operation.inputs[0])
            elif self.facts.draws and is_draw_of_tokens(operation, self.tracer.kind):
                self._draw(operation)
            elif self.facts.for_blocks and (product := as_einsum(operation, self.tracer)):
                self.ops.replace(operation, product)
            else:
                self.ops.primitive(operation)

    def _instead(self, operation: tf.Operation, make: Callable[[], tf.Tensor]) -> None:
        """Makes a tensor instead of the output of an op, by ops that may be replaced in turn."""
        graph, source = self.tracer.graph, self.ops.source_of(operation)
        start = len(graph.get_operations())
        with graph.as_default():
            made = make()
        for added in graph.get_operations()[start:]:
            self.ops.put(added, operation, source)
            self._operation(added)
        self.values[operation.outputs[0].name] = self.ops.value(made)

    def _may_inline(self, operation: tf.Operation) -> bool:
        is_wanted = self.facts.for_blocks and is_call(operation.type)
        draws = self.facts.draws and hold_draws([operation])
        return is_wanted or draws or calls_an_effect(operation)

    def _inline(self, call: tf.Operation) -> bool:
        """Replaces the call of a `tf.function` by its ops; returns False if it cannot."""
        found = inlined(call, takes_loops=calls_an_effect(call))
        if found is None:
            return False
        kind, pairs = self.tracer.kind, zip(call.outputs, found.outputs, strict=True)
        # Ops that read an output already count on its kind. Some outputs are for gradients alone.
        if any(kind(old) != kind(new) for old, new in pairs if old.consumers()):
            return False
        source = self.ops.source_of(call)
        for copy, original in found.operations:
            self.ops.put(copy, call, source_of(original.traceback or ()) or source)
            self._operation(copy)
        for output, tensor in zip(call.outputs, found.outputs, strict=True):
            self.values[output.name] = self.ops.value(tensor)
        return True

    def _check(self, operation: tf.Operation, assertion: Assertion) -> None:
        """Adds a CHECK for the tokens that reach an op, unless its condition is always true."""
        for output in operation.outputs:
            self.values[output.name] = self.ops.value(assertion.condition)
        if self.tracer.rows.always_holds(assertion.condition):
            return
        condition = self.ops.made(operation, lambda: self._each_holds(assertion.condition))
        data = [
            self.ops.made(operation, partial(tf.convert_to_tensor, item)) for item in assertion.data
        ]
        region = self.ops.regions.of(operation)
        tensors = [condition, *self.carrying.for_errors, *data]
        inputs = [self.ops.into(tensor, region) for tensor in tensors]
        source = self.ops.source_of(operation)
        self.ops.writer.add(nodes.Check(inputs, [], region, source, summarize=assertion.summarize))

    def _each_holds(self, condition: tf.Tensor) -> tf.Tensor:
        """Reduces a condition to one bool for each token, `[tokens]`, or to one for all, 0-d."""
        before = condition.op.inputs[0] if has(condition.op.type, Is.CONJUNCTION) else condition
        if self.tracer.kind(before) is Kind.TOKEN and before.shape.rank is not None:
            return tf.reduce_all(before, list(range(1, before.shape.rank)))
        return tf.reduce_all(condition)

    def _check_numerics(self, operation: tf.Operation) -> None:
        (tensor,) = operation.inputs
        finite = self.ops.made(operation, lambda: tf.math.is_finite(tensor))
        message = operation.get_attr("message").decode()
        self._check(operation, Assertion(finite, [f"{message}: NaN or infinity in", tensor], None))
        if self.ops.value(tensor).is_shared:
            # A shared op would run before it is known whether any token reaches it.
            self.values[operation.outputs[0].name] = self.ops.value(tensor)
        else:
            self.ops.primitive(operation)

    def _watch(self, operation: tf.Operation, tensor: tf.Tensor) -> None:
        """Checks a tensor in place of an op that a debugging tool has put here; see `watched_by`.

        Later ops read the checked tensor, so that its gradient is checked, too. What ops compute of
        tensors from outside is checked, not the tensors: they may have rows for padding.
        """
        if is_given(tensor.op):
            return
        source = self.ops.source_of(tensor.op)
        message = f"output {tensor.value_index} of {tensor.op.type} at {source}"
        with self.tracer.graph.as_default():
            checked = tf.debugging.check_numerics(tensor, message)
        self.ops.put(checked.op, operation, source)
        self._check_numerics(checked.op)
        self.values[tensor.name] = self.ops.value(checked)

    def _draw(self, operation: tf.Operation) -> None:
        """Replaces random numbers of TensorFlow by those of each token's generator."""
        seed = self.ops.made(operation, partial(seed_of, operation))
        key = self.carrying.key(operation)
        self.ops.replace(operation, partial(drawn, operation, seed, key))

    def _show_unread(self, kept: list[Node]) -> None:
        """Adds an EFFECT for each op that shows something and whose outputs nothing reads."""
        primitives = [node for node in self.ops.nodes if isinstance(node, nodes.Primitive)]
        for operation in [node.operation for node in primitives if node not in kept]:
            if not checks_numerics(operation) and has_effect(operation):
                self.ops.effect(operation)

    def _call(self, record: CallRecord) -> None:
        region = self.ops.regions.of(record.results[0].op)
        inputs = [self.ops.tokens(tensor, region) for tensor in record.arguments]
        inputs += [self._pass_on(free, region, record) for free in self.facts.free[record.callee]]
        inputs += self.carrying.inside(record.results[0].op, region)
        types = [self.tracer.type(tensor) for tensor in record.results]
        if self._needs_entrance(record.results):
            types.append(_ENTRANCE)
        node = nodes.CallOf(inputs, types, region, record.source, callee=record.callee)
        self.ops.writer.add(node)
        for tensor, value in zip(record.results, node.outputs, strict=False):
            self.values[tensor.name] = value

    def _needs_entrance(self, results: Sequence[tf.Tensor]) -> bool:
        """Whether a function needs an extra result, for gradients of what it makes to enter."""
        if not self.facts.makes_values:
            return False
        return not any(self.tracer.type(item).is_differentiable for item in results)

    def _known(self, operation: tf.Operation) -> Value | None:
        """Returns the value that an op computes from row splits, if it is known in its region."""
        same = self.tracer.rows.same_as(operation)
        if same is not None:
            return self.ops.value(same)
        (output, *_), rows = operation.outputs, self.tracer.rows
        splits, known = rows.splits_of(output), rows.known(output)
        if splits is None and not known:
            return None
        region = self.ops.regions.of(operation)
        for value in (self.values[tensor.name] for tensor in known if tensor.name in self.values):
            if value.region in (None, *(region.path() if region else ())):
                return value
        if splits is None:
            return None
        lengths = self.ops.made(operation, lambda: tf.cast(splits[1:] - splits[:-1], tf.int32))
        return self._rows_node(lengths, Type.of(output, Kind.WAVE), region)

    def _row_ids(self, rows: TokenRows) -> None:
        region = self.ops.regions.of(rows.ids.op)
        ids = self._rows_node(rows.lengths, self.tracer.type(rows.ids), region)
        self.values[rows.ids.name] = ids

    def _rows_node(self, lengths: tf.Tensor, type_of_ids: Type, region: Region | None) -> Value:
        given = self.ops.tokens(lengths, region)
        node = nodes.Rows([given], [type_of_ids], region, given.node.source)
        return self.ops.writer.add(node).output()

    def _enter(self, record: MapRecord, place: int) -> None:
        entry, own = record.entries[place], record.rows[place]
        region = self.ops.regions.of_entries(record)
        lengths = [region.selector]
        if not self.tracer.rows.same(own, record.rows[0]):
            lengths.append(self.ops.tokens(own.lengths, region.parent))
        self.values[entry.name] = self.ops.writer.enter(
            self.ops.into(record.values[place], region.parent),
            lengths,
            region,
            self.tracer.type(entry),
            record.source,
        )

    def _leave(self, record: MapRecord) -> None:
        region = self.ops.regions.of(record.results[0].op)
        inside = self.ops.regions.each(record, region)
        for output, result in zip(record.body.outputs, record.results, strict=True):
            value = self.ops.tokens(output, inside)
            if not value.type.is_static:
                raise SignatureError(
                    f"What the function given to kerasrec.map_fn at {record.source} returns has "
                    f"an open shape, {value.type} per entry. Set the shape with tf.ensure_shape, "
                    "or pad to one shape."
                )
            self.values[result.name] = self.ops.writer.leave(value, inside.selector, region)

    def _pass_on(self, free: FreeTensor, region: Region | None, record: CallRecord) -> Value:
        """Returns a tensor that the callee closes over, as an argument of its call."""
        if free.tensor.graph is not self.tracer.graph:
            return self.ops.writer.into(self.lifted[free.tensor.ref()], region)
        if free.tensor.name not in self.values:
            raise TraceError(
                f"{self.name} calls {record.callee} at {record.source} before it computes "
                f"{free.name}, which {record.callee} closes over. Pass it as an argument."
            )
        return self.ops.into(free.tensor, region)

    def _merge(self, record: ConditionalRecord) -> None:
        region = self.ops.regions.of(record.results[0].op)
        predicate = self.ops.regions.predicate(record, region)
        regions = branches(region, predicate, len(record.branches))
        for place, result in enumerate(record.results):
            inputs = [
                self.ops.tokens(branch.outputs[place], inside)
                for branch, inside in zip(record.branches, regions, strict=True)
            ]
            types = [self.tracer.type(result)]
            node = nodes.Merge(inputs, types, region, record.source, predicate=predicate)
            self.values[result.name] = self.ops.writer.add(node).output()

    def _collect(self, record: CollectRecord) -> None:
        region = self.ops.regions.of(record.anchor)
        inputs = [self.ops.tokens(record.value, region)]
        size = None
        if record.index is not None:
            inputs.append(self.ops.tokens(record.index, region))
        if record.size is not None:
            size = self.ops.value(record.size)
            if not size.is_shared:
                raise SignatureError(
                    f"`size` of kerasrec.collect at {record.source} depends on the tokens, but a "
                    "table has one size for the whole run. Pass one that does not depend on them."
                )
        node = nodes.Collect(inputs, [], region, record.source, name=record.name, size=size)
        self.ops.writer.add(node)
