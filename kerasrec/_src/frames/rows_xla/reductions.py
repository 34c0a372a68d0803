"""Among WAVE values, finds sums over tokens, and values that have a row for each token."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

import tensorflow as tf

from kerasrec._src.frames.rows_xla.entries import is_of_entries
from kerasrec._src.graph.elementwise import ELEMENTWISE
from kerasrec._src.graph.graph import Body
from kerasrec._src.graph.nodes import Accumulate, Computed, Primitive
from kerasrec._src.graph.types import Kind
from kerasrec._src.graph.values import Node, Value
from kerasrec._src.trace.row_reductions import SEGMENT_OPS

# Stands for the number of tokens; no other size of a program has this value.
_TOKENS = 1_000_003
_SHAPES = frozenset({"Shape", "Size"})
_IN_ROWS = ELEMENTWISE | {"BiasAdd", "GatherV2", "Reshape"}


def is_reduction(node: Node) -> bool:
    """Whether an op sums over the tokens, so that rows of zeros change nothing."""
    if node.types[0].kind is not Kind.WAVE or not isinstance(node, Primitive):
        return False
    if node.op == "BiasAddGrad":
        return True
    if node.op == "ScatterNd":  # Into a table of a size that has nothing to do with the tokens.
        return node.inputs[2].is_shared
    if node.op == "MatMul":
        get = node.operation.get_attr
        return bool(get("transpose_a")) and not get("transpose_b")
    if node.op == "Einsum":
        label = _label_of_rows(node)
        return label is not None and label not in _equation(node)[1]
    return node.op == "Sum" and 0 in (axes_of(node) or ())


def axes_of(node: Node) -> list[int] | None:
    """Returns the axes that an op sums over; None if they are not known.

    The gradient of an op that broadcasts computes them at run time: the axes where shapes differ.
    """
    axes = node.inputs[1]
    if isinstance(axes.node, Primitive) and axes.node.op == "BroadcastGradientArgs":
        shapes = [_shape(value.node) for value in axes.node.inputs]
        if None in shapes:
            return None
        with tf.init_scope():
            found = tf.raw_ops.BroadcastGradientArgs(s0=shapes[0], s1=shapes[1])[axes.index]
            return list(found.numpy())
    if isinstance(node, Primitive):
        static = tf.get_static_value(node.operation.inputs[1])
        return None if static is None else list(static.reshape(-1))
    return None


def _shape(node: Node) -> list[int] | None:
    """The shape that a node gives, with `_TOKENS` for the number of tokens; None if not known."""
    if not isinstance(node, Primitive):
        return None
    if node.op == "Const":
        return list(tf.get_static_value(node.operation.outputs[0]))
    if node.op == "StridedSlice":
        return _part_of_shape(node)
    kind = node.inputs[0].type if node.op == "Shape" else None
    if kind is not None and is_of_entries(node.inputs[0]):
        rest = (kind.shape or ())[1:]
        return None if None in rest else [_TOKENS, *(dim or 0 for dim in rest)]
    if kind is None or not kind.is_static or kind.kind is Kind.WAVE:
        return None
    lead = [_TOKENS] if kind.kind is Kind.TOKEN else []
    return [*lead, *(dim or 0 for dim in kind.shape or ())]


def _part_of_shape(node: Primitive) -> list[int] | None:
    """The part of a shape that an op cuts out."""
    whole = _shape(node.inputs[0].node)
    ends = [tf.get_static_value(tensor) for tensor in node.operation.inputs[1:]]
    if whole is None or any(end is None for end in ends):
        return None
    masks = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    attributes = {name: node.operation.get_attr(name) for name in masks}
    begin, end, strides = ends
    with tf.init_scope():
        found = tf.raw_ops.StridedSlice(
            input=whole, begin=begin, end=end, strides=strides, **attributes
        )
        return None if found.shape.rank != 1 else list(found.numpy())


def _is_product_of_rows(node: Node) -> bool:
    """Whether an op multiplies matrices of a row by matrices of the same row, or by shared ones."""
    if node.op != "BatchMatMulV2":
        return False
    ranks = [value.type.tensor_shape().rank for value in node.inputs]
    if None in ranks or max(ranks) < 3:
        return False
    # With a lower rank, shared matrices are not repeated along the rows.
    pairs = zip(node.inputs, ranks, strict=True)
    return all((rank < max(ranks)) == value.is_shared for value, rank in pairs)


def _is_einsum_of_rows(node: Node) -> bool:
    """Whether an einsum gives a row for each row that it reads."""
    if node.op != "Einsum":
        return False
    label, (_, output) = _label_of_rows(node), _equation(node)
    return label is not None and output.find(label) == 0


def _label_of_rows(node: Node) -> str | None:
    """The label of the rows in an einsum; None if it is not certain.

    It is the first of each input that is not shared, and occurs nowhere else in the inputs. If it
    is in the output, it is the first there, too.
    """
    inputs, output = _equation(node)
    pairs = list(zip(node.inputs, inputs, strict=True))
    firsts = {labels[:1] for value, labels in pairs if not value.is_shared}
    if len(firsts) != 1:
        return None
    (label,) = firsts
    if not label.isalpha():  # Without labels, or an ellipsis.
        return None
    for value, labels in pairs:
        is_in_place = label not in labels if value.is_shared else labels.rfind(label) == 0
        if not is_in_place:
            return None
    return None if output.rfind(label) > 0 else label


def _equation(node: Node) -> tuple[list[str], str]:
    """The labels of the inputs and of the output of an einsum."""
    assert isinstance(node, Primitive)
    inputs, output = node.operation.get_attr("equation").decode().split("->")
    return inputs.split(","), output


def rows_of_token(value: Value) -> int:
    """The number of a value's rows for each token; more than one if rows were cut into pieces."""
    if value.type.kind is Kind.TOKEN or value.node.op != "Reshape":
        return 1
    if is_of_entries(value.node.inputs[0]):
        return 1
    before, mine = value.node.inputs[0].type.shape or (), value.type.shape or ()
    return _num_elements(before) // max(1, _num_elements(mine[1:]))


