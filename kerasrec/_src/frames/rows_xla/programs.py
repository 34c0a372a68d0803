"""The programs that XLA compiles: one of the values, and one of all later sweeps.

The values that one of them keeps for the next stay on its device. Where programs begin and end,
TensorFlow moves tensors of int32 from a GPU to the host, and each move waits for all work of the
GPU. Other dtypes stay where they are, so the bits of int32 are kept as uint32.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from kerasrec._src.emit.control_flow import flat, keyed, stacked, unstacked
from kerasrec._src.emit.limits import Limits
from kerasrec._src.emit.results import Given, Outcome, State, Tensors
from kerasrec._src.emit.schedule_run import tensor_of
from kerasrec._src.emit.sums import Sums
from kerasrec._src.frames.rows_xla.all_frames import Sum, run_all_frames
from kerasrec._src.frames.rows_xla.layout import MaskedLayout
from kerasrec._src.frames.rows_xla.room import Room
from kerasrec._src.frames.rows_xla.shared import SharedInputs
from kerasrec._src.frames.rows_xla.sizes import KnownSizes, Sizes, bucket, padded
from kerasrec._src.frames.rows_xla.store import MaskedStore
from kerasrec._src.frames.rows_xla.sweeps import FirstSweep, LaterSweep
from kerasrec._src.graph.graph import order_of
from kerasrec._src.graph.values import Value
from kerasrec._src.host import ON_GPU
from kerasrec._src.options import Options
from kerasrec._src.private import in_xla
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import AllTokens, Queues


class XlaProgram:
    """Some sweeps of a schedule, compiled as one program.

    Args:
        schedule: The schedule in queues.
        layout: Its layout.
        sweeps: The numbers of the sweeps.
        shared: The tensors of SHARED values.
    """

    store_type: Any = MaskedStore
    first_sweep: Any = FirstSweep

    def __init__(
        self,
        schedule: Schedule,
        layout: MaskedLayout,
        sweeps: Sequence[int],
        shared: dict[Value, tf.Tensor],
    ):
        self.schedule, self.layout, self._sweeps = schedule, layout, sweeps
        self._of_entry = schedule.graph.bodies[schedule.graph.entry].sweeps
        self.inputs = SharedInputs(schedule, sweeps, shared)
        self._sums: list[Sum] = []
        self._names_of_sizes: list[str] = []
        self._run = _by_xla(self._compiled)

    def _compiled(
        self, state: State, numbers: tf.Tensor, given: dict[int, Any], shared: Tensors
    ) -> State:
        """What XLA compiles; arguments as from `_given`."""
        raise NotImplementedError

    def _given(self, state: State, num_roots: tf.Tensor, given: dict[int, Any]) -> tuple[Any, ...]:
        """Returns the arguments of the program.

        Args:
            state: The sizes of the buffers, and the values that the program needs of the one
                before.
            num_roots: The number of root tokens, an int32 scalar.
            given: For each sweep that the outside passes values to, these values, padded.
        """
        numbers = stacked([num_roots, *self.inputs.sizes.values()])
        if not in_xla():  # There, XLA would no longer know the sizes.
            self._names_of_sizes = list(state["sizes"])
            state = {**state, "sizes": stacked(list(state["sizes"].values()))}
        return state, numbers, given, self.inputs.tensors

    def _store(self, state: State, numbers: tf.Tensor, shared: Tensors, **known: Any) -> Any:
        """Makes the store of a run."""
        num_roots, *sizes_of_tables = tf.unstack(numbers)
        sizes = dict(zip(self.inputs.sizes, sizes_of_tables, strict=True))
        known_shared = self.inputs.known(shared)
        of_buffers = state["sizes"]
        if not isinstance(of_buffers, dict):
            of_buffers = dict(zip(self._names_of_sizes, tf.unstack(of_buffers), strict=True))
        given = self.layout, Sizes(**of_buffers), num_roots, known_shared, sizes
        return self.store_type(*given, **known)

    def _run_sweeps(self, store: MaskedStore, given: dict[int, Any]) -> State:
        """Runs the sweeps; returns the results of each for the outside, and the sums."""
        sums: dict[Sum, Tensors] = {}
        for section in self.schedule.sections:
            if section.sweep not in self._sweeps:
                continue
            if isinstance(section, Queues):
                sweep = LaterSweep if section.sweep else self.first_sweep
                sweep(store, section).run(given[section.sweep])
            elif isinstance(section, AllTokens):
                found = run_all_frames(store, section)
                if order_of(section.sweep) == order_of(max(self._sweeps)):
                    sums |= found
        self._sums = list(sums)
        return {"outputs": list(map(store.outputs, self._sweeps)), "sums": list(sums.values())}

    def _results(
        self, found: State, num_roots: tf.Tensor
    ) -> tuple[dict[int, list[tf.Tensor | None]], Sums]:
        """Returns the results of each sweep for the outside, without padding, and the sums."""
        results = {}
        for sweep, tensors in zip(self._sweeps, found["outputs"], strict=True):
            outputs = iter(tensors)
            of_sweep = self._of_entry[sweep].outputs
            results[sweep] = [node and next(outputs)[:num_roots] for node in of_sweep]
        sums = Sums()
        for total, tensors in zip(self._sums, found["sums"], strict=True):
            total.add_to(sums, tensors, self.inputs.sizes)
        return results, sums


class Values(XlaProgram):
    """The program of the values: the first sweep, and the nodes that run for all of its frames.

    It keeps the values that the gradient reads.

    Args:
        schedule: The schedule in queues.
        limits: The bounds on depth and memory.
        shared: The tensors of SHARED values.
        keeps: Whether a gradient may follow.
        known: The sizes for which XLA has compiled it; None if the code around it is also compiled.
    """

    layout_type: Any = MaskedLayout

    def __init__(
        self,
        schedule: Schedule,
        limits: Limits,
        shared: dict[Value, tf.Tensor],
        keeps: bool,
        known: KnownSizes | None,
    ):
        super().__init__(schedule, self.layout_type(schedule), [0], shared)
        self.room = Room(self.layout, self.inputs, limits)
        # Known after tracing: the buffers that are kept, with their dtypes, and the numbers of
        # frames by space, of frames by place, and of blocks by component.
        self.dtypes: dict[Hashable, tf.DType] = {}
        self.numbers: State = {}
        self._max_depth = limits.max_depth
        self._keeps = keeps
        self._known = known
        self._collected: dict[str, tf.Tensor] = {}
        self._has_fault = tf.constant(False)
        for node in schedule.graph.collects:
            if node.size:
                size = tf.cast(tensor_of(node.size, shared), tf.int32)
                of_table = self._collected.setdefault(node.name, size)
                self._has_fault |= tf.not_equal(size, of_table)  # A table has one size.

    def run(
        self,
        arguments: Tensors,
        num_roots: tf.Tensor,
        capacity: tf.Tensor,
        options: Options | None = None,
    ) -> State:
        """Runs the program, with room for a number of frames, and within bounds inside of XLA.

        Returns:
            A dict of `failures`, int32 `[2]`: whether there was not enough room; and whether an op
            failed, a call is too deep, or XLA has compiled for as many sizes as it may. The other
            values are those that `outcome` and a gradient read.
        """
        sizes, fits = self.room.sizes(num_roots, capacity, options)
        given = [padded(tensor, sizes["roots"]) for tensor in arguments]
        return self._run_with(sizes, num_roots, given, fits)

    def _run_with(self, sizes: State, num_roots: tf.Tensor, given: Any, fits: tf.Tensor) -> State:
        """Runs the program.

        Args:
            sizes: The sizes of the buffers.
            num_roots: The number of root tokens, an int32 scalar.
            given: A nest of padded tensors.
            fits: Whether the run is possible with these sizes; otherwise there is a fault.
        """
        rows = [bucket(size) for size in self._collected.values()]
        inputs = self._given({"sizes": sizes, "rows_of_tables": rows}, num_roots, {0: given})
        has_fault = self._has_fault
        if self._known is None:
            found: State = self._run(*inputs)
            has_fault |= ~fits
        else:
            shapes = [*tf.nest.flatten(given), *self.inputs.tensors]
            is_admitted = fits & self._known.admit(shapes, tf.stack([*sizes.values(), *rows]))
            found = tf.cond(is_admitted, lambda: self._run(*inputs), lambda: self._nothing(inputs))
        failures = tf.maximum(found["failures"], stacked([False, has_fault]))
        return {**found, "sizes": sizes, "failures": failures}

    def _nothing(self, inputs: Sequence[Any]) -> State:
        """Placeholders for the results of a run that is left to waves."""

        def empty(tensor: tf.Tensor) -> tf.Tensor:
            return tf.zeros([size or 0 for size in tensor.shape], tensor.dtype)

        found = self._run.get_concrete_function(*inputs).structured_outputs
        return {**tf.nest.map_structure(empty, found), "failures": tf.constant([0, 1])}

    def outcome(self, found: State, num_roots: tf.Tensor) -> Outcome:
        """Returns the results of the program, without padding."""
        results, sums = self._results(found, num_roots)
        tables, types = sums.tables(), self.schedule.graph.table_types
        for (name, size), table in zip(self._collected.items(), found["tables"], strict=True):
            tables[name] = tf.cast(table[:size], types[name].dtype)
        return Outcome(results, tables)

    def _compiled(
        self, state: State, numbers: tf.Tensor, given: dict[int, Any], shared: Tensors
    ) -> State:
        rows = dict(zip(self._collected, state["rows_of_tables"], strict=True))
        known = {"rows_of_tables": rows, "max_depth": self._max_depth}
        store = self._store(state, numbers, shared, **known)
        found = self._run_sweeps(store, given)
        tables = store.taken_tables()
        done = store.done if self._keeps else {}
        self.dtypes = {key: tensor.dtype for key, tensor in done.items()}
        self.numbers = {"counts": store.counts, "tails": store.tails, "steps": store.steps}
        has_fault = functools.reduce(tf.logical_or, store.faults)
        return {
            **found,
            "failures": stacked([store.is_full, has_fault]),
            "tables": tables,
            "done": int_bits(list(done.values())),
            "numbers": int_bits([stacked(flat(self.numbers))]),
        }


class Gradient(XlaProgram):
    """The program of all sweeps after the first, such as the gradient; it runs the blocks again.

    Args:
        values: The program of the values.
        shared: The tensors of SHARED values, with the cotangents of sums over all tokens.
    """

    def __init__(self, values: Values, shared: dict[Value, tf.Tensor]):
        sweeps = range(1, values.schedule.graph.num_sweeps)
        super().__init__(values.schedule, values.layout, sweeps, shared)
        self._values = values
        self.store_type = values.store_type

    def run(self, kept: State, given: Given, num_roots: tf.Tensor) -> Outcome:
        """Runs the sweeps, and returns their outcome.

        Args:
            kept: The result of the program of the values.
            given: The values that each sweep gets from outside, `[tokens, ...]` each; any
                cotangents for outputs without a gradient.
            num_roots: The number of root tokens, an int32 scalar.
        """
        state = {name: kept[name] for name in ("sizes", "done", "numbers")}
        rows = state["sizes"]["roots"]
        passed = {}
        for sweep, tensors in zip(self._sweeps, given, strict=True):
            pairs = zip(self._of_entry[sweep].parameters, tensors, strict=True)
            passed[sweep] = [padded(tensor, rows) for node, tensor in pairs if node]
        found = self._run(*self._given(state, num_roots, passed))
        results, sums = self._results(found, num_roots)
        return Outcome(results, sums.gradients(self.inputs.shared))

    def _compiled(
        self, state: State, numbers: tf.Tensor, given: dict[int, Any], shared: Tensors
    ) -> State:
        values = self._values
        done = from_int_bits(state["done"], values.dtypes.values())
        (of_values,) = from_int_bits(state["numbers"], [tf.int32])
        known = keyed(unstacked(of_values, flat(values.numbers)), values.numbers)
        known["done"] = dict(zip(values.dtypes, done, strict=True))
        # Any op that can fail here was also computed with the values, and would have failed there.
        return self._run_sweeps(self._store(state, numbers, shared, **known), given)


def _by_xla(function: Callable[..., Any]) -> Any:
    """Returns the compiled function, or the function itself if XLA compiles the code around it."""
    if in_xla():
        return function

    @functools.wraps(function)
    def where_it_is_called(*args: Any) -> Any:
        with tf.device(None):  # Device scopes around it must not place the ops inside.
            return function(*args)

    return tf.function(where_it_is_called, jit_compile=True, autograph=False)


def int_bits(tensors: Iterable[tf.Tensor]) -> Tensors:
    """Returns the tensors in the dtypes in which they are kept."""
    return [
        tf.bitcast(tensor, ON_GPU) if tensor.dtype == tf.int32 else tensor for tensor in tensors
    ]


def from_int_bits(tensors: Iterable[tf.Tensor], dtypes: Iterable[tf.DType]) -> Tensors:
    """Returns tensors that were kept, in their own dtypes."""
    return [
        tensor if tensor.dtype == dtype else tf.bitcast(tensor, dtype)
        for tensor, dtype in zip(tensors, dtypes, strict=True)
    ]
