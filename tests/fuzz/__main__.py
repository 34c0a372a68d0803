"""Runs random programs: `python -m tests.fuzz --programs 1000 --seed 0`. See README.md here."""

from __future__ import annotations

import os

# Before TensorFlow is imported.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import argparse
import gc
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from tests.fuzz import check as checks
from tests.fuzz import typed_run
from tests.fuzz.draw import draw_program
from tests.fuzz.draw_for_memo import draw_for_memo
from tests.fuzz.engines import Options, memoised
from tests.fuzz.relations import RELATIONS
from tests.fuzz.shrink import shrink
from tests.fuzz.syntax import Apply, Program, walk


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=100, help="how many to run")
    parser.add_argument("--seed", type=int, default=0, help="which programs; the same each time")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--known", action="store_true", help="also report known faults as finds")
    parser.add_argument("--seconds", type=float, default=60.0, help="to shrink a find in")
    parser.add_argument(
        "--relations",
        nargs="?",
        const="any",
        choices=["any", *RELATIONS],
        help="check relations, or one of them, and not against plain recursion",
    )
    parser.add_argument("--memo", action="store_true", help="draw for memo=True, and run by it")
    parser.add_argument(
        "--compiled", action="store_true", help="run all that it takes by the engine 'compiled'"
    )
    parser.add_argument(
        "--within-xla", action="store_true", help="call inside code that XLA compiles as a whole"
    )
    parser.add_argument(
        "--typed",
        action="store_true",
        help="draw data types, values and what reads and makes them; goes with no other option "
        "than --programs, --seed, --first and --compiled",
    )
    given = parser.parse_args()
    numbers = range(given.first, given.first + given.programs)
    if given.typed:
        if given.relations or given.memo or given.within_xla or given.known:
            parser.error("--typed goes only with --programs, --seed, --first and --compiled")
        return int(typed_run.run(given.seed, numbers, given.compiled) > 0)
    np.seterr(all="ignore")
    if given.known:
        checks.KNOWN.clear()

    def check(program: Program, options: Options, number: int) -> checks.Outcome:
        if given.compiled:
            options = checks.compiled(options)
        if given.within_xla:
            options = checks.within_xla(options)
        if given.memo:
            options = memoised(options)
        if given.relations:
            seed = f"{given.seed} {number} relation"
            name = None if given.relations == "any" else given.relations
            return checks.check_relation(program, options, seed, name)
        return checks.check(program, options)

    return int(run(given.seed, numbers, check, given.seconds, given.memo).num_finds > 0)


def run(
    seed: int,
    numbers: Iterable[int],
    check: Callable[[Program, Options, int], checks.Outcome],
    seconds: float,
    memo: bool = False,
) -> Tally:
    """Checks programs of a seed and reports finds.

    Args:
        seed: of the programs.
        numbers: of the programs, in order.
        check: a program under some options, with its number.
        seconds: to shrink a find in.
        memo: whether to draw what `memo=True` takes.
    """
    tally, start = Tally(), time.monotonic()
    for count, number in enumerate(numbers, start=1):
        program, options = drawn(seed, number, memo)
        outcome = check(program, options, number)
        tally.add(outcome)
        if outcome.is_find:
            report(number, outcome, partial(check, options=options, number=number), seconds)
        if count % 10 == 0:
            gc.collect()
        if count % 100 == 0:
            tally.show(count, time.monotonic() - start)
    tally.show(count, time.monotonic() - start)
    return tally


def drawn(seed: int, number: int, memo: bool = False) -> tuple[Program, Options]:
    program = (draw_for_memo if memo else draw_program)(seed, number)
    return program, checks.draw_options(random.Random(f"{seed} {number} options"), program)


def report(number: int, outcome: checks.Outcome, check: Callable, seconds: float) -> None:
    print(
        f"\n=== program {number}: {outcome}\n--- as drawn:\n{checks.snippet(outcome)}", flush=True
    )
    if outcome.error is not None:
        traceback.print_exception(outcome.error, limit=-4, file=sys.stdout)
    small = shrink(
        outcome.program,
        lambda program: check(program).kind == outcome.kind,
        seconds,
    )
    again = check(small)
    print(f"--- shrunk: {again}\n{checks.snippet(again)}", flush=True)


class Tally:
    """The kinds of the programs so far, and their outcomes."""

    def __init__(self) -> None:
        self.kinds: Counter = Counter()
        self.options: Counter = Counter()
        self.tokens: Counter = Counter()
        self.ops: Counter = Counter()
        self.num_finds = 0
        self.num_checked = 0

    def add(self, outcome: checks.Outcome) -> None:
        self.num_finds += outcome.is_find
        self.num_checked += outcome.kind != "not applicable" and not outcome.kind.startswith(
            "refused"
        )
        self.kinds[outcome.kind] += 1
        for name, value in vars(outcome.options).items():
            if value not in (None, False):
                self.options[name if name in ("max_depth",) else f"{name}={value}"] += 1
        program = outcome.program
        self.tokens["0-d" if program.tokens is None else str(len(program.tokens))] += 1
        self.options["special values"] += program.is_special
        self.options[program.dtype] += 1
        self.ops.update({node.op for _, node in walk(program) if isinstance(node, Apply)})

    def show(self, count: int, seconds: float) -> None:
        print(
            f"\n{count:,} programs in {seconds:,.0f} s: {dict(self.kinds)}\n"
            f"  {dict(self.options)}\n  tokens: {dict(self.tokens)}\n  ops: {len(self.ops)}",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
