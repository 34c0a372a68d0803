"""Finds the line of the user's program that something comes from, and reads functions."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from types import CellType, CodeType, FrameType, TracebackType
from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.errors import GraphError, KerasrecError
from kerasrec._src.graph.values import Source

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# The recursive functions of the layers count as the user's.
_LAYERS = os.path.join(_PACKAGE, "layers") + os.sep
# How Python names lines of its prompt.
_PROMPTS = ("<stdin>", "<python-input-")
# The file and the name of the function that runs the user's function while it is traced.
_TRACED = (os.path.join(_PACKAGE, "trace", "tracer.py"), "run_python_function")
_NOT_THE_USERS = (
    os.path.dirname(os.path.abspath(tf.__file__)) + os.sep,
    os.path.dirname(os.path.abspath(keras.__file__)) + os.sep,
    _PACKAGE + os.sep,
)
NO_VALUE = object()
"""Stands for a variable that has no value yet."""


def source_of(frames: Sequence[traceback.FrameSummary]) -> Source | None:
    """Returns the innermost frame of the user or a layer, not of TensorFlow, Keras or our compiler.

    Returns None if the function that is being traced has no such frame. Frames around it are not
    looked at, since TensorFlow makes a Python object for each frame that is.
    """
    for frame in reversed(frames):
        if (frame.filename, frame.name) == _TRACED:
            return None
        if is_of_a_library(frame.filename) and not frame.filename.startswith(_LAYERS):
            continue
        file = _cell_or_file(frame.filename)
        if os.path.isabs(file) or file != frame.filename or file.startswith(_PROMPTS):
            # The line is None only for code that was compiled without lines.
            return Source(file, frame.lineno)  # type: ignore[arg-type]
    return None


def _cell_or_file(file: str) -> str:
    """Returns `In[3]` for the third cell run in a notebook or in IPython; other files unchanged."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    cell = shell.compile.format_code_name(file) if shell else None
    return cell[1] if cell else file


class UsersFrames:
    """A context that removes frames of kerasrec, TensorFlow and Keras from kerasrec's errors.

    `keras.config.disable_traceback_filtering()` keeps all frames, as it does for Keras.
    """

    def __enter__(self) -> None:
        """Does nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raises the same error with a shorter traceback."""
        if not isinstance(error, KerasrecError) or isinstance(error, GraphError):
            return
        if keras.config.is_traceback_filtering_enabled():
            reason: BaseException | None = error
            while reason is not None:
                reason.__traceback__ = _users_frames(reason.__traceback__)
                reason = reason.__cause__ or reason.__context__
            raise error


def _users_frames(frames: TracebackType | None) -> TracebackType | None:
    """Returns a traceback with only the frames that the user has written."""
    if frames is None:
        return None
    rest = _users_frames(frames.tb_next)
    if is_of_a_library(frames.tb_frame.f_code.co_filename):
        return rest
    return TracebackType(rest, frames.tb_frame, frames.tb_lasti, frames.tb_lineno)


def is_of_a_library(file: str) -> bool:
    """Whether a file belongs to TensorFlow, Keras or kerasrec."""
    return file.startswith(_NOT_THE_USERS)


def name_of(function: Callable[..., Any]) -> str:
    """Returns the name of a function, a method, a partial or any other callable."""
    defined = _defined(function)
    name: str = defined.__name__
    if name != "__call__":
        return name
    return function.__name__ if inspect.isbuiltin(function) else type(function).__name__


def undecorated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function that the user wrote, without its decorator."""
    found: Callable[..., Any] = getattr(function, "python_function", function)
    return found


def code_of(function: Callable[..., Any]) -> CodeType | type:
    """Returns the code of a callable's `def` or `lambda`; its type if it has no Python code."""
    found: CodeType | type = getattr(_defined(function), "__code__", type(function))
    return found


def is_written_in_python(function: Any) -> bool:
    """Whether the code of an object is a `def` or `lambda`, not a class or code in C."""
    return callable(function) and isinstance(code_of(function), CodeType)


def enclosed(function: Callable[..., Any]) -> list[Any]:
    """Returns the current values of closure variables, in the order of `co_freevars`."""
    return list(map(_content, getattr(function, "__closure__", None) or ()))


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return NO_VALUE


def module_names(code: CodeType) -> list[str]:
    """Returns the names of the module's variables that code may read."""
    inner = [value for value in code.co_consts if isinstance(value, CodeType)]
    return [*code.co_names, *(name for value in inner for name in module_names(value))]


def start_of(function: Callable[..., Any]) -> Source:
    """Returns the file and line where a callable is defined."""
    code = _defined(function).__code__
    return Source(_cell_or_file(code.co_filename), code.co_firstlineno)


def _defined(function: Any) -> Any:
    """Returns the `def` or `lambda` of a callable."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if hasattr(function, "__code__") else type(function).__call__


def at(source: Source | None) -> str:
    """Returns `" at FILE:LINE"`, for use inside a sentence; empty if the line is not known."""
    return f" at {source.where}" if source else ""


def here() -> str:
    """Returns `" at FILE:LINE"` for the user's line that is running now, or nothing."""
    return at(current_source())


def at_this_line() -> str:
    """Returns the sentence `" At FILE:LINE."` for the user's line that is running now.

    Returns nothing for a line of a layer.
    """
    source = current_source()
    return f" At {source.where}." if source and not source.file.startswith(_LAYERS) else ""


def current_source(frame: FrameType | None = None) -> Source | None:
    """Returns the user's line that is running now, or from which this frame was called."""
    # traceback.extract_stack asks the file system about each frame's file.
    frames = [
        traceback.FrameSummary(
            frame.f_code.co_filename, line, frame.f_code.co_name, lookup_line=False
        )
        for frame, line in traceback.walk_stack(frame or inspect.currentframe())
    ]
    return source_of(frames[::-1])
