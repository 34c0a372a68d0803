"""Writes ops so that the tokens, or several rows for each token, are the first axis.

Then XLA can compile them, and their gradients, in blocks. `tf.tensordot` turns
`[tokens, children, features]` into `[tokens * children, features]`, multiplies, and turns back, by
sizes that it computes from shapes. The gradient of an einsum with an ellipsis moves the tokens away
from the first axis.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from functools import partial

import tensorflow as tf

from kerasrec._src.ops.shapes import entries_of
from kerasrec._src.ops.table import Is, has
from kerasrec._src.ops.views import has_open_rows, labels_of, static_value


def form_for_blocks(operation: tf.Operation) -> Callable[[], tf.Tensor] | None:
    """Returns a function that makes the output of an op in another way; None for most ops."""
    if has(operation.type, Is.EINSUM):
        return _without_ellipsis(operation)
    return _by_known_sizes(operation) if has(operation.type, Is.RESHAPING) else None


def _by_known_sizes(operation: tf.Operation) -> Callable[[], tf.Tensor] | None:
    """Returns a function that makes the same rows without computing how many there are."""
    rows, shape = operation.inputs
    sizes = [size for size in entries_of(shape)[1:] if isinstance(size, int) and size]
    is_known = len(sizes) + 1 == shape.shape[0] and static_value(shape) is None
    if not is_known or not has_open_rows(operation.outputs[0]):
        return None
    return partial(tf.reshape, rows, [-1, *sizes])


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
