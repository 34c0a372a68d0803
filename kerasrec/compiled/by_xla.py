"""Lets XLA compile functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from kerasrec.private import in_xla


def by_xla(function: Callable[..., Any]) -> Any:
    """Returns the compiled function, or the function itself if XLA compiles the code around it."""
    return function if in_xla() else tf.function(function, jit_compile=True, autograph=False)
