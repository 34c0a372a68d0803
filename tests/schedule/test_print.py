"""Prints of schedules, whole: they are what shows a reader how a program runs."""

import functools
import re

import numpy as np
import pytest

import kerasrec
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.schedule.build import build, build_blocks
from kerasrec._src.schedule.passes import (
    BLOCK_PASSES,
    WAVE_PASSES,
    cut_again,
    decide_at_once,
    optimize,
    side_by_side,
)
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.transform.extend import extend
from tests import golden_programs, golden_rows
from tests.golden.compare import assert_golden


@pytest.mark.parametrize(
    ("name", "function", "arguments", "passes"),
    [
        ("power", golden_programs.exp, (3.0, 4), ()),
        ("fib", golden_programs.fib, (3,), (side_by_side, decide_at_once)),
        ("even_odd", golden_programs.is_even, (3,), (side_by_side, decide_at_once)),
        ("walked", golden_programs.walked, (5, 1.0), (cut_again,)),
        ("ragged", golden_rows.scaled_size, (0, 1.0), (side_by_side, cut_again, decide_at_once)),
    ],
)
def test_small_programs(name, function, arguments, passes):
    schedule = optimize(build(function.extended_graph(*arguments)), passes)
    assert_golden(f"{name}_schedule", str(schedule))


@functools.cache
def tree_lstm_graph() -> TaggedGraph:
    layer = kerasrec.layers.TreeLSTM(4, return_sequences=True, name="tree_lstm")
    layer(np.zeros([1, 3, 2], np.float32), np.array([[[1, 2], [-1, -1], [-1, -1]]], np.int32))
    return layer.extended_graph()


def tree_lstm() -> Schedule:
    """A training step of a layer, whatever this machine's passes are."""
    return build(tree_lstm_graph())


def without_own_lines(schedule: Schedule) -> str:
    """A print without lines of the layer's own files, which are not part of the schedule."""
    return re.sub(r"  # \w+\.py:\d+(, )?", lambda found: "  # " if found[1] else "", str(schedule))


@pytest.mark.slow
def test_a_tree_lstm():
    """The whole step: what each wave does, what is kept, what is hoisted, what passes changed."""
    passes = [one for one in WAVE_PASSES if one.__name__ not in ("sum_by_wave", "rematerialize")]
    assert_golden("tree_lstm_schedule", without_own_lines(optimize(tree_lstm(), passes)))


@pytest.mark.slow
def test_a_tree_lstm_in_blocks():
    """The same for XLA: which place a frame goes through, and what its blocks keep."""
    schedule = optimize(build_blocks(tree_lstm_graph()), BLOCK_PASSES)
    assert_golden("tree_lstm_blocks", without_own_lines(schedule))


def test_a_printed_name_stands_for_one_value():
    text = str(build(golden_programs.exp.extended_graph(3.0, 4)))
    written = re.findall(r"^ +((?:%\d+(?:, )?)+):", text, re.MULTILINE)
    assert "loop 1, wave by wave, from the last wave up to the first" in text
    names = [name for line in written for name in line.split(", ")]
    assert names[0] == "%0"
    read = set(re.findall(r"%\d+", text))
    assert read == set(names)


def test_a_save_says_which_pass_loads_its_items():
    forward, backward = str(tree_lstm()).split("gradient, the backward pass")
    saved = re.findall(r"save( for both passes| for the backward pass|) (.*)", forward)
    assert {readers for readers, _ in saved} == {"", " for both passes", " for the backward pass"}
    loaded = [" ".join(re.findall("load (.*)", text)) for text in (forward, backward)]
    for readers, items in saved:
        for item in re.findall(r"%\d+: [^,]*\[[\d,]*\]", items):
            found = [item in text for text in loaded]
            assert found == [readers != " for the backward pass", readers != ""], item


def test_sweeps_of_higher_derivatives_save_for_each_other():
    text = str(build(extend(golden_programs.walked.extended_graph(5, 1.0))))
    assert "save for this sweep and later ones" in text
    assert "save for later sweeps" in text
    assert "backward pass %" not in text
