"""Rules for where an axis of an op's inputs is in its outputs, such as the axis of tokens.

Tokens are independent of each other. A rule tells whether an op leaves the axis of tokens whole,
wherever it is, adds up along it, or mixes tokens in another way. `table.py` has each op's rule.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from kerasrec._src.ops.shapes import named_axes
from kerasrec._src.ops.views import (
    has_open_rows,
    labels_of,
    place_after,
    place_of_cut,
    static_value,
    transposes,
)


class Lost(enum.Enum):
    """Why an op leaves no axis of tokens: it adds up along the axis, or mixes tokens."""

    SUMMED = "summed"
    MIXED = "mixed"


# The place of the axis of tokens in a tensor. None in inputs that have none; and in outputs if it
# is the first axis, if there is none, or if that is not known.
Place = int | Lost | None
Axes = Sequence[int | None]
Rule = Callable[[tf.Operation, Axes], Place]
SUMMED, MIXED = Lost


def of_one_input(rule: Callable[[tf.Operation, int, int], Place]) -> Rule:
    """Makes a rule of one that takes the place of the axis in the first input, and the rank."""

    def rule_of_all(operation: tf.Operation, axes: Axes) -> Place:
        axis, rank = axes[0], operation.inputs[0].shape.rank
        if axis is None or rank is None:
            return _unless_moved(axes)
        return rule(operation, axis, rank)

    return rule_of_all


def each(operation: tf.Operation, axes: Axes) -> Place:
    """Elementwise: inputs are aligned at their last axes.

    Axes of tokens that are not aligned make an outer product, for instance those of `[tokens]` and
    `[tokens, n]`. At run time that is an error, unless there is one token or as many as `n`.
    """
    rank = operation.outputs[0].shape.rank
    ranks = [source.shape.rank for source in operation.inputs]
    if rank is None or None in ranks:
        return None
    places = {axis - rank for axis, rank in zip(axes, ranks, strict=True) if axis is not None}
    return places.pop() + rank if len(places) == 1 else MIXED


def chosen_rows(operation: tf.Operation, axes: Axes) -> Place:
    """Chooses from tensors by a condition of their shape, or by one with an entry for each row."""
    places = {axis for axis in axes if axis is not None}
    return places.pop() if len(places) == 1 else MIXED


def sizes(operation: tf.Operation, axes: Axes) -> Place:
    """Reads only the shapes of its inputs."""
    return None


def counts(operation: tf.Operation, axes: Axes) -> Place:
    """The size of the output depends on values, so that it has no axis of tokens."""
    return MIXED


def along_first(operation: tf.Operation, axes: Axes) -> Place:
    """Adds up rows, or changes their order."""
    return None if axes[0] is None and not any(axes) else MIXED


def last(count: int, is_choice: bool = False) -> Rule:
    """Works along the last axes of each input.

    Args:
        count: How many axes.
        is_choice: Whether it takes the largest entries, which are the same however long padding is.
    """

    def is_along(axis: int | None, rank: int | None) -> bool:
        return bool(axis) if axis is None or rank is None else axis >= rank - count

    def rule(operation: tf.Operation, axes: Axes) -> Place:
        ranks = [source.shape.rank for source in operation.inputs]
        if any(map(is_along, axes, ranks)):
            return MIXED
        is_open = bool(ranks[0]) and operation.inputs[0].shape[-1] is None
        if axes[0] == 0 and count == 1 and is_open and not is_choice:
            return MIXED  # Rows that are padded to the longest of all tokens.
        is_one = len({axis for axis in axes if axis is not None}) == 1
        return axes[0] if is_one and axes[0] is not None else _unless_moved(axes)

    return rule


def along(operation: tf.Operation, axes: Axes) -> Place:
    """Works along the axes that the last input names, and keeps all axes."""
    named = _axes(operation.inputs[-1], operation.inputs[0].shape.rank)
    axis = axes[0]
    if axis is None:
        return _unless_moved(axes)
    return MIXED if named is None or axis in named else axis


def reduces(lost: Lost) -> Rule:
    """Reduces the axes that the second input names."""

    def rule(operation: tf.Operation, axes: Axes) -> Place:
        axis, rank = axes[0], operation.inputs[0].shape.rank
        if axis is None:
            return _unless_moved(axes)
        reduced = _axes(operation.inputs[1], rank)
        if reduced is None:
            return None if axis == 0 and has_open_rows(operation.outputs[0]) else MIXED
        if axis in reduced:
            return lost
        keeps = operation.outputs[0].shape.rank == rank
        return axis if keeps else axis - sum(place < axis for place in reduced)

    return rule


sums, averages = reduces(SUMMED), reduces(MIXED)


def product(operation: tf.Operation, axes: Axes) -> Place:
    """A product of matrices, or of batches of these."""
    is_turned = transposes(operation) or [operation.get_attr(f"adj_{side}") for side in "xy"]
    ranks = [source.shape.rank for source in operation.inputs]
    out_rank = operation.outputs[0].shape.rank
    if None in (*ranks, out_rank):
        return None
    places: list[int | None] = []  # None for an axis along which the product sums.
    for side, (axis, rank, turned) in enumerate(zip(axes, ranks, is_turned, strict=True)):
        if axis is None:
            continue
        place = axis - rank  # -2 and -1 are the axes of the matrix.
        if place >= -2:
            is_summed = ((place == -2) != turned) == (side == 1)
            place = None if is_summed else -2 if side == 0 else -1
        places.append(place)
    if None in places:
        return SUMMED if places == [None, None] else MIXED
    return MIXED if len(set(places)) > 1 else places[0] + out_rank


def einsum(operation: tf.Operation, axes: Axes) -> Place:
    """Keeps the label of the axis of tokens, or sums over it."""
    given, result = labels_of(operation)
    labels = set()
    for part, axis, source in zip(given, axes, operation.inputs, strict=True):
        if axis is None:
            continue
        before, dots, after = part.partition("...")
        num_before = len(before)
        if dots and axis >= num_before:
            place = axis - source.shape.rank
            if -place > len(after):
                labels.add(f"...{place + len(after)}")
                continue
            labels.add(after[place])
        else:
            labels.add(before[axis])
    if len(labels) > 1:
        return MIXED
    label = labels.pop()
    before, _, after = result.partition("...")
    if label.startswith("..."):
        rank = operation.outputs[0].shape.rank
        return None if rank is None else rank - len(after) + int(label[3:])
    if label in before:
        return before.index(label)
    if label not in after:
        is_of_tokens = [axis is not None for axis in axes]
        has_label = [label in part for part in given]
        return SUMMED if is_of_tokens == has_label else MIXED
    rank = operation.outputs[0].shape.rank
    return None if rank is None else rank - len(after) + after.index(label)


def bias_added(operation: tf.Operation, axes: Axes) -> Place:
    """Adds a vector along the axis of channels."""
    axis, rank = axes[0], operation.inputs[0].shape.rank
    if axes[1] is not None or (axis and rank is None):
        return MIXED
    is_last = operation.get_attr("data_format") == b"NHWC"
    channel = (rank or 0) - 1 if is_last else 1
    return MIXED if axis == channel and axis else axis


def bias_gradient(operation: tf.Operation, axes: Axes) -> Place:
    """Sums over all axes but that of the channels."""
    return SUMMED if axes[0] == 0 else MIXED


@of_one_input
def transposed(operation: tf.Operation, axis: int, rank: int) -> Place:
    """Puts the axes in another order."""
    order = static_value(operation.inputs[1])
    if order is None:
        return MIXED if axis else None
    return [int(place) % rank for place in order].index(axis)


@of_one_input
def expanded(operation: tf.Operation, axis: int, rank: int) -> Place:
    """Adds an axis at a place that the second input names."""
    place = static_value(operation.inputs[1])
    if place is None:
        return MIXED if axis else None
    return axis + (int(place) % (rank + 1) <= axis)


@of_one_input
def squeezed(operation: tf.Operation, axis: int, rank: int) -> Place:
    """Drops axes of size 1."""
    shape = operation.inputs[0].shape
    dims = operation.get_attr("squeeze_dims") or [dim for dim in range(rank) if shape[dim] == 1]
    return axis - sum(int(dim) % rank < axis for dim in dims)


def reshaped(operation: tf.Operation, axes: Axes) -> Place:
    """Mixes the axis with others if the number of values before or after it changes."""
    axis = axes[0]
    if axis is None:
        return _unless_moved(axes)
    before, after = (item.shape for item in (operation.inputs[0], operation.outputs[0]))
    if axis == 0 and after.rank and after[0] is None:
        return 0
    if after.rank is None:
        return None if axis == 0 else MIXED
    if before.rank is None:
        return MIXED
    places = [place for place, size in enumerate(after) if size is None]
    if len(places) != 1:
        return MIXED
    (place,) = places
    wanted = before[:axis].num_elements(), before[axis + 1 :].num_elements()
    found = after[:place].num_elements(), after[place + 1 :].num_elements()
    return place if None not in wanted and found == wanted else MIXED


def broadcast(operation: tf.Operation, axes: Axes) -> Place:
    """Repeats a tensor along new axes before its own, or along axes of size 1."""
    return _unless_moved(axes)


def stacked(operation: tf.Operation, axes: Axes) -> Place:
    """Stacks tensors along a new axis."""
    rank = operation.outputs[0].shape.rank
    places = {axis for axis in axes if axis is not None}
    if rank is None or len(places) > 1:
        return MIXED if any(places) else None
    (place,) = places
    return place + (operation.get_attr("axis") % rank <= place)


@of_one_input
def unstacked(operation: tf.Operation, axis: int, rank: int) -> Place:
    """Cuts a tensor into the entries of an axis."""
    place = operation.get_attr("axis") % rank
    return MIXED if place == axis else axis - (place < axis)


def joined(operation: tf.Operation, axes: Axes) -> Place:
    """Joins tensors along the axis that the last input names."""
    places = {axis for axis in axes[:-1] if axis is not None}
    along, rank = tf.get_static_value(operation.inputs[-1]), operation.inputs[0].shape.rank
    if along is None or not places:
        return _unless_moved(axes)
    return MIXED if int(along) % (rank or 1) in places or len(places) > 1 else places.pop()


def divided(operation: tf.Operation, axes: Axes) -> Place:
    """Cuts a tensor into pieces of an axis that an input names: Split and SplitV."""
    value = place_of_cut(operation.type)
    along = 2 - 2 * value  # Split takes the axis first, SplitV last.
    axis = axes[value]
    cut = _axes(operation.inputs[along], operation.inputs[value].shape.rank)
    if axis is None or cut is None:
        return _unless_moved(axes)
    return MIXED if axis in cut else axis


def sliced(operation: tf.Operation, axes: Axes) -> Place:
    """A StridedSlice, which must leave the axis whole, as `x[:, 0, None]` does."""
    if axes[0] is None:
        return _unless_moved(axes)
    place = place_after(operation, axes[0])
    return MIXED if place is None else place


def whole(number: int) -> Rule:
    """Leaves an axis whole if the second input has this number for it, as Tile has 1."""

    def rule(operation: tf.Operation, axes: Axes) -> Place:
        axis = axes[0]
        if axis is None:
            return _unless_moved(axes)
        if axis == 0:
            return MIXED if _begins_with_another(operation.inputs[1], number) else None
        if operation.type == "Slice":
            return MIXED
        entries = static_value(operation.inputs[1])
        return MIXED if entries is None or np.any(entries[axis] != number) else axis

    return rule


def gathered(operation: tf.Operation, axes: Axes) -> Place:
    """Takes entries of an axis that the last input names, for each index."""
    table, index, _ = axes
    rank, rank_of_index = (source.shape.rank for source in operation.inputs[:2])
    along, num_batch = tf.get_static_value(operation.inputs[2]), operation.get_attr("batch_dims")
    if rank is None or rank_of_index is None or along is None:
        return MIXED if any(axes) or (table == 0 and along == 0 and not num_batch) else None
    along, num_batch = int(along) % rank, num_batch + (num_batch < 0) * rank_of_index
    moved = None if index is None else index if index < num_batch else along + index - num_batch
    if table is None:
        return moved
    if table == along or (index is not None and not table == index < num_batch):
        return MIXED
    return table if table < along else table - 1 + rank_of_index - num_batch


@of_one_input
def one_hot(operation: tf.Operation, axis: int, rank: int) -> Place:
    """Puts an axis of classes at a place."""
    return axis + (0 <= operation.get_attr("axis") <= axis)


def reversed_sequences(operation: tf.Operation, axes: Axes) -> Place:
    """Reverses parts of an axis."""
    is_along = axes[0] == operation.get_attr("seq_dim")
    return MIXED if is_along or any(axes) else None


def normalized(operation: tf.Operation, axes: Axes) -> Place:
    """Averages over a batch while it trains."""
    is_mixed = axes[0] == 0 and operation.get_attr("is_training")
    return MIXED if is_mixed or any(axes) else None


def quantized(operation: tf.Operation, axes: Axes) -> Place:
    """Takes the range of numbers from the whole input, unless it is given."""
    takes_all = not operation.get_attr("range_given") and operation.get_attr("axis") != 0
    return MIXED if any(axes) or (axes[0] == 0 and takes_all) else None


def of_list(operation: tf.Operation, axes: Axes) -> Place:
    """An op on a list of tensors. Its axes are those of the tensor that stacks its items."""
    if operation.type == "TensorListSetItem" and axes[2] is not None:
        return axes[2] + 1
    if operation.type == "TensorListGetItem" and axes[0]:
        return axes[0] - 1
    return axes[0] or None


def _axes(tensor: tf.Tensor, rank: int | None) -> set[int] | None:
    """Returns the axes that an input names, counted from the first; None if they are not known."""
    axes = named_axes(tensor)
    return None if axes is None or rank is None else {axis % rank for axis in axes}


def _unless_moved(axes: Axes) -> Place:
    """Takes the axis for lost if it is not the first of some input."""
    return MIXED if any(axes) else None


def _begins_with_another(tensor: tf.Tensor, number: int) -> bool:
    """Whether the first entry of a list differs from a number; False if it cannot be read.

    A list that a user writes has an entry for each axis, and some of these may be computed. The
    lists that TensorFlow computes for gradients are not made of single entries.
    """
    entries, operation = static_value(tensor), tensor.op
    if entries is not None:
        return bool(np.any(entries[:1] != number))
    if operation.type == "Cast" or (
        operation.type == "ConcatV2" and tf.get_static_value(operation.inputs[-1]) == 0
    ):
        return _begins_with_another(operation.inputs[0], number)
    if operation.type == "Pack" and operation.get_attr("axis") == 0:
        first = static_value(operation.inputs[0])
        return first is None or bool(np.any(first != number))
    return False