def _row_size(value: Value) -> int:
    """The number of elements in a row of a value."""
    shape = value.type.shape or ()
    return _num_elements(shape if value.type.kind is Kind.TOKEN else shape[1:])


def _num_elements(shape: Sequence[int | None]) -> int:
    return math.prod(dim or 0 for dim in shape)


def unknown_sums(body: Body, left_out: Collection[Node]) -> Iterator[Node]:
    """Yields the nodes that mix, or may mix, the tokens of a wave other than by a sum.

    Args:
        body: The body whose nodes are examined, in order.
        left_out: The nodes that are not checked.
    """
    in_rows: dict[Value, int] = {}  # How many rows of the value a token has.
    for node in body.nodes:
        if node.op in SEGMENT_OPS:
            in_rows.update(dict.fromkeys(node.outputs, 1))
        if node in left_out:
            continue
        read = [value for value in node.inputs if value.type.kind is Kind.TOKEN or value in in_rows]
        rows = max((in_rows.get(value, 1) for value in read), default=1)
        if isinstance(node, Accumulate):
            if len(node.inputs) == 1 and read:
                yield node
        elif read and isinstance(node, Computed) and node.types[0].kind is Kind.WAVE:
            if keeps_rows(node):
                if node.op == "Reshape" and not is_of_entries(node.inputs[0]):
                    rows = rows * _row_size(node.inputs[0]) // max(1, _row_size(node.output()))
                in_rows.update(dict.fromkeys(node.outputs, rows))
            elif not ((is_reduction(node) and rows == 1) or node.op in _SHAPES):
                yield node


def keeps_rows(node: Node) -> bool:
    """Whether an op has a row of output for each row that it reads."""
    if node.op == "Sum":
        axes = axes_of(node)
        return axes is not None and 0 not in axes
    if node.op == "ExpandDims" and isinstance(node, Primitive):
        axis = tf.get_static_value(node.operation.inputs[1])
        rank = node.operation.outputs[0].shape.rank
        return axis is not None and rank is not None and int(axis) % rank != 0
    if node.op == "OneHot" and isinstance(node, Primitive):
        return bool(node.operation.get_attr("axis"))
    return node.op in _IN_ROWS or _is_product_of_rows(node) or _is_einsum_of_rows(node)
