"""The order in which calls run with `memo`: by the longest path to a call that calls nobody."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from kerasrec._src.emit.arrays import array_of, joined, rows_where
from kerasrec._src.emit.control_flow import run_loop
from kerasrec._src.emit.results import State, Tensors
from kerasrec._src.errors import WITHOUT_FRAMES
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.memo.calls import Calls, texts_of_calls
from kerasrec._src.row_ids import row_ids

_MAX_SHOWN = 16


class SortedCalls(NamedTuple):
    """The calls of each body, in the order in which they run.

    Args:
        arguments: For each body, the values of its parameters, `[calls, ...]` each.
        sizes: For each body, the number of its calls in each turn, int32 `[turns]`.
        place: For each call, its place among the calls of its body, int32 `[calls]`.
    """

    arguments: dict[str, Tensors]
    sizes: dict[str, tf.Tensor]
    place: tf.Tensor


def sorted_calls(calls: Calls, turn: tf.Tensor, num_turns: tf.Tensor) -> SortedCalls:
    """Sorts the calls of each body by the turn of a loop in which they run.

    Args:
        calls: All calls of a run.
        turn: The turn of each call, int32 `[calls]`.
        num_turns: The number of turns, an int32 scalar.
    """
    arguments, sizes, place = {}, {}, tf.zeros([calls.count], tf.int32)
    for name, numbers in calls.numbers.items():
        own = tf.gather(turn, numbers)
        order = tf.argsort(own, stable=True)
        arguments[name] = [tf.gather(tensor, order) for tensor in calls.arguments[name]]
        sizes[name] = tf.math.bincount(own, minlength=num_turns, maxlength=num_turns)
        rows = tf.expand_dims(tf.gather(numbers, order), 1)
        place = tf.tensor_scatter_nd_update(place, rows, tf.range(tf.size(numbers)))
    return SortedCalls(arguments, sizes, place)


def levels(graph: TaggedGraph, calls: Calls) -> tf.Tensor:
    """Returns the level of each call, int32 `[calls]`.

    It is 0 for a call that makes no calls, and otherwise one more than the highest level among the
    calls that it makes.

    Raises:
        tf.errors.InvalidArgumentError: When it is computed, if a call needs itself.
    """
    callers, callees = (tf.concat(ends, 0) for ends in zip(*calls.edges.values(), strict=True))
    order = tf.argsort(callees, stable=True)
    callers_of = tf.gather(callers, order)
    num_callers = tf.math.bincount(callees, minlength=calls.count, maxlength=calls.count)
    starts = tf.cumsum(num_callers, exclusive=True)
    num_called = tf.math.bincount(callers, minlength=calls.count, maxlength=calls.count)

    def turn(state: State) -> State:
        level, ready = state["level"], state["ready"]
        edges = rows_of_ranges(tf.gather(starts, ready), tf.gather(num_callers, ready))
        parents, _, counts = tf.unique_with_counts(tf.gather(callers_of, edges))
        left = tf.tensor_scatter_nd_sub(state["left"], tf.expand_dims(parents, 1), counts)
        ready_next = rows_where(tf.gather(left, parents) == 0, parents)
        done = state["done"].write(level, ready)
        return {"level": level + 1, "ready": ready_next, "left": left, "done": done}

    start: State = {
        "level": tf.constant(0),
        "ready": tf.cast(tf.where(num_called == 0)[:, 0], tf.int32),
        "left": num_called,
        "done": array_of(tf.TensorSpec([None], tf.int32)),
    }
    end = run_loop(lambda state: tf.size(state["ready"]) > 0, turn, start)
    done, lengths = joined(end["done"])
    sizes = tf.cast(lengths, tf.int32)
    found = tf.fill([calls.count], -1)
    found = tf.tensor_scatter_nd_update(found, tf.expand_dims(done, 1), row_ids(sizes))
    with tf.control_dependencies([check_order(graph, calls, callers, callees, found < 0)]):
        return tf.identity(found)


def rows_of_ranges(starts: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
    """Joins the integers of ranges, one range after the other, int32 `[sum of sizes]`."""
    of = row_ids(sizes)
    return tf.range(tf.size(of)) + tf.gather(starts - tf.cumsum(sizes, exclusive=True), of)


def check_order(
    graph: TaggedGraph, calls: Calls, callers: tf.Tensor, callees: tf.Tensor, is_open: tf.Tensor
) -> tf.Tensor:
    """Fails, when it is computed, if a call needs itself.

    Args:
        graph: The program.
        calls: All calls of the run.
        callers: The numbers of the callers, int32 `[edges]`.
        callees: The numbers of the calls that they make, int32 `[edges]`.
        is_open: Whether each call cannot run, bool `[calls]`. One that cannot makes another one
          that cannot.
    """

    def failed() -> tf.Tensor:
        edges = tf.where(tf.gather(is_open, callers) & tf.gather(is_open, callees))[:, 0]
        caller, callee = tf.gather(callers, edges), tf.gather(callees, edges)
        # Makes the path get to a cycle.
        none = tf.zeros([calls.count], tf.int32)
        following = tf.tensor_scatter_nd_update(none, tf.expand_dims(caller, 1), callee)
        start = tf.cast(tf.argmax(is_open), tf.int32)
        (start,) = tf.while_loop(
            lambda call: True,
            lambda call: (tf.gather(following, call),),
            (start,),
            maximum_iterations=calls.count,
        )

        def is_open_path(state: State) -> tf.Tensor:
            size = tf.size(state["path"])
            return (size < 2) | ((state["call"] != start) & (size < _MAX_SHOWN))

        def follow(state: State) -> State:
            call = tf.gather(following, state["call"])
            return {"call": call, "path": tf.concat([state["path"], call[tf.newaxis]], 0)}

        path = run_loop(is_open_path, follow, {"call": start, "path": start[tf.newaxis]})["path"]
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

    return tf.cond(tf.reduce_any(is_open), failed, lambda: tf.constant(True))


def _names(graph: TaggedGraph, calls: Calls) -> tf.Tensor:
    """Returns each call as users write it, string `[calls]`."""
    found = tf.fill([calls.count], "")
    for name, numbers in calls.numbers.items():
        texts = texts_of_calls(name, graph.bodies[name].parameters, calls.arguments[name])
        found = tf.tensor_scatter_nd_update(found, tf.expand_dims(numbers, 1), texts)
    return found
