"""Passes by which less is kept: values are computed again, and gradients added up wave by wave."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kerasrec._src.graph.values import Value
from kerasrec._src.ops.table import Is, has
from kerasrec._src.schedule.edit import Edits, can_repeat, edited
from kerasrec._src.schedule.instructions import (
    Fire,
    Instruction,
    Item,
    Load,
    Reduce,
    Reshape,
    Save,
    items_through,
)
from kerasrec._src.schedule.loads_and_saves import at_use_of
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Loop, Queues, Section


def cut_again(schedule: Schedule) -> Schedule:
    """Saves the unsplit tensor where a loop splits one; the backward pass splits it again.

    Each piece that is kept is one more array to carry through the loop, to write and to read.
    """
    saved = _saved(schedule)
    edits: Edits = {}
    for section, _, fire in schedule.of(Fire):
        if isinstance(section, Loop) and has(fire.node.op, Is.CUTTING):
            are_saved = [value in saved for value in fire.outputs]
            if all(are_saved) or (any(are_saved) and fire.whole in saved):
                edits[fire] = [replace(fire, at_use=True)]
    return edited(schedule, cut_again, edits)


def move_again(schedule: Schedule) -> Schedule:
    """Runs ops again that only move numbers, unless that would keep more of them.

    Reading rows of a shared table, what calls have returned, or pieces of a saved value is faster
    than writing a copy, saving it and loading it.
    """
    saved = _saved(schedule)
    at_use = at_use_of(schedule)
    edits: Edits = {}
    for _, _, fire in schedule.of(Fire):
        if fire.at_use or not has(fire.node.op, Is.MOVING):
            continue
        kept = [value for value in fire.outputs if value in saved]
        read = [item for item in items_through(fire.reads, at_use) if item not in at_use]
        more = [item for item in read if item not in saved]
        if kept and _bytes(more) <= _bytes(kept):
            saved.difference_update(kept)
            saved.update(more)
            changed = replace(fire, at_use=True)
            at_use.update(dict.fromkeys(fire.outputs, changed))
            edits[fire] = [changed]
    return edited(schedule, move_again, edits)


def rematerialize(schedule: Schedule) -> Schedule:
    """Computes values of forward loops again, if only loops of the backward pass load them.

    Less is kept then: the results of calls, from which the rest follows (Chen et al. 2016,
    "Training Deep Nets with Sublinear Memory Cost", section 4). Values that are read for all tokens
    at once are kept: TensorFlow would find that they are computed twice in one graph, and keep them
    after all.
    """
    loaded_elsewhere: set[Item] = {
        load.item
        for section, _, load in schedule.of(Load)
        if not (isinstance(section, Loop) and section.sweep)
    }
    edits: Edits = {
        instruction: [replace(instruction, at_use=True)]
        for section, _, instruction in schedule.instructions()
        if _may_repeat(section, instruction)
        and not loaded_elsewhere.intersection(instruction.writes)
    }
    return edited(schedule, rematerialize, edits)


def sum_by_wave(schedule: Schedule) -> Schedule:
    """Adds up gradients of weights wave by wave, if their parts come from loops.

    Then no cotangents are kept for the section that would sum them, and no forward values either;
    but each wave adds as many numbers as the weight has. Queues take many small blocks: there all
    is summed at once.
    """
    kept_by_loops = {
        save.item for section, _, save in schedule.of(Save) if isinstance(section, Loop)
    }
    edits: Edits = {}
    for loop, section in zip(schedule.sections, schedule.sections[1:], strict=False):
        if not isinstance(loop, Loop) or isinstance(loop, Queues):
            continue
        for segment in section.segments:
            makers = {item: maker for maker in segment.instructions for item in maker.writes}
            loads = {load.item for load in segment.of(Load)}
            for reduce in segment.of(Reduce):
                read = loads.intersection(items_through(reduce.reads, makers))
                if reduce.can_be_by_wave and read <= kept_by_loops:
                    edits[reduce] = [replace(reduce, by_wave=True)]
    return edited(schedule, sum_by_wave, edits)


def _saved(schedule: Schedule) -> set[Item]:
    return {save.item for _, _, save in schedule.of(Save)}


def _bytes(items: Iterable[Item]) -> int:
    return sum(item.type.num_bytes for item in items if isinstance(item, Value))


def _may_repeat(section: Section, instruction: Instruction) -> bool:
    if section.sweep or not isinstance(section, Loop) or instruction.at_use:
        return False
    values = [item for item in instruction.writes if isinstance(item, Value)]
    if len(values) < len(instruction.writes) or not all(
        value.type.is_differentiable for value in values
    ):
        return False
    return (
        can_repeat(instruction)
        if isinstance(instruction, Fire)
        else isinstance(instruction, Reshape)
    )
