"""The error of a CHECK that does not hold."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from kerasrec.graph.graph import Node
from kerasrec.graph.types import Kind


def fail(node: Node, inputs: Sequence[tf.Tensor], meaning: str) -> tf.Tensor:
    """Fails, when it is computed, with what a CHECK shows of the first token that it refuses.

    Args:
        node: the CHECK.
        inputs: tensors for its inputs; all tokens are there, and one of them at least.
        meaning: of the labels of a tag.
    """
    condition, root, tag, *data = inputs
    token = 0 if condition.shape.rank == 0 else tf.argmin(tf.cast(condition, tf.int32))
    shown = [
        tensor[token] if value.type.kind is Kind.TOKEN else tensor
        for value, tensor in zip(node.inputs[3:], data, strict=True)
    ]
    place = [f"At {node.source}, for root token", root[token]]
    path = (
        ["called by (newest first)", tf.strings.strip(tag[token]), f"where {meaning}."]
        if meaning
        else []
    )
    operation = tf.raw_ops.Assert(
        condition=False,
        data=[tf.convert_to_tensor(item) for item in (*shown, *place, *path)],
        summarize=node.attributes["summarize"] or 3,
    )
    with tf.control_dependencies([operation]):
        return tf.constant(True)
