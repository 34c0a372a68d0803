"""A program and its derivatives as functions of TensorFlow, each the gradient of the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from kerasrec.emit.results import Outcome
from kerasrec.errors import or_nothing
from kerasrec.graph.values import Value
from kerasrec.private import in_xla
from kerasrec.trace.custom_gradient import Differentiated, custom_gradient

_Tensors = Sequence[tf.Tensor | None]


@dataclass
class Inputs:
    """What a program, or one of its derivatives, reads.

    Args:
        sweeps: for each sweep, what comes in from outside: flat arguments `[tokens, ...]`, then
          cotangents of what earlier sweeps return; None for what has none.
        shared: tensors of SHARED values.
    """

    sweeps: Sequence[_Tensors]
    shared: dict[Value, tf.Tensor]

    @property
    def flat(self) -> list[tf.Tensor]:
        """All tensors that may have a gradient, and the arguments."""
        given = [tensor for sweep in self.sweeps for tensor in sweep if tensor is not None]
        return given + [self.shared[value] for value in self._differentiable()]

    def replaced(self, tensors: Sequence[tf.Tensor]) -> Inputs:
        """The same with other tensors, in the order of `flat`."""
        left = iter(tensors)
        sweeps = _map(lambda _: next(left), self.sweeps)
        shared = dict(zip(self._differentiable(), left, strict=True))
        return Inputs(sweeps, {**self.shared, **shared})

    def copied(self) -> Inputs:
        """The same, copied into the graph that is being built.

        Only there does TensorFlow look for what the gradient of a gradient reads. Handles of
        variables stay: the gradient of a `tf.while_loop` cannot capture them.
        """
        shared = {
            value: tensor if tensor.dtype == tf.resource else tf.identity(tensor)
            for value, tensor in self.shared.items()
        }
        return Inputs(_map(tf.identity, self.sweeps), shared)

    def gradients(self, found: Outcome) -> list[tf.Tensor | tf.IndexedSlices | None]:
        """What the derivative of these inputs' function found for each tensor of `flat`.

        Sweep j of S is differentiated by sweep 2S - 1 - j.
        """
        last = 2 * len(self.sweeps) - 1
        pairs = [
            pair
            for index, sweep in enumerate(self.sweeps)
            for pair in zip(sweep, found.sweeps[last - index], strict=True)
        ]
        of_sweeps = [gradient for tensor, gradient in pairs if tensor is not None]
        return of_sweeps + [found.sums.get(value) for value in self._differentiable()]

    def _differentiable(self) -> list[Value]:
        return [value for value in self.shared if value.type.is_differentiable]


def differentiable(
    run: Callable[[Inputs], Outcome],
    gradient: Callable[[Inputs, Outcome], Outcome],
    inputs: Inputs,
) -> Outcome:
    """Runs a function of which TensorFlow sees only the gradient.

    Args:
        run: the function.
        gradient: takes the inputs and cotangents of the results, and gives what the derivative of
          all sweeps found. TensorFlow may call it more than once, in different graphs.
        inputs: of the function.

    Returns:
        What the function returned.
    """
    outcome: Outcome

    @custom_gradient
    def call(*tensors: tf.Tensor) -> Differentiated:
        nonlocal outcome
        outcome = run(inputs.replaced([_hidden(tensor) for tensor in tensors]))

        def back(
            *cotangents: tf.Tensor | tf.IndexedSlices,
        ) -> list[tf.Tensor | tf.IndexedSlices | None]:
            here = inputs.replaced(tensors).copied()
            return here.gradients(gradient(here, _like(outcome, cotangents)))

        return tuple(outcome.flat()), back

    results = call(*inputs.flat)
    return _like(outcome, results)


def dense(gradient: tf.Tensor | tf.IndexedSlices) -> tf.Tensor:
    """The cotangent of a gradient; that of a sparse gradient becomes a table, by its rows.

    Raises:
        tf.errors.InvalidArgumentError: when it runs, if cotangents of one row of the table differ,
          which can only be if the rows were not used as parts of their sum. Inside of XLA the table
          is NaN then.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    places, values = tf.cast(gradient.indices, tf.int32), gradient.values
    empty = tf.zeros(tf.cast(gradient.dense_shape, tf.int32), values.dtype)
    table = tf.tensor_scatter_nd_update(empty, places[:, tf.newaxis], values)
    found = tf.gather(table, places)
    are_same = tf.reduce_all((found == values) | ((found != found) & (values != values)))  # Or NaN.
    if in_xla():
        return or_nothing(~are_same, table)
    check = tf.debugging.Assert(
        are_same,
        [
            "The second derivative of a sparse gradient (tf.IndexedSlices) needs its rows summed: "
            "apply tf.convert_to_tensor to the gradient before anything else."
        ],
    )
    with tf.control_dependencies([check]):
        return tf.identity(table)


def _hidden(tensor: tf.Tensor) -> tf.Tensor:
    """The same tensor, without a gradient path from what is computed from it.

    A tape inside a tape would otherwise differentiate the loops of a run, because of what they
    keep.
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
    """The same with other tensors, or cotangents, in the order of `flat`; with the same rows."""
    left = iter(tensors)

    def next_like(found: tf.Tensor | tf.IndexedSlices) -> tf.Tensor | tf.IndexedSlices:
        if not isinstance(found, tf.IndexedSlices):
            return next(left)
        values, *_ = (next(left) for _ in tf.nest.flatten(found, expand_composites=True))
        return tf.IndexedSlices(values, found.indices, found.dense_shape)

    return outcome.map(next_like)
