"""Plans when each call runs, and in which rows the results of other calls are then.

Calls run level by level, those that call nobody first. Their results are kept as rows. A row is
live as long as a call of a higher level reads it. Each level reads live rows, and its own
results replace rows that nobody reads any more. The gradient goes through the levels in reverse,
and adds up the cotangents of each row from all its readers.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from kerasrec._src.emit.arrays import Pieces, array_of
from kerasrec._src.emit.control_flow import no_numbers, run_loop
from kerasrec._src.emit.results import State, Tensors
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.memo.calls import Calls
from kerasrec._src.memo.copies import added, by_copy, in_line, of_copies, taken
from kerasrec._src.memo.levels import levels, sorted_calls
from kerasrec._src.schedule.linkage import Together


@dataclass(frozen=True)
class Plan:
    """The order in which calls run. Waves are levels, the highest first.

    If several root tokens make the same calls, the plan is for the calls of one of them. Then the
    rows of each wave, and the live rows, are several copies, one after the other.

    Args:
        num_waves: The number of waves, an int32 scalar.
        copies: The number of copies of each call, an int32 scalar.
        arguments: For each body and parameter, an array of the rows of each wave.
        sizes: For each body, the number of calls in each wave, int32 `[waves]`.
        reads: For call sites that call for the same tokens, an array of the places of the rows that
            each wave reads, among the rows that are live before it, int32.
        keeps: For each body, an array of the places of the rows that are live after each wave,
            int32: among the rows that the wave returns, followed by those that are live before it.
        live: For each body, an array of the number of rows that are live before each wave, int32.
        roots: The places of the rows that the outside reads, among those that are live at the end,
            int32 `[tokens]`.
        num_live: The number of the entry's rows that are live at the end, an int32 scalar.
    """

    num_waves: tf.Tensor
    copies: tf.Tensor
    arguments: dict[str, list[Pieces]]
    sizes: dict[str, tf.Tensor]
    reads: dict[Together, tf.TensorArray]
    keeps: dict[str, tf.TensorArray]
    live: dict[str, tf.TensorArray]
    roots: tf.Tensor
    num_live: tf.Tensor

    def arguments_of(self, graph: TaggedGraph, name: str, wave: tf.Tensor) -> Tensors:
        """The arguments of the calls of a wave, `[calls, ...]` each."""
        tensors = []
        nodes = graph.bodies[name].parameters
        for node, array in zip(nodes, self.arguments[name], strict=True):
            tensor = array.read(wave)
            if node.is_root:
                tensors.append(of_copies(tensor, self.copies, tf.constant(1)))
            else:
                tensors.append(tf.tile(tensor, [self.copies, *[1] * (tensor.shape.rank - 1)]))
        return tensors

    def given(self, name: str, wave: tf.Tensor, tensor: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Divides values of the rows live after a wave: its own rows, and those live before it."""
        size, live = self._sizes(name, wave)
        rows = added(tensor, self.keeps[name].read(wave), self.copies, size + live)
        rows = by_copy(rows, self.copies, size + live)
        return in_line(rows[:, :size]), in_line(rows[:, size:])

    def kept(self, name: str, wave: tf.Tensor, returned: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
        """Returns the rows live after a wave, from those it returns and those live before it."""
        size, live = self._sizes(name, wave)
        pieces = [by_copy(returned, self.copies, size), by_copy(tensor, self.copies, live)]
        rows = self.keeps[name].read(wave)
        return taken(in_line(tf.concat(pieces, 1)), rows, self.copies, size + live)

    def read(self, group: Together, wave: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
        """Returns the rows that a wave reads, from those that are live before it."""
        live = self.live[group[0].callee].read(wave)
        return taken(tensor, self.reads[group].read(wave), self.copies, live)

    def added(self, group: Together, wave: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
        """For each row that is live before a wave, adds up the values of its readers."""
        live = self.live[group[0].callee].read(wave)
        return added(tensor, self.reads[group].read(wave), self.copies, live)

    def of_roots(self, tensor: tf.Tensor) -> tf.Tensor:
        """Returns the rows that the outside reads, `[tokens, ...]`, from those live at the end."""
        return taken(tensor, self.roots, self.copies, self.num_live)

    def added_of_roots(self, tensor: tf.Tensor) -> tf.Tensor:
        """For each row live at the end, adds up the values that the outside passes to it."""
        return added(tensor, self.roots, self.copies, self.num_live)

    def _sizes(self, name: str, wave: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The numbers of a body's calls in a wave, and of rows live before it, in each copy."""
        return tf.gather(self.sizes[name], wave), self.live[name].read(wave)


_NUMBERS = tf.TensorSpec([None], tf.int32)
_NUMBER = tf.TensorSpec([], tf.int32)
_OUTSIDE = -1


def plan_of(graph: TaggedGraph, calls: Calls, parallel_tokens: int | None = None) -> Plan:
    """Plans when each call runs.

    Args:
        graph: The program.
        calls: All calls of the run.
        parallel_tokens: The largest number of calls of a body in a wave; None for all of a level.

    Raises:
        tf.errors.InvalidArgumentError: When it is computed, if a call needs itself.
    """
    level = levels(graph, calls)
    if parallel_tokens is not None:
        level = _cut(level, calls, parallel_tokens)
    num_waves = tf.reduce_max(tf.concat([level, [-1]], 0)) + 1
    wave = num_waves - 1 - level
    in_order = sorted_calls(calls, wave, num_waves)
    sizes, place = in_order.sizes, in_order.place
    arguments = {
        name: [
            Pieces(tensor, sizes[name], node.types[0].tensor_shape())
            for tensor, node in zip(tensors, graph.bodies[name].parameters, strict=True)
        ]
        for name, tensors in in_order.arguments.items()
    }
    targets = {}
    last_read = {
        name: tf.fill([tf.size(numbers)], num_waves) for name, numbers in calls.numbers.items()
    }
    for group, (callers, callees) in calls.edges.items():
        order = tf.argsort(tf.gather(place, callers), stable=True)
        waves = tf.gather(wave, tf.gather(callers, order))
        target = tf.gather(place, tf.gather(callees, order))
        counts = tf.math.bincount(waves, minlength=num_waves, maxlength=num_waves)
        targets[group] = Pieces(target, counts)
        callee = group[0].callee
        last_read[callee] = tf.tensor_scatter_nd_min(
            last_read[callee], tf.expand_dims(target, 1), waves
        )
    roots = tf.gather(place, calls.roots)
    last_read[graph.entry] = tf.tensor_scatter_nd_min(
        last_read[graph.entry], tf.expand_dims(roots, 1), tf.fill(tf.shape(roots), _OUTSIDE)
    )
    end = _rows(num_waves, sizes, targets, last_read)
    live_at_end = end["places"][graph.entry]
    return Plan(
        num_waves,
        calls.copies,
        arguments,
        sizes,
        end["reads"],
        end["keeps"],
        end["live"],
        tf.searchsorted(live_at_end, roots),
        tf.size(live_at_end),
    )


def _cut(level: tf.Tensor, calls: Calls, size: int) -> tf.Tensor:
    """Returns the levels of calls, int32 `[calls]`; levels of many calls are cut into several."""
    cut = tf.zeros_like(level, tf.int64)
    for numbers in calls.numbers.values():
        levels = tf.gather(level, numbers)
        order = tf.argsort(levels, stable=True)
        ranks = tf.range(tf.size(order))
        first = tf.searchsorted(tf.gather(levels, order), tf.gather(levels, order))
        piece = tf.cast((ranks - first) // size, tf.int64)
        pieces = tf.cast(tf.gather(levels, order), tf.int64) * tf.int32.max + piece
        places = tf.expand_dims(tf.gather(numbers, order), 1)
        cut = tf.tensor_scatter_nd_update(cut, places, pieces)
    distinct = tf.sort(tf.unique(cut)[0])
    return tf.searchsorted(distinct, cut)


def _rows(
    num_waves: tf.Tensor,
    sizes: dict[str, tf.Tensor],
    targets: dict[Together, Pieces],
    last_read: dict[str, tf.Tensor],
) -> State:
    """Plans the rows of the results of calls.

    Args:
        num_waves: The number of waves, an int32 scalar.
        sizes: The same as in a plan.
        targets: For call sites that call for the same tokens, an array of the places of the calls
            that each wave reads. Calls of a body are numbered in the order of their waves.
        last_read: For each body, the wave that reads the call at each place last.

    Returns:
        `reads`, `keeps` and `live` of the plan; and `places`: for each body, the places of the
        calls whose results are live at the end, ascending.
    """
    starts = {name: tf.cumsum(counts, exclusive=True) for name, counts in sizes.items()}

    def turn(state: State) -> State:
        """Plans a wave; `places` are those of the calls whose results are live after it."""
        wave, places, after = state["wave"], state["places"], {}
        for name, array in state["keeps"].items():
            first = tf.gather(starts[name], wave)
            here = tf.range(first, first + tf.gather(sizes[name], wave))
            together = tf.concat([here, places[name]], 0)
            kept = tf.cast(tf.where(tf.gather(last_read[name], together) < wave)[:, 0], tf.int32)
            state["keeps"][name] = array.write(wave, kept)
            after[name] = tf.gather(together, kept)
        for group, array in state["reads"].items():
            rows = tf.searchsorted(places[group[0].callee], targets[group].read(wave))
            state["reads"][group] = array.write(wave, rows)
        for name, array in state["live"].items():
            state["live"][name] = array.write(wave, tf.size(places[name]))
        return {**state, "wave": wave - 1, "places": after}

    start: State = {
        "wave": num_waves - 1,
        "places": {name: no_numbers() for name in sizes},
        "reads": {group: array_of(_NUMBERS, num_waves) for group in targets},
        "keeps": {name: array_of(_NUMBERS, num_waves) for name in sizes},
        "live": {name: array_of(_NUMBER, num_waves) for name in sizes},
    }
    return run_loop(lambda state: state["wave"] >= 0, turn, start)
