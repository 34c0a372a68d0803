"""Each rule of schedules with one that keeps it and one that breaks it."""

from dataclasses import replace

import pytest

from kerasrec._src.errors import GraphError
from kerasrec._src.graph.graph import Value, present
from kerasrec._src.schedule import check
from kerasrec._src.schedule.build import build
from kerasrec._src.schedule.check import RULES, check_schedule
from kerasrec._src.schedule.instructions import (
    Divide,
    Fire,
    Gather,
    HandOn,
    Join,
    Load,
    Reduce,
    Return,
    Save,
    Select,
    Send,
    Wait,
)
from kerasrec._src.schedule.passes import WAVE_PASSES
from kerasrec._src.schedule.passes.among_devices import among_devices
from kerasrec._src.schedule.sections import Direction, Loop
from kerasrec._src.transform.extend import extend
from tests.engine.helpers import lowered
from tests.programs import FEW, MORE, PROGRAMS, each

(TREE,) = [program for program in PROGRAMS if program.name == "gated_tree"]
(WALK,) = [program for program in PROGRAMS if program.name == "walk"]


def tree():
    return lowered(TREE, engine="waves").program.schedule


def in_parts():
    """The tree on two devices."""
    return among_devices(tree(), ["/CPU:0", "/CPU:1"])


def walk():
    """A program of several rounds, which runs by queues."""
    return lowered(WALK, engine="waves").program.schedule


def walk_twice():
    """The same with its second derivative."""
    return build(extend(walk().graph))


def with_segments(schedule, change):
    """The schedule with other instructions: `change` takes a section and those of a segment."""
    return replace(
        schedule,
        sections=tuple(
            replace(
                section,
                segments=tuple(
                    replace(item, instructions=tuple(change(section, list(item.instructions))))
                    for item in section.segments
                ),
            )
            for section in schedule.sections
        ),
    )


def without(schedule, kind, condition=lambda section, one: True):
    return with_segments(
        schedule,
        lambda section, ones: [
            one for one in ones if not (isinstance(one, kind) and condition(section, one))
        ],
    )


def swapped(schedule, kind, change, condition=lambda section, one: True):
    return with_segments(
        schedule,
        lambda section, ones: [
            change(one) if isinstance(one, kind) and condition(section, one) else one
            for one in ones
        ],
    )


def waiting(section, ones):
    """Instructions after which all tokens wait."""
    return [*ones, Wait((), then=1)] if isinstance(section, Loop) else ones


def is_value(_, one):
    return isinstance(one.item, Value)


BAD = {
    check.read_after_written: lambda: with_segments(tree(), lambda _, ones: ones[::-1]),
    check.loads_are_saved: lambda: without(tree(), Save),
    check.saves_are_loaded: lambda: without(tree(), Load, is_value),
    check.linkage_is_in_its_place: lambda: with_segments(
        tree(), lambda section, ones: [*ones, Return(())] if not section.stage else ones
    ),
    check.calls_are_whole: lambda: without(tree(), Send),
    check.frames_are_done: lambda: without(walk(), Return, lambda section, _: not section.sweep),
    check.frames_return_again: lambda: without(
        walk_twice(), Return, lambda section, one: section.sweep == 2 and one.region
    ),
    check.instructions_are_whole: lambda: swapped(
        tree(), Select, lambda one: replace(one, regions=one.regions[:1])
    ),
    check.parts_stay_together: lambda: swapped(
        in_parts(), Join, lambda one: replace(one, parts=tuple(of[::-1] for of in one.parts))
    ),
    check.shared_values_are_known: lambda: replace(tree(), prepared=()),
    check.sums_have_a_place: lambda: swapped(
        tree(), Reduce, lambda one: replace(one, by_wave=not one.by_wave)
    ),
}


def test_every_rule_has_an_example():
    assert set(BAD) == set(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rules_tell_good_from_bad(rule):
    assert list(rule(tree())) == list(rule(walk())) == list(rule(walk_twice())) == []
    bad = BAD[rule]()
    assert list(rule(bad))
    with pytest.raises(GraphError, match="A schedule breaks a rule"):
        check_schedule(bad)


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        (
            check.loads_are_saved,
            lambda: swapped(tree(), Save, lambda one: replace(one, divided=False)),
        ),
        (
            check.calls_are_whole,
            lambda: swapped(tree(), Send, lambda one: replace(one, values=one.values * 2)),
        ),
        (
            check.linkage_is_in_its_place,
            lambda: replace(
                tree(),
                sections=tuple(
                    replace(section, direction=Direction.UP)
                    if isinstance(section, Loop)
                    else section
                    for section in tree().sections
                ),
            ),
        ),
        (
            check.loads_are_saved,
            lambda: swapped(walk(), Save, lambda one: replace(one, by_frame=not one.by_frame)),
        ),
        (
            check.linkage_is_in_its_place,
            lambda: swapped(walk(), Send, lambda one: replace(one, by_frame=False)),
        ),
        (check.linkage_is_in_its_place, lambda: with_segments(tree(), waiting)),
        (check.calls_are_whole, lambda: without(walk(), Send)),
        (check.frames_are_done, lambda: without(walk(), Wait)),
        (check.frames_are_done, lambda: without(walk(), HandOn)),
        (check.frames_are_done, lambda: with_segments(walk(), waiting)),
        (
            check.instructions_are_whole,
            lambda: swapped(tree(), Fire, lambda one: replace(one, inputs=one.inputs[:-1])),
        ),
        (
            check.instructions_are_whole,
            lambda: swapped(
                tree(), Gather, lambda one: replace(one, inputs=(one.inputs[0], other(one)))
            ),
        ),
        (
            check.parts_stay_together,
            lambda: swapped(
                in_parts(), Divide, lambda one: replace(one, outputs=one.outputs[::-1])
            ),
        ),
        (check.parts_stay_together, lambda: with_segments(in_parts(), saving_a_part)),
        (
            check.read_after_written,
            lambda: with_segments(tree(), lambda _, ones: [ones[0], *ones] if ones else ones),
        ),
    ],
)
def test_other_ways_to_break_a_rule(rule, change):
    assert list(rule(change()))


def saving_a_part(_, ones):
    return [*ones, *(Save(one.outputs[0]) for one in ones if isinstance(one, Divide))]


def other(one):
    """Another branch than that which a value is gathered for."""
    region = one.inputs[1]
    return region.siblings[1 - region.branch]


@each(few=FEW, many=MORE)
def test_passes_keep_all_rules(program):
    found = lowered(program, engine="waves", passes=WAVE_PASSES).program.schedule
    check_schedule(found)
    assert found.passes == tuple(one.__name__ for one in WAVE_PASSES)
    entry = found.graph.bodies[found.graph.entry]
    returns = [
        len(one.values)
        for section, segment, one in found.instructions()
        if isinstance(one, Return) and segment.body == entry.name
        if section.sweep or not found.in_queues  # There branches return.
    ]
    wanted = [len(present(sweep.outputs)) for sweep in entry.sweeps[found.in_queues :]]
    assert sum(returns) == sum(wanted)
