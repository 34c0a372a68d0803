"""The program of the gradient: the blocks of the values, once more."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from kerasrec.compiled.by_xla import by_xla
from kerasrec.compiled.hoisted import Sum, run_hoisted
from kerasrec.compiled.padding import bucket, padded
from kerasrec.compiled.shared import SharedInputs
from kerasrec.compiled.values import Values
from kerasrec.emit.results import Outcome, State, Tensors
from kerasrec.emit.sums import Sums
from kerasrec.graph.nodes import Accumulate
from kerasrec.graph.values import Value
from kerasrec.schedule.sections import AllTokens, Queues


class Gradient:
    """Runs the gradient of a program.

    Args:
        values: of the program.
        shared: tensors of SHARED values, with the cotangents of sums over all tokens.
    """

    def __init__(self, values: Values, shared: dict[Value, tf.Tensor]):
        self._values = values
        self._all_shared = shared
        self._inputs = SharedInputs(values.schedule, 1)
        self._shared, self._sizes_of_tables = self._inputs.tensors(shared)
        self._sweep = values.graph.bodies[values.graph.entry].sweeps[1]
        self._sums: list[Sum] = []
        self._run = by_xla(self._compiled)

    def run(
        self, kept: State, cotangents: Sequence[tf.Tensor | None], num_roots: tf.Tensor
    ) -> Outcome:
        """Runs it.

        Args:
            kept: what the program of the values returned.
            cotangents: of its outputs, `[tokens, ...]` each; anything for those without a gradient.
            num_roots: int32 scalar.
        """
        pairs, rows = zip(self._sweep.parameters, cotangents, strict=True), bucket(num_roots)
        given = [padded(item, rows) for node, item in pairs if node]
        names = ("sizes", "done", "counts", "tails", "steps")
        state = {name: kept[name] for name in names}
        found = self._run(state, num_roots, given, self._shared, self._sizes_of_tables)
        sums = Sums()
        for one, tensors in zip(self._sums, found["sums"], strict=True):
            if isinstance(one.node, Accumulate):
                parts = one.found(tensors)
                if len(parts) == 1 and one.node.to in self._inputs.tables:
                    size = tf.shape(self._all_shared[one.node.to])[0]
                    parts = [parts[0][:size]]
                sums.accumulate(one.node, *parts)
        outputs = iter(found["outputs"])
        results = [node and next(outputs)[:num_roots] for node in self._sweep.outputs]
        return Outcome({1: results}, sums.gradients(self._all_shared))

    def _compiled(
        self,
        kept: State,
        num_roots: tf.Tensor,
        cotangents: Tensors,
        shared: Tensors,
        sizes_of_tables: Tensors,
    ) -> State:
        values = self._values
        roots = tf.range(bucket(num_roots) if not cotangents else tf.shape(cotangents[0])[0])
        program = values.program(
            kept["sizes"],
            tf.shape(roots)[0],
            self._inputs.known(shared),
            dict(zip(self._inputs.tables, sizes_of_tables, strict=True)),
            done=dict(zip(values.keys, kept["done"], strict=True)),
            counts=dict(zip(values.layout.spaces, kept["counts"], strict=True)),
            tails=dict(zip(values.layout.order, kept["tails"], strict=True)),
            steps=kept["steps"],
        )
        is_root = roots < num_roots
        self._sums, found = [], []
        for section in values.schedule.sections:
            if section.sweep == 1 and isinstance(section, Queues):
                values.again(program, section).run(roots, is_root, cotangents)
            elif section.sweep == 1 and isinstance(section, AllTokens):
                # What can fail here was computed with the values, too, and has failed there.
                sums, tensors, _ = run_hoisted(program, section)
                self._sums += sums
                found += tensors
        return {"outputs": program.outputs(1), "sums": found}
