"""The error of a CHECK that fails."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from kerasrec._src.errors import WITHOUT_FRAMES
from kerasrec._src.graph.carried import NO_LABEL, NUM_LABELS
from kerasrec._src.graph.nodes import Check
from kerasrec._src.graph.types import Kind


def fail(node: Check, inputs: Sequence[tf.Tensor], meaning: str) -> tf.Tensor:
    """Fails, when it is computed, with the values that a CHECK shows for the first failing token.

    A CHECK with one condition for several tokens shows the values of all of them.

    Args:
        node: The CHECK.
        inputs: The tensors for its inputs, for all tokens of the wave, of which there is at least
            one.
        meaning: Says what the labels of a tag stand for.
    """
    condition, root, tag, *data = inputs
    summarize = node.summarize or 3
    if node.inputs[0].type.kind is Kind.WAVE:  # One condition for all tokens of the wave.
        shown = [_text(tensor, summarize) for tensor in data]
        some = tf.strings.format("{}", tf.unique(root)[0], summarize=summarize)
        place = [f"At {node.source}, for one or more of the root tokens", some]
    else:
        token = 0 if condition.shape.rank == 0 else tf.argmin(tf.cast(condition, tf.int32))
        shown = [
            _text(tensor[token] if value.type.kind is Kind.TOKEN else tensor, summarize)
            for value, tensor in zip(node.inputs[3:], data, strict=True)
        ]
        place = [tf.strings.format(f"At {node.source}, for root token {{}}.", root[token])]
        if meaning:
            path = tf.strings.join(
                ["Its calls, newest first:", _labels(tag[token]), f"where {meaning}."], " "
            )
            is_root = tf.reduce_all(tag[token] == NO_LABEL)
            place.append(tf.where(is_root, "No call leads to it.", path))
    message = tf.strings.join([*shown, *place], " ")
    operation = tf.raw_ops.Assert(condition=False, data=[message], name=WITHOUT_FRAMES)
    with tf.control_dependencies([operation]):
        return tf.constant(True)


def _labels(tag: tf.Tensor) -> tf.Tensor:
    labels = tf.boolean_mask(tag, tag != NO_LABEL)
    text = tf.strings.reduce_join(tf.strings.as_string(labels[:NUM_LABELS]), separator=" ")
    return tf.where(tf.size(labels) > NUM_LABELS, tf.strings.join([text, " ..."]), text)


def _text(tensor: tf.Tensor, summarize: int) -> tf.Tensor:
    if tensor.dtype == tf.string and tensor.shape.rank == 0:
        return tf.strings.strip(tensor)
    return tf.strings.format("{}", tensor, summarize=summarize)
