"""What functions that an op holds do with tokens: of a call, a conditional or a loop.

A body may call a `tf.function`, and use `tf.cond` and `tf.while_loop`. These see several tokens
together and may mix them, as a loop does that goes on until all of them are done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import tensorflow as tf

from kerasrec.private import graph_held
from kerasrec.trace.functions import CALLS, LOOPS
from kerasrec.trace.known import Known

_BRANCHES = {"If": ("then_branch", "else_branch"), "Case": ("branches",)}
_BRANCHES |= {f"Stateless{kind}": names for kind, names in _BRANCHES.items()}
# The ops that are looked into.
HOLDING = CALLS | LOOPS | _BRANCHES.keys()


Find = Callable[[tf.Graph, Sequence[Known], int], Sequence[Known]]
"""From the graph of a function and what is known of its inputs to the same of its first outputs.

TensorFlow gives a function more outputs, for its gradient, when it has been called.
"""


def outputs_of_held(operation: tf.Operation, given: Sequence[Known], find: Find) -> Sequence[Known]:
    """What the functions that an op holds say of its outputs.

    Args:
        operation: One of `HOLDING`.
        given: What is known of its inputs.
        find: Looks into a function.
    """
    kind = operation.type
    if kind in CALLS:
        (graph,) = graph_held(operation, "f")
        return find(graph, given, len(operation.outputs))
    if kind in _BRANCHES:
        chooser, *others = given
        graphs = [one for name in _BRANCHES[kind] for one in graph_held(operation, name)]
        found = [find(graph, others, len(operation.outputs)) for graph in graphs]
        return _chosen_by(chooser, [_either(items) for items in zip(*found, strict=True)])
    return _outputs_of_loop(operation, given, find)


def _outputs_of_loop(
    operation: tf.Operation, given: Sequence[Known], find: Find
) -> Sequence[Known]:
    (body,), (condition,) = (graph_held(operation, name) for name in ("body", "cond"))
    known, before, num_turns = list(given), None, 0
    while known != before:
        before, num_turns = known, num_turns + 1
        # What one value passes to the next has reached all of them after as many turns.
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
    # One turn for each token, or entry of rows, and each writes its own element of a list.
    is_list = [tensor.dtype == tf.variant for tensor in operation.inputs]
    return [one if own else other for own, one, other in zip(is_list, known, mixed, strict=True)]


def _carried(before: Known, after: Known, tensor: tf.Tensor, settles: bool) -> Known:
    """What is known of a value that a loop hands to its next turn.

    `tf.map_fn` hands on lists alone. A value of one token would come to the next token, as with
    `tf.scan`. A value whose number of rows changes from turn to turn is not followed.

    Args:
        before: What was known of it before the turn.
        after: The same after it.
        tensor: The tensor that the loop starts with.
        settles: Whether numbers of rows may still become known.
    """
    found = before.or_else(after)
    if not settles and found.rows != before.rows:
        return replace(found.mixed(), rows=before.rows)
    return found.mixed() if found.is_single and tensor.dtype != tf.variant else found


def _chosen_by(chooser: Known, items: Sequence[Known]) -> Sequence[Known]:
    """What is known of items that something decides about."""
    if not (chooser.is_mixed or chooser.size.is_count or chooser.is_single):
        return items
    return [item.mixed() for item in items]


def _either(items: Sequence[Known]) -> Known:
    first, *others = items
    for other in others:
        first = first.or_else(other)
    return first
