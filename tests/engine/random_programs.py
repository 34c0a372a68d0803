"""Programs that nobody thought of: Python source, drawn from a small grammar.

A program is one to three functions that call each other, of floats or of integers:

    def f(x, y, n):
        collect("seen", x, tf.maximum(n, 0), 4)              # sometimes, in the first function
        return cond(n <= 0, lambda: FLOAT, lambda: FLOAT with calls)    # or a pair of FLOATs

    FLOAT := x | y | w | number(NUMBER) | (FLOAT + FLOAT) | (FLOAT * FLOAT) | tf.sin(FLOAT)
           | cond(FLOAT > FLOAT, lambda: FLOAT, lambda: FLOAT) | cond(n % 2 == 0, ...)
           | switch(n % 3, [lambda: FLOAT, lambda: FLOAT, lambda: FLOAT])
           | f(FLOAT, FLOAT, n - STEP)                       # calls stand in arguments, too

and likewise for integers. The same source is run twice: with kerasrec's `cond`, `switch`, `collect`
and `recursive`, for all tokens; and with Python's own choice, one token at a time. So a failure
shows, and shrinks to, a program that can be pasted into a file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from hypothesis import strategies as st

import kerasrec
from tests.programs import Program

NAMES = ("f", "g", "h")
MAX_CALLS = 3
NUM_ROWS = 4


@dataclass(frozen=True)
class Drawn:
    """A program and its arguments.

    Args:
        source: Python text that defines `f` and what it calls.
        is_float: whether it is of floats, and so has a gradient.
        collects: whether `f` collects.
        inputs: values for the arguments of `f`, a tuple for each token.
    """

    source: str
    is_float: bool
    collects: bool
    inputs: tuple[tuple, ...]

    def __repr__(self) -> str:
        return f"\n{self.source}\nf of {self.inputs}\n"


def _choices(part: st.SearchStrategy, comparison: st.SearchStrategy) -> list[st.SearchStrategy]:
    """Conditionals over expressions."""
    return [
        st.builds("cond({}, lambda: {}, lambda: {})".format, comparison, part, part),
        st.builds("cond(n % 2 == 0, lambda: {}, lambda: {})".format, part, part),
        st.builds("switch(n % 3, [lambda: {}, lambda: {}, lambda: {}])".format, part, part, part),
    ]


def _floats(callees: tuple[str, ...]) -> st.SearchStrategy:
    """Expressions of floats, with calls of the functions given, as source."""
    numbers = st.sampled_from(["-0.9", "-0.3", "0.2", "0.7"]).map("number({})".format)
    step = st.sampled_from(["1", "2"])

    def grow(part: st.SearchStrategy) -> st.SearchStrategy:
        choices = [
            st.builds("({} + {})".format, part, part),
            st.builds("({} * {})".format, part, part),
            st.builds("tf.sin({})".format, part),
            *_choices(part, st.builds("{} > {}".format, part, numbers)),
        ]
        for callee in callees:
            choices.append(st.builds(callee.format, part, part, step))
        return st.one_of(choices)

    leaves = st.one_of(st.sampled_from(["x", "y", "w"]), numbers)
    return st.recursive(leaves, grow, max_leaves=6)


def _integers(callees: tuple[str, ...]) -> st.SearchStrategy:
    """The same of integers, which stay small."""
    step = st.sampled_from(["1", "2"])

    def grow(part: st.SearchStrategy) -> st.SearchStrategy:
        choices = [
            st.builds("({} - {})".format, part, part),
            st.builds("({} * {} % 11)".format, part, part),
            st.builds("({} // 3)".format, part),
            *_choices(part, st.builds("{} > {}".format, part, part)),
        ]
        for callee in callees:
            choices.append(st.builds(callee.format, part, step))
        return st.one_of(choices)

    return st.recursive(st.sampled_from(["m", "n", "n + 2", "m + n"]), grow, max_leaves=6)


def _num_calls(source: str) -> int:
    return len(re.findall(r"\b[fgh]\(", source))


@st.composite
def programs(draw: st.DrawFn) -> Drawn:
    """Programs that end, with arguments for one to four tokens."""
    is_float = draw(st.booleans())
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    is_pair = {name: draw(st.booleans()) for name in names}
    arguments = "{}, {}, n - {}" if is_float else "{}, n - {}"
    callees = tuple(
        f"{name}({arguments})" + (draw(st.sampled_from(["[0]", "[1]"])) if is_pair[name] else "")
        for name in names
    )
    expressions = _floats if is_float else _integers
    base = expressions(())
    step = expressions(callees).filter(lambda source: 1 <= _num_calls(source) <= MAX_CALLS)
    collects = draw(st.booleans()) if is_float else False
    lines = []
    for name in names:
        lines += ["@recursive", f"def {name}({'x, y, n' if is_float else 'm, n'}):"]
        if collects and name == names[0]:
            lines.append(f'    collect("seen", x, tf.maximum(n, 0), {NUM_ROWS})')
        first, then = (draw(base), draw(step))
        if is_pair[name]:
            first, then = f"({first}, {draw(base)})", f"({then}, {draw(base)})"
        lines += [f"    return cond(n <= 0, lambda: {first}, lambda: {then})", ""]
    counts = st.integers(-1, NUM_ROWS - 1)
    floats = st.sampled_from([-1.1, -0.61, 0.05, 0.45, 0.83])
    token = st.tuples(floats, floats, counts) if is_float else st.tuples(st.integers(-3, 5), counts)
    inputs = draw(st.lists(token, min_size=1, max_size=4))
    return Drawn("\n".join(lines), is_float, collects, tuple(inputs))


WEIGHT = tf.Variable(0.37, dtype=tf.float64, name="w")


def program_of(drawn: Drawn) -> Program:
    """What was drawn, in the form of the shared list of programs."""
    common = {"tf": tf, "w": WEIGHT, "number": lambda value: tf.constant(value, tf.float64)}
    ours: dict[str, Any] = {
        **common,
        "recursive": kerasrec.recursive,
        "cond": kerasrec.cond,
        "switch": kerasrec.switch,
        "collect": kerasrec.collect,
    }
    seen: list[tuple] = []
    plain: dict[str, Any] = {
        **common,
        "recursive": lambda function: function,
        "cond": lambda choice, one, other: one() if choice else other(),
        "switch": lambda index, branches: branches[index](),
        "collect": lambda name, value, index, size: seen.append((value, index, size)),
    }
    exec(drawn.source, ours)
    exec(drawn.source, plain)

    def table(*token: Any) -> dict[str, tf.Tensor]:
        seen.clear()
        plain["f"](*token)
        return {
            "seen": tf.add_n(
                [value * tf.one_hot(*place, dtype="float64") for value, *place in seen]
            )
        }

    dtypes = ("float64", "float64", "int32") if drawn.is_float else ("int32", "int32")
    columns = zip(*drawn.inputs, strict=True)
    return Program(
        "random",
        ours["f"],
        plain["f"],
        tuple(np.array(column, dtype) for column, dtype in zip(columns, dtypes, strict=True)),
        sources=(WEIGHT,) if drawn.is_float else (),
        has_gradient=drawn.is_float,
        plain_tables=table if drawn.collects else None,
    )
