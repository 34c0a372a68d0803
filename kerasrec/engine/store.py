"""Values of waves, kept for later parts of the run.

What a loop computes for a wave and another part reads is an element of a `tf.TensorArray`, under
the number of the wave: within one body, the number stands for the tags of all tokens of the wave.
So a residual is read where its tag says, and no large tensor is copied in a loop. What a bulk
computes is one tensor of the tokens of all waves, in their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import tensorflow as tf

from kerasrec.engine.frame import Frame
from kerasrec.engine.plan import Part, Plan
from kerasrec.engine.results import Sums, Tensors
from kerasrec.graph.graph import Value


@dataclass(frozen=True)
class Slot:
    """What one TensorArray holds.

    Args:
        what: "value" of the graph, "rows" of a branch, "sizes" of the branches of a conditional,
          or "tokens", the number of tokens.
        body: whose.
        value: the value, or the predicate of the conditional; None for "tokens".
        branch: for "rows".
        num_branches: for "rows" and "sizes".
    """

    what: str
    body: str
    value: Value | None = None
    branch: int = 0
    num_branches: int = 0

    def spec(self) -> tf.TensorSpec:
        """Spec of an element."""
        if self.what == "value":
            return self.value.type.tensor_spec()
        if self.what == "rows":
            return tf.TensorSpec([None], tf.int32)
        return tf.TensorSpec([1 if self.what == "tokens" else self.num_branches], tf.int32)

    def of(self, frame: Frame) -> tf.Tensor:
        """The element for the wave of a frame."""
        if self.what == "tokens":
            return frame.count(None)[tf.newaxis]
        if self.what == "value":
            return frame.get(self.value)
        rows = frame.rows(self.value, self.num_branches)
        if self.what == "rows":
            return rows[self.branch]
        return tf.stack([tf.size(item) for item in rows])


class WaveStore:
    """What the parts of a run leave for each other.

    Args:
        plan: of the program.
        shared: tensors of SHARED values.
    """

    def __init__(self, plan: Plan, shared: dict[Value, tf.Tensor]):
        self.plan = plan
        self.shared = shared
        self._waves: dict[Value, tf.TensorArray] = {}
        self._rows: dict[Value, list[tf.TensorArray]] = {}
        self._sizes: dict[Value | str, tf.Tensor] = {}
        self._starts: dict[Value | str, tf.Tensor] = {}
        self._all_tokens: dict[Value, tf.Tensor] = {}

    def slots(self, body: str, part: Part) -> list[Slot]:
        """What the loop part of a body has to write down."""
        slots = [Slot("tokens", body)] if part.stage == 0 else []
        slots += [Slot("value", body, value) for value in self.plan.kept.get((body, part), ())]
        for predicate, num in self.plan.kept_predicates.get((body, part), ()):
            slots.append(Slot("sizes", body, predicate, num_branches=num))
            slots += [Slot("rows", body, predicate, branch, num) for branch in range(num)]
        return slots

    def keep(self, arrays: dict[Slot, tf.TensorArray]) -> None:
        """Takes over the TensorArrays that a loop has filled, in the order of `slots`."""
        for slot, array in arrays.items():
            if slot.what == "value":
                self._waves[slot.value] = array
            elif slot.what == "rows":
                self._rows.setdefault(slot.value, []).append(array)
            else:
                key = slot.body if slot.what == "tokens" else slot.value
                self._sizes[key] = array.stack()
                self._starts[key] = tf.cumsum(self._sizes[key], exclusive=True)

    def num_tokens(self, body: str, wave: tf.Tensor) -> tf.Tensor:
        """How many tokens a wave of a body has."""
        return self._sizes[body][wave, 0]

    def frame(
        self,
        body: str,
        wave: tf.Tensor,
        num_tokens: tf.Tensor,
        arrays: dict[Slot, tf.TensorArray] | None = None,
    ) -> Frame:
        """A frame for one wave.

        Args:
            body: whose wave.
            wave: its number.
            num_tokens: how many tokens it has.
            arrays: TensorArrays that a loop is filling; they are read first.
        """
        waves = dict(self._waves)
        rows = dict(self._rows)
        for slot, array in (arrays or {}).items():
            if slot.what == "value":
                waves[slot.value] = array
            elif slot.what == "rows":
                rows[slot.value] = [*rows.get(slot.value, [])[: slot.branch], array]

        def fetch(value: Value) -> tf.Tensor:
            if value in waves:
                return waves[value].read(wave)
            return self._rows_of_wave(body, value, wave)

        def choices(predicate: Value) -> Tensors | None:
            found = rows.get(predicate)
            return found and [array.read(wave) for array in found]

        return Frame(num_tokens, self.shared, fetch, choices)

    def run_bulk(self, stage: int, sums: Sums) -> None:
        """Runs the bulk of a stage, on the tokens of all waves."""
        part = Part(stage, is_bulk=True)

        def fetch(value: Value) -> tf.Tensor:
            if value not in self._all_tokens:
                self._all_tokens[value] = self._waves[value].concat()
            return self._all_tokens[value]

        for body in self.plan.graph.bodies:
            nodes = self.plan.nodes.get((body, part), [])
            if not nodes:
                continue
            frame = Frame(tf.reduce_sum(self._sizes[body]), self.shared, fetch)
            frame.run(nodes)
            for value in self.plan.kept.get((body, part), ()):
                self._all_tokens[value] = frame.get(value)
            for node in nodes:
                if node.op in ("COLLECT", "ACCUMULATE"):
                    sums.take(node, frame)

    def _rows_of_wave(self, body: str, value: Value, wave: tf.Tensor) -> tf.Tensor:
        """The rows that belong to a wave, of a value that a bulk computed for all of them."""
        region = value.region
        key, branch = (body, 0) if region is None else (region.predicate, region.branch)
        start = self._starts[key][wave, branch]
        return self._all_tokens[value][start : start + self._sizes[key][wave, branch]]


def new_arrays(
    slots: Iterable[Slot], size: tf.Tensor | int, is_dynamic: bool
) -> dict[Slot, tf.TensorArray]:
    """Empty TensorArrays for what a loop writes down."""
    return {
        slot: tf.TensorArray(
            slot.spec().dtype,
            size=size,
            dynamic_size=is_dynamic,
            element_shape=slot.spec().shape,
            clear_after_read=False,
        )
        for slot in slots
    }
