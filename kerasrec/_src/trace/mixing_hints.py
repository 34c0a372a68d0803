"""The alternatives, for a user, to an op that computes across tokens."""

from __future__ import annotations

import tensorflow as tf

from kerasrec._src.ops.table import Holds, Is, Ragged, op_named
from kerasrec._src.trace.op_outputs import averages_open_axis
from kerasrec._src.trace.rows import operations_before

_TOKEN_AXIS = (
    "The first axis of a tensor in a recursive function is the token axis, with one row per call, "
    "like the batch axis of a Keras layer."
)
_OTHER_AXES = "Compute along the other axes only, as tf.reduce_sum(x, axis=-1) does."
# The alternatives to an op that moves or combines rows, by its facts.
_BY_FACT = {
    Is.SIZES: "Use its size only for shapes, as in tf.zeros([tf.shape(x)[0], 3]).",
    Is.SLICING | Is.CUTTING: "Index the axes after it: x[:, 0] instead of x[0].",
    Is.GATHERING: "For an index of each call: tf.gather(x, i, axis=1, batch_dims=1).",
    Is.JOINING: "Join another axis: tf.concat(values, axis=-1).",
    Is.RESHAPING: "Keep it first: tf.reshape(x, [tf.shape(x)[0], n]).",
    Is.PRODUCT: "Keep it first: tf.matmul(x, w), with x of shape [tokens, n].",
}
_INDICES = (
    "Begin the indices of tf.gather_nd or a scatter with the number of the token: "
    "tf.stack([tf.range(tf.shape(x)[0]), i], 1)."
)
_LOOP = (
    "A loop over tokens may read only its own token: use tf.map_fn over the tensor itself. For a "
    "loop in each call, use kerasrec.while_loop."
)
_BATCH_NORMALIZATION = (
    "A batch normalization averages over tokens while it trains: take "
    "keras.layers.LayerNormalization, or call it with training=False."
)
_SEQUENCE_MASK = (
    "tf.sequence_mask makes as many columns as the longest row of all tokens has. For a softmax "
    "over each row, use tf.nn.softmax(rows, axis=1) on the ragged scores themselves. A layer such "
    "as keras.layers.MultiHeadAttention needs rows of one length n: pad them with "
    "rows.to_tensor(shape=[None, n, units]), and pass maxlen=n. To leave padding out of a sum, use "
    "tf.ones_like(rows).to_tensor(), which is 0 where rows.to_tensor() pads."
)
_PADDING = (
    "`rows.to_tensor()` pads to the longest row of all tokens that run together, so a mean or a "
    "product of padded rows depends on other tokens. Reduce the rows themselves, "
    "tf.reduce_mean(rows, axis=1), or pad them to one length, rows.to_tensor(shape=[None, n])."
)
ROWS_IN_ORDER = (
    "To read the entries of a row one after the other, pad all rows to one length, "
    "rows.to_tensor(shape=[None, n, ..]). A kerasrec.layers.RecursiveCell reads any number of "
    "children in their order if it has a `call_child`, as kerasrec.layers.OrderedTreeRNN does."
)
_OTHER_ROWS = (
    "The `values` of a tf.RaggedTensor hold the entries of all tokens' rows, one after the other. "
    "This result may combine entries of different rows, as `rows.values - rows.values[0]` does. "
    "Compute within each row (`tf.reduce_sum(rows, axis=1)`), entry by entry (kerasrec.map_fn), or "
    "pad the rows to one length (`rows.to_tensor(shape=[None, n])`)."
)
UNKNOWN_ROWS = (
    "It was computed from a tf.RaggedTensor of which it is not known that it has one row per "
    "token, in the order of the tokens. If it has, mark it before you compute on its rows: "
    "`rows = kerasrec.map_fn(lambda entry: entry, rows)`."
)
_SEGMENTS = (
    "Reduce each row, as tf.reduce_sum(rows, axis=1) does. Functions such as "
    "tf.math.unsorted_segment_sum take rows.values, rows.value_rowids() and "
    "num_segments=rows.nrows()."
)
_COUNTS = (
    "The largest number in the rows of all tokens decides how many columns this tf.math.bincount "
    "has. Pass axis=-1, and the same number as minlength and maxlength; tf.ensure_shape(counts, "
    "[None, n]) then sets the shape of the result."
)
_LOOKUPS = (
    "Look the entries of each row up, and reduce the rows: "
    "tf.reduce_sum(tf.gather(table, rows), axis=1)."
)
_SPARSE = (
    "Reduce the rows themselves, tf.reduce_sum(rows, axis=1), or pad them to one length, "
    "rows.to_tensor(shape=[None, n])."
)
_OF_ROWS: dict[Ragged | None, str] = {
    Ragged.REDUCES: _SEGMENTS,
    Ragged.REDUCES_SORTED: _SEGMENTS,
    Ragged.COUNTS_INTEGERS: _COUNTS,
    Ragged.LOOKS_UP_AND_REDUCES: _LOOKUPS,
    Ragged.TO_SPARSE: _SPARSE,
}


def has_hint(operation: tf.Operation) -> bool:
    """Whether there is a hint for an op on ragged rows."""
    return op_named(operation.type).ragged in _OF_ROWS


def hint_for(operation: tf.Operation | None, is_of_other_rows: bool) -> str:
    """Returns what to write instead of an op.

    Args:
        operation: The op that combined tokens; None if that is not known.
        is_of_other_rows: Whether it combined entries of different rows.
    """
    lines = (operation.traceback or ()) if operation else ()
    if any("batch_normalization" in line.filename for line in lines):
        return _BATCH_NORMALIZATION
    if any(line.name == "sequence_mask" for line in lines):
        return _SEQUENCE_MASK
    if operation and averages_open_axis(operation):
        return _PADDING
    if operation and has_hint(operation):
        return _OF_ROWS[op_named(operation.type).ragged]
    if is_of_other_rows:
        return _OTHER_ROWS
    if operation and reads_rows(operation, Ragged.PADS):
        return ROWS_IN_ORDER
    return f"{_TOKEN_AXIS} {_of_axis(operation)}"


def reads_rows(operation: tf.Operation, *ways: Ragged) -> bool:
    """Whether an op on ragged rows, one of `ways` if any are given, is before an op."""
    before = (op_named(earlier.type).ragged for earlier in operations_before(operation.outputs[0]))
    return any(ragged in ways if ways else ragged for ragged in before)


def _of_axis(operation: tf.Operation | None) -> str:
    """Returns what to write instead of an op that combined or moved rows of the token axis."""
    op = op_named(operation.type if operation else "")
    if operation and op.is_elementwise:
        shapes = " and ".join(str(tensor.shape) for tensor in operation.inputs)
        return (
            f"Shapes {shapes} are aligned at their last axes. Add an axis to a number of each "
            "call: x[:, None]."
        )
    if op.by_number:
        return _INDICES
    if op.holds:
        return _LOOP if op.holds is Holds.TURN else _OTHER_AXES
    return next((hint for fact, hint in _BY_FACT.items() if op.facts & fact), _OTHER_AXES)
