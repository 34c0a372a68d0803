"""A program and its derivatives as functions of TensorFlow, each the gradient of the one before.

TensorFlow passes zeros to the gradient of a function for each of its results that is not read.
Therefore each result gets a mark. The cotangent of the mark is 1 if the result has a cotangent, and
is missing otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import tensorflow as tf

from kerasrec._src.emit.results import Outcome
from kerasrec._src.graph.fire import fire
from kerasrec._src.graph.nodes import Primitive
from kerasrec._src.graph.values import Value
from kerasrec._src.ops.table import Is, has
from kerasrec._src.private import unseen_by_op_callbacks
from kerasrec._src.sparse_gradients import first_places
from kerasrec._src.trace.custom_gradient import Differentiated, custom_gradient

_Tensors = Sequence[tf.Tensor | None]


@dataclass
class Inputs:
    """The inputs of a program or of one of its derivatives.

    Args:
        sweeps: The inputs of each sweep from outside: flat arguments `[tokens, ...]`, then
            cotangents of the results of earlier sweeps, None for results without a cotangent.
        shared: The tensors of SHARED values.
    """

    sweeps: Sequence[_Tensors]
    shared: dict[Value, tf.Tensor]

    @property
    def flat(self) -> list[tf.Tensor]:
        """The inputs of all sweeps, and the SHARED tensors that may have a gradient.

        Of a tensor that is unpacked, such as a stack of kernels, it has the whole, not the pieces.
        """
        given = [tensor for sweep in self.sweeps for tensor in sweep if tensor is not None]
        return given + [self.shared[value] for value in self._differentiable()]

    def replaced(self, tensors: Sequence[tf.Tensor]) -> Inputs:
        """Returns inputs with other tensors, in the order of `flat`."""
        left = iter(tensors)
        sweeps = _map(lambda _: next(left), self.sweeps)
        shared = dict(zip(self._differentiable(), left, strict=True))
        return Inputs(sweeps, self._with_pieces({**self.shared, **shared}))

    def copied(self) -> Inputs:
        """Returns a copy of the inputs, made in the graph that is being built.

        TensorFlow looks only there for the tensors that the gradient of a gradient reads. Handles
        of variables are not copied: the gradient of a `tf.while_loop` cannot capture copies.
        """
        shared = {
            value: tensor if tensor.dtype == tf.resource else tf.identity(tensor)
            for value, tensor in self.shared.items()
            if value.node not in self._unpacking
        }
        return Inputs(_map(tf.identity, self.sweeps), self._with_pieces(shared))

    def gradients(self, found: Outcome) -> list[tf.Tensor | tf.IndexedSlices | None]:
        """Returns the gradient of each tensor of `flat`, from the outcome of the next derivative.

        With S sweeps so far, sweep 2S - 1 - j is the gradient of sweep j.
        """
        last = 2 * len(self.sweeps) - 1
        pairs = [
            pair
            for index, sweep in enumerate(self.sweeps)
            for pair in zip(sweep, found.sweeps[last - index], strict=True)
        ]
        of_sweeps = [gradient for tensor, gradient in pairs if tensor is not None]
        sums = dict(found.sums)
        for node in reversed(self._unpacking):
            pieces = [sums.get(value) for value in node.outputs]
            if any(piece is not None for piece in pieces):
                tensors = [
                    tf.zeros_like(self.shared[value]) if piece is None else dense(piece)
                    for value, piece in zip(node.outputs, pieces, strict=True)
                ]
                whole, given = node.inputs[0], tf.stack(tensors, node.operation.get_attr("axis"))
                sums[whole] = dense(sums[whole]) + given if whole in sums else given
        return of_sweeps + [sums.get(value) for value in self._differentiable()]

    def _differentiable(self) -> list[Value]:
        return [
            value
            for value in self.shared
            if value.type.is_differentiable and value.node not in self._unpacking
        ]

    @cached_property
    def _unpacking(self) -> list[Primitive]:
        """The ops that unpack SHARED tensors with a gradient, in order."""
        nodes = dict.fromkeys(value.node for value in self.shared)
        return [
            node
            for node in nodes
            if isinstance(node, Primitive)
            and has(node.op, Is.UNPACKING)
            and node.types[0].is_differentiable
        ]

    def _with_pieces(self, shared: dict[Value, tf.Tensor]) -> dict[Value, tf.Tensor]:
        """Returns the tensors with the pieces of those that are unpacked."""
        for node in self._unpacking:
            pieces = fire(node, [shared[node.inputs[0]]], has_gradient=False)
            shared.update(zip(node.outputs, pieces, strict=True))
        return shared


def differentiable(
    run: Callable[[Inputs], Outcome],
    gradient: Callable[[Inputs, Outcome], Outcome],
    inputs: Inputs,
) -> Outcome:
    """Runs a function with a separate gradient, so that TensorFlow does not differentiate it.

    Args:
        run: The function.
        gradient: Takes the inputs and the cotangents of the results, and returns the outcome of
            the next derivative. TensorFlow may call it more than once, in different graphs.
        inputs: The inputs of the function.

    Returns:
        The outcome of the function.
    """
    outcome: Outcome

    @custom_gradient
    def call(*tensors: tf.Tensor) -> Differentiated:
        nonlocal outcome
        with unseen_by_op_callbacks():
            outcome = run(inputs.replaced([_hidden(tensor) for tensor in tensors]))

        def back(
            *cotangents: tf.Tensor | tf.IndexedSlices,
        ) -> list[tf.Tensor | tf.IndexedSlices | None]:
            with unseen_by_op_callbacks():
                here = inputs.replaced(tensors).copied()
                return here.gradients(gradient(here, _like(outcome, cotangents)))

        return tuple(outcome.flat()), back

    results = call(*inputs.flat)
    return _like(outcome, results)


def dense(gradient: tf.Tensor | tf.IndexedSlices) -> tf.Tensor:
    """Returns the cotangent of a gradient; a sparse one is written into a table, row by row.

    The gradient has each row once. Inside XLA other rows of its index are constant zeros, so their
    cotangents are left out.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    places, values = tf.cast(gradient.indices, tf.int32), gradient.values
    num_rows = tf.cast(gradient.dense_shape[0], tf.int32)
    is_first = first_places(places, num_rows) == tf.range(tf.size(places))
    kept = tf.where(tf.reshape(is_first, [-1] + [1] * (values.shape.rank - 1)), values, 0)
    return tf.math.unsorted_segment_sum(kept, places, num_rows)


