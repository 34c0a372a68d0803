"""The pass `rematerialise`."""

from __future__ import annotations

from dataclasses import replace

from kerasrec._src.graph.values import Value
from kerasrec._src.schedule.edit import can_repeat, edited
from kerasrec._src.schedule.instructions import Fire, Instruction, Item, Load, Reshape
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Loop, Section


def rematerialise(schedule: Schedule) -> Schedule:
    """Computes values of forward loops again, if only loops of the backward pass load them.

    Less is kept then: what calls returned, from which the rest follows (Chen et al. 2016, "Training
    Deep Nets with Sublinear Memory Cost", section 4). What is read for all tokens at once is kept:
    TensorFlow would find that it is computed twice in one graph, and keep it after all.
    """
    loaded_elsewhere: set[Item] = {
        one.item
        for section, _, one in schedule.instructions()
        if isinstance(one, Load) and not (isinstance(section, Loop) and section.sweep)
    }
    edits: dict[Instruction, list[Instruction]] = {
        one: [replace(one, at_use=True, by=rematerialise.__name__)]
        for section, _, one in schedule.instructions()
        if _may_repeat(section, one) and not loaded_elsewhere.intersection(one.writes)
    }
    return edited(schedule, edits)


def _may_repeat(section: Section, one: Instruction) -> bool:
    if section.sweep or not isinstance(section, Loop) or one.at_use:
        return False
    if not all(isinstance(item, Value) and item.type.is_differentiable for item in one.writes):
        return False
    return can_repeat(one) if isinstance(one, Fire) else isinstance(one, Reshape)
