"""Types to try for what a function returns, and what to say if none of them fits."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import tensorflow as tf

from kerasrec.errors import KerasrecError, NoBaseCaseError
from kerasrec.graph.types import Type
from kerasrec.trace.state import State

# In order, for a function that only rows without entries end.
TRIED_TYPES = [
    Type(dtype, shape)
    for dtype in (
        tf.int32,
        tf.float32,
        tf.int64,
        tf.float64,
        tf.bool,
        tf.float16,
        tf.bfloat16,
    )
    for shape in ((), (None,))
]
# How an error of TensorFlow, Keras or Python is reported.
CANNOT_BE_TRACED = "cannot be traced; "
# How TensorFlow names dtypes; "string" alone is English, too.
_DTYPE = re.compile(
    r"(?<=type of )string|"
    r"\b(?:bool|b?float(?:16|32|64)|u?int(?:8|16|32|64)|complex(?:64|128))\b"
)
# Shapes and dtypes in a message, of the form `(None,)` or `f32[3]`.
_IN_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
# Of errors of a body that takes what it returns for a nest, or for a matrix, which is not tried and
# has no axis of open size where that of tokens is lost.
_OF_ANOTHER_KIND = re.compile(
    r"to unpack|has no attribute|are valid indices|has shape \(\d|\brank\b|dimensional|dictionary"
)


def error_of_trials(state: State, failures: Sequence[Exception]) -> Exception:
    """What is wrong with a function if all trials failed.

    Trials of a wrong dtype fail where it meets the right one, so the right one is that which most
    of them name; one of a list of dtypes counts less. If both trials of that dtype, of a number and
    of a vector, fail alike, then no type would help.

    Args:
        state: The function's state.
        failures: One failure for each of TRIED_TYPES.
    """
    named: defaultdict[str, float] = defaultdict(float)
    for tried, failure in zip(TRIED_TYPES, failures, strict=True):
        if isinstance(failure, TypeError):
            found = dict.fromkeys(_DTYPE.findall(str(failure)))
            others = [name for name in found if name != tried.dtype.name]
            for name in others:
                named[name] += 1 / len(others)
    right = max(named, key=named.__getitem__, default="float32")
    of_right = [
        failure
        for tried, failure in zip(TRIED_TYPES, failures, strict=True)
        if tried.dtype.name == right
    ]
    if not of_right:
        return no_type_fits(state, dtype=right)
    failure = next(filter(_is_of_kerasrec, of_right), of_right[-1])
    texts = {_IN_BRACKETS.sub("", str(item)) for item in of_right}
    is_of_another = len(texts) > 1 or _OF_ANOTHER_KIND.search(str(failure))
    return no_type_fits(state, failure) if is_of_another else failure


def no_type_fits(
    state: State, failure: Exception | None = None, dtype: str = "float32"
) -> NoBaseCaseError:
    """Says that the user must state what a function returns.

    Args:
        state: The function's state.
        failure: The error of a trial.
        dtype: The dtype in the example.
    """
    reason = "" if failure is None else f" A trial failed: {str(failure).strip()}"
    return NoBaseCaseError(
        f"What {state.name} ({state.source.where}) returns cannot be inferred: every path through "
        f"it calls {state.name} with ragged arguments, and only rows without entries end it. Say "
        f"what one token's value is: `@kerasrec.recursive(returns=tf.TensorSpec([], tf.{dtype}))`, "
        f"or a nest of such specs.{reason}"
    )


def _is_of_kerasrec(error: Exception) -> bool:
    """Whether an error is one of kerasrec's own."""
    return isinstance(error, KerasrecError) and CANNOT_BE_TRACED not in str(error)
