"""If there is a GPU, places ops that read and write only integers and bools on the host.

These ops decide which calls there are. By itself, TensorFlow runs most of them on the host and some
on the GPU. Then their tensors are copied back and forth, and each copy waits for all work of the
GPU.
"""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager

import tensorflow as tf

from kerasrec._src.private import in_xla

HOST = "/device:CPU:0"
# The dtype of integers that are kept on the GPU; see `frames/rows_xla/programs.py`.
ON_GPU = tf.uint32


def integers_on_host() -> AbstractContextManager[None]:
    """Returns a context in which ops that read and write only integers and bools run on the host.

    This includes loops, and leaves out ops on uint32. An op that was given a device keeps it.
    Without a GPU, or inside of code that XLA compiles as a whole, nothing is placed.
    """
    if not has_gpu() or in_xla():
        return contextlib.nullcontext()
    context: AbstractContextManager[None] = tf.compat.v1.get_default_graph().device(_device)
    return context


def has_gpu() -> bool:
    """Whether TensorFlow has a GPU."""
    return bool(tf.config.list_logical_devices("GPU"))


def _device(operation: tf.Operation) -> str:
    tensors = [*operation.inputs, *operation.outputs]
    is_on_host = tensors and all(_is_for_host(tensor.dtype) for tensor in tensors)
    return HOST if is_on_host and not operation.device else operation.device


def _is_for_host(dtype: tf.DType) -> bool:
    return dtype != ON_GPU and bool(dtype.is_integer or dtype.is_bool)
