"""`collect`: values from inner calls, without threading them through returns."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kerasrec._src.autograph import not_converted
from kerasrec._src.errors import SignatureError, TraceError
from kerasrec._src.graph.nodes import Collect
from kerasrec._src.trace.conditional import as_int32
from kerasrec._src.trace.op_nodes import OpNodes
from kerasrec._src.trace.source import at, current_source
from kerasrec._src.trace.tracer import tracer_for


@not_converted
def collect(name: str, value: Any, index: Any = None, size: Any = None) -> None:
    """Collects a value of this call, in a row that the whole run shares.

    `function.with_collected(...)` then returns a dict of all rows together with the result;
    gradients flow through them. Values collected at the same index are summed; rows that no call
    wrote are zero.

    Without `index` and `size`, there is a row for each token that reaches this call. These rows are
    in no particular order, so a value should include something that identifies it, and no gradient
    flows through them.

    Args:
        name: The name of the rows in the dict.
        value: The value of each token, `[tokens, ...]`, of any float or int dtype. Without an index
          it may have any dtype.
        index: The row that each token writes, `[tokens]` of any int dtype; or a value of a data
            type, with its number among all tree nodes of the batch as its row.
        size: The number of rows, an int scalar that depends on no token.

    Raises:
        TraceError: If it is called outside a recursive function, if `name` is not a string, if
            `index` is not one int per token, or if only one of `index` and `size` is given.
    """
    tracer = tracer_for("kerasrec.collect")
    source = current_source()
    place = at(source)
    if not isinstance(name, str):
        raise TraceError(
            f'kerasrec.collect{place}: `name` must be a string, such as "states"; it is {name!r}.'
        )
    if (index is None) != (size is None):
        given, missing = ("size", "index") if index is None else ("index", "size")
        raise TraceError(
            f"kerasrec.collect{place}: `{given}` is given without `{missing}`. Give both, for "
            "rows by index, or neither, for a row from each token."
        )
    values = tracer.tensor(value, None, "`value` of kerasrec.collect")
    tracer.token_type(values, "`value` of kerasrec.collect")
    rows = count = None
    if index is not None:
        numbers = tf.nest.flatten(index)
        if len(numbers) != 1:
            raise TraceError(
                f"kerasrec.collect{place}: `index` must be one int per token; it has "
                f"{len(numbers)} tensors."
            )
        # Values of data types have int64 numbers.
        rows = tracer.tensor(as_int32(numbers[0]), None, "`index` of kerasrec.collect")
        found = tracer.token_type(rows, "`index` of kerasrec.collect")
        if found.shape != () or found.dtype != tf.int32:
            raise TraceError(
                f"kerasrec.collect{place}: `index` must be one int per token; it is {found}."
            )
        count = as_int32(tracer.tensor(size, None, "`size` of kerasrec.collect"))
    anchor = tf.no_op("collect")

    def add_nodes(ops: OpNodes) -> None:
        region = ops.region_of(anchor)
        inputs = [ops.tokens(tensor, region) for tensor in (values, rows) if tensor is not None]
        num_rows = None if count is None else ops.value(count)
        if num_rows and not num_rows.is_shared:
            raise SignatureError(
                f"`size` of kerasrec.collect at {source} depends on the tokens, but the "
                "run has one size for all of them. Pass one that does not depend on them."
            )
        ops.writer.add(Collect(inputs, [], region, source, name=name, size=num_rows))

    tracer.add_nodes[anchor.name] = add_nodes
