"""Finds ops that compute one value from several tokens.

TensorFlow's shape inference leaves the size of the token axis open. It cannot say whether an op
cut, joined or reduced that axis; the rules of `ops/axes.py` say so. This file has what they cannot
know: which rows an op takes by the tokens' own numbers, what is padded, and what lists hold.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from kerasrec._src.graph.types import Kind
from kerasrec._src.ops.axes import Lost, Place
from kerasrec._src.ops.table import Is, Ragged, facts_of, has, is_given
from kerasrec._src.ops.views import has_open_rows, static_value
from kerasrec._src.trace.functions import held_functions
from kerasrec._src.trace.known import Known


def mixes_tokens(operation: tf.Operation, inputs: Sequence[Known], places: Sequence[Place]) -> bool:
    """Whether an op computes from several tokens, or from a value that is mixed already.

    Args:
        operation: The op.
        inputs: What is known of its inputs.
        places: The places of the token axis in its outputs, by the op's rule.
    """
    if any(isinstance(place, Lost) for place in places):
        return True
    by_number = facts_of(operation.type).by_number
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
        inputs: What is known of its inputs.
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
    if not has(operation.type, Is.AVERAGE):
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
        if facts_of(operation.type).ragged is Ragged.PADS:
            return True
        if facts_of(operation.type).is_elementwise and operation not in seen:
            seen.add(operation)
            pending += [source.op for source in operation.inputs]
    return False


def loses_tokens(operation: tf.Operation, output: tf.Tensor) -> bool:
    """Whether an output without a token axis is computed from the values of all tokens.

    Args:
        operation: An op with an input in which the token axis is the first.
        output: An output of the op, with a first axis of known size, or without axes.
    """
    is_value = output.dtype not in (tf.variant, tf.resource)  # Not a list that a loop fills, say.
    if not is_value or has(operation.type, Is.TOKENLESS):
        return False
    return not held_functions(operation.node_def)


def is_of_single_tokens(operation: tf.Operation, inputs: Sequence[Known]) -> bool:
    """Whether an op makes a list of single tokens, or computes from an element of such a list.

    Single entries of rows count, too.
    """
    if has(operation.type, Is.UNSTACKING):
        (item,) = inputs[:1]
        return 0 in (item.axis, item.entries and item.entries.axis)
    return not has(operation.type, Is.STACKING) and any(item.is_single for item in inputs)


def is_of_one_token(operation: tf.Operation, inputs: Sequence[Known]) -> bool:
    """Whether an op computes only from elements for one token, and not from a list of elements."""
    if facts_of(operation.type).is_of_list or not any(item.is_single for item in inputs):
        return False
    return all(item.is_single or item.kind is Kind.SHARED for item in inputs)
