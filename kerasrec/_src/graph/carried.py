"""Tags, and values that tokens carry in addition to the user's arguments; calls pass them on.

A tag is a list of call-site labels. The newest call is first; the root's tag is empty. The order is
that of Kostopoulou et al., section 3: CALL_i makes the tag `i : t` from a tag `t`. The tag of entry
j of a token's row is `Entry(j) : t`.

An engine knows a token only by its place in a wave, but the message of a failed assertion must name
the token. Functions of a program with assertions take two more arguments, the root token and the
tag. In a program that makes values of data types, tokens carry a key. It identifies the values that
they make before their rows are known. In a program that draws random numbers, the key determines
which numbers a token draws (`trace/draws.py`). If calls of a function read different results of it,
the function takes bools for which results are read (see `transform/reads.py`). If equal calls are
one call, tokens carry their root token, since calls of different roots are never one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from kerasrec._src.errors import GraphError
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.nodes import Entrance, Parameter, RowsOfRoots
from kerasrec._src.graph.types import Type
from kerasrec._src.graph.values import Value


@dataclass(frozen=True)
class Entry:
    """The first item in the tag of an entry of a ragged row; the row's token has the rest."""

    place: int


Tag = tuple[int | Entry, ...]

ROOT: Tag = ()


def enter(label: int, tag: Tag) -> Tag:
    """Returns the tag inside the call with this label."""
    return (label, *tag)


def leave(label: int, tag: Tag) -> Tag | None:
    """Returns the caller's tag, or None if the newest call does not have this label."""
    return tag[1:] if tag and tag[0] == label else None


def enter_row(place: int, tag: Tag) -> Tag:
    """Returns the tag of an entry in the row of the token with this tag."""
    return (Entry(place), *tag)


def leave_row(tag: Tag) -> tuple[int, Tag]:
    """Returns an entry's place in its row, and the tag of the row's token."""
    entry, *rest = tag
    if not isinstance(entry, Entry):
        raise GraphError(f"The tag {tag} is not the tag of an entry of a row.")
    return entry.place, tuple(rest)


NUM_LABELS = 16
NO_LABEL = -1
# One more label than the message shows, to know whether there are more.
_NUM_CARRIED = NUM_LABELS + 1
# The place of the root token that a token comes from, and its newest labels, newest first.
FOR_ERRORS = {"root": Type(tf.int32, ()), "tag": Type(tf.int32, (_NUM_CARRIED,))}
# A hash of the root token and of all labels of the tag.
FOR_KEYS = {"key": Type(tf.int64, ())}
# Keys of values that tokens make begin here; numbers of a batch's tree nodes are smaller.
FIRST_KEY = 2**62
# A key of a row has a number, such as that of a kind, above these bits, and the row in them.
_ROW_BITS = 40
# The factors are odd, so that different keys stay different. The steps for labels are far apart,
# since the keys of roots may be close together.
_FACTOR = 0xBF58476D1CE4E5B9 - 2**64
_LABEL = 0x9E3779B97F4A7C15
_PLACE = 0x94D049BB133111EB - 2**64


def or_one_token(arguments: Sequence[Any]) -> list[Any]:
    """Returns flat arguments; of a function without any, the bool that makes one token."""
    return list(arguments) or [np.ones([1], bool)]


def with_carried(graph: TaggedGraph, arguments: list[tf.Tensor]) -> list[tf.Tensor]:
    """Returns bodies' flat arguments, `[tokens, ...]`, and the values that root tokens carry."""
    arguments = or_one_token(arguments)
    parameters = graph.bodies[graph.entry].parameters
    taken = [tensor for place, tensor in enumerate(arguments) if place not in graph.left_out]
    return [*taken, *carried_by_roots(parameters, tf.shape(arguments[0])[0])]


def carried_by_roots(
    parameters: Sequence[Entrance | Parameter], num_tokens: Any
) -> list[tf.Tensor]:
    """Returns what root tokens carry for those parameters of a function that take it."""
    return [_of_roots(node.name, num_tokens) for node in parameters if node.is_carried]


