"""Finds products of rows that were flattened before, and made into rows again after.

`keras.layers.Dense` and `tf.tensordot` turn `[tokens, children, features]` into
`[tokens * children, features]`, multiply, and turn back. In between, a token has several rows. An
einsum gives the same with one row for each token, so that XLA can compile it in blocks.
"""

from __future__ import annotations

import string

import numpy as np
import tensorflow as tf

from kerasrec.graph.types import Kind
from kerasrec.trace.tracer import Tracer


def product_of_rows(operation: tf.Operation, tracer: Tracer) -> tuple[tf.Tensor, tf.Tensor] | None:
    """Returns the rows `[tokens, ..., n]` and the matrix `[n, m]` whose product an op makes.

    Args:
        operation: Any op.
        tracer: The tracer of its function.

    Returns:
        None unless the op is the last step of such a product, the matrix is the same for all
        tokens, and all sizes but the number of tokens are known.
    """
    if operation.type != "Reshape" or operation.inputs[0].op.type != "MatMul":
        return None
    product = operation.inputs[0].op
    flat, matrix = product.inputs
    if flat.op.type != "Reshape" or any(
        product.get_attr(name) for name in ("transpose_a", "transpose_b")
    ):
        return None
    rows = _source(flat.op.inputs[0])
    is_known = (
        tracer.kind(rows) is Kind.TOKEN
        and tracer.kind(matrix) is Kind.SHARED
        and matrix.shape.is_fully_defined()
        and rows.shape[1:].is_fully_defined()
        and rows.shape.rank > 2
    )
    if not is_known or rows.shape[-1] != matrix.shape[0]:
        return None
    wanted = [*rows.shape[1:-1], matrix.shape[1]]
    return (rows, matrix) if operation.outputs[0].shape[1:].as_list() == wanted else None


def multiplied(rows: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
    """Returns a product that `product_of_rows` found, `[tokens, ..., m]`."""
    labels = string.ascii_lowercase[: rows.shape.rank]
    return tf.einsum(f"{labels},{labels[-1]}z->{labels[:-1]}z", rows, matrix)


def _source(tensor: tf.Tensor) -> tf.Tensor:
    """The tensor before a transposition that moves nothing."""
    if tensor.op.type != "Transpose":
        return tensor
    axes = tf.get_static_value(tensor.op.inputs[1])
    moves = axes is None or np.any(axes != np.arange(len(axes)))
    return tensor if moves else tensor.op.inputs[0]
