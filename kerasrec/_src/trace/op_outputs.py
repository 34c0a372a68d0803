"""The facts about an op's outputs, from those about the op's inputs.

TensorFlow's shape inference leaves the size of the token axis open. It cannot tell whether an op
cut, joined or reduced that axis; the rules of `ops/axes.py` can. Three more questions are answered
here, of each op once:

- Does it take rows by other numbers than the tokens' own, or read padding or a loop's list?
- Does a number depend on how many tokens there are, that is, on which happen to run together? It
  may be the size of a tensor, but must not be part of a token's values.
- Does it compute one value from the entries of several tokens' rows? `rows.values` holds all
  entries, and an op that sorts them or adds them up ignores where rows begin. Its result may become
  right again when it is combined with a tensor that tells where rows begin. Examples are the
  difference of two cumulative sums, and a shift by one entry that is masked at the beginnings of
  rows. Therefore values computed along the axis of entries are followed until then. A value of all
  entries, such as their sum, can never become right again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import tensorflow as tf

from kerasrec._src.graph.types import Kind
from kerasrec._src.ops.axes import Axes, Lost, Place
from kerasrec._src.ops.shapes import OpenSize, entries_of, entries_taken
from kerasrec._src.ops.table import Is, Ragged, has, is_given, op_named, places_after
from kerasrec._src.ops.views import has_open_rows, static_value
from kerasrec._src.trace.functions import held_functions
from kerasrec._src.trace.tensor_facts import Entries, Known, Size


def outputs_of_op(
    operation: tf.Operation, inputs: Sequence[Known], leads_back: bool, is_trial: bool
) -> Sequence[Known]:
    """Returns what is known of the outputs of an op.

    Args:
        operation: An op with outputs that holds no functions which tokens are followed through.
        inputs: The facts about its inputs, of which some depend on tokens.
        leads_back: Whether it makes one value per token from rows.
        is_trial: Whether return types are being tried, so that ranks may be wrong.
    """
    count, op = len(operation.outputs), op_named(operation.type)
    sizes = _sizes_after(operation, inputs)
    places: Sequence[Place] = [None] * count
    entries: Sequence[Entries | None] = [None] * count
    if leads_back:
        is_mixed = any(item.entries.is_of_other_rows for item in inputs if item.entries)
        if is_mixed:
            entries = [Entries(is_total=True)] * count
    else:
        axes = [item.axis for item in inputs]
        depends_on_ranks = op.is_elementwise or has(operation.type, Is.RESHAPING)
        if not (is_trial and depends_on_ranks and not any(axes)):
            places = places_after(operation, axes)
        is_mixed = _mixes_tokens(operation, inputs, places) or _has_count_as_value(
            operation, inputs, sizes[0]
        )
        if not is_trial:
            entries = _entries_after(operation, inputs)
    found = []
    is_single = _is_of_single_tokens(operation, inputs)
    for output, place, size, of_entries in zip(
        operation.outputs, places, sizes, entries, strict=True
    ):
        rows = Fraction(1) if leads_back else _rows_after(operation, inputs, output)
        moved = _moved(place)
        is_open = has_open_rows(output)
        is_of_all = is_mixed or (
            not (leads_back or is_open or moved or is_trial)
            and any(item.axis == 0 for item in inputs)
            and _loses_tokens(operation, output)
        )
        has_rows = is_open and not is_of_all and not moved
        # Rows are padded to the longest of them, whose length depends on other tokens.
        is_padded = leads_back and not output.shape[1:].is_fully_defined()
        # With `is_of_other_axes`, the number of rows is the size of another axis.
        is_token = has_rows and rows == 1 and not (is_padded or size.is_of_other_axes)
        first = 0 if is_token or (has_rows and rows != 1) else None
        kind = Kind.TOKEN if is_token else Kind.WAVE
        found.append(Known(kind, moved or first, rows, is_of_all, is_single, of_entries, size))
    if _is_of_one_token(operation, inputs):
        is_mixed = any(item.is_mixed for item in inputs)
        return [replace(item, kind=Kind.WAVE, axis=None, is_mixed=is_mixed) for item in found]
    return found


def _moved(place: Place) -> int | None:
    """Returns the place of an axis if that is known not to be the first."""
    return place if isinstance(place, int) and place > 0 else None


def _mixes_tokens(
    operation: tf.Operation, inputs: Sequence[Known], places: Sequence[Place]
) -> bool:
    """Whether an op computes from several tokens, or from a value that is mixed already.

    Args:
        operation: The op.
        inputs: The facts about its inputs.
        places: The places of the token axis in its outputs, by the op's rule.
    """
    if any(isinstance(place, Lost) for place in places):
        return True
    by_number = op_named(operation.type).by_number
    if by_number:
        is_mixed = any(item.is_mixed for item in inputs[: by_number.num_values])
        return is_mixed or _goes_by_other_numbers(operation, inputs, by_number.numbers)
    if any(item.is_mixed for item in inputs):
        return True
    if has(operation.type, Is.SETTING) and inputs[2].is_single:
        return _hands_on(operation)
    if averages_open_axis(operation):
        return inputs[0].kind is Kind.WAVE or _is_padded(operation.inputs[0])
    return False


def _hands_on(operation: tf.Operation) -> bool:
    """Whether an op puts an item at a fixed place of a list that a loop passes to its next turn.

    `keras.ops.scan` passes values to the next token in this way. A list that is made in the turn
    itself belongs to this turn.
    """
    if tf.get_static_value(operation.inputs[1]) is None:
        return False
    made_by = operation
    while made_by.inputs and made_by.inputs[0].dtype == tf.variant:
        made_by = made_by.inputs[0].op
    return is_given(made_by)


def _goes_by_other_numbers(
    operation: tf.Operation, inputs: Sequence[Known], numbers: int | None
) -> bool:
    """Whether an op finds tokens by numbers other than their own.

    A token's own number is computed from all tokens, by `tf.range(tf.shape(x)[0])` or `tf.where`.

    Args:
        operation: An op that puts rows at places, or takes them from there.
        inputs: The facts about its inputs.
        numbers: Its input with the numbers of rows; None if the first half of them has these.
    """
    if numbers is None:
        half = len(inputs) // 2
        is_of_tokens = any(item.axis == 0 for item in inputs[half:])
        return is_of_tokens and not all(item.is_mixed for item in inputs[:half])
    if inputs[numbers].is_mixed:
        return False
    if numbers == 0:
        return has_open_rows(operation.outputs[0])
    is_list = operation.inputs[0].dtype == tf.variant
    return inputs[0].is_single if is_list else inputs[0].axis == 0


def averages_open_axis(operation: tf.Operation) -> bool:
    """Whether an op is a mean or product along an open axis other than the first.

    Padded rows have such an axis. It is as long as the longest row of the tokens that run together,
    so the result depends on them, whatever rows are padded with. A sum does not if it is zeros.
    """
    if not has(operation.type, Is.COUNTS_ZEROS):
        return False
    axes, shape = static_value(operation.inputs[1]), operation.inputs[0].shape
    if axes is None or shape.rank is None:
        return False
    return any(axis and shape[axis] is None for axis in np.atleast_1d(axes) % shape.rank)


def _is_padded(tensor: tf.Tensor) -> bool:
    """Whether a tensor is computed from padded rows, element by element."""
    pending, seen = [tensor.op], set()
    while pending:
        operation = pending.pop()
        if op_named(operation.type).ragged is Ragged.PADS:
            return True
        if op_named(operation.type).is_elementwise and operation not in seen:
            seen.add(operation)
            pending += [source.op for source in operation.inputs]
    return False


def _loses_tokens(operation: tf.Operation, output: tf.Tensor) -> bool:
    """Whether an output without a token axis is computed from the values of all tokens.

    Args:
        operation: An op with an input in which the token axis is the first.
        output: An output of the op, with a first axis of known size, or without axes.
    """
    is_value = output.dtype not in (tf.variant, tf.resource)  # Not, e.g., a loop's list.
    if not is_value or has(operation.type, Is.TOKENLESS):
        return False
    return not held_functions(operation.node_def)


def _is_of_single_tokens(operation: tf.Operation, inputs: Sequence[Known]) -> bool:
    """Whether an op makes a list of single tokens, or computes from an element of such a list.

    Single entries of rows also count.
    """
    if has(operation.type, Is.UNSTACKING):
        (item,) = inputs[:1]
        return 0 in (item.axis, item.entries and item.entries.axis)
    return not has(operation.type, Is.STACKING) and any(item.is_single for item in inputs)


def _is_of_one_token(operation: tf.Operation, inputs: Sequence[Known]) -> bool:
    """Whether an op computes only from elements for one token, and not from a list of elements."""
    if op_named(operation.type).is_of_list or not any(item.is_single for item in inputs):
        return False
    return all(item.is_single or item.kind is Kind.SHARED for item in inputs)


def _sizes_after(operation: tf.Operation, inputs: Sequence[Known]) -> Sequence[Size]:
    """Returns how the outputs of an op depend on the number of tokens.

    Ops that are not known here, such as those that make a tensor of a given size, count as
    independent of it.

    Args:
        operation: Any op.
        inputs: The facts about its inputs.
    """
    kind, outputs = operation.type, operation.outputs
    is_size = has(kind, Is.SIZES)
    if is_size and outputs[0].shape.rank != 0:
        return [Size(count_at=item.axis) for item in inputs]
    sizes = [item.size for item in inputs]
    is_count = [size.is_count for size in sizes]
    if any(size.count_at is not None for size in sizes) and not any(is_count):
        return _after_shape(operation, sizes)
    is_other = [size.is_of_other_axes for size in sizes]
    is_shared = [item.kind is Kind.SHARED for item in inputs]
    pairs = zip(is_other, is_shared, strict=True)
    if any(is_other) and all(other or shared for other, shared in pairs):
        return [Size(is_of_other_axes=True)] * len(outputs)
    is_quotient = has(kind, Is.QUOTIENT) and all(is_count)
    depends = (
        (is_size and inputs[0].axis is not None)
        or (op_named(kind).is_elementwise and any(is_count) and not is_quotient)
        or (has(kind, Is.REARRANGING) and is_count[0])
        or (has(kind, Is.FILLING) and is_count[1])
    )
    return [Size(is_count=depends)] * len(outputs)


def _has_count_as_value(operation: tf.Operation, inputs: Sequence[Known], size: Size) -> bool:
    """Whether an op makes the number of tokens part of a token's values.

    Args:
        operation: Any op with an output.
        inputs: The facts about its inputs.
        size: How its first output depends on the number of tokens.
    """
    output = operation.outputs[0]
    # A count plus or minus something is not the size of a tensor that these tokens have.
    is_sum = has(operation.type, Is.ADDING | Is.SUBTRACTING) and output.shape.rank == 0
    is_value = has_open_rows(output) or any(item.is_single for item in inputs)
    return (is_sum and not size.is_of_other_axes) or (size.is_count and is_value)


def begins_with_count(shape: tf.Tensor, kind: Callable[[tf.Tensor], Kind]) -> bool:
    """Whether the first size in a shape is exactly the number of tokens, not a multiple of it.

    Args:
        shape: A shape, or a single size.
        kind: Returns the kind of a tensor.
    """
    first = next(iter(entries_of(shape)), None)
    return isinstance(first, OpenSize) and first.axis == 0 and _has_rows(first.tensor, kind)


def _has_rows(tensor: tf.Tensor, kind: Callable[[tf.Tensor], Kind]) -> bool:
    """Whether a tensor has a row for each token, whatever is in the row."""
    if kind(tensor) is Kind.TOKEN:
        return True
    alike = [source for source in tensor.op.inputs if source.shape.rank == tensor.shape.rank]
    is_elementwise = op_named(tensor.op.type).is_elementwise
    return is_elementwise and any(_has_rows(source, kind) for source in alike)


def _after_shape(operation: tf.Operation, sizes: Sequence[Size]) -> Sequence[Size]:
    """Returns what is known of the sizes that an op computes from a shape with a token axis."""
    op, outputs, place = op_named(operation.type), operation.outputs, sizes[0].count_at
    count, other = Size(is_count=True), Size(is_of_other_axes=True)
    if op.is_elementwise and outputs[0].shape == operation.inputs[0].shape:
        return [next(size for size in sizes if size.count_at is not None)]
    if place is None:
        return [Size()] * len(outputs)
    if has(operation.type, Is.UNPACKING):
        return [count if number == place else other for number in range(len(outputs))]
    chosen = entries_taken(operation)
    if chosen is not None and place not in chosen:
        return [other]
    if outputs[0].shape.rank == 0:
        return [count]
    if chosen is not None:
        return [Size(count_at=list(chosen).index(place))]
    return [Size()] * len(outputs)


def _entries_after(operation: tf.Operation, inputs: Sequence[Known]) -> Sequence[Entries | None]:
    """Returns what is known of an op's outputs as values of entries; None if nothing is.

    Args:
        operation: Any op that does not make one value per token from rows.
        inputs: The facts about its inputs.
    """
    outputs, given = operation.outputs, [item.entries for item in inputs]
    op = op_named(operation.type)
    if op.ragged is Ragged.LOOKS_UP:
        return [*[None] * (len(outputs) - 1), given[-2] or Entries(axis=0)]
    if op.ragged is Ragged.FROM_LIST:
        return [*[None] * (len(outputs) - 1), Entries(axis=0)]
    if op.ragged is Ragged.MAKES_RANGES:
        return [None, Entries(axis=0, crosses_rows=any(item.kind is Kind.WAVE for item in inputs))]
    is_gather = has(operation.type, Is.GATHERING)
    indices = op_named(operation.inputs[1].op.type) if is_gather else None
    if indices and indices.ragged is Ragged.MAKES_RANGES:
        return [given[0]]  # rows[:, 1:]
    if _reads_all(operation, inputs):
        return [Entries(is_total=True)] * len(outputs)
    if not any(given):
        return [None] * len(outputs)
    if has(operation.type, Is.SIZES):
        return [item and Entries(is_size=True) for item in given]
    # Other inputs are places and sizes, which may depend on all entries.
    read = given if op.is_elementwise else given[:1]
    is_total = any(item.is_total for item in read if item)
    if any(item.kind is not Kind.SHARED and not item.entries for item in inputs):
        return [Entries(is_total=True) if is_total else None] * len(outputs)
    return [
        replace(item, is_total=is_total or item.is_total) for item in _of_entries(operation, given)
    ]


def _of_entries(operation: tf.Operation, given: Sequence[Entries | None]) -> Iterator[Entries]:
    """Yields what is known of outputs that are computed only from entries and shared values."""
    axes = [item.axis if item else None for item in given]
    places = places_after(operation, axes)
    crosses = _crosses_rows(operation, axes, places)
    known = [item for item in given if item]
    is_elementwise = op_named(operation.type).is_elementwise
    for output, place in zip(operation.outputs, places, strict=True):
        moved = _moved(place)
        has_axis = moved is not None or _has_open_axis(output)
        has_size = is_elementwise and has_axis and any(item.is_size for item in known)
        yield Entries(
            axis=moved or (0 if has_open_rows(output) else None),
            crosses_rows=crosses or has_size or any(item.crosses_rows for item in known),
            is_total=crosses and (has(operation.type, Is.SHARES) or not has_axis),
            is_size=all(item.is_size for item in known) and not has_axis,
        )


def _reads_all(operation: tf.Operation, inputs: Sequence[Known]) -> bool:
    """Whether an op computes a total of all entries, or the share of each entry in a total."""
    if not inputs or inputs[0].kind is not Kind.WAVE or not operation.inputs[0].dtype.is_floating:
        return False
    before, after = operation.inputs[0].shape, operation.outputs[0].shape
    if has(operation.type, Is.SHARES):
        return before.rank == 1 and before[0] is None
    is_known = before.rank is not None and after.is_fully_defined()
    return has(operation.type, Is.TOTAL) and is_known and None in before


def _has_open_axis(tensor: tf.Tensor) -> bool:
    """Whether the size of some axis is not known while tracing."""
    return tensor.shape.rank is None or None in tensor.shape


def _crosses_rows(operation: tf.Operation, axes: Axes, places: Sequence[Place]) -> bool:
    """Whether an op computes along the axis of entries."""
    is_lookup = has(operation.type, Is.GATHERING) and axes[1] is not None
    if is_lookup or has(operation.type, Is.ACROSS_ROWS):
        return False
    if any(isinstance(place, Lost) for place in places):
        return True
    is_lost = not any(map(_has_open_axis, operation.outputs))
    return is_lost and 0 in axes and any(_loses_tokens(operation, one) for one in operation.outputs)


def _rows_after(operation: tf.Operation, inputs: Sequence[Known], output: tf.Tensor) -> Fraction:
    """Returns how many rows each token has in an output with an open leading axis."""
    if has(operation.type, Is.RESHAPING):
        before, after = _size_of_row(operation.inputs[0]), _size_of_row(output)
        if after is None and has_open_rows(output):
            sizes = entries_of(operation.inputs[1])[1:]
            is_known = sizes and all(isinstance(size, int) for size in sizes)
            after = math.prod(size for size in sizes if isinstance(size, int)) if is_known else None
        if before and after:
            return inputs[0].rows * before / after
    return max(item.rows for item in inputs)


def _size_of_row(tensor: tf.Tensor) -> int | None:
    """Returns how many numbers a row has; None if this is open, or if the leading axis is not."""
    if not has_open_rows(tensor) or tensor.shape.rank is None:
        return None
    return tensor.shape[1:].num_elements()
