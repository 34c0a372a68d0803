"""Has functions compiled by XLA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from kerasrec.private import in_xla


def by_xla(function: Callable[..., Any]) -> Any:
    """The function, compiled; the same function where all around it is compiled already."""
    return function if in_xla() else tf.function(function, jit_compile=True, autograph=False)
