"""The second definition of what function graphs mean: by demand.

This follows Kostopoulou 2018, section 4.2, after Yaghi. Call i of a function is the operator
call_i: in the context `c`, it asks for the function's result in the context `i : c`. A parameter is
the operator actuals: in the context `i : c`, it asks for the argument of call i in the context `c`.
Nothing is sent, and a value that nobody asks for is not computed. The first definition is
`interpreter.py`: there, values are sent as soon as they are computed. Both give the same results.
Only what a program shows, checks or collects may be missing here, where nobody asks for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from kerasrec._src.graph import nodes
from kerasrec._src.graph.carried import (
    Entry,
    Tag,
    carried_by_roots,
    enter,
    enter_row,
    leave_row,
    or_one_token,
)
from kerasrec._src.graph.fire import branch_chosen, read_shared
from kerasrec._src.graph.graph import FunctionGraphs
from kerasrec._src.graph.interpreter import Kernels
from kerasrec._src.graph.values import Node, Value

_OUTSIDE = -1


@dataclass
class Eduction:
    """The results of a run.

    Args:
        outputs: One array for each flat output, `[tokens, ...]`.
        calls: For each function, how many of its calls were asked for something, including the call
            from outside.
    """

    outputs: list[np.ndarray]
    calls: Counter[str] = field(default_factory=Counter)


def evaluate(graphs: FunctionGraphs, arguments: Sequence[np.ndarray]) -> Eduction:
    """Computes what a program returns, one token at a time.

    It uses Python's own recursion, so it is for small programs.

    Args:
        graphs: The graphs of a program. Assertions in it do not fail, and tables stay empty.
        arguments: One array for each flat argument, `[tokens, ...]`; what tokens carry may follow.
          A function without arguments runs for one token.
    """
    asking, arguments = _Asking(graphs), or_one_token(arguments)
    arguments = [item for place, item in enumerate(arguments) if place not in graphs.left_out]
    entry = graphs.functions[graphs.entry]
    if len(arguments) < len(entry.parameters):
        arguments += carried_by_roots(entry.parameters, len(arguments[0]))
    found = Eduction([])
    rows = []
    for token in range(len(arguments[0])):
        given = [np.asarray(item)[token : token + 1] for item in arguments]
        rows.append(asking.results(entry.outputs, given))
        found.calls += asking.calls
    found.outputs = [np.concatenate(column) for column in zip(*rows, strict=True)]
    return found


class _Asking:
    def __init__(self, graphs: FunctionGraphs):
        self._graphs = graphs
        self._kernels = Kernels()
        self._sites: dict[int | Entry, nodes.CallOf] = {}
        self._labels: dict[Node, int] = {}
        self._places: dict[Node, int] = {}
        for function in graphs:
            for site in function.call_sites:
                self._labels[site] = len(self._sites)
                self._sites[len(self._sites)] = site
            self._places.update((node, place) for place, node in enumerate(function.parameters))

    def results(self, values: Sequence[Value], arguments: Sequence[np.ndarray]) -> list[Any]:
        """Returns the values for one token of a call from outside."""
        self._arguments = [tf.constant(item) for item in arguments]
        self._known: dict[tuple[Value, Tag], tf.Tensor] = {}
        self.calls: Counter[str] = Counter({self._graphs.entry: 1})
        self._entered: set[Tag] = set()
        return [self._ask(value, (_OUTSIDE,)).numpy() for value in values]

    def _ask(self, value: Value, context: Tag) -> tf.Tensor:
        context = () if value.is_shared else context
        if (value, context) not in self._known:
            rule = _RULES.get(type(value.node), _Asking._fired)
            self._known[value, context] = rule(self, value, context)
        return self._known[value, context]

    def _fired(self, value: Value, context: Tag) -> tf.Tensor:
        inputs = [self._ask(item, context) for item in value.node.inputs]
        for output, tensor in zip(
            value.node.outputs, self._kernels.of(value.node)(*inputs), strict=True
        ):
            self._known[output, context] = tensor
        return self._known[value, context]

    def _call(self, value: Value, context: Tag) -> tf.Tensor:
        """call_i: asks for the callee's result, in a context with the label in front."""
        label = self._labels[value.node]
        site, inside = self._sites[label], enter(label, context)
        if inside not in self._entered:
            self._entered.add(inside)
            self.calls[site.callee] += 1
        return self._ask(self._graphs.functions[site.callee].outputs[value.index], inside)

    def _actual(self, value: Value, context: Tag) -> tf.Tensor:
        """actuals: asks, in the caller's context, for the argument of the call that is in front."""
        label, *around = context
        place = self._places[value.node]
        if label == _OUTSIDE:
            return self._arguments[place]
        return self._ask(self._sites[label].inputs[place], tuple(around))

    def _chosen(self, value: Value, context: Tag) -> tf.Tensor:
        predicate = self._ask(value.node.named["predicate"], context)
        (branch,) = branch_chosen(predicate, len(value.node.inputs)).numpy()
        return self._ask(value.node.inputs[branch], context)

    def _shared(self, value: Value, context: Tag) -> tf.Tensor:
        if not isinstance(value.node, nodes.Shared):
            raise TypeError(value.node)
        return read_shared(value.node)

    def _entry_of_row(self, value: Value, context: Tag) -> tf.Tensor:
        place, around = leave_row(context)
        return self._ask(value.node.inputs[0], around)[place : place + 1]

    def _row(self, value: Value, context: Tag) -> tf.Tensor:
        entries, lengths = value.node.inputs
        found = value.type
        rows = [tf.zeros([0, *(found.shape or ())[1:]], found.dtype)]
        for place in range(int(self._ask(lengths, context).numpy()[0])):
            rows.append(self._ask(entries, enter_row(place, context)))
        return tf.concat(rows, 0)


# How each kind of node finds its value; all other nodes are ops.
_RULES: dict[type[Node], Callable[[_Asking, Value, Tag], tf.Tensor]] = {
    nodes.CallOf: _Asking._call,
    nodes.Parameter: _Asking._actual,
    nodes.Merge: _Asking._chosen,
    nodes.Switch: lambda asking, value, context: asking._ask(value.node.inputs[0], context),
    nodes.Broadcast: lambda asking, value, context: asking._ask(value.node.inputs[0], ())[None],
    nodes.Shared: _Asking._shared,
    nodes.Enter: _Asking._entry_of_row,
    nodes.Repeat: lambda asking, value, context: asking._ask(
        value.node.inputs[0], leave_row(context)[1]
    ),
    nodes.Leave: _Asking._row,
    nodes.Rows: lambda asking, value, context: tf.zeros(
        asking._ask(value.node.inputs[0], context), value.type.dtype
    ),
}
