"""Reads the effects of ops on axes from attributes and from inputs known while tracing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

# How NumPy computes the ops that orders of axes come from.
_STATIC_OPS: dict[str, Callable[..., np.ndarray]] = {
    "Sub": np.subtract,
    "AddV2": np.add,
    "Range": np.arange,
    "ConcatV2": lambda *parts: np.concatenate(parts[:-1]),
    "Pack": lambda *parts: np.stack(parts),
}


def static_value(tensor: tf.Tensor) -> np.ndarray | None:
    """Returns the value of a tensor that is known while tracing; None if it is not.

    This includes the orders of axes that TensorFlow computes, for instance in `tf.nn.softmax`.
    """
    found = tf.get_static_value(tensor)
    operation = tensor.op
    if found is not None or operation.type not in _STATIC_OPS:
        return found
    inputs = [static_value(source) for source in operation.inputs]
    return None if any(item is None for item in inputs) else _STATIC_OPS[operation.type](*inputs)


def has_open_rows(tensor: tf.Tensor) -> bool:
    """Whether the size of the first axis is unknown while tracing, as that of tokens is."""
    shape = tensor.shape
    return shape.rank is None or (shape.rank >= 1 and shape[0] is None)


@dataclass(frozen=True)
class Cut:
    """The effect of a slice such as `x[:, 0, None, 1:]` on one axis.

    Args:
        axis: The axis of the input; None if the slice adds the axis.
        place: The axis of the output; None if the slice drops the axis.
        taken: The part of the axis that it takes, if known: a slice, or the number of an entry if
            it drops the axis. A slice that begins with the first entry has no begin.
    """

    axis: int | None
    place: int | None
    taken: slice | int | None

    @property
    def is_whole(self) -> bool:
        """Whether it leaves the axis as it is."""
        return self.taken == slice(None, None, 1)


def cuts_of(operation: tf.Operation) -> list[Cut] | None:
    """Returns the effect of a StridedSlice on each axis that it names; None if unknown.

    If the rank of the input is not known, of the axes that `...` stands for only the first counts.
    """
    given = [tf.get_static_value(tensor) for tensor in operation.inputs[1:]]
    count, rank = operation.inputs[1].shape[0], operation.inputs[0].shape.rank
    if count is None or given[2] is None:
        return None
    names = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    begins, ends, ellipses, new, drops = (operation.get_attr(f"{name}_mask") for name in names)
    cuts, axis, place = [], 0, 0
    for entry in range(count):
        bit = 1 << entry
        if new & bit:
            cuts.append(Cut(None, place, None))
            place += 1
        elif ellipses & bit:
            others = sum(not new >> later & 1 for later in range(entry + 1, count))
            width = 1 if rank is None else rank - axis - others
            cuts += [Cut(axis + step, place + step, slice(None, None, 1)) for step in range(width)]
            axis, place = axis + width, place + width
            if rank is None:
                return cuts
        else:
            begin, end = (None if values is None else int(values[entry]) for values in given[:2])
            stride = int(given[2][entry])
            if drops & bit:
                cuts.append(Cut(axis, None, begin))
            else:
                is_open = bool(begins & bit) or (begin == 0 and stride > 0)
                is_known = (is_open or begin is not None) and (ends & bit or end is not None)
                taken = slice(None if is_open else begin, None if ends & bit else end, stride)
                cuts.append(Cut(axis, place, taken if is_known else None))
                place += 1
            axis += 1
    return cuts


def place_after(operation: tf.Operation, axis: int) -> int | None:
    """Returns the place of an axis after a StridedSlice; None if it does not leave it whole."""
    cuts = cuts_of(operation)
    if cuts is None:
        return None
    for cut in cuts:
        if cut.axis == axis:
            return cut.place if cut.is_whole else None
    return axis + sum((cut.axis is None) - (cut.place is None) for cut in cuts)


def cut_of_rows(operation: tf.Operation) -> slice | int | None:
    """Returns the part of the first axis that a StridedSlice takes, if it has no other effect."""
    cuts = cuts_of(operation) or ()
    return cuts[0].taken if len(cuts) == 1 and cuts[0].axis == 0 else None


def gathers_rows(operation: tf.Operation) -> bool:
    """Whether a GatherV2 takes rows, the entries of the first axis, of all that it reads."""
    is_of_rows = tf.get_static_value(operation.inputs[2]) == 0
    return is_of_rows and not operation.get_attr("batch_dims")


def transposes(operation: tf.Operation) -> tuple[bool, bool] | None:
    """Returns whether a MatMul transposes each of its factors; None for any other op."""
    if operation.type != "MatMul":
        return None
    return operation.get_attr("transpose_a"), operation.get_attr("transpose_b")


def place_of_cut(name: str) -> int:
    """Returns the input that an op cuts, if it cuts a tensor into pieces."""
    return 1 if name == "Split" else 0


def labels_of(operation: tf.Operation) -> tuple[list[str], str]:
    """Returns the labels of the inputs and of the output of an einsum."""
    inputs, output = operation.get_attr("equation").decode().split("->")
    return inputs.split(","), output


def compared_as_equal(condition: tf.Tensor) -> Sequence[tf.Tensor] | None:
    """Returns the two tensors that a condition compares as equal; None for other conditions."""
    operation = condition.op.inputs[0].op if condition.op.type == "All" else condition.op
    return operation.inputs if operation.type == "Equal" else None


def is_log_of_sum(operation: tf.Operation) -> bool:
    """Whether an op is the logarithm within `tf.reduce_logsumexp` of ragged rows."""
    if operation.type != "Log":
        return False
    total = _source(operation.inputs[0], "ExpandDims").op
    if total.type != "UnsortedSegmentSum":
        return False
    powers = _source(total.inputs[0]).op
    difference = _source(powers.inputs[0]).op if powers.type == "Exp" else powers
    if difference.type != "Sub":
        return False
    return _source(difference.inputs[1], "GatherV2", "Reshape").op.type == "StopGradient"


def _source(tensor: tf.Tensor, *kinds: str) -> tf.Tensor:
    """Returns the tensor that `Identity` and ops of some kinds passed on to give this one."""
    while tensor.op.type in ("Identity", *kinds):
        tensor = tensor.op.inputs[0]
    return tensor
