"""Builds a function graph from a tracer's record.

Ops become nodes in the order in which they were made. Each result of a conditional becomes a MERGE,
and each value that a branch reads from outside passes a SWITCH (Kostopoulou et al., section 2.2;
Vasilakopoulos 2024, figure 4.4). Entries of ragged rows enter a separate region, values that
the region reads from outside are repeated, and its results leave it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from kerasrec._src.graph import nodes
from kerasrec._src.graph.carried import FOR_ERRORS, FOR_KEYS
from kerasrec._src.graph.graph import FunctionGraph, Traced, needed
from kerasrec._src.graph.types import Kind, Type
from kerasrec._src.graph.values import Node, Value
from kerasrec._src.ops.table import Is, has, is_given
from kerasrec._src.trace.draws import drawn, hold_draws, is_draw_of_tokens, seed_of
from kerasrec._src.trace.effects import (
    Assertion,
    assertion_of,
    asserts_something,
    calls_an_effect,
    changes_something,
    check_effects_read_tokens,
    checks_numerics,
    dumps,
    has_effect,
    is_refused,
    stays_unread,
    watched_by,
)
from kerasrec._src.trace.for_blocks import form_for_blocks
from kerasrec._src.trace.function_state import FunctionState
from kerasrec._src.trace.functions import inlined, is_call
from kerasrec._src.trace.loop import Loop
from kerasrec._src.trace.op_nodes import FreeTensor, OpNodes, ProgramFacts
from kerasrec._src.trace.same_nest import may_be_made
from kerasrec._src.trace.source import source_of
from kerasrec._src.trace.tracer import is_traced


def build(states: Sequence[FunctionState], for_blocks: bool) -> dict[str, FunctionGraph]:
    """Returns the graphs of all functions of a program.

    Args:
        states: The states of all functions, beginning with the one called first.
        for_blocks: Whether the program is for the engine "compiled"; see `ProgramFacts`.
    """
    # With `memo`, equal calls are one call, which has the keys of several tokens.
    is_memo = getattr(states[0].function, "memo", False)
    draws = not is_memo and any(map(_draws, states))
    carried: dict[str, Type] = {}
    if any(asserts_something(state.tracer.graph.get_operations()) for state in states):
        carried |= FOR_ERRORS
    reads = frozenset().union(*(state.tracer.reads for state in states))
    returns_made = may_be_made(states[0].tracer.returns.structure)
    makes = any(state.tracer.makes_values for state in states)
    makes_values = makes and (returns_made or bool(reads))
    if (makes and not reads) or draws:
        carried |= FOR_KEYS
    given = makes_values, reads, returns_made, draws, carried, _free_tensors(states)
    facts = ProgramFacts(for_blocks, *given)
    for state in states:
        facts.owners[state.tracer.graph] = _Builder(state, facts).run()
    return {graph.name: graph for graph in facts.owners.values()}


def _draws(state: FunctionState) -> bool:
    operations, kind = state.tracer.graph.get_operations(), state.tracer.kind
    return hold_draws(operations) or any(is_draw_of_tokens(item, kind) for item in operations)


def _free_tensors(states: Sequence[FunctionState]) -> Mapping[str, Sequence[FreeTensor]]:
    """Returns the tensors that each function takes in addition to its own arguments.

    A recursive function that is defined in the body of another may use tensors of the outer
    function, which differ from token to token. Lambda lifting (Johnsson 1985, "Lambda Lifting:
    Transforming Programs to Recursive Equations") makes them arguments of the function that uses
    them, and of every function through which calls from their owner reach it.
    """
    owners = {state.tracer.graph: state for state in states}
    free: dict[str, dict[Any, FreeTensor]] = {state.name: {} for state in states}
    for state in states:
        for tensor, _ in state.tracer.graph.captures:
            if not is_traced(tensor):
                continue
            owner = owners[tensor.graph]
            found = owner.tracer.type(tensor)
            if found.kind is Kind.TOKEN:
                arguments = zip(owner.tracer.parameters, owner.signature.names, strict=True)
                names = {argument.ref(): label for argument, label in arguments}
                label = names.get(tensor.ref()) or state.variable_name(tensor)
                free[state.name][tensor.ref()] = FreeTensor(tensor, f"{owner.name}.{label}", found)
    size = -1
    while size != sum(map(len, free.values())):
        size = sum(map(len, free.values()))
        for state in states:
            for call in state.tracer.calls:
                free[state.name].update(
                    (reference, passed)
                    for reference, passed in free[call.callee.name].items()
                    if passed.tensor.graph is not state.tracer.graph
                )
    return {name: list(found.values()) for name, found in free.items()}


class _Builder:
    """Builds the function graph from a tracer's record.

    Args:
        state: The function, after it was traced.
        facts: The facts about the program.
    """

    def __init__(self, state: FunctionState, facts: ProgramFacts):
        self.state, self.facts, self.tracer = state, facts, state.tracer
        names = state.signature.names
        self.ops = OpNodes(state.name, state.source, names, state.tracer, facts, self._add_nodes)
        self.values = self.ops.values

    def run(self) -> FunctionGraph:
        """Returns the function graph."""
        ops, outputs = self.ops, self.tracer.outputs
        for operation in self.tracer.graph.get_operations():
            self._add_nodes(operation)
        values = [ops.tokens(tensor, None) for tensor in outputs]
        if ops.needs_entrance(outputs):
            entrance = ops.made(self.tracer.parameters[0].op, lambda: tf.zeros([]))
            values.append(ops.tokens(entrance, None))
        roots = [*ops.parameters, *ops.assignments, *(value.node for value in values)]
        kinds = nodes.CallOf | nodes.Collect | nodes.Put
        roots += [node for node in ops.nodes if isinstance(node, kinds)]
        self._show_unread(needed(roots, ops.nodes))
        roots += [node for node in ops.nodes if isinstance(node, nodes.Check | nodes.Effect)]
        kept = needed(roots, ops.nodes)
        check_effects_read_tokens(self.state.name, kept)
        return FunctionGraph(
            self.state.name,
            ops.parameters,
            values,
            kept,
            Traced(self.tracer.concrete, self.values),
            self.state.source,
            isinstance(self.state.function, Loop),
        )

    def _add_nodes(self, operation: tf.Operation) -> None:
        assertion = assertion_of(operation)
        if operation.name in self.tracer.add_nodes:
            self.tracer.add_nodes[operation.name](self.ops)
        elif has(operation.type, Is.ASSIGNING):
            self.ops.assign(operation)
        elif assertion:
            self._check(operation, assertion)
        elif is_refused(operation):
            source = self.ops.source_of(operation)
            raise changes_something(self.state.name, operation, source)
        elif self._inline(operation):
            return
        elif not operation.outputs and has_effect(operation):
            self.ops.effect(operation)
        elif operation.outputs and operation.outputs[0].name not in self.values:
            known = self._known(operation)
            reduction = self.tracer.rows.reduction(operation)
            if known is not None:
                self.values[operation.outputs[0].name] = known
            elif reduction:
                self.ops.replace(operation, reduction)
            elif is_given(operation) or self.ops.is_inlined(operation):
                self.ops.shared(operation)
            elif has(operation.type, Is.OF_VARIABLE):
                self.ops.gather(operation)
            elif (watched := watched_by(operation)) is not None:
                self._watch(operation, watched)
            elif checks_numerics(operation):
                self._check_numerics(operation)
            elif dumps(operation) and self.ops.value(operation.inputs[0]).is_shared:
                # It would run before any token does; its input is not about them.
                self.values[operation.outputs[0].name] = self.ops.value(operation.inputs[0])
            elif self.facts.draws and is_draw_of_tokens(operation, self.tracer.kind):
                self._draw(operation)
            elif self.facts.for_blocks and (form := form_for_blocks(operation)):
                self.ops.replace(operation, form)
            else:
                self.ops.primitive(operation)

    def _inline(self, call: tf.Operation) -> bool:
        """Replaces the call of a `tf.function` by its ops, if needed; returns whether it has."""
        is_effect = calls_an_effect(call)
        is_wanted = (
            is_effect
            or (self.facts.for_blocks and is_call(call.type))
            or (self.facts.draws and hold_draws([call]))
        )
        found = inlined(call, takes_loops=is_effect) if is_wanted else None
        if found is None:
            return False
        kind, pairs = self.tracer.kind, zip(call.outputs, found.outputs, strict=True)
        # Ops that read an output already count on its kind. Some outputs are only for gradients.
        if any(kind(old) != kind(new) for old, new in pairs if old.consumers()):
            return False
        source = self.ops.source_of(call)
        for copy, original in found.operations:
            self.ops.put(copy, call, source_of(original.traceback or ()) or source)
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
        region = self.ops.region_of(operation)
        tensors = [condition, *self.ops.for_errors, *data]
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
        """Checks a tensor instead of an op that a debugging tool has put here; see `watched_by`.

        Later ops read the checked tensor, so that its gradient is also checked. Results of ops on
        tensors from outside are checked, not the tensors: they may have rows for padding.
        """
        if is_given(tensor.op):
            return
        source = self.ops.source_of(tensor.op)
        message = f"output {tensor.value_index} of {tensor.op.type} at {source}"
        with self.tracer.graph.as_default():
            checked = tf.debugging.check_numerics(tensor, message)
        self.ops.put(checked.op, operation, source)
        self.values[tensor.name] = self.ops.value(checked)

    def _draw(self, operation: tf.Operation) -> None:
        """Replaces random numbers of TensorFlow by those of each token's generator."""
        seed = self.ops.made(operation, partial(seed_of, operation))
        key = self.ops.key(operation)
        self.ops.replace(operation, partial(drawn, operation, seed, key))

    def _show_unread(self, kept: list[Node]) -> None:
        """Adds an EFFECT for each op that shows something and whose outputs nothing reads."""
        primitives = [node for node in self.ops.nodes if isinstance(node, nodes.Primitive)]
        for node in primitives:
            if stays_unread(node) and node not in kept:
                self.ops.effect(node.operation)

    def _known(self, operation: tf.Operation) -> Value | None:
        """Returns the value that an op computes from row splits, if it is known in its region."""
        same = self.tracer.rows.same_as(operation)
        if same is not None:
            return self.ops.value(same)
        (output, *_), rows = operation.outputs, self.tracer.rows
        splits, known = rows.splits_of(output), rows.known(output)
        if splits is None and not known:
            return None
        region = self.ops.region_of(operation)
        for value in (self.values[tensor.name] for tensor in known if tensor.name in self.values):
            if value.region in (None, *(region.path() if region else ())):
                return value
        if splits is None:
            return None
        lengths = self.ops.made(operation, lambda: tf.cast(splits[1:] - splits[:-1], tf.int32))
        return self.ops.rows(lengths, Type.of(output, Kind.WAVE), region)
