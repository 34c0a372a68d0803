"""Lets XLA compile functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from kerasrec._src.private import in_xla


def by_xla(function: Callable[..., Any]) -> Any:
    """Returns the compiled function, or the function itself if XLA compiles the code around it."""
    if in_xla():
        return function

    @functools.wraps(function)
    def where_it_is_called(*args: Any) -> Any:
        with tf.device(None):  # What places ops around it must not place those inside.
            return function(*args)

    return tf.function(where_it_is_called, jit_compile=True, autograph=False)
