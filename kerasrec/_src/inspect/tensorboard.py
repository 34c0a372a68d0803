"""Graphs for the Graphs page of TensorBoard.

TensorBoard draws GraphDefs. It never runs them, so a GraphDef can have the nodes of tagged dataflow
next to TensorFlow's own ops, and can have cycles, from a CALL back to a MERGE.
"""

from __future__ import annotations

import os

import tensorflow as tf

from kerasrec._src.graph.nodes import Accumulate, Call, Return
from kerasrec._src.graph.values import Node, Value
from kerasrec._src.inspect.scopes import Scope, names_in
from kerasrec._src.private import OUTPUT_SHAPES


def write_graph(scopes: dict[Node, Scope], logdir: str | os.PathLike[str]) -> None:
    """Writes an event file with the graph.

    Args:
        scopes: The scopes of all nodes of a program.
        logdir: The folder of the event file; TensorBoard shows each folder as a separate run.
    """
    writer = tf.summary.create_file_writer(os.fspath(logdir))
    with writer.as_default():
        tf.summary.graph(_graph_def(scopes))
    writer.close()


def _graph_def(scopes: dict[Node, Scope]) -> tf.compat.v1.GraphDef:
    """Returns the graph as a GraphDef with a NodeDef for each node; for display only."""
    names = names_in(scopes)
    return tf.compat.v1.GraphDef(node=[_node_def(node, names) for node in names])


def _node_def(node: Node, names: dict[Node, str]) -> tf.compat.v1.NodeDef:
    inputs = [_reference(value, names) for value in node.inputs]
    inputs += [f"^{names[before]}" for before in node.control]
    texts = {
        "does": node.title,
        "types": ", ".join(f"{item.kind.value} {item}" for item in node.types),
        "source": str(node.source or ""),
    }
    if isinstance(node, Accumulate):
        texts["into"] = names[node.to.node]
    attributes = {
        name: tf.compat.v1.AttrValue(s=text.encode()) for name, text in texts.items() if text
    }
    shapes = [item.tensor_shape().as_proto() for item in node.types]
    attributes[OUTPUT_SHAPES] = tf.compat.v1.AttrValue(
        list=tf.compat.v1.AttrValue.ListValue(shape=shapes)
    )
    return tf.compat.v1.NodeDef(name=names[node], op=_op(node), input=inputs, attr=attributes)


def _reference(value: Value, names: dict[Node, str]) -> str:
    name = names[value.node]
    return f"{name}:{value.index}" if value.index else name


def _op(node: Node) -> str:
    """The name of a node's op; for CALL and RETURN with the label, as in `CALL_0`."""
    return node.title if isinstance(node, Call | Return) else node.op
