"""Lets XLA compile functions, and keeps what one of them computes for the next on its device.

Where functions begin and end, TensorFlow moves tensors of int32 from a GPU to the host, and each
move waits for all work of the GPU. Other dtypes stay where they are. So the bits of int32 are kept
as uint32.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kerasrec._src.emit.results import Tensors
from kerasrec._src.host import ON_GPU
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


def int_bits(tensors: Sequence[tf.Tensor]) -> Tensors:
    """Returns the tensors in the dtypes in which they are kept."""
    return [
        tf.bitcast(tensor, ON_GPU) if tensor.dtype == tf.int32 else tensor for tensor in tensors
    ]


def from_int_bits(tensors: Sequence[tf.Tensor], dtypes: Sequence[tf.DType]) -> Tensors:
    """Returns tensors that were kept, in their own dtypes."""
    return [
        tensor if tensor.dtype == dtype else tf.bitcast(tensor, dtype)
        for tensor, dtype in zip(tensors, dtypes, strict=True)
    ]
