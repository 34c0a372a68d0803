"""Errors that a user of kerasrec can meet, one class for each kind of mistake."""

from __future__ import annotations

import contextlib
import re
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

# If an op fails, TensorFlow's message begins with all Python lines that led to it, provided that it
# can parse the op's name. Names with ">" are valid, but it cannot parse them.
WITHOUT_FRAMES = "check>run"
_LINE = re.compile(r"/at_([\w.]+)_line_(\d+)/")
_CELL = re.compile(r"^In_(\d+)_$")  # what `scope_of_line` makes of a notebook's In[3]
_OUTSIDE = re.compile(r"indices\[[\d, ]+\] = [^\n]*? (?:is not in \[0, \d+\)|does not index into)")
_ASSERTED = re.compile(r"assertion failed: \[(.*?)\]\s*(?:\[\[|\[Op:|$)", re.DOTALL)


class KerasrecError(Exception):
    """Base class of every error that kerasrec raises about a recursive function."""

    # AutoGraph raises an error again with its own class only if it is built as Exception is.
    __init__ = Exception.__init__


class TraceError(KerasrecError, ValueError):
    """A recursive function cannot be turned into a graph as it is written."""


class SignatureError(KerasrecError, TypeError):
    """Arguments or returns have dtypes, shapes or structures that do not fit together."""


class NoBaseCaseError(KerasrecError, ValueError):
    """Every path through a recursive function calls it again."""


class GraphError(KerasrecError, AssertionError):
    """An invariant of kerasrec's own graphs is broken: a fault of kerasrec, not of its user."""

    def __init__(self, message: str):
        super().__init__(
            f"{message} (This is a fault of kerasrec, not of your program: please report it.)"
        )


def scope_of_line(source: str) -> str:
    """A name for the scope of ops that stand for a line `file:line` of the user's program.

    If an assertion fails inside a loop, TensorFlow's message has the names of the ops around it.
    """
    file, line = source.rsplit(":", 1)
    return f"at_{re.sub('[^A-Za-z0-9_.]', '_', file)}_line_{line}"


def or_nothing(has_failed: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
    """Marks a result as failed inside of XLA, where nothing can raise an error.

    Args:
        has_failed: Whether the run has failed, a bool scalar.
        tensor: The result.

    Returns:
        The result. If the run has failed, NaN, and so is its gradient; for integers, the largest
        integer of the dtype.
    """
    if tensor.dtype.is_integer:
        return tf.where(has_failed, tf.constant(tensor.dtype.max, tensor.dtype), tensor)
    nan, one = tf.constant(float("nan"), tensor.dtype), tf.constant(1, tensor.dtype)
    return tensor * tf.where(has_failed, nan, one)


def asserted(is_right: tf.Tensor, message: list[Any]) -> AbstractContextManager[Any]:
    """Ops in this context wait for an assertion; eager code checks at once.

    Args:
        is_right: The asserted condition, a bool scalar.
        message: Text and tensors, which the error shows.
    """
    if tf.executing_eagerly():
        tf.debugging.Assert(is_right, message)
        return contextlib.nullcontext()
    # tf.debugging.Assert would make a conditional here, with many ops.
    data = [tf.convert_to_tensor(part) for part in message]
    check = tf.raw_ops.Assert(condition=is_right, data=data)
    return tf.control_dependencies([check])


class SentenceFirst(contextlib.ContextDecorator):
    """A context or decorator that puts the cause first in the message of a failed assertion.

    The same goes for an index outside of a tensor in a body. TensorFlow and Keras begin messages
    with the op that failed and where it was made. Other errors stay as they are.
    """

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Raises the same error with the sentence first."""
        if not isinstance(error, tf.errors.InvalidArgumentError):
            return
        sentence = _sentence_of(error.message)
        if sentence is None or error.message.startswith(sentence):
            return
        clearer = type(error)(error.node_def, error.op, f"{sentence}\n\n{error.message}")
        # Attributes that Keras has set, such as the one for errors that already name arguments.
        notes = {key: value for key, value in vars(error).items() if key not in vars(clearer)}
        vars(clearer).update(notes)
        raise clearer.with_traceback(error.__traceback__) from None


def _sentence_of(message: str) -> str | None:
    """The subject of TensorFlow's message, in users' terms; None if kerasrec has no name for it."""
    line = _LINE.search(message)
    place = line and _CELL.sub(r"In[\1]", line[1]) + f":{line[2]}"
    asserted, outside = _ASSERTED.search(message), _OUTSIDE.search(message)
    if asserted:
        sentence = asserted[1].replace("] [", " ")
        return sentence + (f" Inside the op at {place}." if place else "")
    if outside and place:
        return (
            f"An index is outside of the tensor that is read or written at {place}: {outside[0]}. "
            "If some tokens have no such entry, as a leaf has no child, take the entry in a branch "
            "of kerasrec.cond that only the others choose."
        )
    return None
