"""The pass `side_by_side`."""

from __future__ import annotations

from kerasrec._src.graph.values import Value
from kerasrec._src.schedule.edit import edited
from kerasrec._src.schedule.instructions import (
    Fire,
    Instruction,
    Interleave,
    Item,
    Reshape,
    Separate,
)
from kerasrec._src.schedule.passes.products import cut_value, cuts_into
from kerasrec._src.schedule.schedule import Schedule


def side_by_side(schedule: Schedule) -> Schedule:
    """Joins what calls returned, and cuts what calls are sent, without a copy.

    The rows of call sites that call for the same tokens are in turns. So what a token's calls
    return is one row in memory already, and so is what they are sent if it was cut from one row.
    """
    name = side_by_side.__name__
    cuts: dict[Item, Fire] = {}
    joints: dict[tuple[Item | None, ...], Separate] = {}
    for _, _, one in schedule.instructions():
        if isinstance(one, Fire):
            cuts.update(dict.fromkeys(one.outputs, one))
        elif isinstance(one, Separate):
            joints[one.outputs] = one
    edits: dict[Instruction, list[Instruction]] = {}
    for _, _, one in schedule.instructions():
        if isinstance(one, Fire) and one.node.op == "ConcatV2":
            joint = joints.get(one.inputs[:-1])
            if joint and all(len(value.type.shape or ()) == 1 for value in one.inputs[:-1]):
                edits[one] = [Reshape(one.outputs[0], (joint.value,), by=name, at_use=one.at_use)]
        elif isinstance(one, Interleave):
            cut = cuts.get(one.inputs[0])
            if cut and cuts_into(cut, [item for item in one.inputs if isinstance(item, Value)]):
                edits[one] = [Reshape(one.output, (cut_value(cut),), by=name, at_use=True)]
    return edited(schedule, edits)