def _hidden(tensor: tf.Tensor) -> tf.Tensor:
    """Returns the same tensor, through which no gradient passes.

    Otherwise, a tape inside a tape would differentiate the loops of a run, because of the values
    that they keep.
    """
    if not (tensor.dtype.is_floating or tensor.dtype.is_complex):
        return tensor
    integer = {1: tf.int8, 2: tf.int16, 4: tf.int32}.get(tensor.dtype.size, tf.int64)
    return tf.bitcast(tf.bitcast(tensor, integer), tensor.dtype)


def _map(
    function: Callable[[tf.Tensor], tf.Tensor], sweeps: Iterable[_Tensors]
) -> list[list[tf.Tensor | None]]:
    """Applies a function to every tensor that is not None."""
    return [[None if item is None else function(item) for item in sweep] for sweep in sweeps]


def _like(outcome: Outcome, tensors: Sequence[tf.Tensor]) -> Outcome:
    """Returns an outcome with other tensors in the order of `flat`; sparse ones keep their rows."""
    left = iter(tensors)

    def next_like(found: tf.Tensor | tf.IndexedSlices) -> tf.Tensor | tf.IndexedSlices:
        if not isinstance(found, tf.IndexedSlices):
            return next(left)
        values, *_ = (next(left) for _ in tf.nest.flatten(found, expand_composites=True))
        return tf.IndexedSlices(values, found.indices, found.dense_shape)

    return outcome.map(next_like)


def marked(result: tf.Tensor, mark: tf.Tensor | None) -> tf.Tensor:
    """Returns the result; if it gets a cotangent, so does its mark, unless that is None."""
    if mark is None:
        return result
    return (_eagerly if tf.executing_eagerly() else _in_graph)(result, mark)


def _both(
    result: tf.Tensor, mark: tf.Tensor
) -> tuple[tf.Tensor, Callable[[tf.Tensor], list[tf.Tensor]]]:
    return tf.identity(result), lambda cotangent: [cotangent, tf.ones_like(mark)]


_eagerly = tf.custom_gradient(_both)


@tf.function(autograph=False, reduce_retracing=True)
@unseen_by_op_callbacks()
def _in_graph(result: tf.Tensor, mark: tf.Tensor) -> tf.Tensor:
    def call(result: tf.Tensor, mark: tf.Tensor) -> Differentiated:
        found, back = _both(result, mark)
        return [found], back

    return custom_gradient(call)(result, mark)[0]
