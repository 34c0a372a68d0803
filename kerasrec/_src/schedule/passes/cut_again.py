"""The pass `cut_again`."""

from __future__ import annotations

from dataclasses import replace

from kerasrec._src.schedule.edit import edited
from kerasrec._src.schedule.instructions import Fire, Instruction, Save
from kerasrec._src.schedule.passes.products import CUTS, cut_value
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Loop


def cut_again(schedule: Schedule) -> Schedule:
    """Saves the unsplit tensor where a loop splits one; the backward pass splits it again.

    Each piece that is kept is one more array to carry through the loop, to write and to read.
    """
    saved = {one.item for _, _, one in schedule.instructions() if isinstance(one, Save)}
    edits: dict[Instruction, list[Instruction]] = {}
    for section, _, one in schedule.instructions():
        if isinstance(section, Loop) and isinstance(one, Fire) and one.node.op in CUTS:
            are_saved = [value in saved for value in one.outputs]
            if all(are_saved) or (any(are_saved) and cut_value(one) in saved):
                edits[one] = [replace(one, at_use=True, by=cut_again.__name__)]
    return edited(schedule, edits)
