"""Rows of tables for values that functions make, under keys, and how the same run reads them.

These values are collected, so that they can be returned. If the program also reads them in the run
that makes them, a key is the number of a row (NEW, PUT and GET). Otherwise it is a hash of the tag,
which needs no order of calls.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from kerasrec._src.graph.nodes import Collect, Get, New, Put
from kerasrec._src.graph.types import Type
from kerasrec._src.trace.op_nodes import OpNodes
from kerasrec._src.trace.source import current_source
from kerasrec._src.trace.tracer import Tracer

_KEY = Type(tf.int64, ())


def new_key(
    tracer: Tracer, rows: str, number: int, content: Sequence[tf.Tensor], width: int = 1
) -> tf.Tensor:
    """Returns a key for each token, int64 `[tokens]`, which no other token of the run has.

    Args:
        tracer: The tracer of the function.
        rows: The name of the rows that have these keys.
        number: A number that keys hold, such as that of a kind; see `key_of_row`.
        content: All that is kept under the keys, `[tokens, ...]` or shared.
        width: How many keys a token has; those after the first follow it.
    """
    # A node fires once it has an input, so something is kept of each token.
    content, source = list(content) or [tf.constant(0)], current_source()

    def add_nodes(ops: OpNodes) -> None:
        if not ops.facts.reads:
            ops.make_key(key)
            return
        region = ops.region_of(key.op)
        # Who has the key may read the row, so the key waits for all of it.
        inputs = [ops.tokens(tensor, region) for tensor in content]
        node = New(inputs, [_KEY], region, source, name=rows, rows=rows, number=number, width=width)
        ops.add([key], node)

    (key,) = tracer.placeholders([_KEY], add_nodes)
    tracer.makes_values = True
    return key


def keep(
    tracer: Tracer, name: str, rows: str, value: tf.Tensor, key: tf.Tensor, is_result: bool
) -> None:
    """Records a value to be kept in a table, in the rows of some keys.

    Args:
        tracer: The tracer of the function.
        name: The name of the table.
        rows: The name of its rows.
        value: The value of each token, `[tokens, ...]`.
        key: The key of each token, int64 `[tokens]`.
        is_result: Whether the table is part of the result.
    """
    anchor, source = tf.no_op("keep"), current_source()

    def add_nodes(ops: OpNodes) -> None:
        region = ops.region_of(anchor)
        inputs = [ops.tokens(tensor, region) for tensor in (value, key)]
        if name in ops.facts.reads:
            ops.writer.add(Put([*inputs], [], region, source, name=name, rows=rows))
        if is_result and ops.facts.returns_made:
            ops.writer.add(Collect(inputs, [], region, source, name=name))

    tracer.add_nodes[anchor.name] = add_nodes


def get(tracer: Tracer, name: str, rows: str, key: tf.Tensor, found: Type) -> tf.Tensor:
    """Returns what is kept in a table in the rows of some keys, `[tokens, ...]`.

    Args:
        tracer: The tracer of the function.
        name: The name of the table.
        rows: The name of its rows.
        key: The key of each token, int64 `[tokens]`.
        found: The type of the value that is kept for one token.
    """
    source = current_source()

    def add_nodes(ops: OpNodes) -> None:
        region = ops.region_of(tensor.op)
        node = Get([ops.tokens(key, region)], [found], region, source, name=name, rows=rows)
        ops.add([tensor], node)

    (tensor,) = tracer.placeholders([found], add_nodes)
    tracer.reads.add(name)
    return tensor
