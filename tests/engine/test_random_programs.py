"""Random programs give in every way what plain Python gives, values and gradients."""

import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.engine.helpers import (
    Run,
    assert_same,
    run_engine,
    run_in_function,
    run_interpreter,
    run_lowered,
    run_on_stack,
    run_plain,
)
from tests.engine.random_programs import Drawn, program_of, programs
from tests.programs import Program


def by_interpreter(program: Program) -> Run:
    run, found = run_interpreter(program)
    assert found.fired_under_tag == 1
    return run


WAYS: dict[str, Callable[[Program], Run]] = {
    "default": run_engine,
    "function": lambda program: run_in_function(program, program.num_tokens),
    "stack": run_on_stack,
    "bounded": lambda program: run_lowered(program, engine="waves", parallel_tokens=2),
    "interpreter": by_interpreter,
    "scalar": lambda program: run_lowered(program, engine="scalar"),
}
NUM_PARTS = 20
# KERASREC_RANDOM_PROGRAMS=30000 runs so many, always the same ones.
NUM_PROGRAMS = int(os.environ.get("KERASREC_RANDOM_PROGRAMS", "60"))
OPTIONS = {
    "deadline": None,
    "database": None,
    "phases": [Phase.generate, Phase.shrink],
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much],
}


def check(drawn: Drawn, *ways: str) -> None:
    program = program_of(drawn)
    expected = run_plain.__wrapped__(program)
    for way in ways:
        # The scalar engine collects nothing.
        found = WAYS["stack" if way == "scalar" and drawn.collects else way](program)
        assert_same(found, expected)


@settings(max_examples=2, derandomize=True, **OPTIONS)
@given(programs())
def test_a_few(drawn):
    check(drawn, "default")


@pytest.mark.many
@pytest.mark.parametrize("part", range(NUM_PARTS))
def test_hundreds(part):
    """Each in one of the ways; parts can run side by side."""

    @seed(part)
    @settings(max_examples=NUM_PROGRAMS // NUM_PARTS, **OPTIONS)
    @given(programs(), st.sampled_from(list(WAYS)))
    def run(drawn, way):
        check(drawn, way)

    run()


@pytest.mark.slow
@settings(max_examples=200, **OPTIONS)
@given(programs(), st.sets(st.sampled_from(list(WAYS)), min_size=2))
def test_new_ones_in_several_ways(drawn, ways):
    check(drawn, *ways)
