"""The pass that `devices=` asks for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import tensorflow as tf

from kerasrec._src.graph.nodes import Primitive
from kerasrec._src.graph.types import Kind
from kerasrec._src.graph.values import Value
from kerasrec._src.ops.table import Is, has, op_named
from kerasrec._src.ops.views import transposes
from kerasrec._src.schedule.edit import Edits, edited, fires, readers_of
from kerasrec._src.schedule.instructions import Divide, Fire, Instruction, Item, Join, Parts
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Segment


def among_devices(schedule: Schedule, devices: Sequence[str]) -> Schedule:
    """Divides the tokens of every body among devices.

    Vasilakopoulos (2024, section 7.1) proposes several instances of a body, so that calls from many
    places need not all pass through one. Here calls that are ready come together as a wave, so
    waves are divided: each device takes an even part of a wave's tokens, and the results are joined
    again. The choice of branches, and the values that waves pass to each other, stay whole.

    Divided are ops that compute floats of a known shape for each token, and products that sum over
    tokens for the gradient of a weight, whose parts are added up. Whole stay draws of random
    numbers, lookups in shared tables or by the positions of tokens, ops that read the shape of a
    wave or a variable, or may have several rows for a token, and ops that the user has placed.

    Args:
        schedule: to be changed.
        devices: on which parts run.
    """
    fires_once = dict.fromkeys(fire for _, _, fire in schedule.of(Fire))
    times_written = Counter(value for fire in fires_once for value in fire.outputs)
    readers = readers_of(schedule)
    edits: Edits = {}
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
                edits.update({fire: [] for fire in group})
                edits[group[0]] = list(_Group(group, devices, readers).instructions())
    return edited(schedule, among_devices, edits)


def can_divide(fire: Fire) -> bool:
    """Whether an op gives the same on parts of its tokens as on all, or the parts of a sum."""
    node, facts = fire.node, op_named(fire.node.op)
    if not isinstance(node, Primitive) or node.function or node.device or fire.is_masked:
        return False
    if node.operation.op_def.is_stateful or not any(_is_of_tokens(item) for item in fire.inputs):
        return False
    if any(item.type.kind is Kind.WAVE or _is_handle(item) for item in fire.inputs):
        return False
    if facts.works_by_position or _looks_up(fire):
        return False
    values = [item for item in (*fire.inputs, *fire.outputs) if not item.is_shared]
    if not all(item.type.is_static for item in values):
        return False  # It may have several rows for a token.
    before, after = fire.inputs[0].type, fire.outputs[0].type
    if has(node.op, Is.RESHAPING) and before.num_bytes != after.num_bytes:
        return False  # It makes one row of several, or several of one.
    if not all(item.type.is_differentiable for item in fire.outputs):
        return False
    return all(map(_is_of_tokens, fire.outputs)) or _is_sum(fire)


def _looks_up(fire: Fire) -> bool:
    """Whether an op takes rows of a shared table, which would be copied, or of other tokens."""
    node = fire.node
    if not has(node.op, Is.GATHERING) or not isinstance(node, Primitive):
        return False
    return fire.inputs[0].is_shared or node.operation.get_attr("batch_dims") == 0


def _is_of_tokens(value: Value) -> bool:
    return value.type.kind is Kind.TOKEN


def _is_handle(value: Value) -> bool:
    return value.type.dtype in (tf.resource, tf.variant)


def _is_sum(fire: Fire) -> bool:
    """Whether an op is a product that sums over tokens, for the gradient of a weight."""
    if not isinstance(fire.node, Primitive) or not all(map(_is_of_tokens, fire.inputs)):
        return False
    return transposes(fire.node.operation) == (True, False)


def _groups(segment: Segment, candidates: set[Fire]) -> list[list[Fire]]:
    """Ops of the same tokens that can run together, with nothing else in between."""
    makers: dict[Item, Instruction] = {}
    levels: dict[Instruction, int] = {}
    groups: dict[object, list[Fire]] = defaultdict(list)
    for instruction in segment.instructions:
        key = _tokens_of(instruction) if instruction in candidates else None
        levels[instruction] = 0
        for maker in (makers[item] for item in instruction.reads if item in makers):
            is_other_group = maker in candidates and _tokens_of(maker) != key
            levels[instruction] = max(levels[instruction], levels[maker] + is_other_group)
        if isinstance(instruction, Fire) and key:
            groups[key, levels[instruction]].append(instruction)
        makers.update(dict.fromkeys(instruction.writes, instruction))
    return list(groups.values())


def _tokens_of(instruction: Instruction) -> tuple[object, ...]:
    """The key of ops that run together: their tokens, and whether they run again."""
    (region,) = {item.region for item in instruction.reads if isinstance(item, Value)}
    return region, instruction.at_use


@dataclass
class _Group:
    """Ops that run once on each device.

    Args:
        fires: in order.
        devices: on which they run.
        readers: the instructions of the schedule that read each item.
    """

    fires: Sequence[Fire]
    devices: Sequence[str]
    readers: dict[Item, list[Instruction]]

    def instructions(self) -> Iterator[Instruction]:
        """The instructions that replace them."""
        at_use, own = self.fires[0].at_use, set(self.fires)
        written = dict.fromkeys(value for fire in self.fires for value in fire.outputs)
        read = [value for fire in self.fires for value in fire.inputs if _is_of_tokens(value)]
        parts: dict[Value, list[Value]] = {}
        for value in dict.fromkeys(value for value in read if value not in written):
            parts[value] = Parts([value], [value.type] * len(self.devices), value.region).outputs
            yield Divide(value, tuple(parts[value]), at_use=at_use)
        for fire in self.fires:
            copies = [replace(fire.node, device=device) for device in self.devices]
            for place, value in enumerate(fire.outputs):
                parts[value] = [node.output(place) for node in copies]
            for number, node in enumerate(copies):
                inputs = [
                    parts[value][number] if value in parts else value for value in fire.inputs
                ]
                yield Fire(node, tuple(inputs), tuple(node.outputs), at_use=at_use)
        read_by_others = [value for value in written if not own.issuperset(self.readers[value])]
        joined = tuple(filter(_is_of_tokens, read_by_others))
        if joined:
            of_parts = tuple(tuple(parts[value]) for value in joined)
            yield Join(joined, of_parts, at_use=at_use)
        for value in read_by_others:
            if value not in joined:
                yield from fires(lambda *of: [tf.raw_ops.AddN(inputs=of)], parts[value], [value])
