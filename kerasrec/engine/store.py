"""Values of waves, kept for later parts of the run.

What a loop computes for a wave and another part reads is an element of a `tf.TensorArray`, under
the number of the wave: within one body, the number stands for the tags of all tokens of the wave.
So a residual is read where its tag says, and no large tensor is copied in a loop. What a bulk
computes is one tensor of the tokens of all waves, in their order, split for loops that read it.
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
class TokensSlot:
    """A TensorArray of the number of tokens in each wave of a body, int32 `[1]`."""

    body: str

    def spec(self) -> tf.TensorSpec:
        """Spec of an element."""
        return tf.TensorSpec([1], tf.int32)

    def of(self, frame: Frame) -> tf.Tensor:
        """The element for the wave of a frame."""
        return frame.count(None)[tf.newaxis]


@dataclass(frozen=True)
class ValueSlot:
    """A TensorArray of a value of the graph, `[tokens, ...]`."""

    body: str
    value: Value

    def spec(self) -> tf.TensorSpec:
        """Spec of an element."""
        return self.value.type.tensor_spec()

    def of(self, frame: Frame) -> tf.Tensor:
        """The element for the wave of a frame."""
        return frame.get(self.value)


@dataclass(frozen=True)
class SizesSlot:
    """A TensorArray of the number of tokens in each branch of a conditional."""

    body: str
    predicate: Value
    num_branches: int

    def spec(self) -> tf.TensorSpec:
        """Spec of an element."""
        return tf.TensorSpec([self.num_branches], tf.int32)

    def of(self, frame: Frame) -> tf.Tensor:
        """The element for the wave of a frame."""
        rows = frame.rows(self.predicate, self.num_branches)
        return tf.stack([tf.size(item) for item in rows])


@dataclass(frozen=True)
class RowsSlot:
    """A TensorArray of where the tokens of a branch stand, int32 `[tokens]`."""

    body: str
    predicate: Value
    branch: int
    num_branches: int

    def spec(self) -> tf.TensorSpec:
        """Spec of an element."""
        return tf.TensorSpec([None], tf.int32)

    def of(self, frame: Frame) -> tf.Tensor:
        """The element for the wave of a frame."""
        return frame.rows(self.predicate, self.num_branches)[self.branch]


Slot = TokensSlot | ValueSlot | SizesSlot | RowsSlot


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
        self._all_tokens: dict[Value, tf.Tensor] = {}

    def copy(self) -> WaveStore:
        """A store that begins with what this one has; what it takes over later stays its own."""
        other = WaveStore(self.plan, self.shared)
        other._waves = dict(self._waves)
        other._rows = {predicate: list(arrays) for predicate, arrays in self._rows.items()}
        other._sizes = dict(self._sizes)
        other._all_tokens = dict(self._all_tokens)
        return other

    def slots(self, body: str, part: Part) -> list[Slot]:
        """What the loop part of a body has to write down."""
        slots: list[Slot] = [TokensSlot(body)] if part.stage == 0 else []
        slots += [ValueSlot(body, value) for value in self.plan.kept.get((body, part), ())]
        for predicate, num in self.plan.kept_predicates.get((body, part), ()):
            slots.append(SizesSlot(body, predicate, num))
            slots += [RowsSlot(body, predicate, branch, num) for branch in range(num)]
        return slots

    def keep(self, arrays: dict[Slot, tf.TensorArray]) -> None:
        """Takes over the TensorArrays that a loop has filled, in the order of `slots`."""
        for slot, array in arrays.items():
            if isinstance(slot, ValueSlot):
                self._waves[slot.value] = array
            elif isinstance(slot, RowsSlot):
                self._rows.setdefault(slot.predicate, []).append(array)
            else:
                key = slot.body if isinstance(slot, TokensSlot) else slot.predicate
                self._sizes[key] = array.stack()

    def sizes(self) -> dict[Value | str, tf.Tensor]:
        """How many tokens each wave has, when all loops are done.

        int32 `[waves, 1]` by the name of a body, and `[waves, branches]` by the predicate of a
        conditional: the tokens of each branch.
        """
        return dict(self._sizes)

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
            if isinstance(slot, ValueSlot):
                waves[slot.value] = array
            elif isinstance(slot, RowsSlot):
                earlier = rows.get(slot.predicate, [])[: slot.branch]
                rows[slot.predicate] = [*earlier, array]

        def fetch(value: Value) -> tf.Tensor:
            return waves[value].read(wave)

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
            with tf.name_scope(scope_of(part)):
                frame = Frame(tf.reduce_sum(self._sizes[body]), self.shared, fetch)
                frame.run(nodes)
                for value in self.plan.kept.get((body, part), ()):
                    self._all_tokens[value] = frame.get(value)
                    self._waves[value] = self._split(body, value, frame.get(value))
                for node in nodes:
                    if node.op in ("COLLECT", "ACCUMULATE"):
                        sums.take(node, frame)

    def _split(self, body: str, value: Value, tensor: tf.Tensor) -> tf.TensorArray:
        """What a bulk computed for the tokens of all waves, wave by wave."""
        region = value.region
        key, branch = (body, 0) if region is None else (region.predicate, region.branch)
        sizes = self._sizes[key][:, branch]
        spec = value.type.tensor_spec()
        array = tf.TensorArray(
            spec.dtype, size=tf.size(sizes), element_shape=spec.shape, clear_after_read=False
        )
        return array.split(tensor, sizes)


def scope_of(part: Part) -> str:
    """The name scope of a part's ops, by which profiles show them."""
    return str(part).replace(" ", "_")


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
