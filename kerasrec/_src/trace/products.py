"""Writes products of rows as einsums in which the tokens have a label of their own.

Then XLA can compile them, and their gradients, in blocks. `keras.layers.Dense` and `tf.tensordot`
turn `[tokens, children, features]` into `[tokens * children, features]`, multiply, and turn back.
In between, a token has several rows. The gradient of an einsum with an ellipsis moves the tokens
away from the first axis.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from functools import partial

import numpy as np
import tensorflow as tf

from kerasrec._src.graph.types import Kind
from kerasrec._src.ops.axes import einsum, reshaped, transposed
from kerasrec._src.ops.table import facts_of
from kerasrec._src.ops.views import labels_of, transposes
from kerasrec._src.trace.tracer import Tracer


def as_einsum(operation: tf.Operation, tracer: Tracer) -> Callable[[], tf.Tensor] | None:
    """Returns a function that makes the output of an op by an einsum.

    Args:
        operation: Any op.
        tracer: The tracer of its function.

    Returns:
        None unless the op is an einsum with an ellipsis, or the last step of a product of flattened
        rows by a matrix that is the same for all tokens.
    """
    if facts_of(operation.type).axes is einsum:
        return _without_ellipsis(operation)
    found = _rows_and_matrix(operation)
    if found is None or [tracer.kind(tensor) for tensor in found] != [Kind.TOKEN, Kind.SHARED]:
        return None
    labels = string.ascii_lowercase[: found[0].shape.rank]
    return partial(tf.einsum, f"{labels},{labels[-1]}z->{labels[:-1]}z", *found)


def _without_ellipsis(operation: tf.Operation) -> Callable[[], tf.Tensor] | None:
    """Returns a function that makes the same einsum with a label for each axis."""
    inputs, output = labels_of(operation)
    equation = "".join([*inputs, output])
    ranks = [tensor.shape.rank for tensor in operation.inputs]
    if "..." not in equation or None in ranks:
        return None
    free = [label for label in string.ascii_letters if label not in equation]
    parts, longest = [], ""
    for labels, rank in zip(inputs, ranks, strict=True):
        count = rank - len(labels.replace("...", ""))
        # Axes of several inputs are aligned at the last one.
        others = "".join(free[:count][::-1]) if "..." in labels else ""
        longest = max(longest, others, key=len)
        parts.append(labels.replace("...", others))
    explicit = f"{','.join(parts)}->{output.replace('...', longest)}"
    return partial(tf.einsum, explicit, *operation.inputs)


def _rows_and_matrix(operation: tf.Operation) -> tuple[tf.Tensor, tf.Tensor] | None:
    """Returns rows `[tokens, ..., n]` and a matrix `[n, m]` whose product an op turns into rows.

    The rows were flattened to `[..., n]`, and the result has the sizes of the rows but the last
    one. Reshapes keep the order of the entries, so it does not matter how many rows there were.
    """
    if facts_of(operation.type).axes is not reshaped:
        return None
    product = operation.inputs[0].op
    if transposes(product) != (False, False):
        return None
    flat, matrix = product.inputs
    if facts_of(flat.op.type).axes is not reshaped or not matrix.shape.is_fully_defined():
        return None
    rows = _source(flat.op.inputs[0])
    if not (rows.shape.rank or 0) > 2 or not rows.shape[1:].is_fully_defined():
        return None
    wanted = [*rows.shape[1:-1], matrix.shape[1]]
    found = operation.outputs[0].shape
    is_same = found.rank == rows.shape.rank and found[1:].as_list() == wanted
    return (rows, matrix) if is_same and rows.shape[-1] == matrix.shape[0] else None


def _source(tensor: tf.Tensor) -> tf.Tensor:
    """The tensor before a transposition that moves nothing."""
    if facts_of(tensor.op.type).axes is not transposed:
        return tensor
    axes = tf.get_static_value(tensor.op.inputs[1])
    moves = axes is None or np.any(axes != np.arange(len(axes)))
    return tensor if moves else tensor.op.inputs[0]
