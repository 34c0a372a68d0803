"""Compares both emitters: `python -m tests.frames --random 1000`. See ../README.md."""

from __future__ import annotations

import os

# Before TensorFlow is imported.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import argparse
import sys
from collections.abc import Iterable

from tests.frames.compare import Comparison, compare
from tests.frames.processes import in_processes
from tests.frames.random_programs import compare_random
from tests.programs import PROGRAMS

NUM_IN_PROCESS = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.frames", description=__doc__)
    parser.add_argument("names", nargs="*", help="programs of tests/programs.py; by default all")
    parser.add_argument("--random", type=int, default=0, help="how many random programs, then")
    parser.add_argument("--seed", type=int, default=0, help="which ones; the same each time")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    given = parser.parse_args()
    names = given.names or [program.name for program in PROGRAMS]
    is_same = show(in_processes(compare, names, NUM_IN_PROCESS))
    if given.random:
        is_same &= compare_random(given.random, given.seed, given.first)
    return int(not is_same)


def show(comparisons: Iterable[Comparison]) -> bool:
    """Prints a table; whether the emitters agree on all programs."""
    print(
        "Largest differences of compiled runs from waves and from plain Python, over 1 + the size\n"
        "of the right result. Waves compute second derivatives that XLA cannot.\n\n"
        f"{'program':25}{'waves':>8}{'plain':>8}  in which ways"
    )
    found = []
    for comparison in comparisons:
        found.append(comparison)
        print(comparison, flush=True)
    num_compiled = sum(one.obstacle is None for one in found)
    num_wrong = sum(bool(one.faults) for one in found)
    print(f"\n{len(found)} programs, {num_compiled} compiled, {num_wrong} of them with a fault")
    return not num_wrong


if __name__ == "__main__":
    sys.exit(main())
