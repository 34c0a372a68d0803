"""AutoGraph, which rewrites Python functions, is to leave some of kerasrec's as they are.

Some must not be rewritten. For the others, which are called in a `tf.function` or by `tf.data`, it
would take seconds and change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

Function = TypeVar("Function", bound=Callable[..., Any])


def not_converted(function: Function) -> Function:
    """`tf.autograph.experimental.do_not_convert`, after which a type checker knows the function."""
    return tf.autograph.experimental.do_not_convert(function)
