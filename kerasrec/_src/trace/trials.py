"""The return types to try for a function, and the error if none of them fits."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import tensorflow as tf

from kerasrec._src.errors import KerasrecError, NoBaseCaseError
from kerasrec._src.graph.types import Type
from kerasrec._src.trace.state import State

# In this order, for a function that only empty ragged rows end.
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
# Part of the message for an error of TensorFlow, Keras or Python.
CANNOT_BE_TRACED = "cannot be traced; "
# How TensorFlow names dtypes. The word "string" alone may also be plain English.
_DTYPE = re.compile(
    r"(?<=type of )string|"
    r"\b(?:bool|b?float(?:16|32|64)|u?int(?:8|16|32|64)|complex(?:64|128))\b"
)
# Shapes and dtypes in a message, of the form `(None,)` or `f32[3]`.
_IN_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
# Errors of functions that use their own result as a nest or a matrix, neither of which is tried. A
# matrix that has lost the token axis has no axis of open size.
_OF_ANOTHER_KIND = re.compile(
    r"to unpack|has no attribute|are valid indices|has shape \(\d|\brank\b|dimensional|dictionary"
)


def error_of_trials(state: State, failures: Sequence[Exception]) -> Exception:
    """Returns the error to raise if all trials failed.

    Trials with a wrong dtype fail where they meet the right one, so the right dtype is the one that
    most errors name. A dtype in a list of several counts less. If both trials of the right dtype,
    with a number and with a vector, fail in the same way, no type would help.

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
    """Returns the error that asks the user to state what a function returns.

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
    """Whether an error was raised by kerasrec itself."""
    return isinstance(error, KerasrecError) and CANNOT_BE_TRACED not in str(error)
