"""The comparison of both emitters: a slice of it, and whether it would find a fault."""

import pytest

from kerasrec._src.frames.rows_xla import block, compiled_run
from tests.frames.__main__ import show
from tests.frames.cases import Way, named
from tests.frames.compare import compare, compare_ways
from tests.fuzz.__main__ import drawn
from tests.fuzz.check import check_engines

RANDOM = drawn(1, 0)


@pytest.fixture
def poisoned(monkeypatch):
    """Compiled runs add 1 to all floats."""
    fire_in_xla = block.fire_in_xla

    def fire(*args, **options):
        found = fire_in_xla(*args, **options)
        return [item + 1 if item.dtype.is_floating else item for item in found]

    monkeypatch.setattr(block, "fire_in_xla", fire)


@pytest.mark.slow
def test_a_table_of_programs(capsys):
    assert show(map(compare, ["factorial", "grandchildren"]))
    shown = capsys.readouterr().out
    assert "1, 3, 20 tokens; int64" in shown
    assert "not compiled: grandchildren maps over rows inside of a map over rows" in shown
    assert "2 programs, 1 compiled, 0 of them with a fault" in shown


@pytest.mark.slow
def test_poisoned_ops_are_found(poisoned):
    faults = compare_ways("power", [Way(named("power"), "3 tokens")]).faults
    for other in ("waves", "plain"):
        for what in ("value 0", "gradient 0"):
            assert any(f"from {other}: {what} differs" in fault for fault in faults)


@pytest.mark.slow
def test_a_run_that_waves_take_over_is_found(monkeypatch):
    monkeypatch.setattr(compiled_run, "_MOST_FRAMES", 1)
    (fault,) = compare_ways("factorial", [Way(named("factorial"), "3 tokens")]).faults
    assert "taken over by waves" in fault


@pytest.mark.slow
def test_a_random_program():
    assert check_engines(*RANDOM).kind == "same"


@pytest.mark.slow
def test_poisoned_ops_of_a_random_program_are_found(poisoned):
    assert check_engines(*RANDOM).kind == "differs"
