"""Runs programs without calls: all tokens come from outside, and each node fires once.

This does what `levels.py` does with a single wave, but without loops. Nothing is stored for other
waves: the backward pass reads the tensors of the forward pass directly.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from kerasrec.engine.frame import Frame
from kerasrec.engine.limits import Limits
from kerasrec.engine.plan import Part, Plan
from kerasrec.engine.results import Outcome, Tensors
from kerasrec.engine.store import prepared_for, scope_of
from kerasrec.engine.sums import Sums
from kerasrec.graph.graph import order_of
from kerasrec.graph.values import Region, Value


class OnceRun:
    """One run of a program without calls; what it keeps serves all of its derivatives.

    Args:
        plan: of the program.
        shared: tensors of SHARED values.
        limits: bounds on depth, width and memory.
    """

    def __init__(self, plan: Plan, shared: dict[Value, tf.Tensor], limits: Limits):
        self.plan = plan
        self.shared = shared
        self.limits = limits
        self.body = plan.graph.bodies[plan.graph.entry]
        self.frame: Frame

    def forward(self, arguments: Tensors) -> Outcome:
        """Runs sweep 0 on flat arguments, `[tokens, ...]` each."""
        width = tf.shape(arguments[0])[0]
        self.limits.check_width(width)
        prepared = prepared_for(self.plan, self.shared)
        self.frame = Frame(self.plan, width, self.shared, prepared=prepared)
        sums = Sums()
        outputs = self._sweep(self.frame, 0, arguments, sums)
        return Outcome({0: outputs}, sums.tables())

    def backward(
        self, given: Sequence[Sequence[tf.Tensor | None]], shared: dict[Value, tf.Tensor]
    ) -> Outcome:
        """Runs all sweeps after the first; arguments as in `WaveRun.backward`."""
        frame = self.frame.continued(shared, prepared_for(self.plan, shared))
        found = {}
        for index, tensors in enumerate(given, start=1):
            if order_of(index) != order_of(index - 1):
                sums = Sums()
            found[index] = self._sweep(frame, index, tensors, sums)
        return Outcome(found, sums.gradients(shared))

    def notes(self) -> tf.Tensor:
        """What `forward` ran: both stages, on one wave."""
        return tf.constant([[0, 0, 0], [1, 0, 0]])

    def sizes(self) -> dict[Region | str, tf.Tensor]:
        """How many tokens the body and its regions have, int32 `[1]` each."""
        groups = [siblings for found in self.plan.kept_regions.values() for siblings in found]
        regions = [region for siblings in groups for region in siblings]
        counts: dict[Region | str, tf.Tensor] = {self.body.name: self.frame.count(None)}
        counts.update({region: self.frame.count(region) for region in regions})
        return {key: tf.reshape(count, [1]) for key, count in counts.items()}

    def _sweep(
        self, frame: Frame, index: int, given: Sequence[tf.Tensor | None], sums: Sums
    ) -> list[tf.Tensor | None]:
        """Fires the nodes of a sweep; returns its outputs, None for those without a gradient."""
        sweep = self.body.sweeps[index]
        frame.set(sweep.parameters, given)
        for stage in range(self.plan.first_stage(index) - 1, self.plan.last_stage(index) + 1):
            for part in (Part(stage, is_bulk=False), Part(stage, is_bulk=True)):
                with tf.name_scope(scope_of(part)):
                    frame.run(self.plan.nodes.get((self.body.name, part), ()))
        for node in sweep.sinks:
            sums.take(node, frame)
        return [node and frame.get(node.output()) for node in sweep.outputs]
