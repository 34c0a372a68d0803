"""How TensorFlow computes on ragged rows and another tensor with as many rows.

The other one may be a *column*, a tensor `[tokens, 1, ...]`, as in
`rows - tf.reduce_max(rows, 1, keepdims=True)`, and so in `tf.reduce_logsumexp` and `tf.nn.softmax`.
Or it may be ragged, with the same row lengths. TensorFlow finds out at run time which of the two is
repeated along which axis. This takes some 150 ops, with conditionals and assertions. If both have
one row for each token, ragged rows stay as they are, and a column is looked up by row numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import tensorflow as tf

from kerasrec._src.trace.effects import assertion_of

# The op that chooses what is repeated, and its inputs that tell how many rows both have.
CHOICE_OP = "StatelessIf"
_NUMBERS_OF_ROWS = (1, 3)
# By these, the number of rows is computed from row splits, or from a column.
_SIZE_OPS = frozenset({"Cast", "Identity", "StridedSlice", "Sub", "Shape"})

Spec = tuple[tf.DType, tf.TensorShape]
Way = tuple[int, ...]


@dataclass(frozen=True)
class Meeting:
    """What TensorFlow computes for an op on ragged rows and another tensor, in either order.

    Args:
        operations: All ops of a graph, after the placeholders.
        given: The names of the row splits, or of the column, that they read, in order.
        entries: The names of the entries of ragged rows that they read.
        choice: The name of what is chosen first.
        splits: The name of the row splits of the result, which are those of the rows.
        lengths: The name of the row lengths of the result.
        count: The name of the number of rows of the result.
        ids: The name of the row numbers of all entries, if a column is looked up by them.
        places: The names of the places of all entries, in order, by which entries are looked up.
        conditions: The names of the conditions that the ops assert.
        ways: The ways back from the row splits of the result, and from the row numbers, to the row
            splits that are given.
    """

    operations: Sequence[tf.Operation]
    given: Sequence[str]
    entries: Sequence[str]
    choice: str
    splits: str
    lengths: str
    count: str
    ids: str | None
    places: Sequence[str]
    conditions: Sequence[str]
    ways: Sequence[Way]


def met_at(operation: tf.Operation) -> Iterator[tuple[tuple[tf.Tensor, ...], Meeting]]:
    """Yields what may meet where an op chooses what is repeated: row splits, or one and a column.

    The caller finds out whether they do meet there, since the op would then be `Meeting.choice`.
    """
    if operation.type != CHOICE_OP or len(operation.inputs) <= _NUMBERS_OF_ROWS[-1]:
        return
    one, other = (_sized(operation.inputs[place]) for place in _NUMBERS_OF_ROWS)
    for pair in ((one, other), (other, one)):
        kinds = [(are_splits(item), _is_column(item)) for item in pair]
        if all(map(any, kinds)) and kinds != [(False, True)] * 2:
            meeting = _meeting(tuple((item.dtype, item.shape) for item in pair))
            if meeting:
                yield pair, meeting


def _sized(number: tf.Tensor) -> tf.Tensor:
    """Returns the tensor whose number of rows a number is computed from."""
    while number.op.type in _SIZE_OPS:
        kind, number = number.op.type, number.op.inputs[0]
        if kind == "Shape":
            break
    return number


def are_splits(tensor: tf.Tensor) -> bool:
    """Whether a tensor may be the row splits of a ragged tensor."""
    return tensor.dtype in (tf.int32, tf.int64) and tensor.shape.rank == 1


def _is_column(tensor: tf.Tensor) -> bool:
    return (tensor.shape.rank or 0) > 1 and tensor.shape[1] == 1


@functools.cache
def _meeting(specs: Sequence[Spec]) -> Meeting | None:
    (column,) = [spec for spec in specs if len(spec[1]) > 1] or [(tf.float32, (None, 1))]
    with tf.Graph().as_default() as graph:
        given = [tf.compat.v1.placeholder(*spec) for spec in specs]
        entries = [
            tf.compat.v1.placeholder(column[0], [None, *column[1][2:]])
            for item in given
            if are_splits(item)
        ]
        num_placeholders = len(graph.get_operations())
        values = iter(entries)
        # Any op with two inputs will do. This one takes all dtypes.
        found = tf.equal(
            *(
                tf.RaggedTensor.from_row_splits(next(values), item, validate=False)
                if are_splits(item)
                else item
                for item in given
            )
        )
        # TensorFlow may keep these from before, and take them again where rows meet once more.
        lengths, count = found.row_lengths(), found.nrows()
    operations = graph.get_operations()
    looked_up = without_identity(found.values).op.inputs
    choices = [item.outputs[0].name for item in operations if item.type == CHOICE_OP]
    if not choices or any(item.op.type != "GatherV2" for item in looked_up):
        return None
    indices = [item.op.inputs[1] for item in looked_up]
    ids = [item for item, source in zip(indices, given, strict=True) if not are_splits(source)]
    splits = next(filter(are_splits, given))
    ways = [way_back(item, splits) for item in (without_identity(found.row_splits), *ids)]
    asserted = map(assertion_of, operations)
    return Meeting(
        operations[num_placeholders:],
        [item.name for item in given],
        [item.name for item in entries],
        choices[0],
        found.row_splits.name,
        lengths.name,
        count.name,
        ids[0].name if ids else None,
        [item.name for item in indices if not any(item is one for one in ids)],
        [item.condition.name for item in asserted if item],
        [way for way in ways if way is not None],
    )


def without_identity(tensor: tf.Tensor) -> tf.Tensor:
    """Returns the tensor that was passed on to give this one."""
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def way_back(tensor: tf.Tensor, source: tf.Tensor) -> Way | None:
    """Returns a way back from a tensor to one that it is computed from; None if there is none.

    A way says which input comes next, for each op.
    """
    seen: set[str] = set()

    def search(tensor: tf.Tensor) -> Way | None:
        if tensor is source:
            return ()
        if tensor.name in seen:
            return None
        seen.add(tensor.name)
        for place, item in enumerate(tensor.op.inputs):
            way = search(item)
            if way is not None:
                return (place, *way)
        return None

    return search(tensor)


def at_the_end(way: Way, tensor: tf.Tensor) -> tf.Tensor | None:
    """Returns the tensor at the end of a way; None if the way does not exist."""
    for place in way:
        if place >= len(tensor.op.inputs):
            return None
        tensor = tensor.op.inputs[place]
    return tensor
