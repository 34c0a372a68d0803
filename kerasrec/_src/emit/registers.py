"""Runs the instructions of a segment on one set of tokens: a wave, a block, or all of them.

SWITCH gathers the rows of the tokens that chose a branch. MERGE stitches the branches' rows
together in the order of the tokens. REPEAT gathers a token's row for each entry. Entries are in the
order of their tokens, so ENTER_ROWS and LEAVE_ROWS pass values on unchanged. Every other node runs
its own op, on more rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import tensorflow as tf

from kerasrec._src.emit.arrays import without_rows
from kerasrec._src.emit.control_flow import apart
from kerasrec._src.emit.results import Tensors
from kerasrec._src.emit.sums import Sums
from kerasrec._src.errors import WITHOUT_FRAMES
from kerasrec._src.graph.carried import NO_LABEL, NUM_LABELS
from kerasrec._src.graph.fire import branch_chosen, fire, show
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.nodes import Check, Collect, Enter
from kerasrec._src.graph.types import Kind
from kerasrec._src.graph.values import Each, Region, Value
from kerasrec._src.ops.table import Is, Ragged, has, op_named
from kerasrec._src.row_ids import row_ids
from kerasrec._src.schedule import instructions
from kerasrec._src.schedule.instructions import Instruction, Item, Reduce, Send


@dataclass(eq=False)
class Registers:
    """The values that a segment has computed so far.

    Subclasses run instructions that pass values between segments: Receive, Returned, Load, Save and
    others.

    Args:
        graph: The program.
        body: The body of the segment.
        shared: The tensors of SHARED values.
    """

    graph: TaggedGraph
    body: str
    shared: dict[Value, tf.Tensor]

    def __post_init__(self) -> None:
        self.given: Tensors = []  # Read by Receive.
        self.sent: dict[Send, Tensors] = {}
        self.results: Tensors = []
        self.reduced: list[Reduce] = []
        self._tensors: dict[Item, tf.Tensor] = {}
        self._rows: dict[Region | None, tf.Tensor] = {}  # The rows of all tokens of a region.
        self._checked: list[tf.Operation] = []

    def get(self, item: Item) -> tf.Tensor:
        """The tensor of an item."""
        if item not in self._tensors and isinstance(item, Value):
            if not item.node.is_constant:
                return self.shared[item]
            self._tensors[item] = fire(item.node, [])[0]
        return self._tensors[item]

    def has(self, item: Item) -> bool:
        """Whether an item has been written."""
        return item in self._tensors

    def all(self, items: Iterable[Item]) -> Tensors:
        """The tensors of several items."""
        return [self.get(item) for item in items]

    def run(self, instructions: Iterable[Instruction]) -> None:
        """Runs instructions in order; they wait for the effects before them."""
        for instruction in instructions:
            with tf.control_dependencies(self._checked):
                self._run(instruction)

    def reduce(self, sums: Sums) -> None:
        """Adds the values of COLLECT and ACCUMULATE nodes to the sums over all tokens."""
        for instruction in self.reduced:
            tensors = self.all(instruction.node.inputs)
            if isinstance(instruction.node, Collect):
                size = instruction.node.size
                sums.collect(instruction.node, tensors, None if size is None else self.get(size))
            else:
                sums.accumulate(instruction.node, *tensors)

    def _inputs(self, instruction: instructions.Fire) -> Tensors:
        """The inputs of an op; for a sum, SHARED ones pass through `apart` first."""
        tensors = self.all(instruction.inputs)
        if not has(instruction.node.op, Is.ADDING):
            return tensors
        pairs = zip(instruction.inputs, tensors, strict=True)
        return [apart([tensor])[0] if value.is_shared else tensor for value, tensor in pairs]

    def _set(self, instruction: Instruction, tensors: Sequence[tf.Tensor]) -> None:
        self._tensors.update(zip(instruction.writes, tensors, strict=True))

    def _run(self, instruction: Instruction) -> None:
        """Runs an instruction, by the method with the name of its class."""
        getattr(self, f"_run_{type(instruction).__name__.lower()}")(instruction)

    def _run_measure(self, measure: instructions.Measure) -> None:
        self._set(measure, [tf.size(self.get(measure.item))])

    def _run_select(self, select: instructions.Select) -> None:
        chosen = self.get(select.regions[0].selector)
        if isinstance(select.regions[0], Each):
            self._set(select, [row_ids(chosen)])
            return
        parent, count = select.regions[0].parent, len(select.regions)
        if parent not in self._rows:
            self._rows[parent] = tf.range(tf.size(chosen))
        if chosen.dtype == tf.bool:  # The first branch is that for true.
            chosen, step = tf.cast(chosen, tf.int32), -1
        else:
            chosen, step = branch_chosen(chosen, count), 1
        self._set(select, tf.dynamic_partition(self._rows[parent], chosen, count)[::step])

    def _run_settled(self, settled: instructions.Settled) -> None:
        every, none = tf.range(self.get(settled.tokens)), tf.zeros([0], tf.int32)
        self._set(
            settled,
            [every if region == settled.taken else none for region in settled.regions],
        )

    def _run_gather(self, instruction: instructions.Gather) -> None:
        value, region = instruction.inputs
        # tf.gather makes a constant for the axis.
        rows = tf.raw_ops.Gather(params=self.get(value), indices=self.get(region))
        self._set(instruction, [rows])

    def _run_stitch(self, stitch: instructions.Stitch) -> None:
        count = len(stitch.inputs) // 2
        values, regions = self.all(stitch.inputs[:count]), self.all(stitch.inputs[count:])
        if not all(value.shape[1:].is_fully_defined() for value in values):
            values = _with_rows_of_one_size(values)
        self._set(stitch, [tf.dynamic_stitch(regions, values)])

    def _run_broadcast(self, broadcast: instructions.Broadcast) -> None:
        value, count = self.all(broadcast.inputs)
        dims = tf.unstack(tf.shape(value)) if None in value.shape else value.shape
        self._set(broadcast, [tf.broadcast_to(value, tf.stack([count, *dims]))])

    def _run_zeros(self, instruction: instructions.Zeros) -> None:
        (count,), found = self.all(instruction.inputs), instruction.output.type
        self._set(instruction, [tf.zeros([count, *(found.shape or ())], found.dtype)])

    def _run_count(self, instruction: instructions.Count) -> None:
        dtype = instruction.output.type.dtype
        count = tf.cast(self.get(instruction.inputs[0]), dtype)
        static = instruction.output.node.inputs[0].type.shape or ()
        self._set(instruction, [tf.stack([count, *(tf.constant(dim, dtype) for dim in static)])])

    def _run_rowof(self, rows: instructions.RowOf) -> None:
        self._set(rows, [tf.cast(self.get(rows.inputs[0]), rows.output.type.dtype)])

    def _run_pass(self, instruction: instructions.Pass) -> None:
        value, *lengths = self.all(instruction.inputs)
        node = instruction.output.node
        if lengths and isinstance(node, Enter):
            message = node.other_rows
            checks = [tf.debugging.assert_equal(lengths[0], item, message) for item in lengths[1:]]
            with tf.control_dependencies(checks):
                value = tf.identity(value)
        self._set(instruction, [value])

    def _run_interleave(self, interleave: instructions.Interleave) -> None:
        tensors = self.all(interleave.inputs)
        self._set(interleave, [tf.reshape(tf.stack(tensors, 1), [-1, *tensors[0].shape[1:]])])

    def _run_separate(self, separate: instructions.Separate) -> None:
        tensor, count = self.get(separate.value), len(separate.outputs)
        shape = tensor.shape[1:]
        if shape.rank == 1:  # Columns of one row.
            rows = tf.reshape(tensor, [-1, shape[0] * count])
            pieces = tf.split(rows, count, axis=1)
        else:
            pieces = tf.unstack(tf.reshape(tensor, [-1, count, *shape]), axis=1)
        pairs = zip(separate.outputs, pieces, strict=True)
        self._set(separate, [piece for value, piece in pairs if value])

    def _run_divide(self, divide: instructions.Divide) -> None:
        tensor, count = self.get(divide.value), len(divide.outputs)
        ends = tf.range(count + 1) * tf.shape(tensor)[0] // count
        self._set(divide, tf.split(tensor, ends[1:] - ends[:-1], num=count))

    def _run_join(self, join: instructions.Join) -> None:
        self._set(join, [tf.concat(self.all(parts), 0) for parts in join.parts])

    def _run_reshape(self, instruction: instructions.Reshape) -> None:
        shape = instruction.output.type.tensor_shape()[1:]
        self._set(instruction, [tf.reshape(self.get(instruction.inputs[0]), [-1, *shape])])

    def _run_fire(self, instruction: instructions.Fire) -> None:
        tensors = fire(instruction.node, self._inputs(instruction), has_gradient=False)
        if op_named(instruction.node.op).ragged is Ragged.PADS:
            # In a branch that no token takes, there are no rows; the result gets one column, so
            # that later ops have something to read.
            tensors = list(map(without_rows, tensors))
        for tensor, value in zip(tensors, instruction.outputs, strict=True):
            tensor.set_shape(value.type.tensor_shape())
        self._set(instruction, tensors)

    def _run_observe(self, effect: instructions.Observe) -> None:
        node, inputs = effect.node, self.all(effect.node.inputs)
        if isinstance(node, Check):
            run = partial(_fail, node, inputs, self.graph.meaning_of_labels)
            is_due = ~tf.reduce_all(inputs[0])
        else:
            run = partial(show, node, inputs)
            is_due = tf.constant(True)
        done = tf.cond(is_due & (self.get(effect.tokens) > 0), run, lambda: False)
        self._checked.append(done.op)

    def _run_send(self, instruction: Send) -> None:
        self.sent[instruction] = self.all(instruction.values)

    def _run_return(self, instruction: instructions.Return) -> None:
        self.results = self.all(instruction.values)

    def _run_handon(self, instruction: Instruction) -> None:
        """The machine of queues reads this when the segment has run."""

    _run_wait = _run_handon

    def _run_reduce(self, instruction: Reduce) -> None:
        self.reduced.append(instruction)


def _with_rows_of_one_size(values: Sequence[tf.Tensor]) -> Tensors:
    """Returns the tensors; those without rows take unknown sizes from one that has rows.

    A tensor without rows may have been saved before the sizes of a row were known.
    """
    shapes = [tf.shape(value) for value in values]
    counts = tf.stack([shape[0] for shape in shapes])
    sizes = tf.stack([shape[1:] for shape in shapes])[tf.argmax(counts)]
    return [
        tf.reshape(value, tf.where(shape[0] > 0, shape, tf.concat([[0], sizes], 0)))
        for value, shape in zip(values, shapes, strict=True)
    ]


def _fail(node: Check, inputs: Sequence[tf.Tensor], meaning: str) -> tf.Tensor:
    """Fails, when it is computed, with the values that a CHECK shows for the first failing token.

    A CHECK with one condition for several tokens shows the values of all of them.

    Args:
        node: The CHECK.
        inputs: The tensors for its inputs, for all tokens of the wave, of which there is at least
            one.
        meaning: Explains the labels of a tag.
    """
    condition, root, tag, *data = inputs
    summarize = node.summarize or 3
    if node.inputs[0].type.kind is Kind.WAVE:  # One condition for all tokens of the wave.
        shown = [_shown(tensor, summarize) for tensor in data]
        some = tf.strings.format("{}", tf.unique(root)[0], summarize=summarize)
        place = [f"At {node.source}, for one or more of the root tokens", some]
    else:
        token = 0 if condition.shape.rank == 0 else tf.argmin(tf.cast(condition, tf.int32))
        shown = [
            _shown(tensor[token] if value.type.kind is Kind.TOKEN else tensor, summarize)
            for value, tensor in zip(node.inputs[3:], data, strict=True)
        ]
        place = [tf.strings.format(f"At {node.source}, for root token {{}}.", root[token])]
        if meaning:
            path = tf.strings.join(
                ["Its calls, newest first:", _labels(tag[token]), f"where {meaning}."], " "
            )
            is_root = tf.reduce_all(tag[token] == NO_LABEL)
            place.append(tf.where(is_root, "No call leads to it.", path))
    message = tf.strings.join([*shown, *place], " ")
    operation = tf.raw_ops.Assert(condition=False, data=[message], name=WITHOUT_FRAMES)
    with tf.control_dependencies([operation]):
        return tf.constant(True)


def _labels(tag: tf.Tensor) -> tf.Tensor:
    labels = tf.boolean_mask(tag, tag != NO_LABEL)
    text = tf.strings.reduce_join(tf.strings.as_string(labels[:NUM_LABELS]), separator=" ")
    return tf.where(tf.size(labels) > NUM_LABELS, tf.strings.join([text, " ..."]), text)


def _shown(tensor: tf.Tensor, summarize: int) -> tf.Tensor:
    if tensor.dtype == tf.string and tensor.shape.rank == 0:
        return tf.strings.strip(tensor)
    return tf.strings.format("{}", tensor, summarize=summarize)
