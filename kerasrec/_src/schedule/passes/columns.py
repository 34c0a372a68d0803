"""Ops that cut a row into columns, and the pass `side_by_side`, which neither cuts nor joins."""

from __future__ import annotations

from collections.abc import Sequence

from kerasrec._src.graph.types import Kind
from kerasrec._src.graph.values import Value
from kerasrec._src.ops.axes import joined, unstacked
from kerasrec._src.ops.table import Is, facts_of, has
from kerasrec._src.ops.views import place_of_cut
from kerasrec._src.schedule.edit import edited
from kerasrec._src.schedule.instructions import (
    Fire,
    Instruction,
    Interleave,
    Item,
    Reshape,
    Separate,
)
from kerasrec._src.schedule.schedule import Schedule


def side_by_side(schedule: Schedule) -> Schedule:
    """Joins what calls returned, and cuts what calls are sent, without a copy.

    The rows of call sites that call for the same tokens are in turns. So what a token's calls
    return is one row in memory already, and so is what they are sent if it was cut from one row.
    """
    name = side_by_side.__name__
    cuts: dict[Item, Fire] = {}
    joints = {separate.outputs: separate for _, _, separate in schedule.of(Separate)}
    edits: dict[Instruction, list[Instruction]] = {}
    for _, _, fire in schedule.of(Fire):
        cuts.update(dict.fromkeys(fire.outputs, fire))
        columns = fire.inputs[:-1]
        joint = joints.get(columns) if facts_of(fire.node.op).axes is joined else None
        if joint and all(len(value.type.shape or ()) == 1 for value in columns):
            output = fire.outputs[0]
            edits[fire] = [Reshape(output, (joint.value,), by=name, at_use=fire.at_use)]
    for _, _, interleave in schedule.of(Interleave):
        cut = cuts.get(interleave.inputs[0])
        if cut and _cuts_into(cut, interleave.inputs):
            whole = (cut_value(cut),)
            edits[interleave] = [Reshape(interleave.output, whole, by=name, at_use=True)]
    return edited(schedule, edits)


def cut_value(fire: Fire) -> Value:
    """What an op that cuts a value into pieces cuts."""
    return fire.inputs[place_of_cut(fire.node.op)]


def widths(columns: Sequence[Value]) -> list[int]:
    """How many numbers each column has for a token."""
    return [(value.type.shape or (0,))[-1] or 0 for value in columns]


def _cuts_into(fire: Fire, items: Sequence[Item]) -> bool:
    """Whether an op cuts the row of a token into these values, from left to right, all alike."""
    if not has(fire.node.op, Is.CUTTING) or items != fire.outputs:
        return False
    (piece, *others) = {value.type for value in fire.outputs}
    whole = cut_value(fire).type
    if others or not piece.is_static or piece.kind is not Kind.TOKEN:
        return False
    if facts_of(fire.node.op).axes is unstacked:
        return whole.shape == (len(items), *(piece.shape or ()))
    return len(piece.shape or ()) == 1
