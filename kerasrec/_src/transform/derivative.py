"""Derivatives of ops by TensorFlow's gradient registry, built once for all ops that are alike.

A program has many ops of one kind on the same types. When TensorFlow built the derivative of each
of them, that took a tenth of the time to compile a layer.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from kerasrec._src.errors import TraceError
from kerasrec._src.graph.fire import attributes_of
from kerasrec._src.graph.nodes import Primitive
from kerasrec._src.graph.types import Kind, Shape
from kerasrec._src.graph.values import Value
from kerasrec._src.ops.table import Is, has, is_given
from kerasrec._src.private import OF_GRADIENTS, unseen_by_op_callbacks
from kerasrec._src.trace.functions import held_functions, with_held
from kerasrec._src.trace.kinds import KindFinder
from kerasrec._src.trace.rows import RowsFinder
from kerasrec._src.trace.source import at

TensorNames = tuple[str, ...]

_MOST_KEPT = 512  # Each takes about 50 kB.
_LARGEST_CONSTANT = 4096  # In bytes.
_OF_TAPES = "gradient_tape/"  # The names of ops that a gradient tape adds contain it.


@dataclass(frozen=True)
class Read:
    """A tensor that an op or its derivative reads.

    Args:
        dtype: The dtype of the tensor.
        shape: The shape of the tensor.
        constant: The definition of the tensor's op, if it is a constant: some gradients read its
            value while they are built. None for other tensors.
    """

    dtype: tf.DType
    shape: Shape
    constant: bytes | None

    def tensor(self) -> tf.Tensor:
        """Returns the constant, or a placeholder, in the graph that is being built."""
        if self.constant is None:
            return tf.compat.v1.placeholder(self.dtype, self.shape)
        return _made(self.constant, [], [self.dtype]).outputs[0]


@dataclass(frozen=True)
class Question:
    """Everything that the derivative of an op depends on.

    Args:
        definition: The definition of the op.
        outputs: The dtype and shape of each output of the op.
        read: The tensors that the op and its derivative read, each once.
        inputs: The inputs of the op in order, as places in `read`.
        cotangents: For each output with a cotangent, its place among the outputs, and the place of
            the cotangent in `read`.
        wanted: For each tensor that needs a cotangent, its place in `read`, and whether the
            cotangent may be sparse.
    """

    definition: bytes
    outputs: tuple[tuple[tf.DType, Shape], ...]
    read: tuple[Read, ...]
    inputs: tuple[int, ...]
    cotangents: tuple[tuple[int, int], ...]
    wanted: tuple[tuple[int, bool], ...]


@dataclass(frozen=True)
class Derivative:
    """The ops of a derivative, in a separate graph.

    Args:
        operations: The ops, inputs before their readers.
        read: The name of each tensor of `Question.read` in this graph.
        outputs: The names of the outputs of the op that is differentiated.
        results: For each wanted cotangent its name; the names of its values and its indices if it
            is sparse; no names if there is no such cotangent.
    """

    operations: Sequence[tf.Operation]
    read: TensorNames
    outputs: TensorNames
    results: Sequence[TensorNames]


def definition_of(operation: tf.Operation) -> bytes | None:
    """Returns the serialized definition of an op without its inputs; None if that is not enough.

    It is not enough if the op refers to Python functions, or to functions of its graph. Large
    constants have no definition either, because definitions are kept.
    """
    found = operation.node_def
    is_large = found.ByteSize() > _LARGEST_CONSTANT
    if is_large or OF_GRADIENTS.intersection(found.attr) or held_functions(found):
        return None
    definition = tf.compat.v1.NodeDef(op=found.op, attr=attributes_of(found))
    return definition.SerializeToString(deterministic=True)


@functools.lru_cache(maxsize=_MOST_KEPT)
def derivative(question: Question) -> Derivative | None:
    """Returns a derivative; None if it contains an op that has no definition on its own.

    Raises:
        LookupError: If TensorFlow has no gradient for the op.
    """
    with unseen_by_op_callbacks(), tf.Graph().as_default() as graph:
        read = [item.tensor() for item in question.read]
        dtypes = [dtype for dtype, _ in question.outputs]
        op = _made(question.definition, [read[place] for place in question.inputs], dtypes)
        for tensor, (_, shape) in zip(op.outputs, question.outputs, strict=True):
            tensor.set_shape(shape)
        start = len(graph.get_operations())
        outputs = [op.outputs[place] for place, _ in question.cotangents]
        given = [read[place] for _, place in question.cotangents]
        results = cotangents(
            outputs, given, [(read[place], is_sparse) for place, is_sparse in question.wanted]
        )
        added = graph.get_operations()[start:]
    if not all(map(definition_of, added)):
        return None
    return Derivative(
        added,
        tuple(tensor.name for tensor in read),
        tuple(tensor.name for tensor in op.outputs),
        [tuple(tensor.name for tensor in parts_of(result)) for result in results],
    )


def cotangents(
    outputs: Sequence[tf.Tensor],
    given: Sequence[tf.Tensor],
    wanted: Sequence[tuple[tf.Tensor, bool]],
) -> list[tf.Tensor | tf.IndexedSlices | None]:
    """Returns cotangents of inputs of one op; TensorFlow adds their ops to the current graph.

    Args:
        outputs: The outputs of the op that have cotangents.
        given: The cotangents of `outputs`.
        wanted: Inputs, each with whether its cotangent may be sparse.

    Raises:
        LookupError: If TensorFlow has no gradient for the op.
    """
    inputs = [tensor for tensor, _ in wanted]
    results = tf.gradients(outputs, inputs, given, stop_gradients=inputs)
    return [
        result if result is None or is_sparse else tf.convert_to_tensor(result)
        for result, (_, is_sparse) in zip(results, wanted, strict=True)
    ]


def parts_of(cotangent: tf.Tensor | tf.IndexedSlices | None) -> list[tf.Tensor]:
    """The tensors of a cotangent: values and indices if it is sparse, none if it is None."""
    if cotangent is None:
        return []
    if isinstance(cotangent, tf.IndexedSlices):
        return [cotangent.values, cotangent.indices]
    return [cotangent]


def _made(
    definition: bytes, inputs: Sequence[tf.Tensor], dtypes: Sequence[tf.DType]
) -> tf.Operation:
    found = tf.compat.v1.NodeDef.FromString(definition)
    graph = tf.compat.v1.get_default_graph()
    return graph.create_op(found.op, list(inputs), list(dtypes), attrs=dict(found.attr))


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
    # TensorFlow passes on the results of a `tf.custom_gradient` by a separate op.
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
