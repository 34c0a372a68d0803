"""Values of waves, kept for later parts of the run.

What a loop computes for a wave and another part reads is an element of a `tf.TensorArray`, under
the number of the wave: within one body, the number stands for the tags of all tokens of the wave.
So a residual is read where its tag says, and no large tensor is copied in a loop. What a bulk
computes is one tensor of the tokens of all waves, in their order, split for loops that read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from kerasrec.engine.frame import Frame
from kerasrec.engine.plan import Part, Plan
from kerasrec.engine.results import Tensors
from kerasrec.engine.sums import Sums
from kerasrec.graph.nodes import Accumulate, Collect
from kerasrec.graph.values import Node, Region, Value


@dataclass(frozen=True)
class TokensSlot:
    """A TensorArray of the number of tokens in each wave of a body, int32 `[1]`."""

    body: str

    def spec(self) -> tf.TensorSpec:
        """Spec of an element."""
        return tf.TensorSpec([1], tf.int32)

    def of(self, frame: Frame) -> tf.Tensor:
        """The element for the wave of a frame."""
        return tf.stack([frame.count(None)])


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
    """A TensorArray of the number of tokens in each of the regions of one selector."""

    body: str
    regions: tuple[Region, ...]

    def spec(self) -> tf.TensorSpec:
        """Spec of an element."""
        return tf.TensorSpec([len(self.regions)], tf.int32)

    def of(self, frame: Frame) -> tf.Tensor:
        """The element for the wave of a frame."""
        return tf.stack([frame.count(region) for region in self.regions])


@dataclass(frozen=True)
class RowsSlot:
    """A TensorArray of where the tokens of a region come from, int32 `[tokens]`."""

    body: str
    region: Region

    def spec(self) -> tf.TensorSpec:
        """Spec of an element."""
        return tf.TensorSpec([None], tf.int32)

    def of(self, frame: Frame) -> tf.Tensor:
        """The element for the wave of a frame."""
        return frame.rows(self.region)


_OF_ROWS = tf.TensorShape([None])
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
        self._prepared = prepared_for(plan, shared)
        self._waves: dict[Value, tf.TensorArray] = {}
        self._rows: dict[Region, tf.TensorArray] = {}
        self._sizes: dict[Region | str, tf.Tensor] = {}
        self._all_tokens: dict[Value, tf.Tensor] = {}
        self._all_rows: dict[Region, tf.Tensor] = {}

    def copy(self, shared: dict[Value, tf.Tensor]) -> WaveStore:
        """A store that begins with what this one has, and with other tensors of SHARED values."""
        other = WaveStore(self.plan, shared)
        other._waves = dict(self._waves)
        other._rows = dict(self._rows)
        other._sizes = dict(self._sizes)
        other._all_tokens = dict(self._all_tokens)
        other._all_rows = dict(self._all_rows)
        return other

    def slots(self, body: str, part: Part) -> list[Slot]:
        """What the loop part of a body has to store."""
        if part.stage == 0 and self.plan.changes.decides_at_once:
            parameters = self.plan.graph.bodies[body].parameters
            return [ValueSlot(body, node.output()) for node in parameters]
        slots: list[Slot] = [TokensSlot(body)] if part.stage == 0 else []
        slots += [ValueSlot(body, value) for value in self.plan.kept.get((body, part), ())]
        for regions in self.plan.kept_regions.get((body, part), ()):
            slots.append(SizesSlot(body, regions))
            slots += [RowsSlot(body, region) for region in regions]
        return slots

    def keep(self, arrays: dict[Slot, tf.TensorArray]) -> None:
        """Takes over the TensorArrays that a loop has filled, in the order of `slots`."""
        for slot, array in arrays.items():
            if isinstance(slot, ValueSlot):
                self._waves[slot.value] = array
            elif isinstance(slot, RowsSlot):
                self._rows[slot.region] = array
            elif isinstance(slot, SizesSlot):
                sizes = tf.unstack(array.stack(), axis=1)
                self._sizes.update(zip(slot.regions, sizes, strict=True))
            else:
                self._sizes[slot.body] = array.stack()[:, 0]

    def decide(self) -> None:
        """Decides again what the first loop has decided, from the arguments of all waves."""
        part = Part(0, is_bulk=False)
        for name, body in self.plan.graph.bodies.items():
            values = [node.output() for node in body.parameters]
            found = [joined(self._waves[value]) for value in values]
            tensors, self._sizes[name] = [tensor for tensor, _ in found], found[0][1]
            self._all_tokens.update(zip(values, tensors, strict=True))
            count = tf.shape(tensors[0])[0]
            frame = Frame(
                self.plan,
                count,
                self.shared,
                self._all_tokens.__getitem__,
                prepared=self._prepared,
            )
            frame.set(body.parameters, tensors)
            frame.run(self.plan.nodes.get((name, part), ()))
            self._decide_regions(name, frame)
            for value in self.plan.kept.get((name, part), ()):
                if value not in self._waves:
                    self._all_tokens[value] = frame.get(value)
                    self._waves[value] = self._split(name, value, frame.get(value))

    def _decide_regions(self, body: str, frame: Frame) -> None:
        """Where the tokens of regions come from, in the whole body and in each wave of it."""
        waves: dict[Region | None, tf.Tensor] = {}
        for siblings in self.plan.kept_regions.get((body, Part(0, is_bulk=False)), ()):
            parent = siblings[0].parent
            sizes = self._sizes[parent or body]
            ends = tf.cumsum(sizes)
            if parent not in waves:
                waves[parent] = tf.searchsorted(ends, tf.range(frame.count(parent)), side="right")
            for region in siblings:
                rows = frame.rows(region)
                waves[region] = tf.gather(waves[parent], rows)
                self._all_rows[region] = rows
                self._sizes[region] = tf.math.unsorted_segment_sum(
                    tf.ones_like(rows), waves[region], tf.size(sizes)
                )
                first = tf.gather(ends - sizes, waves[region])
                self._rows[region] = _divided(rows - first, self._sizes[region])

    def sizes(self) -> dict[Region | str, tf.Tensor]:
        """How many tokens each wave has, when all loops are done.

        int32 `[waves]` by the name of a body, and by its regions.
        """
        return dict(self._sizes)

    def num_tokens(self, body: str, wave: tf.Tensor) -> tf.Tensor:
        """How many tokens a wave of a body has."""
        return tf.gather(self._sizes[body], wave)

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
                rows[slot.region] = array

        def fetch(value: Value) -> tf.Tensor:
            return waves[value].read(wave)

        def choices(region: Region) -> Tensors | None:
            if region not in rows:
                return None
            return [rows[sibling].read(wave) for sibling in region.siblings]

        return Frame(self.plan, num_tokens, self.shared, fetch, choices, self._prepared)

    def run_bulk(self, stage: int, sums: Sums) -> None:
        """Runs the bulk of a stage, on the tokens of all waves."""
        part = Part(stage, is_bulk=True)

        def fetch(value: Value) -> tf.Tensor:
            if value not in self._all_tokens:
                self._all_tokens[value], _ = joined(self._waves[value])
            return self._all_tokens[value]

        def choices(region: Region) -> Tensors | None:
            found = [self._all_rows.get(sibling) for sibling in region.siblings]
            return None if None in found else found

        for body in self.plan.graph.bodies:
            nodes = self.plan.nodes.get((body, part), [])
            if not nodes:
                continue
            with tf.name_scope(scope_of(part)):
                num_tokens = tf.reduce_sum(self._sizes[body])
                frame = Frame(self.plan, num_tokens, self.shared, fetch, choices, self._prepared)
                frame.run(nodes)
                for value in self.plan.kept.get((body, part), ()):
                    self._all_tokens[value] = frame.get(value)
                    self._waves[value] = self._split(body, value, frame.get(value))
                for node in nodes:
                    if isinstance(node, Collect | Accumulate):
                        sums.take(node, frame)

    def _split(self, body: str, value: Value, tensor: tf.Tensor) -> tf.TensorArray:
        """What a bulk computed for the tokens of all waves, wave by wave."""
        return _divided(tensor, self._sizes[value.region or body], value.type.tensor_shape())


def _divided(
    tensor: tf.Tensor, sizes: tf.Tensor, shape: tf.TensorShape = _OF_ROWS
) -> tf.TensorArray:
    """The rows of a tensor, divided among the waves: `sizes` says how many each wave gets."""
    array = tf.TensorArray(
        tensor.dtype, size=tf.size(sizes), element_shape=shape, clear_after_read=False
    )
    return array.split(tensor, sizes)


def joined(array: tf.TensorArray) -> tuple[tf.Tensor, tf.Tensor]:
    """All rows of an array, and how many each element has.

    If there is no element, a size of rows that is not known before the run stays unknown. It is
    taken to be 1, so that what is computed with the rows can be broadcast.
    """
    sizes: list[int | None] = list(array.element_shape[1:])
    if None in sizes:
        unknown = tf.where(array.size() > 0, -1, 1)
        sizes = [unknown if size is None else size for size in sizes]
    tensor, lengths = tf.raw_ops.TensorListConcatV2(
        input_handle=array.flow,
        element_shape=tf.stack([-1, *sizes]),
        leading_dims=tf.zeros([0], tf.int64),
        element_dtype=array.dtype,
    )
    return tensor, tf.cast(lengths, tf.int32)


def prepared_for(plan: Plan, shared: dict[Value, tf.Tensor]) -> dict[Node, Sequence[tf.Tensor]]:
    """What rewrites prepare from the SHARED values known so far, for all of their firings."""
    return {
        node: rewrite.prepare(*(shared[value] for value in rewrite.shared))
        for node, rewrite in plan.changes.rewrites.items()
        if all(value in shared for value in rewrite.shared)
    }


def scope_of(part: Part) -> str:
    """The name scope of a part's ops, under which profiles show them."""
    return str(part).replace(" ", "_")


def new_arrays(
    slots: Iterable[Slot], size: tf.Tensor | int, is_dynamic: bool
) -> dict[Slot, tf.TensorArray]:
    """Empty TensorArrays for what a loop stores."""
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
