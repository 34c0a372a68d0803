"""Runs the instructions of a segment on one set of tokens: a wave, a block, or all of them.

SWITCH gathers the rows of the tokens that chose a branch. MERGE stitches the branches' rows
together in the order of the tokens. REPEAT gathers a token's row for each entry. Entries are in the
order of their tokens, so ENTER and LEAVE pass values on unchanged. Every other node runs its own
op, on more rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import tensorflow as tf

from kerasrec._src.emit.arrays import without_rows
from kerasrec._src.emit.barriers import apart
from kerasrec._src.emit.checks import fail
from kerasrec._src.emit.results import Tensors
from kerasrec._src.emit.sums import Sums
from kerasrec._src.graph.fire import branch_chosen, fire, show
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.nodes import Check, Collect, Enter
from kerasrec._src.graph.values import Each, Region, Value
from kerasrec._src.row_ids import row_ids
from kerasrec._src.schedule import instructions
from kerasrec._src.schedule.instructions import Instruction, Item, Reduce, Save, Send

# The op that pads ragged rows. In a branch that no token takes, there are no rows; its result then
# gets one column, so that later ops have something to read.
_PADDING = "RaggedTensorToTensor"
_SUMS = ("Add", "AddV2", "AddN")


@dataclass(eq=False)
class Registers:
    """The values that a segment has computed so far.

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
        self._checked: list[tf.Operation] = []

    def bring(self, one: Instruction) -> Tensors:
        """Returns a tensor for each item written by another segment or by the outside."""
        raise NotImplementedError(type(one).__name__)

    def keep(self, save: Save) -> None:
        """Keeps an item for other segments."""
        raise NotImplementedError

    def get(self, item: Item) -> tf.Tensor:
        """The tensor of an item."""
        if item not in self._tensors and isinstance(item, Value):
            if item.node.op != "Const":
                return self.shared[item]
            self._tensors[item] = fire(item.node, [])[0]
        return self._tensors[item]

    def has(self, item: Item) -> bool:
        """Whether an item has been written."""
        return item in self._tensors

    def all(self, items: Iterable[Item]) -> Tensors:
        """The tensors of several items."""
        return [self.get(item) for item in items]

    def run(self, ones: Iterable[Instruction]) -> None:
        """Runs instructions in order; they wait for the effects before them."""
        for one in ones:
            with tf.control_dependencies(self._checked):
                self._run(one)

    def reduce(self, sums: Sums) -> None:
        """Adds the values of COLLECT and ACCUMULATE nodes to the sums over all tokens."""
        for one in self.reduced:
            tensors = self.all(one.node.inputs)
            if isinstance(one.node, Collect):
                size = one.node.size
                sums.collect(one.node, tensors, None if size is None else self.get(size))
            else:
                sums.accumulate(one.node, *tensors)

    def _inputs(self, one: instructions.Fire) -> Tensors:
        """The inputs of an op; for a sum, SHARED ones pass through `apart` first."""
        tensors = self.all(one.inputs)
        if one.node.op not in _SUMS:
            return tensors
        pairs = zip(one.inputs, tensors, strict=True)
        return [apart([tensor])[0] if value.is_shared else tensor for value, tensor in pairs]

    def _set(self, one: Instruction, tensors: Sequence[tf.Tensor]) -> None:
        self._tensors.update(zip(one.writes, tensors, strict=True))

    def _run(self, one: Instruction) -> None:
        """Runs an instruction, by the method with the name of its class."""
        getattr(self, f"_run_{type(one).__name__.lower()}")(one)

    def _bring(self, one: Instruction) -> None:
        self._set(one, self.bring(one))

    _run_receive = _run_returned = _run_fetch = _run_frames = _run_load = _bring

    def _run_measure(self, one: instructions.Measure) -> None:
        if isinstance(one.item, Region):
            self._set(one, [tf.size(self.get(one.item))])
        else:
            self._bring(one)

    def _run_save(self, one: Save) -> None:
        self.keep(one)

    def _run_select(self, one: instructions.Select) -> None:
        chosen = self.get(one.regions[0].selector)
        if isinstance(one.regions[0], Each):
            self._set(one, [row_ids(chosen)])
            return
        count = len(one.regions)
        branch = branch_chosen(chosen, count)
        self._set(one, tf.dynamic_partition(tf.range(tf.size(branch)), branch, count))

    def _run_settled(self, one: instructions.Settled) -> None:
        every, none = tf.range(self.get(one.tokens)), tf.zeros([0], tf.int32)
        self._set(one, [every if region == one.taken else none for region in one.regions])

    def _run_gather(self, one: instructions.Gather) -> None:
        value, region = one.inputs
        self._set(one, [tf.gather(self.get(value), self.get(region))])

    def _run_stitch(self, one: instructions.Stitch) -> None:
        count = len(one.inputs) // 2
        values, regions = self.all(one.inputs[:count]), self.all(one.inputs[count:])
        if not all(value.shape[1:].is_fully_defined() for value in values):
            values = _with_rows_of_one_size(values)
        self._set(one, [tf.dynamic_stitch(regions, values)])

    def _run_broadcast(self, one: instructions.Broadcast) -> None:
        value, count = self.all(one.inputs)
        dims = tf.unstack(tf.shape(value)) if None in value.shape else value.shape
        self._set(one, [tf.broadcast_to(value, tf.stack([count, *dims]))])

    def _run_zeros(self, one: instructions.Zeros) -> None:
        (count,), found = self.all(one.inputs), one.output.type
        self._set(one, [tf.zeros([count, *(found.shape or ())], found.dtype)])

    def _run_count(self, one: instructions.Count) -> None:
        dtype = one.output.type.dtype
        count = tf.cast(self.get(one.inputs[0]), dtype)
        static = one.output.node.inputs[0].type.shape or ()
        self._set(one, [tf.stack([count, *(tf.constant(dim, dtype) for dim in static)])])

    def _run_rows(self, one: instructions.Rows) -> None:
        self._set(one, [tf.cast(self.get(one.inputs[0]), one.output.type.dtype)])

    def _run_pass(self, one: instructions.Pass) -> None:
        value, *lengths = self.all(one.inputs)
        node = one.output.node
        if lengths and isinstance(node, Enter):
            message = node.other_rows
            checks = [tf.debugging.assert_equal(lengths[0], item, message) for item in lengths[1:]]
            with tf.control_dependencies(checks):
                value = tf.identity(value)
        self._set(one, [value])

    def _run_interleave(self, one: instructions.Interleave) -> None:
        tensors = self.all(one.inputs)
        self._set(one, [tf.reshape(tf.stack(tensors, 1), [-1, *tensors[0].shape[1:]])])

    def _run_separate(self, one: instructions.Separate) -> None:
        tensor, count = self.get(one.value), len(one.outputs)
        shape = tensor.shape[1:]
        if shape.rank == 1:  # Columns of one row.
            rows = tf.reshape(tensor, [-1, shape[0] * count])
            pieces = tf.split(rows, count, axis=1)
        else:
            pieces = tf.unstack(tf.reshape(tensor, [-1, count, *shape]), axis=1)
        pairs = zip(one.outputs, pieces, strict=True)
        self._set(one, [piece for value, piece in pairs if value])

    def _run_divide(self, one: instructions.Divide) -> None:
        tensor, count = self.get(one.value), len(one.outputs)
        ends = tf.range(count + 1) * tf.shape(tensor)[0] // count
        self._set(one, tf.split(tensor, ends[1:] - ends[:-1], num=count))

    def _run_join(self, one: instructions.Join) -> None:
        self._set(one, [tf.concat(self.all(parts), 0) for parts in one.parts])

    def _run_reshape(self, one: instructions.Reshape) -> None:
        shape = one.output.type.tensor_shape()[1:]
        self._set(one, [tf.reshape(self.get(one.inputs[0]), [-1, *shape])])

    def _run_fire(self, one: instructions.Fire) -> None:
        tensors = fire(one.node, self._inputs(one), has_gradient=False)
        if one.node.op == _PADDING:
            tensors = list(map(without_rows, tensors))
        for tensor, value in zip(tensors, one.outputs, strict=True):
            tensor.set_shape(value.type.tensor_shape())
        self._set(one, tensors)

    def _run_effect(self, one: instructions.Effect) -> None:
        node, inputs = one.node, self.all(one.node.inputs)
        if isinstance(node, Check):
            run = partial(fail, node, inputs, self.graph.meaning_of_labels)
            is_due = ~tf.reduce_all(inputs[0])
        else:
            run = partial(show, node, inputs)
            is_due = tf.constant(True)
        done = tf.cond(is_due & (self.get(one.tokens) > 0), run, lambda: False)
        self._checked.append(done.op)

    def _run_send(self, one: Send) -> None:
        self.sent[one] = self.all(one.values)

    def _run_return(self, one: instructions.Return) -> None:
        self.results = self.all(one.values)

    def _run_handon(self, one: Instruction) -> None:
        """The machine of queues reads this when the segment has run."""

    _run_wait = _run_handon

    def _run_reduce(self, one: Reduce) -> None:
        self.reduced.append(one)


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
