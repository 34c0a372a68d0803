"""The program of all sweeps after the first, such as the gradient; it runs the blocks again."""

from __future__ import annotations

import tensorflow as tf

from kerasrec._src.emit.control_flow import flat, keyed, stacked, unstacked
from kerasrec._src.emit.results import Given, Outcome, State, Tensors
from kerasrec._src.emit.sums import Sums
from kerasrec._src.frames.rows_xla.all_frames import Sum, run_all_frames
from kerasrec._src.frames.rows_xla.by_xla import by_xla, from_int_bits
from kerasrec._src.frames.rows_xla.shared import SharedInputs
from kerasrec._src.frames.rows_xla.sizes import Sizes, bucket, padded
from kerasrec._src.frames.rows_xla.values import Values
from kerasrec._src.graph.graph import order_of
from kerasrec._src.graph.nodes import Accumulate
from kerasrec._src.graph.values import Value
from kerasrec._src.schedule.sections import AllTokens, Queues


class Gradient:
    """Runs all sweeps of a program after the first.

    Args:
        values: The program of the values.
        shared: The tensors of SHARED values, with the cotangents of sums over all tokens.
    """

    def __init__(self, values: Values, shared: dict[Value, tf.Tensor]):
        self._values = values
        self._all_shared = shared
        self._sweeps = dict(enumerate(values.graph.bodies[values.graph.entry].sweeps))
        del self._sweeps[0]
        self._inputs = SharedInputs(values.schedule, self._sweeps)
        self._shared, self._sizes_of_tables = self._inputs.tensors(shared)
        self._sums: list[Sum] = []
        self._run = by_xla(self._compiled)

    def run(self, kept: State, given: Given, num_roots: tf.Tensor) -> Outcome:
        """Runs the sweeps, and returns their outcome.

        Args:
            kept: The result of the program of the values.
            given: The values that each sweep gets from outside, `[tokens, ...]` each; any
                cotangents for outputs without a gradient.
            num_roots: The number of root tokens, an int32 scalar.
        """
        rows = bucket(num_roots)
        inputs = [
            [
                padded(tensor, rows)
                for node, tensor in zip(sweep.parameters, tensors, strict=True)
                if node
            ]
            for sweep, tensors in zip(self._sweeps.values(), given, strict=True)
        ]
        state = {name: kept[name] for name in ("sizes", "done", "numbers")}
        numbers = stacked([num_roots, *self._sizes_of_tables])
        found = self._run(state, numbers, inputs, self._shared)
        sums = Sums()
        for total, tensors in zip(self._sums, found["sums"], strict=True):
            if isinstance(total.node, Accumulate):
                parts = total.found(tensors)
                if len(parts) == 1 and total.node.to in self._inputs.tables:
                    size = tf.shape(self._all_shared[total.node.to])[0]
                    parts = [parts[0][:size]]
                sums.accumulate(total.node, *parts)
        results = {}
        for (index, sweep), tensors in zip(self._sweeps.items(), found["outputs"], strict=True):
            outputs = iter(tensors)
            results[index] = [node and next(outputs)[:num_roots] for node in sweep.outputs]
        return Outcome(results, sums.gradients(self._all_shared))

    def _compiled(
        self,
        kept: State,
        numbers: tf.Tensor,
        given: list[Tensors],
        shared: Tensors,
    ) -> State:
        values = self._values
        num_roots, *sizes_of_tables = tf.unstack(numbers)
        done = from_int_bits(kept["done"], list(values.dtypes.values()))
        (of_values,) = from_int_bits(kept["numbers"], [tf.int32])
        numbers_of_values = keyed(unstacked(of_values, flat(values.numbers)), values.numbers)
        first = [tensor for tensors in given for tensor in tensors][:1]
        roots = tf.range(tf.shape(first[0])[0] if first else bucket(num_roots))
        store = values.store_type(
            values.layout,
            Sizes(**kept["sizes"]),
            tf.shape(roots)[0],
            self._inputs.known(shared),
            dict(zip(self._inputs.tables, sizes_of_tables, strict=True)),
            done=dict(zip(values.dtypes, done, strict=True)),
            **numbers_of_values,
        )
        is_root = roots < num_roots
        self._sums, found = [], []
        for section in values.schedule.sections:
            if section.sweep and isinstance(section, Queues):
                values.later_sweep(store, section).run(roots, is_root, given[section.sweep - 1])
            elif section.sweep and isinstance(section, AllTokens):
                # Any op that can fail here was also computed with the values, and would have failed
                # there.
                sums, tensors, _ = run_all_frames(store, section)
                if order_of(section.sweep) == order_of(max(self._sweeps)):
                    self._sums += sums
                    found += tensors
        return {"outputs": list(map(store.outputs, self._sweeps)), "sums": found}
