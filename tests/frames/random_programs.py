"""Compares both emitters on random programs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tests.frames.processes import in_processes
from tests.fuzz import __main__ as fuzz
from tests.fuzz.check import check_engines

NUM_IN_PROCESS = 50
SECONDS = 60.0


def compare_random(number: int, seed: int, first: int) -> bool:
    """Whether the emitters agree on so many random programs of those that can be compiled."""
    num_compiled = num_finds = 0
    while num_compiled < number:
        count = min(NUM_IN_PROCESS, number - num_compiled)
        (tally,) = in_processes(_run, [(seed, range(first, first + count))], 1)
        num_compiled += tally.num_checked
        num_finds += tally.num_finds
        first += count
    print(f"\n{num_compiled} random programs compiled, {num_finds} of them with a fault")
    return not num_finds


def _run(given: tuple[int, Iterable[int]]) -> fuzz.Tally:
    """Compares the programs of a seed that have some numbers."""
    np.seterr(all="ignore")
    seed, numbers = given
    return fuzz.run(
        seed, numbers, lambda program, options, number: check_engines(program, options), SECONDS
    )
