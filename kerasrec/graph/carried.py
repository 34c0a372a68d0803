"""What tokens carry in addition to the user's arguments; calls pass it on.

An engine knows a token only by its place in a wave, but the message of a failed assertion must name
the token. So functions of a program with assertions take two more arguments, the root token and the
tag. And where calls of a function read different results of it, the function takes bools that say
which results are read (see `transform/reads.py`).
"""

from __future__ import annotations

import tensorflow as tf

from kerasrec.graph.graph import TaggedGraph
from kerasrec.graph.types import Type

NUM_LABELS = 16
NO_LABEL = -1
# One label more than the message shows, to know whether there are more.
_NUM_CARRIED = NUM_LABELS + 1
# The place of the root token that a token comes from, and its newest labels, newest first.
CARRIED = {"root": Type(tf.int32, ()), "tag": Type(tf.int32, (_NUM_CARRIED,))}


def with_carried(graph: TaggedGraph, arguments: list[tf.Tensor]) -> list[tf.Tensor]:
    """The flat arguments of root tokens, `[tokens, ...]`, followed by what these tokens carry."""
    parameters = graph.bodies[graph.entry].parameters
    names = [node.name for node in parameters if node.is_carried]
    return [*arguments, *(_of_roots(name, tf.shape(arguments[0])[0]) for name in names)]


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
