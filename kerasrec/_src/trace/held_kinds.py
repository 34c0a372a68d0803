"""Follows tokens through the functions that an op holds: a call, a conditional or a loop.

A recursive function may call a `tf.function`, `tf.cond` and `tf.while_loop`. These see several
tokens together and may mix them. For instance, a loop mixes tokens if it goes on until all of them
are done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import tensorflow as tf

from kerasrec._src.ops.table import Holds, facts_of
from kerasrec._src.private import graph_held
from kerasrec._src.trace.known import Known

Find = Callable[[tf.Graph, Sequence[Known], int], Sequence[Known]]
"""A function that says what is known of the first outputs of a function's graph.

It gets the graph, what is known of its inputs, and the number of outputs. There may be more: when a
function has been called, TensorFlow adds some for its gradient.
"""


def outputs_of_held(operation: tf.Operation, given: Sequence[Known], find: Find) -> Sequence[Known]:
    """Returns what is known of an op's outputs, from the functions that the op holds.

    Args:
        operation: An op that holds functions.
        given: What is known of its inputs.
        find: Follows tokens through a function.
    """
    holds = facts_of(operation.type).holds
    if holds is Holds.TURN:
        return _outputs_of_loop(operation, given, find)
    names = holds.value if holds else ()
    graphs = [graph for name in names for graph in graph_held(operation, name)]
    if holds is Holds.CALLEE:
        return find(graphs[0], given, len(operation.outputs))
    chooser, *others = given
    found = [find(graph, others, len(operation.outputs)) for graph in graphs]
    return _chosen_by(chooser, [_either(items) for items in zip(*found, strict=True)])


def _outputs_of_loop(
    operation: tf.Operation, given: Sequence[Known], find: Find
) -> Sequence[Known]:
    (body,), (condition,) = (graph_held(operation, name) for name in Holds.TURN.value)
    known, before, num_turns = list(given), None, 0
    while known != before:
        before, num_turns = known, num_turns + 1
        # Each turn may pass numbers of rows from one value to another. After as many turns as there
        # are values, they have reached all of them.
        settles = num_turns <= len(given)
        known = [
            _carried(one, other, tensor, settles)
            for one, other, tensor in zip(
                known, find(body, known, len(given)), operation.inputs, strict=True
            )
        ]
    (goes_on,) = find(condition, known, 1)
    mixed = _chosen_by(goes_on, known)
    is_for_each_entry = goes_on.entries is not None and goes_on.entries.is_size
    if goes_on.is_single or (goes_on.is_mixed and not is_for_each_entry):
        return mixed
    # There is one turn for each token, or entry of rows, which writes its own element of a list.
    is_list = [tensor.dtype == tf.variant for tensor in operation.inputs]
    return [one if own else other for own, one, other in zip(is_list, known, mixed, strict=True)]


def _carried(before: Known, after: Known, tensor: tf.Tensor, settles: bool) -> Known:
    """Returns what is known of a value that a loop passes to its next turn.

    `tf.map_fn` passes on only lists. Any other value of a single token would reach the next token,
    as with `tf.scan`. A value whose number of rows changes from turn to turn is not followed.

    Args:
        before: What was known of it before the turn.
        after: What is known of it after the turn.
        tensor: The tensor that the loop starts with.
        settles: Whether the number of rows may still change.
    """
    found = before.or_else(after)
    if not settles and found.rows != before.rows:
        return replace(found.mixed(), rows=before.rows)
    return found.mixed() if found.is_single and tensor.dtype != tf.variant else found


def _chosen_by(chooser: Known, items: Sequence[Known]) -> Sequence[Known]:
    """Returns what is known of results whose branch, or number of turns, `chooser` decides."""
    if not (chooser.is_mixed or chooser.size.is_count or chooser.is_single):
        return items
    return [item.mixed() for item in items]


def _either(items: Sequence[Known]) -> Known:
    first, *others = items
    for other in others:
        first = first.or_else(other)
    return first
