"""Errors that a user of kerasrec can meet, one class for each kind of mistake."""

from __future__ import annotations

import re

import tensorflow as tf

_ASSERTED = re.compile(r"assertion failed: \[(.*?)\]\s*(?:\[\[|\[Op:|$)", re.DOTALL)


class KerasrecError(Exception):
    """Base class of every error that kerasrec raises about a recursive function."""

    # Autograph raises an error again as what it was only if it is made as Exception is.
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


def sentence_first(error: tf.errors.OpError) -> tf.errors.OpError:
    """The error of an assertion that failed in a graph, its own sentence before all else.

    TensorFlow and Keras put before it which op failed and where that was made. Other errors are
    returned as they are.
    """
    asserted = _ASSERTED.search(error.message)
    if asserted is None or error.message.startswith(asserted[1]):
        return error
    message = f"{asserted[1]}\n\n{error.message}"
    found = type(error)(error.node_def, error.op, message)
    # What Keras has noted on it, among it that it need not name the arguments again.
    vars(found).update({key: value for key, value in vars(error).items() if key not in vars(found)})
    return found.with_traceback(error.__traceback__)
