"""The derivative of an op by TensorFlow's registry, built once for all ops that are alike.

A program has many ops of one kind on the same types. To have TensorFlow build the derivative of
each took a tenth of the time in which a layer was compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from kerasrec.graph.fire import attributes_of
from kerasrec.graph.types import Shape
from kerasrec.private import OF_GRADIENTS
from kerasrec.trace.functions import held_functions

Names = tuple[str, ...]

_MOST_KEPT = 512  # of some 50 kB each
_LARGEST_CONSTANT = 4096  # bytes


@dataclass(frozen=True)
class Read:
    """What an op or its derivative reads.

    Args:
        dtype: of the tensor.
        shape: of the tensor.
        constant: the definition of the op, if it is a constant: some gradients read its value while
            they are built.
    """

    dtype: tf.DType
    shape: Shape
    constant: bytes | None

    def tensor(self) -> tf.Tensor:
        """A tensor for it, in the graph that is being built."""
        if self.constant is None:
            return tf.compat.v1.placeholder(self.dtype, self.shape)
        return _made(self.constant, [], [self.dtype]).outputs[0]


@dataclass(frozen=True)
class Question:
    """What a derivative depends on.

    Args:
        definition: of the op.
        outputs: dtypes and shapes of its outputs.
        read: all that is read.
        inputs: which of that are the inputs of the op, in order.
        cotangents: outputs that have cotangents, each with what is read for it.
        wanted: which of what is read needs a cotangent, each with whether it may be sparse.
    """

    definition: bytes
    outputs: tuple[tuple[tf.DType, Shape], ...]
    read: tuple[Read, ...]
    inputs: tuple[int, ...]
    cotangents: tuple[tuple[int, int], ...]
    wanted: tuple[tuple[int, bool], ...]


@dataclass(frozen=True)
class Derivative:
    """What a derivative computes, in a graph of its own.

    Args:
        operations: in order.
        read: the name of the tensor for each thing that is read.
        outputs: names of the outputs of the op.
        results: for each cotangent that is wanted its name, the names of values and indices where
            it is sparse, or nothing where it has none.
    """

    operations: Sequence[tf.Operation]
    read: Names
    outputs: Names
    results: Sequence[Names]


def definition_of(operation: tf.Operation) -> bytes | None:
    """What an op is, whatever its inputs; None if more is to be known of it.

    That is so if Python functions or functions of its graph belong to it, or if it is a large
    constant, which would be kept.
    """
    found = operation.node_def
    is_large = found.ByteSize() > _LARGEST_CONSTANT
    if is_large or OF_GRADIENTS.intersection(found.attr) or held_functions(found):
        return None
    definition = tf.compat.v1.NodeDef(op=found.op, attr=attributes_of(found))
    return definition.SerializeToString(deterministic=True)


@functools.lru_cache(maxsize=_MOST_KEPT)
def derivative(question: Question) -> Derivative | None:
    """The derivative; None if more must be known of an op in it than its definition.

    Raises:
        LookupError: TensorFlow knows none.
    """
    with tf.Graph().as_default() as graph:
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
    """Cotangents of inputs of one op by TensorFlow, in the graph that is being built.

    Args:
        outputs: of the op.
        given: their cotangents.
        wanted: inputs, each with whether its cotangent may be sparse.

    Raises:
        LookupError: TensorFlow knows none.
    """
    inputs = [tensor for tensor, _ in wanted]
    results = tf.gradients(outputs, inputs, given, stop_gradients=inputs)
    return [
        result if result is None or is_sparse else tf.convert_to_tensor(result)
        for result, (_, is_sparse) in zip(results, wanted, strict=True)
    ]


def parts_of(cotangent: tf.Tensor | tf.IndexedSlices | None) -> list[tf.Tensor]:
    """A cotangent; the values and the indices of a sparse one; nothing if there is none."""
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
