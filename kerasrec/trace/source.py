"""Which line of the user's program something comes from."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable

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


def current_source() -> Source | None:
    """The user's line that is running now."""
    return source_of(traceback.extract_stack())
