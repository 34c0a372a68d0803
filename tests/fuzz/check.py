"""Checks one random program: kerasrec against plain recursion, values, tables and all gradients."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

import kerasrec
from tests.fuzz.compare import Difference, differences
from tests.fuzz.engines import PASSES, Options, Run, can_be_compiled
from tests.fuzz.plain import Evaluator, Result, run_plain
from tests.fuzz.relations import RELATIONS
from tests.fuzz.source import source_of
from tests.fuzz.syntax import Program

CLOSE = 1e-12


@dataclass
class Outcome:
    """The outcome of a check.

    Args:
        program: that was checked.
        options: under which it ran.
        kind: "same", or "rounding", where the program itself makes much of little; "known: ..." for
          a fault that is on the list; "differs" and "error: ..." for one that is not.
        error: what was raised.
        differences: where results differ.
    """

    program: Program
    options: Options
    kind: str
    error: Exception | None = None
    differences: list[Difference] = field(default_factory=list)

    @property
    def is_find(self) -> bool:
        return self.kind.startswith(("differs", "error"))

    def __str__(self) -> str:
        lines = [f"{self.kind}, with {self.options}"]
        if self.error is not None:
            lines.append(f"{type(self.error).__name__}: {str(self.error)[:1500]}")
        return "\n".join([*lines, *map(str, self.differences[:3])])


def draw_options(rng: random.Random, program: Program) -> Options:
    """Some way to run a program."""
    is_of_numbers = all(
        item.shape == ()
        for function in program.functions
        for item in [
            *function.signature.results,
            *(found for _, found in function.signature.parameters),
        ]
    )
    (way,) = rng.choices(["traced", "eager", "function", "interpreter"], [75, 12, 9, 4])
    if program.tokens is None:
        way = "eager"
    elif way == "interpreter" and not 0 < program.num_tokens <= 10:
        way = "traced"
    engine = "auto" if is_of_numbers and rng.random() < 0.4 else "waves"
    options = Options(
        way=way,
        engine=engine,
        parallel_tokens=rng.choice([1, 2, 5]) if rng.random() < 0.15 else None,
        recompute=rng.random() < 0.25,
        max_depth=_depth(program) if rng.random() < 0.1 else None,
    )
    if way == "traced":
        in_queues, passes = rng.random() < 0.15, rng.choice(["default", "default", *PASSES])
        options = dataclasses.replace(options, in_queues=in_queues, passes=passes)
    return compiled(options) if rng.random() < 0.15 else options


def compiled(options: Options) -> Options:
    """The same for the engine "compiled", without what it does not take."""
    return dataclasses.replace(
        options,
        way="traced" if options.way == "interpreter" else options.way,
        engine="compiled",
        parallel_tokens=None,
        in_queues=False,
        passes="default",
    )


def within_xla(options: Options) -> Options:
    """The same inside of a program that XLA compiles, without options that are not taken there."""
    return dataclasses.replace(compiled(options), way="inside XLA")


def check(program: Program, options: Options) -> Outcome:
    """Runs a program under some options and compares it with plain recursion.

    Programs that the engine "compiled" does not take run in waves.
    """
    expected = run_plain(program)
    try:
        options = _possible(program, options)
        found = Run(program, options)(program.tokens)
    except Exception as error:
        if is_refused(error):
            return Outcome(program, options, "refused")
        return _named(Outcome(program, options, f"error: {type(error).__name__}", error))
    return judge(program, options, found, expected)


def is_refused(error: Exception) -> bool:
    """Whether the error is that `memo=True`, or XLA, does not take a program."""
    says_so = "memo=True" in str(error) or "program that XLA compiles" in str(error)
    return isinstance(error, kerasrec.TraceError) and says_so


def _possible(program: Program, options: Options) -> Options:
    if options.engine == "compiled" and not can_be_compiled(program, options.memo):
        return dataclasses.replace(options, engine="waves")
    return options


def check_relation(
    program: Program, options: Options, seed: str, name: str | None = None
) -> Outcome:
    """Checks one of the relations of `relations.py`, instead of against plain recursion.

    Args:
        program: to check.
        options: under which it runs.
        seed: of the draws.
        name: of the relation; None for any.
    """
    rng = random.Random(seed)
    if options.way == "interpreter":  # It takes no empty batches.
        options = dataclasses.replace(options, way="traced")
    name = rng.choice(list(RELATIONS)) if name is None else name
    try:
        options = _possible(program, options)
        pair = RELATIONS[name](program, options, rng)
    except Exception as error:
        if is_refused(error):
            return Outcome(program, options, f"refused: {name}")
        kind = f"error: {name} {type(error).__name__}"
        return _named(Outcome(program, options, kind, error))
    if pair is None:
        return Outcome(program, options, "not applicable")
    outcome = judge(program, options, *pair)
    if outcome.kind == "differs":
        outcome = dataclasses.replace(outcome, kind=f"differs: {name}")
    return outcome


def check_engines(program: Program, options: Options) -> Outcome:
    """Checks "compiled" against waves, under the same options, and against plain recursion."""
    options = compiled(options)
    try:
        if not can_be_compiled(program):
            return Outcome(program, options, "not applicable")
        found = Run(program, options)(program.tokens)
        by_waves = Run(program, dataclasses.replace(options, engine="waves"))(program.tokens)
    except Exception as error:
        return _named(Outcome(program, options, f"error: {type(error).__name__}", error))
    outcome = judge(program, options, found, run_plain(program))
    if outcome.is_find:
        return outcome
    where = differences(program, found, by_waves)
    if where and outcome.kind != "rounding":
        return Outcome(program, options, "differs: from waves", None, where)
    return outcome


def judge(program: Program, options: Options, found: Result, expected: Result) -> Outcome:
    """Whether a result is that of plain recursion."""
    where = differences(program, found, expected)
    if not where:
        return Outcome(program, options, "same")
    outcome = Outcome(program, options, "differs", None, where)
    if all(np.isfinite(item.error) for item in where) and is_sensitive(program, where, expected):
        return dataclasses.replace(outcome, kind="rounding")
    return _named(outcome)


def is_sensitive(program: Program, where: list[Difference], expected: Result) -> bool:
    """Whether plain recursion itself gives something as different for inputs as close.

    A program of float32 is also compared with the same one of float64.
    """
    others = [_nudged(program, 1.0 + CLOSE), _nudged(program, 1.0 - CLOSE)]
    if program.dtype == "float32":
        others = [_nudged(program, 1.0 + 3e-7), _nudged(program, 1.0 - 3e-7)]
    errors = {item.what: item.error for item in where}
    for other in others:
        found = {item.what: item.error for item in differences(program, run_plain(other), expected)}
        if all(found.get(what, 0.0) * 100.0 >= error for what, error in errors.items()):
            return True
    return False


def _nudged(program: Program, factor: float) -> Program:
    def nudge(value, place):
        if isinstance(value, tuple):
            return tuple(nudge(item, place + 1 + index) for index, item in enumerate(value))
        return value * (1.0 + (factor - 1.0) * np.cos(place)) if isinstance(value, float) else value

    return dataclasses.replace(program, rows=nudge(program.rows, 0))


# Faults that are known and not fixed yet: name, and whether a find is one of them. A line goes when
# its fault is fixed; `--known` also counts these as finds.
KNOWN: dict[str, Callable[[Outcome], bool]] = {
    # The cotangent of a value that a token's branch does not read is zero, not nothing, and zero
    # times an infinite slope is NaN.
    "NaN for a number in a gradient": lambda outcome: (
        bool(outcome.differences)
        and all(
            item.what.startswith("gradient") and item.is_nan_for_number
            for item in outcome.differences
        )
    ),
    # Not faults: the errors suggest a fix.
    "floats that are collected where none is returned": lambda outcome: (
        "but returns no float" in str(outcome.error)
    ),
    "a type that cannot be inferred": lambda outcome: "cannot be inferred" in str(outcome.error),
}


def _named(outcome: Outcome) -> Outcome:
    for name, is_it in KNOWN.items():
        if is_it(outcome):
            return dataclasses.replace(outcome, kind=f"known: {name}")
    return outcome


def _depth(program: Program) -> int:
    """How many calls are nested in each other, the first one counted."""
    evaluator = Evaluator(program)
    evaluator.run_rows()
    return evaluator.depth


def snippet(outcome: Outcome) -> str:
    """The code to paste into a file."""
    return f"{source_of(outcome.program)}\n\n{_call(outcome.program)}"


def _call(program: Program) -> str:
    names = [name for name, _ in program.entry.parameters]
    rows = ", ".join(f"({', '.join(map(repr, row))})" for row in program.rows)
    tokens = program.tokens
    if tokens is not None and len(tokens) > 20:
        tokens = f"{len(tokens)} of them"
    return f"# {program.dtype}, {', '.join(names)} = {rows}; tokens: {tokens}"
