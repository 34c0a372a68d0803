"""Loops whose state has parts with keys, such as buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kerasrec._src.emit.arrays import open_rows
from kerasrec._src.emit.results import State


def run_loop(
    goes_on: Callable[[State], tf.Tensor],
    run: Callable[[State], State],
    state: State,
    scalars: Sequence[str] = (),
    shape_of: Callable[[Any], tf.TensorShape] = open_rows,
) -> State:
    """Runs a loop.

    Args:
        goes_on: Whether the loop goes on, a bool scalar.
        run: Runs a turn.
        state: The variables before the first turn, by name; dicts keep their keys.
        scalars: The names of variables that are scalars, or consist of them; they are one vector in
            the loop.
        shape_of: The shape that a variable may have in all turns.
    """
    like = flat({name: state[name] for name in scalars})

    def packed(state: State) -> tuple[Any, ...]:
        tensors = flat(state)
        numbers = {name: tensors.pop(name) for name in scalars}
        return (tensors, stacked(numbers)) if scalars else (tensors,)

    def unpacked(tensors: State, numbers: tf.Tensor = None) -> State:
        found = unstacked(numbers, like) if scalars else {}
        return keyed({**tensors, **found}, state)

    begin = packed(state)
    found = tf.while_loop(
        lambda *now: goes_on(unpacked(*now)),
        lambda *now: packed(run(unpacked(*now))),
        begin,
        tf.nest.map_structure(shape_of, begin),
        parallel_iterations=1,
    )
    return unpacked(*found)


def flat(state: State) -> State:
    """Returns a state with lists in place of dicts, whose keys TensorFlow cannot sort."""
    return {
        name: list(part.values()) if isinstance(part, dict) else part
        for name, part in state.items()
    }


def keyed(lists: State, like: State) -> State:
    """Returns a state with the dicts that another one has; undoes `flat`."""
    return {
        name: dict(zip(part, lists[name], strict=True)) if isinstance(part, dict) else lists[name]
        for name, part in like.items()
    }


def stacked(nest: Any) -> tf.Tensor:
    """The scalars of a nest, integers or bools, as one vector, int32 `[scalars]`.

    XLA makes a kernel, and TensorFlow a copy, for each tensor.
    """
    return tf.stack([tf.cast(scalar, tf.int32) for scalar in tf.nest.flatten(nest)])


def unstacked(vector: tf.Tensor, like: Any) -> Any:
    """The scalars of a vector, in their dtypes, in a nest of the same structure as `like`."""
    scalars = tf.unstack(vector, len(tf.nest.flatten(like)))
    found = tf.nest.pack_sequence_as(like, scalars)
    return tf.nest.map_structure(
        lambda scalar, other: scalar > 0 if other.dtype == tf.bool else scalar, found, like
    )
