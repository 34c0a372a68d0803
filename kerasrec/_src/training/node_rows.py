"""Values of tree nodes, padded or ragged, and how to convert one form into the other."""

import math
from typing import Any

import tensorflow as tf

from kerasrec._src.errors import asserted
from kerasrec._src.row_ids import row_ids


def is_ragged(tensor: Any) -> bool:
    """Whether the rows of a tensor are as long as the trees."""
    return isinstance(tensor, tf.RaggedTensor)


def as_tensor(values: Any) -> Any:
    """Returns values as a tensor, ragged if they are ragged."""
    return values if is_ragged(values) else tf.convert_to_tensor(values)


def flat(tensor: Any) -> tf.Tensor:
    """Returns the values of all nodes of all trees, `[nodes]`, from `[batch, nodes]`."""
    return tensor.flat_values if is_ragged(tensor) else tf.reshape(tensor, [-1])


def of_roots(tensor: Any) -> tf.Tensor:
    """Returns the values of nodes 0, `[batch]`, from `[batch, nodes]`; 0 if a tree has no nodes."""
    if not is_ragged(tensor):
        return tensor[:, 0]
    values = tf.concat([tensor.values, tf.zeros([1], tensor.dtype)], 0)
    is_empty = tensor.row_lengths() == 0
    return tf.gather(values, tf.where(is_empty, tensor.row_splits[-1], tensor.row_starts()))


def sum_of_trees(tensor: Any) -> tf.Tensor:
    """Returns the sum over the nodes of each tree, `[batch]`, from float `[batch, nodes]`."""
    if not is_ragged(tensor):
        return tf.reduce_sum(tensor, axis=1)
    num_trees = tf.cast(tensor.nrows(), tf.int32)
    return tf.math.unsorted_segment_sum(
        tensor.flat_values, row_ids(tensor.row_lengths()), num_trees
    )


def in_rows_of(
    logits: Any, labels: Any, asked_by: str, nothing: float | None, rows: str = "rows of logits"
) -> Any:
    """Returns labels or weights that are ragged if the logits are, and otherwise padded.

    Args:
        logits: Logits, or other values for the same nodes, `[batch, nodes, ...]`.
        labels: Labels, `[batch, nodes]`; no label of a node is cut off.
        asked_by: The name of the loss or metric, for messages.
        nothing: The value of padding; None for weights, where padding may have any value, and gets
            0.
        rows: A word for the logits, for messages.
    """
    if not is_ragged(logits) and is_ragged(labels):
        return _padded_as(logits, labels, asked_by, nothing)
    if not is_ragged(logits):
        return labels if nothing is None else of_same_shape(logits, labels, asked_by, rows)
    if not is_ragged(labels):
        return _ragged_as(logits, labels, asked_by, nothing, rows)
    splits, wanted = (tf.cast(rows.row_splits, tf.int64) for rows in (labels, logits))
    fit = tf.cond(
        tf.size(splits) == tf.size(wanted),
        lambda: tf.reduce_all(splits == wanted),
        lambda: tf.constant(False),
    )
    checked = asserted(
        fit,
        [
            f"{asked_by} expects as many labels as {rows} in each tree. Received: labels",
            labels.row_lengths(),
            rows,
            logits.row_lengths(),
        ],
    )
    with checked:
        return logits.with_values(tf.identity(labels.values))


def of_same_shape(
    outputs: tf.Tensor, labels: tf.Tensor, asked_by: str, rows: str = "outputs"
) -> tf.Tensor:
    """Padded labels, once it is known that there is one for each output; arguments as above.

    TensorFlow would take a single label of a tree for that of all its nodes.
    """
    if outputs.shape[:2].is_fully_defined() and labels.shape.is_fully_defined():
        return labels
    wanted, given = tf.shape(outputs)[:2], tf.shape(labels)
    expected = f"{asked_by} expects as many labels as {rows}, for [trees, nodes]"
    hint = ". Pad the labels of each batch to its largest tree, or pass a tf.RaggedTensor."
    message = [expected, wanted, "Received: labels", given, hint]
    with asserted(tf.reduce_all(given == wanted), message):
        return tf.reshape(labels, wanted)  # Also in XLA, which drops assertions.


def _ragged_as(
    ragged: tf.RaggedTensor, padded: tf.Tensor, asked_by: str, nothing: float | None, rows: str
) -> tf.RaggedTensor:
    """Padded labels or weights, in the rows of others."""
    lengths, shape = ragged.row_lengths(), tf.shape(padded, tf.int64)
    fit = (shape[0] == tf.size(lengths, tf.int64)) & tf.reduce_all(lengths <= shape[1])
    if nothing is not None:
        is_nothing = tf.math.is_nan(padded) if math.isnan(nothing) else padded == nothing
        # The last label of each tree is at the end of its row, or before.
        ends = tf.where(is_nothing, tf.constant(0, tf.int64), tf.range(1, shape[1] + 1))
        lasts = tf.reduce_max(tf.pad(ends, [[0, 0], [0, 1]]), 1)
        fit = tf.cond(fit, lambda: tf.reduce_all(lasts <= lengths), lambda: tf.constant(False))
    checked = asserted(
        fit,
        [
            f"{asked_by} expects as many labels or weights as {rows} in each tree, and padding "
            "behind them. Received: padded ones of [trees, nodes]",
            shape,
            rows,
            lengths,
        ],
    )
    with checked:
        return tf.RaggedTensor.from_tensor(padded, tf.identity(lengths))


def _padded_as(padded: tf.Tensor, rows: Any, asked_by: str, nothing: float | None) -> tf.Tensor:
    """Ragged labels or weights, padded to as many nodes as others have; never cut off."""
    shape = tf.shape(padded, tf.int64)[:2]
    given = tf.cast(rows.bounding_shape(), tf.int64)
    checked = asserted(
        (given[0] == shape[0]) & (given[1] <= shape[1]),
        [
            f"{asked_by} expects at most a label or weight for each of [trees, nodes]",
            shape,
            "Received: rows of [trees, nodes]",
            given,
        ],
    )
    with checked:
        return tf.ensure_shape(rows.to_tensor(nothing or 0, shape=shape), padded.shape[:2])
