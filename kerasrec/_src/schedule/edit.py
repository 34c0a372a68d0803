"""Helpers with which passes read and change schedules."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from kerasrec._src.graph.nodes import Primitive, operations
from kerasrec._src.graph.types import Kind, Type
from kerasrec._src.graph.values import Node, Value
from kerasrec._src.ops.table import is_constant
from kerasrec._src.schedule.hoist import hoisted
from kerasrec._src.schedule.instructions import (
    Fire,
    Instruction,
    InTable,
    Item,
    Observe,
    Reduce,
    Save,
)
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Section, Segment
from kerasrec._src.trace.functions import unrepeatable_op

Edits = dict[Instruction, Sequence[Instruction]]


def edited(
    schedule: Schedule,
    by: Callable[..., Schedule],
    edits: Mapping[Instruction, Sequence[Instruction]],
    prepared: Sequence[Fire] = (),
) -> Schedule:
    """Returns a schedule in which some instructions are replaced by others.

    Args:
        schedule: The schedule to change.
        by: The pass; new instructions bear its name.
        edits: For each instruction to replace, the new instructions.
        prepared: More instructions that compute values from SHARED values, for all segments.
    """
    named = {old: [replace(new, by=by.__name__) for new in edits[old]] for old in edits}

    def changed(_: Section, segment: Segment) -> Iterator[Segment]:
        yield segment.holding(new for old in segment.instructions for new in named.get(old, (old,)))

    own = (replace(fire, by=by.__name__) for fire in prepared)
    all_prepared = (*schedule.prepared, *own)
    return hoisted(replace(schedule.with_segments(changed), prepared=all_prepared))


def readers_of(schedule: Schedule) -> dict[Item, list[Instruction]]:
    """Returns the instructions that read each item, each once, without those that save it."""
    readers: dict[Item, dict[Instruction, None]] = defaultdict(dict)
    for _, _, reader in schedule.instructions():
        if not isinstance(reader, Save):
            for item in reader.inputs if isinstance(reader, Fire) else reader.reads:
                readers[item][reader] = None
    return defaultdict(list, {item: list(ones) for item, ones in readers.items()})


def can_repeat(fire: Fire) -> bool:
    """Whether an op holds no function, and gives the same result when it runs again."""
    return fire.node.function is None and not unrepeatable_op(operations([fire.node]))


def gives_no_floats(instruction: Instruction) -> bool:
    """Whether an instruction computes no floats, and may run elsewhere or again."""
    if isinstance(instruction, Observe | InTable | Reduce):
        return False
    if isinstance(instruction, Fire) and not can_repeat(instruction):
        return False
    values = [item for item in instruction.writes if isinstance(item, Value)]
    return not any(value.type.is_differentiable for value in values)


def fires(
    function: Callable[..., Any], inputs: Sequence[Value], outputs: Sequence[Value]
) -> list[Fire]:
    """Returns the ops of a TensorFlow function as instructions.

    Args:
        function: Takes tensors for the inputs and returns a list of tensors for the outputs.
        inputs: The values that it reads.
        outputs: The values that it computes, all of one kind and region.
    """
    return _traced(function, inputs, outputs, outputs[0].type.kind, outputs[0].node)[0]


def prepared(
    function: Callable[..., Any], inputs: Sequence[Value]
) -> tuple[list[Fire], list[Value]]:
    """Returns the ops of a function of SHARED values as instructions, and their results."""
    return _traced(function, inputs, [], Kind.SHARED, inputs[0].node)


def _traced(
    function: Callable[..., Any],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    kind: Kind,
    origin: Node,
) -> tuple[list[Fire], list[Value]]:
    specs = tuple(value.type.tensor_spec() for value in inputs)
    graph, tensors, results = _graph_of(function, specs)
    known = {tensor.name: value for tensor, value in zip(tensors, inputs, strict=True)}
    wanted = {tensor.name: value for tensor, value in zip(results, outputs, strict=False)}
    fires = []
    for operation in graph.get_operations()[len(inputs) :]:
        read = tuple(known[tensor.name] for tensor in operation.inputs)
        is_shared = all(value.is_shared for value in read)
        types = [Type.of(item, Kind.SHARED if is_shared else kind) for item in operation.outputs]
        region = None if is_shared else origin.region
        node = Primitive(list(read), types, region, origin.source, operation=operation)
        names = [tensor.name for tensor in operation.outputs]
        written = tuple(map(wanted.get, names, node.outputs))
        known.update(zip(names, written, strict=True))
        if not is_constant(operation.type):
            fires.append(Fire(node, read, written, at_use=kind is Kind.WAVE))
    return fires, [known[tensor.name] for tensor in results]


@functools.lru_cache(maxsize=32)  # A weight for each kind of a schema is transposed in one way.
def _graph_of(
    function: Callable[..., Any], specs: Sequence[tf.TensorSpec]
) -> tuple[tf.Graph, Sequence[tf.Tensor], Sequence[tf.Tensor]]:
    """Returns the graph of a function, its placeholders, and its results."""
    with tf.Graph().as_default() as graph:
        tensors = [tf.compat.v1.placeholder(spec.dtype, spec.shape) for spec in specs]
        return graph, tensors, function(*tensors)
