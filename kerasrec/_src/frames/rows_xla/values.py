"""The program of the values: the first sweep, and the instructions hoisted out of it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from kerasrec._src.emit.control_flow import flat, stacked
from kerasrec._src.emit.limits import Limits
from kerasrec._src.emit.results import Outcome, State, Tensors
from kerasrec._src.emit.schedule_run import tensor_of
from kerasrec._src.errors import TraceError
from kerasrec._src.frames.rows_xla.all_frames import Sum, run_all_frames
from kerasrec._src.frames.rows_xla.by_xla import by_xla, int_bits
from kerasrec._src.frames.rows_xla.entries import tables_of_rows
from kerasrec._src.frames.rows_xla.layout import MaskedLayout
from kerasrec._src.frames.rows_xla.shared import SharedInputs
from kerasrec._src.frames.rows_xla.sizes import (
    KnownSizes,
    Sizes,
    bucket,
    known_num_rows,
    padded,
    sizes_for,
    sizes_for_entries,
)
from kerasrec._src.frames.rows_xla.store import MaskedStore
from kerasrec._src.frames.rows_xla.sweeps import FirstSweep, LaterSweep
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.nodes import Collect
from kerasrec._src.graph.values import Value
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import AllTokens


@dataclass(frozen=True)
class Bounds:
    """What a run within a program that XLA compiles as a whole cannot find out by itself.

    Args:
        calls: The largest number of calls that a root token leads to, including itself. None for
            one call for each row of a table of integers that the program reads.
        row_length: The largest number of entries in a row of ragged rows. None for all entries of
            the table.
        entries: The largest number of entries that the calls of a root token look up in all. None
            for a row of the largest length in each call, or for all entries of a table if `calls`
            is None.
    """

    calls: int | tf.Tensor | None = None
    row_length: int | tf.Tensor | None = None
    entries: int | tf.Tensor | None = None


class Values:
    """Runs the values of a program, and keeps those that the gradient reads.

    Args:
        schedule: The schedule in queues.
        limits: The bounds on depth.
        shared: The tensors of SHARED values.
        keeps: Whether a gradient may follow.
        known: The sizes for which XLA has compiled it; None if the code around it is compiled, too.
    """

    layout_type: Any = MaskedLayout
    store_type: Any = MaskedStore
    later_sweep: Any = LaterSweep

    def __init__(
        self,
        schedule: Schedule,
        limits: Limits,
        shared: dict[Value, tf.Tensor],
        keeps: bool,
        known: KnownSizes | None,
    ):
        self.schedule = schedule
        self.graph: TaggedGraph = schedule.graph
        self.layout = self.layout_type(schedule)
        # Known after tracing: the buffers that are kept, with their dtypes, and the numbers of
        # frames by space, of frames by place, and of blocks by component.
        self.dtypes: dict[Hashable, tf.DType] = {}
        self.numbers: State = {}
        self._max_depth = limits.max_depth
        self._keeps = keeps
        self._known = known
        self._all_shared = shared
        self._inputs = SharedInputs(schedule, [0])
        self._shared, self._sizes_of_tables = self._inputs.tensors(shared)
        # Of tables of ragged rows, the places where rows begin, and the entries.
        bodies = self.graph.bodies.values()
        found = (table for body in bodies for table in tables_of_rows(body))
        self._tables_of_rows = list(dict.fromkeys(found))
        self._splits = dict.fromkeys(splits for splits, _ in self._tables_of_rows)
        self._has_rows = bool(self._splits)
        self._collected: dict[str, tf.Tensor] = {}
        self._has_fault = tf.constant(False)
        for node in self.graph.collects:
            if node.size:
                size = tf.cast(tensor_of(node.size, shared), tf.int32)
                known = self._collected.setdefault(node.name, size)
                self._has_fault |= tf.not_equal(size, known)  # A table has one size.
        self._sums: list[Sum] = []
        self._run = by_xla(self._compiled)

    def first_capacity(self, num_roots: tf.Tensor) -> tf.Tensor:
        """The room for frames at first, int32: for one call for each row of the largest table."""
        tables = zip(self._inputs.tables, self._sizes_of_tables, strict=True)
        sizes = [size for value, size in tables if value not in self._splits]
        rows = [bucket(size) for size in [*sizes, *self._rows_of_integers()]]
        return tf.reduce_max([64, 8 * bucket(num_roots), *rows])

    def run_within(self, arguments: Tensors, bounds: Bounds) -> State:
        """Runs the program where it cannot begin again with more room, inside of XLA; see `run`.

        Raises:
            TraceError: If the number of calls has no bound, and there is no table of integers.
        """
        return self.run(arguments, self._capacity(known_num_rows(arguments[0]), bounds), bounds)

    def _capacity(self, num_roots: tf.Tensor, bounds: Bounds) -> tf.Tensor:
        """The room for frames, and for entries of rows, within bounds: an int32 scalar."""
        calls = bounds.calls if self.graph.inner_sites else 1
        frames = self._frames_by_tables(num_roots) if calls is None else num_roots * calls
        if not self._has_rows:
            return tf.maximum(frames, 1)
        if bounds.entries is not None:
            entries = num_roots * bounds.entries
        elif calls is None:
            entries = self._most_entries()
        else:
            entries = frames * self._row_length(bounds)
        return tf.reduce_max([1, frames, entries])

    def _frames_by_tables(self, num_roots: tf.Tensor) -> tf.Tensor:
        """The room for one call for each row of the largest table of integers, int32.

        Raises:
            TraceError: If there is no such table.
        """
        rows = self._rows_of_integers()
        rows += [
            known_num_rows(self._all_shared[splits]) - 1
            for splits, entries in self._tables_of_rows
            if entries.type.dtype.is_integer and splits in self._inputs.read_by_rows
        ]
        if not rows:
            name = self.graph.entry
            raise TraceError(
                f"{name} is called inside of what XLA compiles as a whole, such as "
                "tf.function(jit_compile=True), which needs to know how many calls there will be. "
                "Say how many calls one call from outside leads to at most, itself among them: "
                "@kerasrec.recursive(xla_calls=...)."
            )
        return tf.reduce_max([num_roots, *rows])

    def _row_length(self, bounds: Bounds) -> tf.Tensor:
        """The room for the entries of a row within bounds, an int32 scalar that XLA knows."""
        longest = tf.maximum(1, self._most_entries())
        return longest if bounds.row_length is None else tf.minimum(longest, bounds.row_length)

    def _most_entries(self) -> tf.Tensor:
        """The number of all entries of a table of ragged rows, the largest one, int32."""
        tables = [tensor_of(entries, self._all_shared) for _, entries in self._tables_of_rows]
        return tf.reduce_max(list(map(known_num_rows, tables)))

    def _rows_of_integers(self) -> Tensors:
        """The numbers of rows of tables of integers, which determine the calls.

        Other tables, such as vectors of words, may be larger.
        """
        tables = [
            value
            for value in self._inputs.read_by_rows
            if value.type.dtype.is_integer and value not in self._splits
        ]
        return [known_num_rows(self._all_shared[value]) for value in tables]

    def run(self, arguments: Tensors, capacity: tf.Tensor, bounds: Bounds | None = None) -> State:
        """Runs the program, with room for a number of frames, and within bounds inside of XLA.

        Returns:
            A dict of `failures`, int32 `[2]`: whether there was not enough room; and whether an op
            failed, a call is too deep, or XLA has compiled for as many sizes as it may. The other
            values are those that `outcome` and a gradient read.
        """
        num_roots = known_num_rows(arguments[0])
        given = [padded(tensor, bucket(num_roots)) for tensor in arguments]
        sizes, fits = sizes_for(capacity), tf.constant(True)
        if self._has_rows:
            widest = self._widest_row()
            longest = self._row_length(bounds) if bounds else widest
            entries = sizes_for_entries(sizes, longest)
            fits = widest <= entries["entries"]
            sizes |= entries
        return self._run_with(sizes, num_roots, given, fits)

    def _widest_row(self) -> tf.Tensor:
        """The number of entries in the longest row of all tables of ragged rows, int32."""
        found = []
        for value in self._splits:
            splits = tensor_of(value, self._all_shared)
            found.append(
                tf.reduce_max(tf.concat([tf.zeros([1], splits.dtype), splits[1:] - splits[:-1]], 0))
            )
        return tf.reduce_max([tf.cast(longest, tf.int32) for longest in found])

    def _run_with(self, sizes: State, num_roots: tf.Tensor, given: Any, fits: tf.Tensor) -> State:
        """Runs the store.

        Args:
            sizes: The sizes of the buffers.
            num_roots: The number of root tokens, an int32 scalar.
            given: A nest of padded tensors.
            fits: Whether the run is possible with these sizes; otherwise there is a fault.
        """
        rows = [bucket(size) for size in self._collected.values()]
        numbers = stacked([num_roots, *self._sizes_of_tables])
        inputs = sizes, numbers, given, self._shared, rows
        has_fault = self._has_fault
        if self._known is None:
            found: State = self._run(*inputs)
            has_fault |= ~fits
        else:
            padded_inputs = [*tf.nest.flatten(given), *self._shared]
            is_admitted = fits & self._known.admit(
                padded_inputs, tf.stack([*sizes.values(), *rows])
            )
            found = tf.cond(is_admitted, lambda: self._run(*inputs), lambda: self._nothing(inputs))
        failures = tf.maximum(found["failures"], stacked([False, has_fault]))
        return {**found, "sizes": sizes, "failures": failures}

    def _padded_roots(self, given: Any) -> tf.Tensor:
        """The number of root tokens, padded, an int32 scalar."""
        return tf.shape(given[0])[0]

    def _first(
        self, store: MaskedStore, given: Any, num_roots: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Runs the first sweep; returns whether there was no room, and whether an op failed."""
        return FirstSweep(store).run(given, num_roots)

    def _nothing(self, inputs: Sequence[Any]) -> State:
        """Placeholders for the results of a run that is left to waves."""

        def empty(tensor: tf.Tensor) -> tf.Tensor:
            return tf.zeros([size or 0 for size in tensor.shape], tensor.dtype)

        found = self._run.get_concrete_function(*inputs).structured_outputs
        return {**tf.nest.map_structure(empty, found), "failures": tf.constant([0, 1])}

    def outcome(self, found: State, num_roots: tf.Tensor) -> Outcome:
        """Returns the results of the program, without padding."""
        rows: dict[str, list[tf.Tensor]] = {}
        for total, tensors in zip(self._sums, found["sums"], strict=True):
            if isinstance(total.node, Collect):
                rows.setdefault(total.node.name, []).extend(total.found(tensors))
        tables = {name: tf.concat(parts, 0) for name, parts in rows.items()}
        types = self.layout.graph.table_types
        for (name, size), table in zip(self._collected.items(), found["tables"], strict=True):
            tables[name] = tf.cast(table[:size], types[name].dtype)
        return Outcome({0: [tensor[:num_roots] for tensor in found["outputs"]]}, tables)

    def _compiled(
        self,
        sizes: State,
        numbers: tf.Tensor,
        given: Any,
        shared: Tensors,
        rows_of_tables: Tensors,
    ) -> State:
        num_roots, *sizes_of_tables = tf.unstack(numbers)
        store = self.store_type(
            self.layout,
            Sizes(**sizes),
            self._padded_roots(given),
            self._inputs.known(shared),
            dict(zip(self._inputs.tables, sizes_of_tables, strict=True)),
            rows_of_tables=dict(zip(self._collected, rows_of_tables, strict=True)),
            max_depth=self._max_depth,
        )
        is_full, has_fault = self._first(store, given, num_roots)
        self._sums, found = [], []
        for section in self.schedule.sections:
            if isinstance(section, AllTokens) and not section.sweep:
                sums, tensors, fails = run_all_frames(store, section)
                self._sums += sums
                found += tensors
                has_fault |= fails
        done = store.done if self._keeps else {}
        self.dtypes = {key: tensor.dtype for key, tensor in done.items()}
        self.numbers = {"counts": store.counts, "tails": store.tails, "steps": store.steps}
        return {
            "failures": stacked([is_full, has_fault]),
            "outputs": store.outputs(0),
            "tables": list(store.tables.values()),
            "sums": found,
            "done": int_bits(list(done.values())),
            "numbers": int_bits([stacked(flat(self.numbers))]),
        }
