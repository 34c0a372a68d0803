"""Finds out which calls a run makes, before any of them returns: control before data.

A loop goes from the roots down. Each turn computes, for the calls that are new, the values that
decide which calls they make, and the arguments of these calls. Then it looks these calls up: equal
calls are one call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import tensorflow as tf

from kerasrec._src.emit.arrays import array_of, joined, one_tensor, rows_where
from kerasrec._src.emit.control_flow import empty, no_numbers, run_loop
from kerasrec._src.emit.limits import Limits
from kerasrec._src.emit.results import State, Tensors
from kerasrec._src.graph.graph import Body, TaggedGraph
from kerasrec._src.graph.nodes import Entrance
from kerasrec._src.graph.values import Value
from kerasrec._src.memo.call_table import CallTable
from kerasrec._src.schedule.instructions import (
    Instruction,
    Item,
    Select,
    Send,
    items_through,
)
from kerasrec._src.schedule.linkage import Together, groups_of
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Direction, Loop, Segment
from kerasrec._src.waves.store import WaveRegisters, WaveStore

_NUMBERS = tf.TensorSpec([None], tf.int32)


@dataclass(frozen=True)
class Calls:
    """All calls of a run.

    Args:
        arguments: For each body, the values of its parameters, `[calls, ...]` each.
        numbers: For each body, the numbers of its calls in the run, int32 `[calls]`, ascending.
        roots: The numbers of the calls from outside, int32 `[tokens]`.
        copies: The number of root tokens that make the same calls, an int32 scalar. If all root
            tokens have equal keys, and nothing else decides, the calls are those of one of them,
            and this is the number of all. Otherwise it is 1.
        edges: For call sites that call for the same tokens, the callers and the callees, int32
            `[edges]` each; in the order of the callers, and for each caller in the order of its
            calls.
        count: The number of calls, an int32 scalar.
    """

    arguments: dict[str, Tensors]
    numbers: dict[str, tf.Tensor]
    roots: tf.Tensor
    copies: tf.Tensor
    edges: dict[Together, Tensors]
    count: tf.Tensor


@dataclass
class CallFinder:
    """Finds the calls of a run.

    Args:
        schedule: The program's schedule.
        shared: The tensors of SHARED values.
        limits: The bounds on depth, width and memory.
        is_for_copies: Whether the calls of one root token may represent those of others.
    """

    schedule: Schedule
    shared: dict[Value, tf.Tensor]
    limits: Limits
    is_for_copies: bool

    def __post_init__(self) -> None:
        (self._loop,) = (
            section
            for section in self.schedule.sections
            if isinstance(section, Loop) and section.direction is Direction.CALLS
        )
        self._table = CallTable(self.graph)

    @property
    def graph(self) -> TaggedGraph:
        """The program."""
        return self.schedule.graph

    def find(self, given: Tensors) -> Calls:
        """Finds all calls that the calls from outside lead to.

        Args:
            given: The values that the outside passes to the entry.

        Raises:
            tf.errors.InvalidArgumentError: When it is computed, if the run exceeds its limits.
        """
        graph, copies = self.graph, self._copies(given)
        given = [tensor[: tf.shape(tensor)[0] // tf.maximum(copies, 1)] for tensor in given]
        roots, is_new = self._table.number(self._table.keys(graph.entry, given), tf.constant(0))
        new = {name: _no_calls(body) for name, body in graph.bodies.items()}
        new[graph.entry] = [rows_where(is_new, tensor) for tensor in (roots, *given)]
        specs = {
            name: [_NUMBERS, *(node.types[0].tensor_spec() for node in body.parameters)]
            for name, body in graph.bodies.items()
        }
        # For each body, the calls that the last turn has found, and those that all turns have:
        # their numbers, then their arguments. For each group of call sites, callers and callees.
        start: State = {
            "depth": tf.constant(0),
            "count": tf.size(new[graph.entry][0]),
            "memory": tf.constant(0, tf.int64),
            "copies": copies,
            "new": new,
            "calls": tf.nest.map_structure(array_of, specs),
            "edges": {
                group: [array_of(_NUMBERS), array_of(_NUMBERS)] for group in groups_of(graph)
            },
        }
        end = run_loop(self._goes_on, self._turn, start)
        waiting = {name: arguments for name, (_, *arguments) in end["new"].items()}
        bounded = end["depth"], _width(end), end["memory"]
        check = self.limits.check(graph, *bounded, call=partial(one_call, graph, waiting))
        with tf.control_dependencies([check]):
            count = tf.identity(end["count"])
        calls, edges = (
            {key: [joined(array)[0] for array in arrays] for key, arrays in end[name].items()}
            for name in ("calls", "edges")
        )
        return Calls(
            {name: arguments for name, (_, *arguments) in calls.items()},
            {name: numbers for name, (numbers, *_) in calls.items()},
            roots,
            copies,
            edges,
            count,
        )

    def _copies(self, given: Tensors) -> tf.Tensor:
        """The number of root tokens that make the same calls."""
        memo = self.graph.memo
        if not self.is_for_copies or not memo or memo.across_roots:
            return tf.constant(1)
        parameters = self.graph.bodies[self.graph.entry].parameters
        # The keys of values that tokens make differ from root to root.
        if _reads_root(self.graph, self._loop) or any(node.is_key for node in parameters):
            return tf.constant(1)
        keys = [
            tensor for tensor, node in zip(given, parameters, strict=True) if not node.is_carried
        ]
        is_same = [tf.reduce_all(tensor == tensor[:1]) for tensor in keys]
        return tf.where(tf.reduce_all(is_same), tf.shape(given[0])[0], 1)

    def _goes_on(self, state: State) -> tf.Tensor:
        width = _width(state)
        return (width > 0) & self.limits.allow(state["depth"], width, state["memory"])

    def _turn(self, state: State) -> State:
        """Looks up the calls that the new calls make."""
        sent = self._sent(state["new"])
        keys = [self._table.keys(group[0].callee, values) for group, (values, _) in sent.items()]
        sizes = tf.stack([tf.shape(each)[0] for each in keys])
        numbers, is_new = self._table.number(one_tensor(keys), state["count"])
        called = dict(zip(sent, tf.split(numbers, sizes), strict=True))
        columns: dict[str, list[Tensors]] = {name: [] for name in state["new"]}
        for (group, (values, _)), where in zip(sent.items(), tf.split(is_new, sizes), strict=True):
            columns[group[0].callee].append(
                [rows_where(where, tensor) for tensor in (called[group], *values)]
            )
        bytes_kept = [
            tf.size(numbers, tf.int64) * self.schedule.bytes_kept(name)
            for name, (numbers, *_) in state["new"].items()
        ]
        edges = {group: [callers, called[group]] for group, (_, callers) in sent.items()}
        return {
            **state,
            "depth": state["depth"] + 1,
            "count": state["count"] + tf.reduce_sum(tf.cast(is_new, tf.int32)),
            "memory": state["memory"] + tf.add_n(bytes_kept) * tf.cast(state["copies"], tf.int64),
            "new": {
                name: [one_tensor(tensors) for tensors in zip(*found, strict=True)]
                or _no_calls(self.graph.bodies[name])
                for name, found in columns.items()
            },
            "calls": _written(state["calls"], state["depth"], state["new"]),
            "edges": _written(state["edges"], state["depth"], edges),
        }

    def _sent(self, new: dict[str, Tensors]) -> dict[Together, tuple[Tensors, tf.Tensor]]:
        """The arguments of the calls that the new calls make, and the numbers of the callers."""
        sent: dict[Together, tuple[Tensors, tf.Tensor]] = {}
        for segment in self._loop.segments:
            name = segment.body
            registers = WaveRegisters(self.graph, name, self.shared, WaveStore(), None)
            numbers, *registers.given = new[name]
            registers.run(_deciding(segment))
            for send, values in registers.sent.items():
                callers = self._callers(registers, send, numbers)
                sent[send.sites] = values, callers
        return {group: sent[group] for group in groups_of(self.graph)}

    def _callers(self, registers: WaveRegisters, send: Send, numbers: tf.Tensor) -> tf.Tensor:
        """The number of the caller of each call that call sites make."""
        for region in send.region.path() if send.region else ():
            numbers = tf.gather(numbers, registers.get(region))
        return tf.repeat(numbers, len(send.sites)) if len(send.sites) > 1 else numbers


def _deciding(segment: Segment) -> list[Instruction]:
    """The instructions of a segment on which the arguments of its calls depend."""
    read = (item for send in segment.of(Send) for item in send.reads)
    needed = _made_of(read, segment)
    return [
        instruction
        for instruction in segment.instructions
        if isinstance(instruction, Send) or needed.intersection(instruction.writes)
    ]


def _reads_root(graph: TaggedGraph, loop: Loop) -> bool:
    """Whether the root token of a call decides which calls it makes."""
    roots = {
        node.output() for body in graph.bodies.values() for node in body.parameters if node.is_root
    }
    for segment in loop.segments:
        deciding = [item for select in segment.of(Select) for item in select.reads]
        for send in segment.of(Send):
            parameters = graph.bodies[send.sites[0].callee].parameters
            pairs = zip(send.values, parameters, strict=True)
            deciding += [value for value, node in pairs if not node.is_root]
        if not roots.isdisjoint(_made_of(deciding, segment)):
            return True
    return False


def _made_of(items: Iterable[Item], segment: Segment) -> set[Item]:
    """Items, and all that a segment makes them of."""
    makers = {item: maker for maker in segment.instructions for item in maker.writes}
    return set(items_through(items, makers))


def one_call(graph: TaggedGraph, arguments: Mapping[str, Tensors]) -> tf.Tensor:
    """Returns one of some calls as users write it, a string; there must be at least one.

    Args:
        graph: The program.
        arguments: For each body, the arguments of calls.
    """
    names = [
        texts_of_calls(name, body.parameters, arguments[name])
        for name, body in graph.bodies.items()
    ]
    return tf.concat(names, 0)[0]


def texts_of_calls(name: str, parameters: Sequence[Entrance], arguments: Tensors) -> tf.Tensor:
    """Returns calls of a body as users write them, without vectors, string `[calls]`."""
    parts: list[tf.Tensor | str] = []
    for node, tensor in zip(parameters, arguments, strict=True):
        if not node.is_carried and tensor.shape.rank == 1:
            text = tensor if tensor.dtype == tf.string else tf.strings.as_string(tensor)
            parts += [", " if parts else "", f"{node.name}=", text]
    texts = tf.strings.join([f"{name}(", *parts, ")"])
    return tf.broadcast_to(texts, tf.shape(arguments[0])[:1])


def _no_calls(body: Body) -> Tensors:
    """The numbers of no calls of a body, then their arguments."""
    return [no_numbers(), *empty(body.parameters)]


def _width(state: State) -> tf.Tensor:
    """The number of tokens of the calls that the last turn has found."""
    return tf.add_n([tf.size(numbers) for numbers, *_ in state["new"].values()]) * state["copies"]


def _written(arrays: State, depth: tf.Tensor, tensors: Mapping[Any, Tensors]) -> State:
    """The arrays with an element more, at this depth."""
    return {
        key: [array.write(depth, tensor) for array, tensor in zip(own, tensors[key], strict=True)]
        for key, own in arrays.items()
    }
