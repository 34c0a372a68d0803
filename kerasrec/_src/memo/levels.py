"""The order in which calls run with `memo`: by the longest path to a call that calls nobody."""

from __future__ import annotations

import tensorflow as tf

from kerasrec._src.emit.arrays import array_of, joined, rows_where
from kerasrec._src.errors import WITHOUT_FRAMES
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.memo.calls import Calls, texts_of_calls
from kerasrec._src.row_ids import row_ids

_MAX_SHOWN = 16


def levels_of(callers: tf.Tensor, callees: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """Returns the level of each call.

    It is 0 for a call that makes no calls, and otherwise one more than the highest level among the
    calls that it makes.

    Args:
        callers: The number of the caller, int32 `[edges]`.
        callees: The number of the call that it makes, int32 `[edges]`.
        count: The number of calls, an int32 scalar.

    Returns:
        The levels, int32 `[calls]`; -1 for a call that needs itself, or another call that does.
    """
    order = tf.argsort(callees, stable=True)
    callers_of = tf.gather(callers, order)
    num_callers = tf.math.bincount(callees, minlength=count, maxlength=count)
    starts = tf.cumsum(num_callers, exclusive=True)
    num_called = tf.math.bincount(callers, minlength=count, maxlength=count)

    def turn(
        level: tf.Tensor, ready: tf.Tensor, left: tf.Tensor, done: tf.TensorArray
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.TensorArray]:
        edges = rows_of_ranges(tf.gather(starts, ready), tf.gather(num_callers, ready))
        parents, _, counts = tf.unique_with_counts(tf.gather(callers_of, edges))
        left = tf.tensor_scatter_nd_sub(left, tf.expand_dims(parents, 1), counts)
        now = rows_where(tf.gather(left, parents) == 0, parents)
        return level + 1, now, left, done.write(level, ready)

    first = tf.where(num_called == 0)[:, 0]
    _, _, _, done = tf.while_loop(
        lambda _, ready, *__: tf.size(ready) > 0,
        turn,
        (
            tf.constant(0),
            tf.cast(first, tf.int32),
            num_called,
            array_of(tf.TensorSpec([None], tf.int32)),
        ),
        shape_invariants=(
            tf.TensorShape([]),
            tf.TensorShape([None]),
            tf.TensorShape([None]),
            tf.TensorShape(None),
        ),
        parallel_iterations=1,
    )
    calls, sizes = joined(done)
    found = tf.fill([count], -1)
    return tf.tensor_scatter_nd_update(found, tf.expand_dims(calls, 1), row_ids(sizes))


def rows_of_ranges(starts: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
    """Joins the integers of ranges, one range after the other, int32 `[sum of sizes]`."""
    of = row_ids(sizes)
    return tf.range(tf.size(of)) + tf.gather(starts - tf.cumsum(sizes, exclusive=True), of)


def check_order(
    graph: TaggedGraph, calls: Calls, callers: tf.Tensor, callees: tf.Tensor, level: tf.Tensor
) -> tf.Tensor:
    """Returns the levels of calls; fails, when it is computed, if a call needs itself.

    Args:
        graph: The program.
        calls: All calls of the run.
        callers: The numbers of the callers, int32 `[edges]`.
        callees: The numbers of the calls that they make, int32 `[edges]`.
        level: The level of each call, int32 `[calls]`; -1 for a call without a level.
    """

    def failed() -> tf.Tensor:
        is_open = level < 0
        edges = tf.where(tf.gather(is_open, callers) & tf.gather(is_open, callees))[:, 0]
        caller, callee = tf.gather(callers, edges), tf.gather(callees, edges)
        # Each call without a level makes another call without a level. So the path gets to a cycle.
        none = tf.zeros_like(level)
        following = tf.tensor_scatter_nd_update(none, tf.expand_dims(caller, 1), callee)
        start = tf.cast(tf.argmax(is_open), tf.int32)
        (start,) = tf.while_loop(
            lambda call: True,
            lambda call: (tf.gather(following, call),),
            (start,),
            maximum_iterations=calls.count,
        )
        _, path = tf.while_loop(
            lambda call, path: (
                (tf.size(path) < 2) | ((call != start) & (tf.size(path) < _MAX_SHOWN))
            ),
            lambda call, path: (
                tf.gather(following, call),
                tf.concat([path, tf.gather(following, call)[tf.newaxis]], 0),
            ),
            (start, start[tf.newaxis]),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])),
        )
        names = tf.strings.reduce_join(tf.gather(_names(graph, calls), path), separator=" needs ")
        message = tf.strings.join(
            [
                f"{graph.entry} has memo=True, where equal calls are one call, and a call needs "
                "itself: ",
                names,
                ". Let each call pass other integers than those that led to it.",
            ]
        )
        found = tf.raw_ops.Assert(condition=False, data=[message], name=WITHOUT_FRAMES)
        with tf.control_dependencies([found]):
            return tf.constant(True)

    done = tf.cond(tf.reduce_any(level < 0), failed, lambda: tf.constant(True))
    with tf.control_dependencies([done]):
        return tf.identity(level)


def _names(graph: TaggedGraph, calls: Calls) -> tf.Tensor:
    """Returns each call as users write it, string `[calls]`."""
    found = tf.fill([calls.count], "")
    for name, numbers in calls.numbers.items():
        texts = texts_of_calls(name, graph.bodies[name].parameters, calls.arguments[name])
        found = tf.tensor_scatter_nd_update(found, tf.expand_dims(numbers, 1), texts)
    return found
