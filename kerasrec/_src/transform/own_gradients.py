"""Checks that gradients that users define by `tf.custom_gradient` do not mix tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf

from kerasrec._src.errors import TraceError
from kerasrec._src.graph.nodes import Primitive
from kerasrec._src.graph.types import Kind
from kerasrec._src.graph.values import Value
from kerasrec._src.ops.table import Is, has, is_given
from kerasrec._src.trace.functions import with_held
from kerasrec._src.trace.kinds import KindFinder
from kerasrec._src.trace.rows import RowsFinder
from kerasrec._src.trace.source import at

_OF_TAPES = "gradient_tape/"  # The names of ops that a gradient tape adds contain it.


def check_own_gradient(
    node: Primitive,
    graph: tf.Graph,
    start: int,
    values: Mapping[str, Value],
    found: Sequence[tuple[Value, tf.Tensor | tf.IndexedSlices | None]],
) -> None:
    """Checks that the gradient of an op computes the cotangents of each token separately.

    Args:
        node: The op.
        graph: The graph in which its gradient was built.
        start: The number of ops that the graph had before.
        values: The value that each tensor of the graph represents, by the tensor's name.
        found: Inputs of the op, each with its cotangent.

    Raises:
        TraceError: If a cotangent of one token is computed from several tokens.
    """
    operations = graph.get_operations()
    added = operations[start:]
    # TensorFlow passes on the results of a `tf.custom_gradient` by an op of its own.
    if not has(node.op, Is.PASSING) or not added:
        return
    held = with_held(added)
    # The gradients of TensorFlow's ops sum over axes that are computed at run time, so the axes are
    # not known here.
    if any(has(op.op, Is.BROADCAST_AXES) or op.name.startswith(_OF_TAPES) for op in held):
        return
    given = [*operations[:start], *(one for one in added if is_given(one))]
    tensors = [tensor for operation in given for tensor in operation.outputs]
    known = {one.name: values[one.name].type.kind for one in tensors if one.name in values}
    if any(known.get(one.name) is Kind.WAVE for operation in added for one in operation.inputs):
        return
    finder = KindFinder(graph, RowsFinder(graph), lambda _: Kind.SHARED)
    for tensor in tensors:
        if tensor.name in known:
            finder.add(tensor, known[tensor.name])
    for value, cotangent in found:
        is_dense = isinstance(cotangent, tf.Tensor)
        if is_dense and value.type.kind is Kind.TOKEN and finder.known(cotangent).is_mixed:
            raise TraceError(
                f"The gradient of a tf.custom_gradient{at(node.source)} is not one value per "
                "token: it was computed across tokens. The cotangents that it takes have a leading "
                "token axis, with a row for each call that happens to run together; reduce, sort "
                "and clip over the other axes only, as in tf.clip_by_norm(d, 1.0, axes=[1])."
            )
