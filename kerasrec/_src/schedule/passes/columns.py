"""Passes on products with weights, and on rows that are cut into columns or joined of columns."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kerasrec._src.graph.nodes import Primitive, constant_of
from kerasrec._src.graph.types import Kind
from kerasrec._src.graph.values import Value
from kerasrec._src.ops.table import Is, has
from kerasrec._src.ops.views import transposes
from kerasrec._src.schedule.edit import Edits, edited, fires, prepared, readers_of
from kerasrec._src.schedule.instructions import Fire, Interleave, Item, Reshape, Separate
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Loop

# The most elements of a weight that is cut. Copying a larger weight takes more time than is gained,
# and its products are large enough for several threads.
MOST_CUT = 1 << 19


def transpose_once(schedule: Schedule) -> Schedule:
    """Transposes a weight before a loop that multiplies by its transpose.

    With few rows, a product takes longer if it has to transpose the weight.
    """
    edits: Edits = {}
    ready: list[Fire] = []
    for section, _, fire in schedule.of(Fire):
        if isinstance(section, Loop) and is_transposing(fire):
            value, weight = fire.inputs
            before, transposed = prepared(_transposed, [weight])
            ready += before
            edits[fire] = fires(_product, [value, *transposed], fire.outputs)
    return edited(schedule, transpose_once, edits, ready)


def _transposed(weight: tf.Tensor) -> list[tf.Tensor]:
    return [tf.transpose(weight)]


def _product(value: tf.Tensor, weight: tf.Tensor) -> list[tf.Tensor]:
    return [tf.matmul(value, weight)]


def split_matmul(schedule: Schedule) -> Schedule:
    """Computes a product that is cut into columns in parts, from a weight that is cut once.

    Threads of a CPU then work on parts of a wave, which is too narrow for several threads as a
    whole; no columns are copied, and TensorFlow fuses a product, its bias and its activation into
    one op. In the backward pass, what would read the joined cotangents of the columns reads them
    one by one. Weights of more than `MOST_CUT` elements stay whole.
    """
    return _Splitter(schedule).split()


class _Splitter:
    def __init__(self, schedule: Schedule):
        self.schedule = schedule
        self.readers = readers_of(schedule)
        self.makers: dict[Item, Fire] = {
            value: fire for _, _, fire in schedule.of(Fire) for value in fire.outputs
        }
        self.edits: Edits = {}
        self.prepared: list[Fire] = []

    def split(self) -> Schedule:
        """The schedule with every such product in parts."""
        for _, segment, cut in self.schedule.of(Fire):
            chain = self._product_cut_by(cut)
            if chain and not {cut, *chain}.difference(segment.placed):
                self._make_in_parts(chain)
                self._gradients_in_parts(chain[0].inputs[1], _widths(chain[-1].outputs))
        return edited(self.schedule, split_matmul, self.edits, self.prepared)

    def _product_cut_by(self, cut: Fire) -> list[Fire]:
        """A MatMul, the addition of a bias, and the ops that cut the result, read by no other op.

        Empty where there is none, or where the user sets the device of one of them.
        """
        if not has(cut.node.op, Is.SPLITTING):
            return []
        chain = [cut]
        last = self.makers.get(cut.whole)
        bias: list[Value] = []
        if last and _adds_two(last) and last.inputs[1].is_shared:
            chain.insert(0, last)
            bias = [last.inputs[1]]
            last = self.makers.get(last.inputs[0])
        if last is None:
            return []
        chain.insert(0, last)
        is_plain = (
            _is_product(last, transpose_b=False)
            and _num_elements(last.inputs[1]) <= MOST_CUT
            and _are_rows(cut.outputs)
            and all(value.type.shape == last.outputs[0].type.shape for value in bias)
        )
        is_read_once = all(
            self.readers[fire.outputs[0]] == [follower]
            for fire, follower in itertools.pairwise(chain)
        )
        has_device = any(fire.node.device for fire in chain)
        return chain if is_plain and is_read_once and not has_device else []

    def _make_in_parts(self, chain: Sequence[Fire]) -> None:
        product, *addition, cut = chain
        sizes = _widths(cut.outputs)
        bias = [fire.inputs[1] for fire in addition]

        def prepare(*tensors: tf.Tensor) -> list[tf.Tensor]:
            return [part for tensor in tensors for part in tf.split(tensor, sizes, -1)]

        def fire(value: tf.Tensor, *parts: tf.Tensor) -> list[tf.Tensor]:
            weights, biases = parts[: len(sizes)], parts[len(sizes) :]
            products = [tf.matmul(value, part) for part in weights]
            return list(map(tf.nn.bias_add, products, biases)) if biases else products

        parts = self._prepare(prepare, [product.inputs[1], *bias])
        self._edit(cut, fire, [product.inputs[0], *parts])

    def _gradients_in_parts(self, weight: Value, sizes: Sequence[int]) -> None:
        """Ops that read the joined cotangent of a product now read its columns."""
        for back in self.readers[weight]:
            if not isinstance(back, Fire) or not is_transposing(back):
                continue
            cotangent = back.inputs[0]
            columns = _joined_columns(self.makers.get(cotangent))
            if _widths(columns) != sizes:
                continue
            parts = self._prepare(lambda tensor: tf.split(tf.transpose(tensor), sizes, 0), [weight])
            count = len(columns)
            self._edit(
                back,
                lambda *of, count=count: [tf.add_n(list(map(tf.matmul, of[:count], of[count:])))],
                [*columns, *parts],
            )
            for reader in self.readers[cotangent]:
                if isinstance(reader, Fire) and _is_gradient_of_weight(reader, cotangent):
                    self._edit(reader, _products, [reader.inputs[0], *columns])
                elif isinstance(reader, Fire) and _is_gradient_of_bias(reader):
                    self._edit(reader, _sums, columns)

    def _prepare(self, function: Callable[..., Any], inputs: Sequence[Value]) -> list[Value]:
        made, values = prepared(function, inputs)
        self.prepared += made
        return values

    def _edit(self, old: Fire, function: Callable[..., Any], inputs: Sequence[Value]) -> None:
        self.edits[old] = fires(function, inputs, old.outputs)


def is_transposing(fire: Fire) -> bool:
    """Whether an op multiplies by the transpose of a weight, on whatever device."""
    return _is_product(fire, transpose_b=True) and not fire.node.device


def _is_product(fire: Fire, transpose_b: bool) -> bool:
    """Whether an op multiplies a value of each token by a shared weight."""
    if _transposes(fire) != (False, transpose_b):
        return False
    value, weight = fire.inputs
    return weight.is_shared and not value.is_shared and fire.outputs[0].type.is_static


def _transposes(fire: Fire) -> tuple[bool, bool] | None:
    """Whether a MatMul transposes its factors; None for other ops."""
    return transposes(fire.node.operation) if isinstance(fire.node, Primitive) else None


def _adds_two(fire: Fire) -> bool:
    is_sum = has(fire.node.op, Is.ADDING | Is.ADDING_BIAS)
    return is_sum and len(fire.inputs) == 2


def _num_elements(weight: Value) -> float:
    dims = weight.type.shape or ()
    return math.inf if None in dims else math.prod(dim or 0 for dim in dims)


def _are_rows(values: Sequence[Value]) -> bool:
    """Whether each token has a row of numbers of all these values."""
    return all(len(value.type.shape or ()) == 1 for value in values)


def _is_gradient_of_weight(fire: Fire, cotangent: Value) -> bool:
    """Whether an op multiplies the input of a product by the cotangent of its output."""
    is_plain = _transposes(fire) == (True, False) and _are_rows(fire.inputs)
    return is_plain and fire.inputs[1] == cotangent


def _is_gradient_of_bias(fire: Fire) -> bool:
    """Whether an op sums over all tokens, and leaves one row."""
    if not isinstance(fire.node, Primitive) or not has(fire.node.op, Is.SUMMING):
        return False
    axes = constant_of(fire.inputs[1])
    keeps_dims = fire.node.operation.get_attr("keep_dims")
    return keeps_dims and axes is not None and axes.tolist() == [0]


def _joined_columns(fire: Fire | None) -> Sequence[Value]:
    """The columns that an op joins for each token; empty if it does something else."""
    columns = fire.inputs[:-1] if fire and has(fire.node.op, Is.JOINING) else ()
    is_shared = any(value.is_shared for value in columns)
    return columns if _are_rows(columns) and not is_shared else ()


def _products(value: tf.Tensor, *columns: tf.Tensor) -> list[tf.Tensor]:
    return [tf.concat([tf.matmul(value, column, transpose_a=True) for column in columns], 1)]


def _sums(*columns: tf.Tensor) -> list[tf.Tensor]:
    return [tf.concat([tf.reduce_sum(column, 0, keepdims=True) for column in columns], 1)]


def side_by_side(schedule: Schedule) -> Schedule:
    """Joins results of calls, and cuts their arguments, without a copy.

    The rows of call sites that call for the same tokens are in turns. Thus the results of a token's
    calls are one row in memory already, and so are their arguments if they were cut from one row.
    """
    cuts: dict[Item, Fire] = {}
    joints = {separate.outputs: separate for _, _, separate in schedule.of(Separate)}
    edits: Edits = {}
    for _, _, fire in schedule.of(Fire):
        cuts.update(dict.fromkeys(fire.outputs, fire))
        columns = fire.inputs[:-1]
        joint = joints.get(columns) if has(fire.node.op, Is.JOINING) else None
        if joint and all(len(value.type.shape or ()) == 1 for value in columns):
            output = fire.outputs[0]
            edits[fire] = [Reshape(output, (joint.value,), at_use=fire.at_use)]
    for _, _, interleave in schedule.of(Interleave):
        cut = cuts.get(interleave.inputs[0])
        if cut and _cuts_into(cut, interleave.inputs):
            edits[interleave] = [Reshape(interleave.output, (cut.whole,), at_use=True)]
    return edited(schedule, side_by_side, edits)


def _cuts_into(fire: Fire, items: Sequence[Item]) -> bool:
    """Whether an op cuts the row of a token into these values, from left to right, all alike."""
    if not has(fire.node.op, Is.CUTTING) or items != fire.outputs:
        return False
    (piece, *others) = {value.type for value in fire.outputs}
    whole = fire.whole.type
    if others or not piece.is_static or piece.kind is not Kind.TOKEN:
        return False
    if has(fire.node.op, Is.UNPACKING):
        return whole.shape == (len(items), *(piece.shape or ()))
    return len(piece.shape or ()) == 1


def _widths(columns: Sequence[Value]) -> list[int]:
    """How many numbers each column has for a token."""
    return [(value.type.shape or (0,))[-1] or 0 for value in columns]
