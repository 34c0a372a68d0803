"""The scalar engine's view of a program: routines, their frames, values of one token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import tensorflow as tf

from kerasrec._src.emit.xla_formulas import fire_exactly
from kerasrec._src.graph.fire import branch_chosen
from kerasrec._src.graph.graph import Body, CallSite, TaggedGraph, present
from kerasrec._src.graph.nodes import Broadcast, Merge, Result, Switch
from kerasrec._src.graph.nodes import Call as CallNode
from kerasrec._src.graph.values import Branch, Node, Region, Value
from kerasrec._src.scalar.ops import fault_of, may_fail
from kerasrec._src.schedule.tails import tail_calls


@dataclass(frozen=True)
class RoutineCall:
    """A call that a routine may make.

    Args:
        label: The label of its call site.
        callee: The name of the routine called.
        region: The branch that it is in.
        arguments: The values that it passes; none if a gradient has no use for the call.
        results: The values that hold its results.
        is_tail: Whether its caller returns its result unchanged; then the call takes the caller's
            frame.
    """

    label: int
    callee: str
    region: Region | None
    arguments: tuple[Value, ...]
    results: tuple[Value, ...]
    is_tail: bool = False


@dataclass(frozen=True)
class Routine:
    """A body, or the gradient of one, as the stack machine sees it.

    Args:
        parameters: The values that hold its arguments.
        outputs: The values that it returns.
        calls: The calls that it may make, in the order in which it makes them.
    """

    parameters: list[Value]
    outputs: list[Value]
    calls: list[RoutineCall]


def routines_of(
    graph: TaggedGraph, sweep: int = 0, keeps_frames: bool = False
) -> dict[str, Routine]:
    """Returns the routines of the bodies of a program, or of their gradients.

    Args:
        graph: The program.
        sweep: 0 for the bodies; 1 for their gradients, which call in the opposite order.
        keeps_frames: Whether all frames are needed; then no call takes the frame of its caller.
    """
    routines = {}
    for name, body in graph.bodies.items():
        is_for_tails = not sweep and not keeps_frames
        tails = tail_calls(body, graph.call_sites.values()) if is_for_tails else set()
        calls = [
            RoutineCall(
                site.label,
                site.callee,
                site.region,
                tuple(call.inputs[0] for call in present(site.linkages[sweep].calls)),
                tuple(_values(site.linkages[sweep].returns)),
                site.label in tails,
            )
            for site in _sites(graph, body)
        ]
        calls.sort(key=lambda call: call.is_tail)  # Nothing is left to do after them.
        own = body.sweeps[sweep]
        routines[name] = Routine(
            _values(own.parameters), _values(own.outputs), calls[::-1] if sweep else calls
        )
    return routines


def _values(nodes: Iterable[Node | None]) -> list[Value]:
    return [node.output() for node in present(nodes)]


def _sites(graph: TaggedGraph, body: Body) -> list[CallSite]:
    """The call sites of a body, each after those whose results it needs."""
    labels = (node.label for node in body.sweeps[0].nodes if isinstance(node, CallNode))
    return [graph.call_sites[label] for label in dict.fromkeys(labels)]


@dataclass(frozen=True)
class Column:
    """The place of a value in a frame: numbers of one dtype are in one row."""

    dtype: tf.DType
    place: int


class FrameLayout:
    """The places of values in the frames of each routine, and the numbers of its places.

    Place k of a routine means that its first k calls are done or skipped. Each place has a number
    of its own.

    Args:
        routines: The routines of a program, by name.
    """

    def __init__(self, routines: dict[str, Routine]):
        self.routines = routines
        self.widths: Counter[tf.DType] = Counter()
        self.columns: dict[str, dict[Value, Column]] = {}
        self.results: dict[str, list[Column]] = {}
        self.first: dict[str, int] = {}
        self.places: dict[int, int] = {}
        num_places = 0
        for name, routine in routines.items():
            self.first[name] = num_places
            for behind, call in enumerate(routine.calls, start=1):
                self.places[call.label] = num_places + behind
            num_places += len(routine.calls) + 1
            held = [*routine.parameters, *(item for call in routine.calls for item in call.results)]
            self.columns[name] = dict(zip(held, self._in_rows(held), strict=True))
            self.results[name] = self._in_rows(routine.outputs)

    def _in_rows(self, values: Sequence[Value]) -> list[Column]:
        used: Counter[tf.DType] = Counter()
        columns = []
        for value in values:
            columns.append(Column(value.type.dtype, used[value.type.dtype]))
            used[value.type.dtype] += 1
        self.widths |= used
        return columns

    @property
    def has_tail_calls(self) -> bool:
        """Whether any call takes the frame of its caller."""
        return any(call.is_tail for routine in self.routines.values() for call in routine.calls)

    @property
    def row_bytes(self) -> int:
        """The number of bytes of a frame."""
        return sum(dtype.size * width for dtype, width in self.widths.items())

    @property
    def labels(self) -> tf.Tensor:
        """For each place, the label of the call that was made last; -1 if there is none."""
        found = [-1] * (1 + max([*self.first.values(), *self.places.values()]))
        for label, place in self.places.items():
            found[place] = label
        return tf.constant(found)

    def empty_frames(self, size: tf.Tensor) -> dict[str, tf.TensorArray]:
        """Makes room for `size` frames of any routine, by dtype `[size, width]`."""
        return {dtype.name: empty_rows(size, self.widths[dtype], dtype) for dtype in self.widths}

    def read(self, routine: str, rows: dict[str, list[tf.Tensor]]) -> dict[Value, tf.Tensor]:
        """The values in a frame of a routine, from `[1]` tensors by dtype."""
        columns = self.columns[routine]
        return {value: rows[item.dtype.name][item.place] for value, item in columns.items()}


def empty_rows(size: tf.Tensor, width: int, dtype: tf.DType) -> tf.TensorArray:
    """Makes zeros `[size, width]`, as a TensorArray of rows that XLA writes in place."""
    return tf.TensorArray(dtype, size, element_shape=[width], clear_after_read=False)


def empty_like(tensor: tf.Tensor, dtype: tf.DType) -> tf.TensorArray:
    """Makes zeros, as many as a tensor `[block]` has elements, as a TensorArray."""
    return tf.TensorArray(dtype, tensor.shape[0], element_shape=[])


class ScalarFrame:
    """The values of a body for one token, computed from a frame of the stack when asked for.

    Args:
        known: The tensors `[1]` of arguments and of calls' results.
        shared: The tensors of SHARED values.
    """

    def __init__(self, known: dict[Value, tf.Tensor], shared: dict[Value, tf.Tensor]):
        self._values = dict(known)
        self._shared = shared

    def get(self, value: Value) -> tf.Tensor:
        """The tensor of a value."""
        if value.is_shared and not value.node.is_constant:
            return self._shared[value]
        if value not in self._values:
            outputs = self._outputs(value.node)
            self._values.update(zip(value.node.outputs, outputs, strict=True))
        return self._values[value]

    def is_alive(self, region: Region | None) -> tf.Tensor:
        """Whether the token has chosen this branch and all branches around it, bool `[1]`."""
        alive = tf.constant([True])
        for item in region.path() if region else ():
            if isinstance(item, Branch):
                alive &= tf.equal(self._choice(item.selector, item.num_branches), item.branch)
        return alive

    def faults(self, body: Body) -> Iterator[tuple[str, tf.Tensor]]:
        """For nodes of the body that may fail, the message, and whether one fails, bool `[1]`."""
        for node in filter(may_fail, body.sweeps[0].nodes):
            message, fails = fault_of(node, [self.get(value) for value in node.inputs])
            yield message, fails & self.is_alive(node.region)

    def _choice(self, predicate: Value, num_branches: int) -> tf.Tensor:
        return branch_chosen(self.get(predicate), num_branches)

    def _outputs(self, node: Node) -> list[tf.Tensor]:
        inputs = [self.get(value) for value in node.inputs]
        if isinstance(node, Switch):
            return [inputs[0]] * len(node.types)
        if isinstance(node, Result):
            return inputs
        if isinstance(node, Broadcast):
            return [inputs[0][tf.newaxis]]
        if isinstance(node, Merge):
            chosen = self._choice(node.predicate, len(inputs))
            merged = inputs[-1]
            for branch, tensor in enumerate(inputs[:-1]):
                merged = tf.where(tf.equal(chosen, branch), tensor, merged)
            return [merged]
        return fire_exactly(node, inputs)
