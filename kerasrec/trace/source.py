"""Which line of the user's program something comes from."""

from __future__ import annotations

import functools
import os
import sys
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
        file = _cell_or_file(frame.filename)
        if not file.startswith(_NOT_THE_USERS) and (os.path.isabs(file) or file != frame.filename):
            return Source(file, frame.lineno)
    return None


def _cell_or_file(file: str) -> str:
    """`In[3]` for the third cell that ran in a notebook or in IPython; other files as they are."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    cell = shell.compile.format_code_name(file) if shell else None
    return cell[1] if cell else file


def name_of(function: Callable) -> str:
    """The name of a function, a method, a partial or any other callable."""
    defined = _defined(function)
    return type(function).__name__ if defined.__name__ == "__call__" else defined.__name__


def start_of(function: Callable) -> Source:
    """The file and line where a callable is defined."""
    code = _defined(function).__code__
    return Source(_cell_or_file(code.co_filename), code.co_firstlineno)


def _defined(function: Any) -> Any:
    """The `def` or `lambda` behind a callable."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if hasattr(function, "__code__") else type(function).__call__


def current_source() -> Source | None:
    """The user's line that is running now."""
    return source_of(traceback.extract_stack())
