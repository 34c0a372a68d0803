"""The ways in which a shared program is run by both emitters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf

from kerasrec._src.errors import KerasrecError
from tests.engine.helpers import is_float, with_tokens
from tests.programs import PROGRAMS, Program

NUM_TOKENS = (1, 3, 20)
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int32", "int64")


@dataclass(frozen=True)
class Way:
    """One way to run a program.

    Args:
        program: with arguments of one dtype; how many tokens they are does not matter.
        title: in words.
        recompute: as the decorator takes it.
        num_tokens: how many tokens are run, each number by itself.
    """

    program: Program
    title: str
    recompute: bool = False
    num_tokens: tuple[int, ...] = NUM_TOKENS[1:2]

    @property
    def cases(self) -> list[Program]:
        """The program on each number of tokens."""
        return [with_tokens(self.program, number) for number in self.num_tokens]


def named(name: str) -> Program:
    """The shared program of a name."""
    (found,) = (item for item in PROGRAMS if item.name == name)
    return found


def ways_of(program: Program) -> Iterator[Way]:
    """Ways to run a program: its options one at a time.

    Of a chain of 10,000 calls plain Python is a formula, and only float64 is close enough to it.
    """
    yield Way(program, f"{', '.join(map(str, NUM_TOKENS))} tokens", num_tokens=NUM_TOKENS)
    if program.has_gradient:
        yield Way(program, "recompute", recompute=True)
    for dtype in () if program.is_deep else (*FLOATS, *INTEGERS):
        other = _with_dtype(program, dtype)
        if other is not None:
            yield Way(other, dtype)


def _with_dtype(program: Program, dtype: str) -> Program | None:
    """The program on arguments of another dtype; None if it takes no other or has it already."""
    wanted = tf.as_dtype(dtype)

    def cast(item: np.ndarray) -> np.ndarray:
        is_other = is_float(item) == wanted.is_floating and item.dtype != wanted.as_numpy_dtype
        return item.astype(wanted.as_numpy_dtype) if is_other else item

    inputs = tf.nest.map_structure(cast, program.inputs)
    pairs = zip(tf.nest.flatten(inputs), program.flat_inputs, strict=True)
    if all(new is old for new, old in pairs):
        return None
    try:
        program.function.tagged_graph(*inputs)
    except KerasrecError:
        return None
    return replace(program, inputs=inputs)
