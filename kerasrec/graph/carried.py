"""What tokens carry in addition to the user's arguments; calls pass it on.

An engine knows a token only by its place in a wave, but the message of a failed assertion must name
the token. So functions of a program with assertions take two more arguments, the root token and the
tag. And where calls of a function read different results of it, the function takes bools that say
which results are read (see `transform/reads.py`). Where equal calls are one call, tokens carry
their root token, since calls of different roots are never one.
"""

from __future__ import annotations

import tensorflow as tf

from kerasrec.graph.graph import TaggedGraph
from kerasrec.graph.nodes import RowsOfRoots
from kerasrec.graph.types import Type
from kerasrec.graph.values import Value

NUM_LABELS = 16
NO_LABEL = -1
# One label more than the message shows, to know whether there are more.
_NUM_CARRIED = NUM_LABELS + 1
# The place of the root token that a token comes from, and its newest labels, newest first.
CARRIED = {"root": Type(tf.int32, ()), "tag": Type(tf.int32, (_NUM_CARRIED,))}


def with_carried(graph: TaggedGraph, arguments: list[tf.Tensor]) -> list[tf.Tensor]:
    """What the bodies take of the flat arguments `[tokens, ...]`, and what root tokens carry."""
    parameters = graph.bodies[graph.entry].parameters
    names = [node.name for node in parameters if node.is_carried]
    left_out = graph.memo.per_root if graph.memo else ()
    taken = [tensor for place, tensor in enumerate(arguments) if place not in left_out]
    return [*taken, *(_of_roots(name, tf.shape(arguments[0])[0]) for name in names)]


def rows_of_roots(graph: TaggedGraph, arguments: list[tf.Tensor]) -> dict[Value, tf.Tensor]:
    """The shared values for the flat arguments that all calls of a root have in common."""
    return {node.output(): arguments[node.place] for node in tables_of_roots(graph)}


def tables_of_roots(graph: TaggedGraph) -> list[RowsOfRoots]:
    """The nodes of these values."""
    return [node for node in graph.shared if isinstance(node, RowsOfRoots)]


def _of_roots(name: str, num_tokens: tf.Tensor) -> tf.Tensor:
    if name == "root":
        return tf.range(num_tokens)
    if name == "tag":
        return tf.fill([num_tokens, _NUM_CARRIED], NO_LABEL)
    return tf.fill([num_tokens], True)  # The outside may read all results.


def tag_inside(label: int, tag: tf.Tensor) -> tf.Tensor:
    """The tags inside a call with this label, int32 `[tokens, labels]`."""
    newest = tf.fill([tf.shape(tag)[0], 1], label)
    return tf.concat([newest, tag[:, :-1]], 1)
