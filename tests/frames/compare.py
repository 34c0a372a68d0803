"""Runs programs by both emitters, and compares them with each other and with plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf

from kerasrec._src.frames.rows_xla.ops import obstacles
from tests.engine.helpers import (
    SECOND_TOLERANCE,
    TOLERANCE,
    Run,
    plain_second,
    run_plain,
    second_gradients,
    traced,
    with_gradients,
)
from tests.frames.cases import Way, named, ways_of
from tests.frames.helpers import never_by_waves
from tests.fuzz.compare import gap
from tests.programs import Program

Arrays = Mapping[str, np.ndarray]


@dataclass
class Comparison:
    """The results of a program.

    Args:
        program: its name.
        obstacle: why it cannot be compiled, in words.
        ways: in which it ran compiled.
        from_waves: the largest difference between the emitters, over 1 + the size of the right
            result.
        from_plain: the same between "compiled" and plain Python.
        faults: disagreements and errors, in words.
    """

    program: str
    obstacle: str | None = None
    ways: list[str] = field(default_factory=list)
    from_waves: float = 0.0
    from_plain: float = 0.0
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        if self.obstacle:
            return f"{self.program:25}{'-':>8}{'-':>8}  not compiled: {self.obstacle}"
        ways = "; ".join(self.ways)
        line = f"{self.program:25}{self.from_waves:8.0e}{self.from_plain:8.0e}  {ways}"
        return "\n".join([line, *(f"    {fault}" for fault in self.faults)])


def compare(name: str) -> Comparison:
    """Runs a shared program in all ways, by both emitters and by plain Python."""
    program = named(name)
    reasons = obstacles(program.function.extended_graph(*program.inputs))
    if reasons:
        return Comparison(name, obstacle=reasons[0])
    return compare_ways(name, ways_of(program))


def compare_ways(name: str, ways: Iterable[Way]) -> Comparison:
    """Runs a program in some ways; a compiled run that waves take over is a fault."""
    found = Comparison(name)
    for way in ways:
        found.ways.append(way.title)
        try:
            _compare_way(way, found)
        except Exception as error:
            text = " ".join(str(error).split())
            found.faults.append(f"{way.title}: {type(error).__name__}: {text}")
        way.program.function.clear_cache()
    return found


def _compare_way(way: Way, found: Comparison) -> None:
    """Adds what came out for one way."""
    waves = traced(way.program, is_open=True, engine="waves", recompute=way.recompute)
    with never_by_waves(traces_waves=True):
        compiled = traced(way.program, is_open=True, engine="compiled", recompute=way.recompute)
        ran = [_arrays(case, compiled) for case in way.cases]
    for case, mine in zip(way.cases, ran, strict=True):
        where = f"{way.title}, {case.num_tokens} at once" if len(ran) > 1 else way.title
        theirs, plain = _arrays(case, waves), _plain_arrays(case)
        found.from_waves = max(found.from_waves, *_gaps(mine, theirs).values())
        found.from_plain = max(found.from_plain, *_gaps(mine, plain).values())
        found.faults += [f"{where}, from waves: {text}" for text in _disagreements(mine, theirs)]
        found.faults += [f"{where}, from plain: {text}" for text in _disagreements(mine, plain)]


def _disagreements(one: Arrays, two: Arrays) -> Iterator[str]:
    """Where results differ by more than rounding, in words."""
    for name, size in _gaps(one, two).items():
        tolerances = SECOND_TOLERANCE if name.startswith("second") else TOLERANCE
        if size > tolerances.get(two[name].dtype.name, 0.0):
            yield f"{name} differs by {size:.0e}"


def _gaps(one: Arrays, two: Arrays) -> dict[str, float]:
    """The largest difference in each result; infinite for one that is missing or of other type."""
    found = dict.fromkeys([*one, *two], np.inf)
    for name in one.keys() & two.keys():
        mine, theirs = one[name], two[name]
        if (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape):
            found[name] = float(np.max(gap(mine, theirs), initial=0.0))
    return found


def _arrays(program: Program, function: Callable) -> Arrays:
    """Values, tables, first and second derivatives of a traced program."""
    inputs = [tf.constant(item) for item in program.flat_inputs]
    run = with_gradients(program, inputs, lambda: function(*inputs))
    if not program.has_gradient:
        return _named(run, [])
    return _named(run, second_gradients(program, lambda given: function(*map(tf.constant, given))))


def _plain_arrays(program: Program) -> Arrays:
    return _named(run_plain(program), plain_second(program) if program.has_gradient else [])


def _named(run: Run, second: Sequence[np.ndarray]) -> Arrays:
    return {
        **{f"value {place}": item for place, item in enumerate(run.outputs)},
        **{f"table {name}": item for name, item in run.tables.items()},
        **{f"gradient {place}": item for place, item in enumerate(run.gradients)},
        **{f"second derivative {place}": item for place, item in enumerate(second)},
    }
