"""Tags as values, which tokens carry in a program that asserts something.

An engine knows a token by its place in a wave. Where an assertion fails, its message is to say
which token it was; so functions of such a program take two more arguments, and calls pass them on.
"""

from __future__ import annotations

import tensorflow as tf

from kerasrec.graph.graph import TaggedGraph
from kerasrec.graph.types import Type

NUM_LABELS = 16
# The place of the token of the outside that it comes from, and its newest labels, newest first.
CARRIED = {"root": Type(tf.int32, ()), "tag": Type(tf.string, ())}


def with_carried(graph: TaggedGraph, arguments: list[tf.Tensor]) -> list[tf.Tensor]:
    """The flat arguments of root tokens, `[tokens, ...]`, with the tags that they carry, if so."""
    if not carries_tags(graph):
        return arguments
    num_tokens = tf.shape(arguments[0])[0]
    return [*arguments, tf.range(num_tokens), tf.fill([num_tokens], "")]


def carries_tags(graph: TaggedGraph) -> bool:
    """Whether the program asserts something."""
    return any("is_carried" in node.attributes for node in graph.bodies[graph.entry].parameters)


def text_inside(label: int, tag: tf.Tensor) -> tf.Tensor:
    """What stands for the tag of a call with this label, string `[tokens]`."""
    longer = tf.strings.join([f"{label} ", tag])
    return tf.strings.regex_replace(longer, rf"^((?:\d+ ){{{NUM_LABELS}}}).+$", r"\1...")
