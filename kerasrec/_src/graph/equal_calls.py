"""Runs equal calls of a root token as one call, in the interpreter.

A call runs under the tag with which it was first made. Nothing runs under the tags of equal calls:
they return the results of the first call. Cotangents wait until all callers of the call have passed
theirs. Then their sum enters the gradient of the call once.
"""

from __future__ import annotations

import graphlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from kerasrec._src.graph.carried import Tag
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.nodes import Call, Entrance, Result
from kerasrec._src.graph.values import Node, Value
from kerasrec._src.half_precision import in_float32

SentTokens = Iterator[tuple[Value, Tag, Any]]
"""Tokens to send: the output that each comes from, its tag and its data."""


class EqualCalls:
    """The calls of one root token.

    Args:
        graph: The graph of a program with `memo`.
    """

    def __init__(self, graph: TaggedGraph):
        # For each CALL: the sweep and the entrance that it passes a value to, and how many CALLs
        # its linkage has.
        self._goals: dict[Node, tuple[int, Entrance, int]] = {}
        for site in graph.call_sites.values():
            sweeps = graph.bodies[site.callee].sweeps
            for index, (linkage, sweep) in enumerate(zip(site.linkages, sweeps, strict=True)):
                for node, entrance in zip(linkage.calls, sweep.parameters, strict=False):
                    if node is not None and entrance is not None:
                        self._goals[node] = (index, entrance, len(linkage.calls))
        self._never_equal = {name for name, body in graph.bodies.items() if not body.may_repeat}
        self._parameters = {name: body.parameters for name, body in graph.bodies.items()}
        self._arguments: dict[Tag, dict[Call, Any]] = defaultdict(dict)
        self._keys: dict[Tag, str] = {}
        self._first: dict[str, Tag] = {}
        self._runs_as: dict[Tag, Tag] = {}
        self._equal: dict[Tag, list[Tag]] = defaultdict(list)
        self._results: dict[Tag, list[tuple[Value, Any]]] = defaultdict(list)
        self._held: dict[Tag, dict[Entrance, Any]] = defaultdict(dict)

    def passed(self, node: Call, tag: Tag, data: Any) -> SentTokens:
        """Yields the tokens to send when a CALL passes a value into the call with this tag."""
        if node.callee in self._never_equal:
            yield node.output(), tag, data
            return
        sweep, entrance, count = self._goals[node]
        if sweep:
            held = self._held[self._runs_as[tag]]
            data = in_float32(data)  # A call may have many callers.
            held[entrance] = held[entrance] + data if entrance in held else data
            return
        arguments = self._arguments[tag]
        arguments[node] = data
        if len(arguments) < count:
            return
        key = f"{node.callee}({self._key(arguments)})"
        first = self._runs_as[tag] = self._first.setdefault(key, tag)
        self._equal[first].append(tag)
        if first == tag:
            self._keys[tag] = key
            yield from ((call.output(), tag, value) for call, value in arguments.items())
        else:
            yield from ((output, tag, value) for output, value in self._results[first])

    def returned(self, node: Result, tag: Tag, data: Any) -> SentTokens:
        """Yields the tokens that equal calls return when this call returns."""
        self._results[tag].append((node.output(), data))
        yield from (
            (node.output(), other, data) for other in self._equal.get(tag, ()) if other != tag
        )

    def released(self) -> tuple[Tag, dict[Entrance, Any]] | None:
        """Returns the tag and the cotangents of a call whose callers have all run, or None.

        This is for when nothing else can run.
        """
        if not self._held:
            return None
        callers: dict[Tag, list[Tag]] = {tag: [] for tag in self._equal}
        for caller, called in self._calls().items():
            for tag in called:
                callers[tag].append(caller)
        for tag in graphlib.TopologicalSorter(callers).static_order():
            if tag in self._held:
                held = self._held.pop(tag)
                return tag, {
                    entrance: tf.cast(data, entrance.types[0].dtype)
                    for entrance, data in held.items()
                }
        return None

    def check_order(self) -> None:
        """Checks that no call needs itself.

        Raises:
            tf.errors.InvalidArgumentError: If one does. The message has the arguments of all calls
                on the way.
        """
        try:
            graphlib.TopologicalSorter(self._calls()).prepare()
        except graphlib.CycleError as error:
            path = " needs ".join(self._keys[tag] for tag in reversed(error.args[1]))
            raise tf.errors.InvalidArgumentError(
                None, None, f"A call needs itself: {path}."
            ) from error

    def _key(self, arguments: dict[Call, Any]) -> str:
        """Returns text that tells a call apart from others of its function."""
        (callee,) = {call.callee for call in arguments}
        given = {self._goals[call][1]: data for call, data in arguments.items()}
        keys = [node for node in self._parameters[callee] if not node.is_carried]
        return ", ".join(f"{node.name}={given[node].numpy()[0]}" for node in keys)

    def _calls(self) -> dict[Tag, list[Tag]]:
        """Returns the calls that each call makes, by its tag."""
        calls: dict[Tag, list[Tag]] = {tag: [] for tag in self._equal}
        for tag, first in self._runs_as.items():
            caller = tag[1:]
            while caller and caller not in calls:  # Entries of rows, and steps of loops.
                caller = caller[1:]
            if caller:
                calls[caller].append(first)
        return calls
