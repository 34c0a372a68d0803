"""The pass that `instances=` asks for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import tensorflow as tf

from kerasrec._src.graph.nodes import Primitive
from kerasrec._src.graph.types import Kind
from kerasrec._src.graph.values import Value
from kerasrec._src.schedule.edit import edited, fires, readers_of
from kerasrec._src.schedule.instructions import Divide, Fire, Instruction, Item, Join, Parts
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Segment

NAME = "among_instances"
# These may read or write rows by their positions among all tokens.
_BY_POSITION = ("GatherNd", "ScatterNd", "TensorScatter", "Segment", "DynamicStitch", "Range")


def among_instances(schedule: Schedule, devices: Sequence[str]) -> Schedule:
    """Divides the tokens of every body among instances of it, each on a device of its own.

    Vasilakopoulos (2024, section 7.1) proposes several instances of a body, so that calls from many
    places need not all pass through one. Here calls that are ready come together as a wave, so a
    wave is what is divided: each instance takes an even part of its tokens, and what they compute
    is joined again. Which tokens take which branch, and what waves pass to each other, stays whole.

    Divided are ops that compute floats of a known shape for each token, and products that sum over
    tokens for the gradient of a weight, whose parts are added up. Whole stay draws of random
    numbers, lookups in shared tables or by the positions of tokens, ops that read the shape of a
    wave or a variable, or may have several rows for a token, and ops that the user has placed.

    Args:
        schedule: to be changed.
        devices: one for each instance.
    """
    fires_once = dict.fromkeys(fire for _, _, fire in schedule.of(Fire))
    times_written = Counter(value for fire in fires_once for value in fire.outputs)
    readers = readers_of(schedule)
    edits: dict[Instruction, list[Instruction]] = {}
    for section in schedule.sections:
        for segment in section.segments:
            candidates = {
                fire
                for fire in segment.of(Fire)
                if fire not in edits
                and can_divide(fire)
                and all(times_written[value] == 1 for value in fire.outputs)
            }
            for group in _groups(segment, candidates):
                edits.update({one: [] for one in group})
                edits[group[0]] = list(_Group(group, devices, readers).instructions())
    return edited(schedule, edits)


def can_divide(one: Fire) -> bool:
    """Whether an op gives the same on parts of its tokens as on all, or the parts of a sum."""
    node = one.node
    if not isinstance(node, Primitive) or node.function or node.device or one.is_masked:
        return False
    if node.operation.op_def.is_stateful or not any(_is_of_tokens(item) for item in one.inputs):
        return False
    if any(item.type.kind is Kind.WAVE or _is_handle(item) for item in one.inputs):
        return False
    if any(name in node.op for name in _BY_POSITION) or _looks_up(one):
        return False
    values = [item for item in (*one.inputs, *one.outputs) if not item.is_shared]
    if not all(item.type.is_static for item in values):
        return False  # It may have several rows for a token.
    if node.op == "Reshape" and one.inputs[0].type.num_bytes != one.outputs[0].type.num_bytes:
        return False  # It makes one row of several, or several of one.
    if not all(item.type.is_differentiable for item in one.outputs):
        return False
    return all(map(_is_of_tokens, one.outputs)) or _is_sum(one)


def _looks_up(one: Fire) -> bool:
    """Whether an op takes rows of a shared table, which would be copied, or of other tokens."""
    node = one.node
    if node.op != "GatherV2" or not isinstance(node, Primitive):
        return False
    return one.inputs[0].is_shared or node.operation.get_attr("batch_dims") == 0


def _is_of_tokens(value: Value) -> bool:
    return value.type.kind is Kind.TOKEN


def _is_handle(value: Value) -> bool:
    return value.type.dtype in (tf.resource, tf.variant)


def _is_sum(one: Fire) -> bool:
    """Whether an op is a product that sums over tokens, for the gradient of a weight."""
    if one.node.op != "MatMul" or not all(map(_is_of_tokens, one.inputs)):
        return False
    return bool(one.node.operation.get_attr("transpose_a"))  # type: ignore[attr-defined]


def _groups(segment: Segment, candidates: set[Fire]) -> list[list[Fire]]:
    """Ops of the same tokens that can run together, with nothing else in between."""
    makers: dict[Item, Instruction] = {}
    levels: dict[Instruction, int] = {}
    found: dict[object, list[Fire]] = defaultdict(list)
    for one in segment.instructions:
        key = _tokens_of(one) if one in candidates else None
        levels[one] = 0
        for other in (makers[item] for item in one.reads if item in makers):
            is_other_group = other in candidates and _tokens_of(other) != key
            levels[one] = max(levels[one], levels[other] + is_other_group)
        if isinstance(one, Fire) and key:
            found[key, levels[one]].append(one)
        makers.update(dict.fromkeys(one.writes, one))
    return list(found.values())


def _tokens_of(one: Instruction) -> tuple[object, ...]:
    """What ops have in common that run together: their tokens, and whether they run again."""
    (region,) = {item.region for item in one.reads if isinstance(item, Value)}
    return region, one.at_use


@dataclass
class _Group:
    """Ops that run once for each instance.

    Args:
        ones: in order.
        devices: of the instances.
        readers: the instructions of the schedule that read each item.
    """

    ones: Sequence[Fire]
    devices: Sequence[str]
    readers: dict[Item, list[Instruction]]

    def instructions(self) -> Iterator[Instruction]:
        """What stands in their place."""
        at_use, own = self.ones[0].at_use, set(self.ones)
        written = dict.fromkeys(item for one in self.ones for item in one.outputs)
        read = [item for one in self.ones for item in one.inputs if _is_of_tokens(item)]
        parts: dict[Value, list[Value]] = {}
        for value in dict.fromkeys(item for item in read if item not in written):
            parts[value] = Parts([value], [value.type] * len(self.devices), value.region).outputs
            yield Divide(value, tuple(parts[value]), by=NAME, at_use=at_use)
        for one in self.ones:
            copies = [replace(one.node, device=device) for device in self.devices]
            for place, value in enumerate(one.outputs):
                parts[value] = [node.output(place) for node in copies]
            for number, node in enumerate(copies):
                inputs = [parts[item][number] if item in parts else item for item in one.inputs]
                yield Fire(node, tuple(inputs), tuple(node.outputs), by=NAME, at_use=at_use)
        read_by_others = [item for item in written if not own.issuperset(self.readers[item])]
        joined = tuple(filter(_is_of_tokens, read_by_others))
        if joined:
            of_parts = tuple(tuple(parts[item]) for item in joined)
            yield Join(joined, of_parts, by=NAME, at_use=at_use)
        for value in read_by_others:
            if value not in joined:
                yield from fires(
                    lambda *of: [tf.raw_ops.AddN(inputs=of)], parts[value], [value], NAME
                )