def rows_of_roots(graph: TaggedGraph, arguments: list[tf.Tensor]) -> dict[Value, tf.Tensor]:
    """Returns the flat arguments that all calls of a root have in common, by shared value."""
    return {node.output(): arguments[node.place] for node in tables_of_roots(graph)}


def tables_of_roots(graph: TaggedGraph) -> list[RowsOfRoots]:
    """Returns the nodes of these shared values."""
    return [node for node in graph.shared if isinstance(node, RowsOfRoots)]


def _of_roots(name: str, num_tokens: tf.Tensor) -> tf.Tensor:
    if name == "root":
        return tf.range(num_tokens)
    if name == "tag":
        return tf.fill([num_tokens, _NUM_CARRIED], NO_LABEL)
    if name == "key":
        return key_inside(0, tf.range(tf.cast(num_tokens, tf.int64)))
    return tf.fill([num_tokens], True)  # The outside may read all results.


def carried_inside(name: str, label: int, tensor: tf.Tensor) -> tf.Tensor:
    """Returns what tokens carry inside a call with this label.

    Args:
        name: "root", "tag" or "key".
        label: The label of the call site.
        tensor: The value that they carry at the call site, `[tokens, ...]`.
    """
    if name == "root":
        return tensor
    return tag_inside(label, tensor) if name == "tag" else key_inside(label, tensor)


def tag_inside(label: int, tag: tf.Tensor) -> tf.Tensor:
    """Returns the tags inside a call with this label, int32 `[tokens, labels]`."""
    newest = tf.fill([tf.shape(tag)[0], 1], label)
    return tf.concat([newest, tag[:, :-1]], 1)


def key_inside(label: int, key: tf.Tensor) -> tf.Tensor:
    """Returns the keys inside a call with this label, int64 `[tokens]`.

    With one label, different keys stay different.
    """
    return _mixed(key + _step(label + 1))


def key_of_entry(place: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
    """Returns the keys of entries of rows, int64 `[entries]`.

    Args:
        place: The place of each entry in its row, int32 `[entries]`.
        key: The key of each entry's token.
    """
    return _mixed(tf.bitwise.bitwise_xor(key, (tf.cast(place, tf.int64) + 1) * _PLACE))


def key_of_made(number: int, key: tf.Tensor) -> tf.Tensor:
    """Returns the keys of values that tokens make, int64 `[tokens]`.

    Args:
        number: The number of the place in the program where the values are made.
        key: The keys of the tokens.
    """
    made = tf.bitwise.bitwise_and(_mixed(key + _step(-1 - number)), FIRST_KEY - 1)
    return tf.bitwise.bitwise_or(made, FIRST_KEY)


def key_of_row(number: int, row: tf.Tensor) -> tf.Tensor:
    """Returns the keys of rows, int64 `[tokens]`, in a run that reads rows that it makes.

    Args:
        number: A number that the keys hold, such as that of a kind.
        row: The rows, int32 `[tokens]`.
    """
    return FIRST_KEY + (number << _ROW_BITS) + tf.cast(row, tf.int64)


def row_of_key(key: tf.Tensor) -> tf.Tensor:
    """Returns the rows of keys, int32 `[tokens]`."""
    return tf.cast(tf.bitwise.bitwise_and(key, (1 << _ROW_BITS) - 1), tf.int32)


def number_of_key(key: tf.Tensor) -> tf.Tensor:
    """Returns the numbers that keys of rows hold, int32 `[tokens]`."""
    return tf.cast(tf.bitwise.right_shift(key - FIRST_KEY, _ROW_BITS), tf.int32)


def _step(number: int) -> int:
    """Returns the number to add for a label, wrapped to the range of int64."""
    return (number * _LABEL + 2**63) % 2**64 - 2**63


def _mixed(key: tf.Tensor) -> tf.Tensor:
    """Mixes the bits of numbers, so that each depends on all lower ones; no two become equal."""
    mixed = key * _FACTOR
    upper = tf.bitwise.bitwise_and(tf.bitwise.right_shift(mixed, 32), 2**32 - 1)
    return tf.bitwise.bitwise_xor(mixed, upper)
