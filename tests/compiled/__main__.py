"""Compares both emitters: `python -m tests.compiled --random 1000`. See ../README.md."""

from __future__ import annotations

import os

# Before TensorFlow is imported.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import argparse
import itertools
import sys
from collections.abc import Iterable

import numpy as np

from tests.compiled.compare import compare
from tests.fuzz import __main__ as fuzz
from tests.fuzz.check import check_engines
from tests.programs import PROGRAMS, Program


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compiled", description=__doc__)
    parser.add_argument("names", nargs="*", help="programs of tests/programs.py; by default all")
    parser.add_argument("--random", type=int, default=0, help="how many random programs, then")
    parser.add_argument("--seed", type=int, default=0, help="which ones; the same each time")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    given = parser.parse_args()
    is_same = compare_all(item for item in PROGRAMS if not given.names or item.name in given.names)
    if given.random:
        is_same &= compare_random(given.random, given.seed, given.first)
    return int(not is_same)


def compare_all(programs: Iterable[Program]) -> bool:
    """Prints a table of programs; whether the emitters agree on all of them."""
    print(
        "Largest differences of what ran compiled from waves and from plain Python, over 1 + the\n"
        "size of what is right. Second derivatives are computed by waves, whatever the engine.\n\n"
        f"{'program':25}{'waves':>8}{'plain':>8}  in which ways"
    )
    found = []
    for program in programs:
        found.append(compare(program))
        print(found[-1], flush=True)
    num_compiled = sum(one.obstacle is None for one in found)
    num_wrong = sum(bool(one.faults) for one in found)
    print(f"\n{len(found)} programs, {num_compiled} compiled, {num_wrong} of them with a fault")
    return not num_wrong


def compare_random(number: int, seed: int, first: int) -> bool:
    """Whether the emitters agree on so many random programs of those that can be compiled."""
    np.seterr(all="ignore")
    tally = fuzz.run(
        seed,
        itertools.count(first),
        lambda program, options, number: check_engines(program, options),
        seconds=60.0,
        most=number,
    )
    return not tally.num_finds


if __name__ == "__main__":
    sys.exit(main())
