"""How TensorFlow computes on ragged rows: traces of TensorFlow's functions.

TensorFlow needs some forty ops for the row numbers of entries, and some 150 for an op on rows and
another tensor with as many rows. The other one may be a *column*, a tensor `[tokens, 1, ...]`, as
in `rows - tf.reduce_max(rows, 1, keepdims=True)`, and so in `tf.reduce_logsumexp` and
`tf.nn.softmax`. Or it may be ragged, with the same row lengths. TensorFlow finds out at run time
which of the two is repeated along which axis. If both have one row for each token, ragged rows stay
as they are, and a column is looked up by row numbers.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from kerasrec._src.ops.table import Holds, Is, has, op_named, source_of_passed
from kerasrec._src.private import unseen_by_op_callbacks
from kerasrec._src.trace.effects import assertion_of
from kerasrec._src.trace.numbering import Step, step_of

Spec = tuple[tf.DType, tf.TensorShape]


class Role(enum.Enum):
    """The role of a tensor for some ragged rows."""

    SPLITS = "the row splits"
    LENGTHS = "the lengths of rows"
    IDS = "for each entry, the number of its row"
    COUNT = "the number of rows, computed from the row splits"
    OTHER_COUNT = "the number of rows, computed from a value of each token"
    PLACES = "the places of all entries, in order"
    TRUE = "a condition that always holds"


@dataclass(frozen=True)
class RowTrace:
    """What TensorFlow computes on rows.

    Args:
        steps: All ops, in order.
        given: The names of the tensors that they read: row splits, columns and entries.
        roles: The names of tensors that have a role for the rows.
        choice: The name of the tensor that is chosen first where rows meet another.
    """

    steps: Sequence[Step]
    given: Sequence[str]
    roles: Mapping[str, Role]
    choice: str = ""


@functools.cache
def of_splits(dtype: tf.DType, shape: tf.TensorShape) -> RowTrace:
    """Returns what TensorFlow computes from row splits, to reduce rows."""
    with unseen_by_op_callbacks(), tf.Graph().as_default() as graph:
        splits = tf.compat.v1.placeholder(dtype, shape)
        rows = tf.RaggedTensor.from_row_splits(tf.zeros([0], tf.int32), splits, validate=False)
        _, ids, count = tf.reduce_sum(rows, axis=1).op.inputs
        counts = [rows.nrows(), count, rows.nrows(tf.int32), rows.nrows(tf.int64)]
        roles = {rows.row_lengths().name: Role.LENGTHS, ids.name: Role.IDS}
    roles |= {tensor.name: Role.COUNT for tensor in counts}
    return _trace(graph, [splits], roles)


@functools.cache
def of_joined(specs: Sequence[Spec]) -> RowTrace:
    """Returns how TensorFlow joins rows.

    Args:
        specs: The specs of the values and splits of each tensor, in turn.
    """
    with unseen_by_op_callbacks(), tf.Graph().as_default() as graph:
        given = [tf.compat.v1.placeholder(*spec) for spec in specs]
        rows = [
            tf.RaggedTensor.from_row_splits(values, splits, validate=False)
            for values, splits in zip(given[::2], given[1::2], strict=True)
        ]
        splits = tf.concat(rows, axis=1).row_splits
    return _trace(graph, given, {splits.name: Role.SPLITS})


@functools.cache
def of_meeting(specs: Sequence[Spec]) -> RowTrace | None:
    """Returns what TensorFlow computes for an op on rows and another tensor, in either order.

    Args:
        specs: The specs of the row splits, or of the column, in order. After them, `given` also
            has the entries of ragged rows.
    """
    (column,) = [spec for spec in specs if len(spec[1]) > 1] or [(tf.float32, (None, 1))]
    with tf.Graph().as_default() as graph:
        given = [tf.compat.v1.placeholder(*spec) for spec in specs]
        of_rows = [tensor for tensor in given if are_splits(tensor)]
        entries = [tf.compat.v1.placeholder(column[0], [None, *column[1][2:]]) for _ in of_rows]
        values = iter(entries)
        # Any op with two inputs will do. This one takes all dtypes.
        found = tf.equal(
            *(
                tf.RaggedTensor.from_row_splits(next(values), tensor, validate=False)
                if are_splits(tensor)
                else tensor
                for tensor in given
            )
        )
        # TensorFlow may keep these from before, and take them again where rows meet once more.
        lengths, count = found.row_lengths(), found.nrows()
    operations = graph.get_operations()
    choices = [item.outputs[0].name for item in operations if may_choose(item)]
    lookups = [tensor.op for tensor in source_of_passed(found.values).op.inputs]
    if not choices or any(not has(lookup.type, Is.GATHERING) for lookup in lookups):
        return None
    roles = {
        source_of_passed(count).name: Role.COUNT,
        source_of_passed(lengths).name: Role.LENGTHS,
        source_of_passed(found.row_splits).name: Role.SPLITS,
    }
    for lookup, source in zip(lookups, given, strict=True):
        roles[source_of_passed(lookup.inputs[1]).name] = (
            Role.PLACES if are_splits(source) else Role.IDS
        )
    asserted = filter(None, map(assertion_of, operations))
    roles |= {assertion.condition.name: Role.TRUE for assertion in asserted}
    return _trace(graph, [*given, *entries], roles, choices[0])


def may_choose(operation: tf.Operation) -> bool:
    """Whether an op may be the one that chooses the repeated tensor where rows meet another."""
    is_conditional = op_named(operation.type).holds is Holds.TWO_BRANCHES
    return is_conditional and not operation.op_def.is_stateful


def are_splits(tensor: tf.Tensor) -> bool:
    """Whether a tensor may be the row splits of as many rows as there are tokens."""
    is_open = tensor.shape.rank == 1 and tensor.shape[0] is None
    return is_open and tensor.dtype in (tf.int32, tf.int64)


def _trace(
    graph: tf.Graph, given: Sequence[tf.Tensor], roles: Mapping[str, Role], choice: str = ""
) -> RowTrace:
    names = [tensor.name for tensor in given]
    steps = [item for item in map(step_of, graph.get_operations()) if item.outputs]
    return RowTrace([item for item in steps if item.outputs[0] not in names], names, roles, choice)
