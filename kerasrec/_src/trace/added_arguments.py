"""What functions take besides their own arguments: tensors closed over, and what tokens carry.

A recursive function that is defined in the body of another may use tensors of the outer function,
which differ from token to token. Lambda lifting (Johnsson 1985, "Lambda Lifting: Transforming
Programs to Recursive Equations") makes them arguments of the function that uses them, and of every
function through which calls from their owner reach it.

Values that tokens carry (`graph/carried.py`) are arguments that come after all others.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import tensorflow as tf

from kerasrec._src.graph.carried import (
    FOR_ERRORS,
    FOR_KEYS,
    carried_inside,
    key_of_entry,
    key_of_made,
)
from kerasrec._src.graph.graph import FunctionGraph
from kerasrec._src.graph.types import Kind, Type
from kerasrec._src.graph.values import Region, Value
from kerasrec._src.trace.draws import hold_draws, is_draw_of_tokens
from kerasrec._src.trace.effects import asserts_something
from kerasrec._src.trace.function_state import FunctionState
from kerasrec._src.trace.op_nodes import OpNodes
from kerasrec._src.trace.tracer import MapRecord, is_traced


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


class ProgramFacts:
    """What is known of a program once all its functions are traced.

    Args:
        states: The states of all functions, beginning with the one called first.
        for_blocks: Whether the program is for the engine "compiled". Then calls of a `tf.function`
            are replaced by its ops, not only if it has effects, and products of rows by einsums.
    """

    def __init__(self, states: Sequence[FunctionState], for_blocks: bool):
        self.for_blocks = for_blocks
        # Whether a function of the program makes values of data types.
        self.makes_values = any(state.tracer.keys for state in states)
        # Whether random numbers are drawn by keys of tokens. With `memo`, equal calls are one call,
        # which has the keys of several tokens.
        is_memo = getattr(states[0].function, "memo", False)
        self.draws = not is_memo and any(map(_draws, states))
        # The types of the values that tokens carry, by name.
        self.carried: dict[str, Type] = {}
        if any(asserts_something(state.tracer.graph.get_operations()) for state in states):
            self.carried |= FOR_ERRORS
        if self.makes_values or self.draws:
            self.carried |= FOR_KEYS
        # For each function, the tensors that it takes in addition to its own arguments.
        self.free = _free_tensors(states)
        # The graphs built so far, by the TensorFlow graph of each function. A function that owns
        # tensors is built before the functions that close over them.
        self.owners: dict[tf.Graph, FunctionGraph] = {}
        # The labels of call sites, and the numbers of places where values are made.
        self.labels, self.places = itertools.count(), itertools.count()


def _draws(state: FunctionState) -> bool:
    operations, kind = state.tracer.graph.get_operations(), state.tracer.kind
    return hold_draws(operations) or any(is_draw_of_tokens(item, kind) for item in operations)


def _free_tensors(states: Sequence[FunctionState]) -> Mapping[str, Sequence[FreeTensor]]:
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
                    for reference, passed in free[call.callee].items()
                    if passed.tensor.graph is not state.tracer.graph
                )
    return {name: list(found.values()) for name, found in free.items()}


class Carrying:
    """The values that tokens of one function carry: arguments that come after all others.

    Args:
        ops: The nodes of the function.
        facts: What is known of the program.
    """

    def __init__(self, ops: OpNodes, facts: ProgramFacts):
        self._ops = ops
        self._labels = facts.labels
        self._tensors: dict[str, tf.Tensor] = {}
        for name, found in facts.carried.items():
            self._tensors[name] = self._placeholder(found)
            parameter = ops.parameter(name, found, is_carried=True)
            ops.values[self._tensors[name].name] = parameter

    @property
    def for_errors(self) -> list[tf.Tensor]:
        """The carried values by which errors name a token."""
        return [self._tensors[name] for name in FOR_ERRORS]

    def inside(self, operation: tf.Operation, region: Region | None) -> list[Value]:
        """Returns what tokens of the next call carry, for a call at the place of an op."""
        label = next(self._labels)
        found = []
        for name, tensor in self._tensors.items():
            here = self.key(operation) if name == "key" else tensor
            inside = self._ops.made(operation, partial(carried_inside, name, label, here))
            found.append(self._ops.into(inside, region))
        return found

    def make_key(self, key: tf.Tensor, number: int) -> None:
        """Computes the keys of values that tokens make, in place of the placeholder for the keys.

        Args:
            key: The placeholder.
            number: The number of the place in the program where the values are made.
        """
        self._ops.replace(key.op, partial(key_of_made, number, self.key(key.op)))

    def key(self, operation: tf.Operation) -> tf.Tensor:
        """Returns the keys of the tokens that reach an op; each entry of a row has its own."""
        key = self._tensors["key"]
        for record in self._ops.regions.maps_around(operation):
            key = self._ops.made(operation, partial(key_of_entry, self._place(record), key))
        return key

    def _place(self, record: MapRecord) -> tf.Tensor:
        """Returns the place of each entry in its row, int32 `[entries]`, in the entries' region."""
        ops, rows = self._ops, record.rows[0]
        place = self._placeholder(Type(tf.int32, ()))
        places = ops.made(rows.ids.op, rows.places)
        region = ops.regions.of_entries(record)
        ops.values[place.name] = ops.writer.enter(
            ops.into(places, region.parent),
            [region.selector],
            region,
            ops.tracer.type(place),
            record.source,
        )
        return place

    def _placeholder(self, found: Type) -> tf.Tensor:
        with self._ops.tracer.graph.as_default():
            (placeholder,) = self._ops.tracer.placeholders([found])
        return placeholder
