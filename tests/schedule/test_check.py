"""Each rule of schedules with what keeps it and what breaks it."""

from dataclasses import replace

import pytest

from kerasrec.errors import GraphError
from kerasrec.graph.graph import Value, present
from kerasrec.schedule import check
from kerasrec.schedule.check import RULES, check_schedule
from kerasrec.schedule.instructions import (
    Direction,
    Fire,
    Gather,
    Load,
    Loop,
    Reduce,
    Return,
    Save,
    Select,
    Send,
)
from kerasrec.schedule.passes import ALL_PASSES
from tests.engine.helpers import lowered
from tests.programs import FEW, MORE, PROGRAMS, each

(TREE,) = [program for program in PROGRAMS if program.name == "gated_tree"]


def tree():
    return lowered(TREE, engine="waves").waves.schedule


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
    check.regions_agree: lambda: swapped(
        tree(), Select, lambda one: replace(one, regions=one.regions[:1])
    ),
    check.ops_are_whole: lambda: swapped(
        tree(), Fire, lambda one: replace(one, inputs=one.inputs[:-1])
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
    assert list(rule(tree())) == []
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
            check.regions_agree,
            lambda: swapped(
                tree(), Gather, lambda one: replace(one, inputs=(one.inputs[0], other(one)))
            ),
        ),
        (
            check.read_after_written,
            lambda: with_segments(tree(), lambda _, ones: [ones[0], *ones] if ones else ones),
        ),
    ],
)
def test_other_ways_to_break_a_rule(rule, change):
    assert list(rule(change()))


def other(one):
    """Another branch than that which a value is gathered for."""
    region = one.inputs[1]
    return region.siblings[1 - region.branch]


@each(few=FEW, many=MORE)
def test_passes_keep_all_rules(program):
    if program.num_rounds == 1:
        found = lowered(program, engine="waves", passes=ALL_PASSES).waves.schedule
        check_schedule(found)
        assert found.passes == tuple(one.__name__ for one in ALL_PASSES)
        entry = found.graph.bodies[found.graph.entry]
        returns = [
            len(one.values)
            for section, segment, one in found.instructions()
            if isinstance(one, Return) and segment.body == entry.name
        ]
        wanted = [len(present(sweep.outputs)) for sweep in entry.sweeps]
        assert sum(returns) == sum(wanted)
