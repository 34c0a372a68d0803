"""Whether a gradient of the user's own, by `tf.custom_gradient`, leaves tokens apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf

from kerasrec.errors import TraceError
from kerasrec.graph.nodes import Primitive
from kerasrec.graph.types import Kind
from kerasrec.graph.values import Value
from kerasrec.trace.functions import with_held
from kerasrec.trace.kinds import KindFinder
from kerasrec.trace.rows import RowsFinder
from kerasrec.trace.source import at

_OWN_GRADIENT = "IdentityN"  # What TensorFlow puts after the results of a `tf.custom_gradient`.
# The gradients of TensorFlow's ops sum over axes that this op computes when it runs, which cannot
# be followed; a tape gives its ops this name.
_BROADCASTS, _OF_TAPES = "BroadcastGradientArgs", "gradient_tape/"


def check_own_gradient(
    node: Primitive,
    graph: tf.Graph,
    start: int,
    values: Mapping[str, Value],
    found: Sequence[tuple[Value, tf.Tensor | tf.IndexedSlices | None]],
) -> None:
    """Checks what the gradient of an op computes for each token.

    Args:
        node: the op.
        graph: where its gradient was built.
        start: how many ops the graph had before.
        values: by name of a tensor of the graph, what it stands for.
        found: inputs of the op, and their cotangents.

    Raises:
        TraceError: it computes a cotangent of one token from several tokens.
    """
    operations = graph.get_operations()
    added = operations[start:]
    if node.op != _OWN_GRADIENT or not added:
        return
    held = with_held(added)
    if any(one.op == _BROADCASTS or one.name.startswith(_OF_TAPES) for one in held):
        return
    given = [*operations[:start], *(one for one in added if one.type == "Placeholder")]
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
