"""Tags as values, which tokens carry in a program with assertions.

An engine knows a token only by its place in a wave, but the message of a failed assertion must name
the token. So functions of such a program take two more arguments, and calls pass them on.
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
    """The flat arguments of root tokens, `[tokens, ...]`, with their tags if tokens carry them."""
    if not carries_tags(graph):
        return arguments
    num_tokens = tf.shape(arguments[0])[0]
    return [*arguments, tf.range(num_tokens), tf.fill([num_tokens, _NUM_CARRIED], NO_LABEL)]


def carries_tags(graph: TaggedGraph) -> bool:
    """Whether tokens carry their tags, since the program has assertions."""
    return any("is_carried" in node.attributes for node in graph.bodies[graph.entry].parameters)


def tag_inside(label: int, tag: tf.Tensor) -> tf.Tensor:
    """The tags inside a call with this label, int32 `[tokens, labels]`."""
    newest = tf.fill([tf.shape(tag)[0], 1], label)
    return tf.concat([newest, tag[:, :-1]], 1)
