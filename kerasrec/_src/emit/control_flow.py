"""Loops and choices of a run, in a form that TensorFlow's graph optimizer leaves intact.

In a graph with loops the optimizer assumes that facts about one iteration hold for all, and
it may move an op to the wrong side of a loop (both seen with TensorFlow 2.21). Some of these ops
hide values from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kerasrec._src.emit.arrays import open_rows
from kerasrec._src.emit.results import State, Tensors
from kerasrec._src.errors import GraphError
from kerasrec._src.graph.values import Node


def switch(place: tf.Tensor, branches: Sequence[Callable[[], Any]]) -> Any:
    """Returns the result of the branch at a place; a single branch needs no switch."""
    return tf.switch_case(place, branches) if len(branches) > 1 else branches[0]()


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
    """Returns a state with lists instead of dicts, whose keys TensorFlow cannot sort."""
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


def with_open_tokens(tensors: Sequence[tf.Tensor | None]) -> list[tf.Tensor | None]:
    """Hides the number of tokens of tensors `[tokens, ...]` that enter or leave a loop.

    The optimizer takes a static number of tokens at the entrance or the exit for that of all
    iterations, and folds sizes and ranges accordingly. A slice whose end it does not know hides the
    number. A placeholder with a default does not: the optimizer assumes that it has the shape of
    the default.
    """
    all_tokens = hidden(-1)
    return [None if tensor is None else _sliced(tensor, all_tokens) for tensor in tensors]


def hidden(number: int) -> tf.Tensor:
    """An int32 scalar whose value the optimizer does not know."""
    return tf.compat.v1.placeholder_with_default(tf.constant(number), [])


def empty(nodes: Sequence[Node]) -> Tensors:
    """Makes a tensor without tokens, `[0, ...]`, for each node; the optimizer sees no size."""
    size, tensors = hidden(0), []
    for node in nodes:
        if not node.types[0].is_static:
            raise GraphError(f"{node.op} of type {node.types[0]} has no static shape.")
        shape = node.types[0].tensor_shape()
        tensors.append(tf.zeros([size, *shape[1:]], node.types[0].dtype))
        tensors[-1].set_shape(shape)
    return tensors


def no_numbers() -> tf.Tensor:
    """Makes an int32 tensor `[0]` whose size the optimizer does not know."""
    numbers = tf.zeros([hidden(0)], tf.int32)
    numbers.set_shape([None])
    return numbers


def apart(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Separates the tensors that a loop or conditional passes to its body from the loop's own op.

    The optimizer rewrites `(x + 1) + x` to `2 * x + 1` and makes the new constant wait for x. If x
    comes straight from the loop's switch, or is the same in all of its iterations, the constant
    waits for the end of the loop by mistake. Then the op is dead, and the loop returns an empty
    tensor without an error: `tf.map_fn(lambda x: x + y + y, tensor)` does.
    """
    return [tf.compat.v1.placeholder_with_default(tensor, tensor.shape) for tensor in tensors]


def _sliced(tensor: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    rest = tensor.shape[1:]
    tokens = tf.slice(tensor, [0] * tensor.shape.rank, [size, *([-1] * rest.rank)])
    tokens.set_shape([None, *rest])
    return tokens
