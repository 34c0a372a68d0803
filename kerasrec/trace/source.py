"""Which line of the user's program something comes from."""

from __future__ import annotations

import functools
import os
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import keras
import tensorflow as tf

from kerasrec.graph.graph import Source

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_NOT_THE_USERS = (
    os.path.dirname(os.path.abspath(tf.__file__)) + os.sep,
    os.path.dirname(os.path.abspath(keras.__file__)) + os.sep,
    *(os.path.join(_PACKAGE, name) for name in ("trace", "recursive.py", "transform", "engine")),
)


def source_of(frames: Iterable) -> Source | None:
    """The innermost frame that belongs neither to TensorFlow, nor Keras, nor our compiler."""
    for frame in reversed(list(frames)):
        if not frame.filename.startswith(_NOT_THE_USERS) and os.path.isabs(frame.filename):
            return Source(frame.filename, frame.lineno)
    return None


def name_of(function: Callable) -> str:
    """What a function, a method, a partial or any other callable is called."""
    defined = _defined(function)
    return type(function).__name__ if defined.__name__ == "__call__" else defined.__name__


def start_of(function: Callable) -> Source:
    """Where it is defined."""
    code = _defined(function).__code__
    return Source(code.co_filename, code.co_firstlineno)


def _defined(function: Any) -> Any:
    """The `def` or `lambda` behind a callable."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if hasattr(function, "__code__") else type(function).__call__


def current_source() -> Source | None:
    """The user's line that is running now."""
    return source_of(traceback.extract_stack())
