"""What loops, conditionals and functions of TensorFlow make of tokens.

Their graphs are looked at like the graph around them. A loop may go through the tokens one by one,
as `tf.map_fn` does: what it reads of a token in an iteration may only be kept at the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import tensorflow as tf

from kerasrec.graph.types import Kind
from kerasrec.private import held_graph
from kerasrec.trace.known import Known
from kerasrec.trace.powers import UNKNOWN, depends

_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_LOOPS = frozenset({"While", "StatelessWhile"})
_BRANCHES = {"If": ("then_branch", "else_branch"), "StatelessIf": ("then_branch", "else_branch")}
_CASES = frozenset({"Case", "StatelessCase"})
# How often the body of a loop is looked at; each time, what is known of its state is less.
_MAX_PASSES = 16
HOLDERS = _CALLS | _LOOPS | _CASES | set(_BRANCHES)


def known_after(
    operation: tf.Operation, given: Sequence[Known], of_graph: Callable[..., list[Known]]
) -> list[Known] | None:
    """What is known of the outputs of an op that holds graphs.

    Args:
        operation: the op.
        given: of its inputs.
        of_graph: called with a graph, what is known of its inputs, and, of a loop, the names of
          the inputs that change; returns what is known of its outputs.

    Returns:
        It; None if the graphs are not known.
    """
    graphs = [held_graph(operation, name) for name in _names(operation)]
    if any(graph is None for graph in graphs):
        return None
    if operation.type in _LOOPS:
        return _after_loop(graphs[0], graphs[1], given, of_graph)
    if operation.type in _CALLS:
        return list(map(_not_shared, of_graph(graphs[0], given)))
    choice, *others = given
    found = list(map(_either, *(of_graph(graph, others) for graph in graphs)))
    return [_chosen(known, choice) for known in found]


def _names(operation: tf.Operation) -> list[str]:
    if operation.type in _LOOPS:
        return [operation.get_attr(name).name for name in ("cond", "body")]
    if operation.type in _BRANCHES:
        return [operation.get_attr(name).name for name in _BRANCHES[operation.type]]
    if operation.type in _CASES:
        return [function.name for function in operation.get_attr("branches")]
    return [operation.get_attr("f").name]


def _after_loop(
    condition: tf.Graph,
    body: tf.Graph,
    given: Sequence[Known],
    of_graph: Callable[..., list[Known]],
) -> list[Known] | None:
    """Of a loop: what holds before the first iteration and after each."""
    stays = [_is_input(out, own) for out, own in zip(body.outputs, body.inputs, strict=True)]
    counters = frozenset(
        tensor.name for tensor, same in zip(body.inputs, stays, strict=True) if not same
    )
    state = list(given)
    for _ in range(_MAX_PASSES):
        found = of_graph(body, state, counters)
        after = list(map(_carried, found, body.outputs))
        later = [
            one if same else _either(one, two)
            for one, two, same in zip(state, after, stays, strict=True)
        ]
        if all(one.is_as(two) for one, two in zip(state, later, strict=True)):
            break
        state = later
    else:
        return None
    (goes_on,) = of_graph(condition, state)
    return [
        _not_shared(known) if same else _repeated(known, goes_on, tensor)
        for known, same, tensor in zip(state, stays, body.outputs, strict=True)
    ]


def _is_input(tensor: tf.Tensor, own: tf.Tensor) -> bool:
    """Whether a loop hands an input on as it is."""
    return _origin(tensor) is own


def _origin(tensor: tf.Tensor) -> tf.Tensor:
    while tensor.op.type == "Identity":
        (tensor,) = tensor.op.inputs
    return tensor


def _carried(known: Known, tensor: tf.Tensor) -> Known:
    """What an iteration hands on to the next one: what it has read is that of an earlier token."""
    if isinstance(known.entry, tuple) and known.entry[0] is tensor.graph:
        return replace(known, entry=None, power=UNKNOWN, by=_origin(tensor).op)
    return known


def _repeated(known: Known, goes_on: Known, tensor: tf.Tensor) -> Known:
    """What changes in each iteration, where it may depend on the tokens how many there are."""
    known = _not_shared(known)
    if not goes_on.depends or tensor.dtype == tf.variant:
        return known
    if known.kind is not Kind.TOKEN:
        return replace(known, power=UNKNOWN, by=known.by or goes_on.by)
    # As long as any token asks for it, those that are done may be left as they are.
    return known if goes_on.is_mixed else _mixed(known, goes_on)


def _chosen(known: Known, choice: Known) -> Known:
    """What is one of several; which of them may depend on the tokens."""
    known = _not_shared(known)
    if choice.entry is not None:
        if known.place is not None or known.entry not in (None, choice.entry):
            return _mixed(known, choice)
        return replace(known, entry=choice.entry, is_size=False)
    if not choice.depends:
        return known
    if known.place is not None:
        return _mixed(known, choice)
    return replace(known, power=UNKNOWN, by=known.by or choice.by)


def _mixed(known: Known, because: Known) -> Known:
    return replace(known, kind=Kind.WAVE, axis=None, is_mixed=True, by=known.by or because.by)


def _not_shared(known: Known) -> Known:
    """The kinds of an op's outputs are all SHARED or none is."""
    if known.kind is Kind.SHARED:
        return replace(known, kind=Kind.WAVE, is_size=True)
    return known


def _either(one: Known, *others: Known) -> Known:
    """What is known of one of several tensors."""
    for two in others:
        one = _one_of_two(one, two)
    return one


def _one_of_two(one: Known, two: Known) -> Known:
    if one.is_as(two):
        return one
    by = one.by or two.by
    if Kind.SHARED in (one.kind, two.kind):
        return replace(two if one.kind is Kind.SHARED else one, by=by)
    entries = {known.entry for known in (one, two)}
    is_mixed = one.is_mixed or two.is_mixed or one.place != two.place or one.rows != two.rows
    power = one.power
    if len(entries) > 1 or not np.array_equal(one.power, two.power, equal_nan=True):
        power = UNKNOWN
    is_mixed |= one.kind is Kind.TOKEN and depends(power)
    return replace(
        one,
        kind=Kind.WAVE if is_mixed else one.kind,
        axis=None if is_mixed else one.axis,
        is_mixed=is_mixed,
        power=power,
        is_size=one.is_size and two.is_size,
        entry=one.entry if len(entries) == 1 else None,
        is_list=one.is_list or two.is_list,
        by=by,
    )
