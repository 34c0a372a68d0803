"""The scalar engine's view of a program: routines, their frames, and the values of one token."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import tensorflow as tf

from kerasrec._src.emit.results import Tensors
from kerasrec._src.graph.fire import branch_chosen, fire_in_xla
from kerasrec._src.graph.graph import Body, CallSite, TaggedGraph, present
from kerasrec._src.graph.nodes import Broadcast, Merge, Result, Switch
from kerasrec._src.graph.nodes import Call as CallNode
from kerasrec._src.graph.values import Branch, Node, Region, Value
from kerasrec._src.ops.table import op_named
from kerasrec._src.scalar.ops import fault_of
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
    """The call sites of a body, each after those that it needs results of."""
    labels = (node.label for node in body.sweeps[0].nodes if isinstance(node, CallNode))
    return [graph.call_sites[label] for label in dict.fromkeys(labels)]


# The first slots of every frame: the number of the place that it has reached, and a number that
# stays with it, for the code that uses the machine.
COUNTER, MARK = 0, 1

Frame = Tensors
"""A frame that runs: for each slot, a tensor `[1]`."""

FrameRows = list[tf.TensorArray]
"""Frames that wait, or have been logged: for some slots of one dtype each, their rows."""

# XLA fuses at most eight numbers into the write of a row. With more of them, the function tak took
# thirty times as long.
_MOST_PER_ROW = 8


class FrameLayout:
    """The slots of values in the frames of each routine, and the numbers of its places.

    Frames of all routines have the same slots. Place k of a routine means that its first k calls
    are done or skipped. Each place has a number.

    Args:
        routines: The routines of a program, by name.
    """

    def __init__(self, routines: dict[str, Routine]):
        self.routines = routines
        self.dtypes = [tf.int32, tf.int32]  # Those of COUNTER and MARK.
        self.slots: dict[str, dict[Value, int]] = {}
        self.results: dict[str, list[int]] = {}
        self.first: dict[str, int] = {}
        # For each place, the label of the call that was made last; -1 if there is none.
        self.labels: list[int] = []
        for name, routine in routines.items():
            self.first[name] = len(self.labels)
            self.labels += [-1, *(call.label for call in routine.calls)]
            held = [*routine.parameters, *(item for call in routine.calls for item in call.results)]
            self.slots[name] = dict(zip(held, self._slots_for(held), strict=True))
            self.results[name] = self._slots_for(routine.outputs)
        self.places = {label: place for place, label in enumerate(self.labels) if label >= 0}

    def _slots_for(self, values: Sequence[Value]) -> list[int]:
        """A slot for each of some values; other values of the same dtype may have it elsewhere."""
        taken = [COUNTER, MARK]
        for value in values:
            free = (slot for slot, dtype in enumerate(self.dtypes) if dtype == value.type.dtype)
            slot = next((slot for slot in free if slot not in taken), len(self.dtypes))
            if slot == len(self.dtypes):
                self.dtypes.append(value.type.dtype)
            taken.append(slot)
        return taken[2:]

    @property
    def has_tail_calls(self) -> bool:
        """Whether any call takes the frame of its caller."""
        return any(call.is_tail for routine in self.routines.values() for call in routine.calls)

    @property
    def num_bytes(self) -> int:
        """The number of bytes of a frame."""
        return sum(dtype.size for dtype in self.dtypes)

    def values(self, routine: str, frame: Frame) -> dict[Value, tf.Tensor]:
        """The values in a frame of a routine, `[1]` each."""
        return {value: frame[slot] for value, slot in self.slots[routine].items()}

    @cached_property
    def _rows(self) -> list[list[int]]:
        """The slots of each row; COUNTER and MARK begin the first."""
        by_dtype: dict[tf.DType, list[int]] = {}
        for slot, dtype in enumerate(self.dtypes):
            by_dtype.setdefault(dtype, []).append(slot)
        return [
            slots[start : start + _MOST_PER_ROW]
            for slots in by_dtype.values()
            for start in range(0, len(slots), _MOST_PER_ROW)
        ]

    def empty(self, size: tf.Tensor) -> FrameRows:
        """Makes room for a number of frames: zeros in TensorArrays, which XLA writes in place."""
        return [
            tf.TensorArray(
                self.dtypes[row[0]], size, element_shape=[len(row)], clear_after_read=False
            )
            for row in self._rows
        ]

    def write(self, frames: FrameRows, place: tf.Tensor, frame: Frame) -> FrameRows:
        """Returns the frames with one of them replaced."""
        rows = [tf.concat([frame[slot] for slot in row], 0) for row in self._rows]
        return [array.write(place, row) for array, row in zip(frames, rows, strict=True)]

    def read(self, frames: FrameRows, place: tf.Tensor) -> Frame:
        """Reads one of the frames."""
        frame: dict[int, tf.Tensor] = {}
        for array, row in zip(frames, self._rows, strict=True):
            frame.update(zip(row, tf.split(array.read(place), len(row)), strict=True))
        return [frame[slot] for slot in range(len(self.dtypes))]


class TokenValues:
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
        for node in body.sweeps[0].nodes:
            fails = op_named(node.op).fails
            if fails is not None:
                where = fails.where([self.get(value) for value in node.inputs])
                if where is not None:
                    is_fault = tf.reshape(tf.reduce_any(where), [1])
                    yield fault_of(node), is_fault & self.is_alive(node.region)

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
        return fire_in_xla(node, inputs)
