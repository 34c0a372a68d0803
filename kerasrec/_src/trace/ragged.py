"""`map_fn` and `filter_fn` over the entries of ragged rows, and calls with ragged arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import tensorflow as tf

from kerasrec._src.autograph import not_converted
from kerasrec._src.errors import SignatureError, TraceError
from kerasrec._src.graph.carried import key_of_entry
from kerasrec._src.graph.types import Kind, Type
from kerasrec._src.graph.values import Each, Region, Source
from kerasrec._src.trace.op_nodes import OpNodes
from kerasrec._src.trace.rows import TokenRows
from kerasrec._src.trace.source import at, current_source
from kerasrec._src.trace.tracer import (
    Divided,
    ReturnTypeUnknownError,
    Tracer,
    first_upper,
    tracer_for,
)


@not_converted
def map_fn(fn: Callable[[Any], Any], elems: Any) -> Any:
    """Applies a function to all entries of ragged rows at once.

    Inside `fn`, entries are tokens: `fn` may call recursive functions, use Keras layers, choose
    with `kerasrec.cond`, and read tensors of the function around it, which are repeated for each
    entry of their token's row. Calling a recursive function with ragged arguments is short for
    `map_fn` with that call.

    ```python
    @kerasrec.recursive
    def tree_lstm(node):
        h, c = tree_lstm(tf.gather(children, node))  # ragged, [tokens, (children), units]
        x = tf.gather(inputs, node)
        forget = kerasrec.map_fn(lambda h_k: tf.sigmoid(forget_x(x) + forget_h(h_k)), h)
        ...
    ```

    Args:
        fn: A function that takes the entries of `elems`, as tensors `[entries, ...]` in the same
          nest, and returns any nest of tensors.
        elems: A `tf.RaggedTensor` `[tokens, (k), ...]`, or a nest of several with the same row
          splits.

    Returns:
        The results of `fn` as RaggedTensors `[tokens, (k), ...]` with the row splits of `elems`.

    Raises:
        TraceError: If it is called outside a recursive function, or if `elems` is not ragged.
        SignatureError: If `fn` returns nothing, or values of an open shape.
    """
    tracer = tracer_for("kerasrec.map_fn")
    flat = tf.nest.flatten(elems)
    return _map(
        tracer,
        lambda entries: fn(tf.nest.pack_sequence_as(elems, entries)),
        flat,
        "`elems` of kerasrec.map_fn",
    )


@not_converted
def filter_fn(fn: Callable[[Any], Any], elems: Any) -> Any:
    """Keeps the entries of ragged rows for which a function is true.

    ```python
    @kerasrec.recursive
    def without_zeros(tree):
        kept = kerasrec.filter_fn(lambda child: child.value != 0, tree.children)
        return Tree(tree.value, without_zeros(kept))
    ```

    Args:
        fn: A function that takes entries as for `kerasrec.map_fn`, and returns a bool for each.
        elems: A `tf.RaggedTensor` `[tokens, (k), ...]`, a list of values of a data type, or a nest
          of several with the same row splits.

    Returns:
        The nest of `elems` with the entries that are kept, in their order. Rows may be empty.

    Raises:
        TraceError: If it is called outside a recursive function, or if `elems` is not ragged.
        SignatureError: If `fn` returns anything but one bool for each entry.
    """
    tracer = tracer_for("kerasrec.filter_fn")
    source = current_source()
    flat = tf.nest.flatten(elems)
    (mask,) = tf.nest.flatten(
        _map(
            tracer,
            lambda entries: _bool_of(fn(tf.nest.pack_sequence_as(elems, entries)), source),
            flat,
            "`elems` of kerasrec.filter_fn",
            "kerasrec.filter_fn",
        )
    )
    lengths = tf.reduce_sum(tf.cast(mask, mask.row_splits.dtype), axis=1)
    splits = tf.concat([[0], tf.cumsum(lengths)], 0)
    kept = [
        tf.RaggedTensor.from_row_splits(
            tf.boolean_mask(elem.values, mask.values), splits, validate=False
        )
        for elem in flat
    ]
    return tf.nest.pack_sequence_as(elems, kept)


def _bool_of(result: Any, source: Source | None) -> Any:
    """Returns the result of a filter's function; raises SignatureError if it is not a bool."""
    is_bool = isinstance(result, bool) or (tf.is_tensor(result) and result.dtype == tf.bool)
    if not is_bool or (tf.is_tensor(result) and result.shape.rank not in (0, 1)):
        raise SignatureError(
            f"The result of the function given to kerasrec.filter_fn{at(source)} is {result!r}; it "
            "must return a bool for each entry, as `entry > 0` does."
        )
    return result


def call(tracer: Tracer, function: Any, arguments: tuple[Any, ...]) -> Any:
    """Records a call, or one call for each entry if arguments are ragged."""
    flat = tf.nest.flatten(arguments)
    ragged = [argument for argument in flat if isinstance(argument, tf.RaggedTensor)]
    if not ragged:
        return tracer.call(function, arguments)

    def each(entries: list[tf.Tensor]) -> Any:
        found = iter(entries)
        given = [
            next(found) if isinstance(argument, tf.RaggedTensor) else argument for argument in flat
        ]
        return tracer.call(function, tf.nest.pack_sequence_as(arguments, given))

    return _map(tracer, each, ragged, f"an argument of {function.python_function.__name__}")


def entries_of(
    name: str, tensors: Sequence[tf.Tensor | tf.RaggedTensor]
) -> tuple[list[tf.Tensor], tf.RaggedTensor | None]:
    """Returns flat arguments of a call from outside, with all entries of all rows as tokens.

    Args:
        name: The function's name.
        tensors: The flat arguments. Those that are not ragged and have a first axis are repeated
            for the entries of each row.

    Returns:
        The arguments, and the first RaggedTensor among them, or None.

    Raises:
        SignatureError: If the RaggedTensors have different rows, or more than one ragged axis.
    """
    ragged = [tensor for tensor in tensors if isinstance(tensor, tf.RaggedTensor)]
    if not ragged:
        return list(tensors), None
    rows, *others = ragged
    for tensor in ragged:
        if tensor.ragged_rank != 1:
            raise SignatureError(
                f"{_too_ragged(tensor, f'an argument of {name}', None)} A batch that a schema has "
                "encoded is given as `schema.values(batch)`."
            )
    message = (
        f"Ragged arguments of {name} have rows of different lengths. All of them must have the "
        "same row splits. A batch that a schema has encoded is given as `schema.values(batch)`."
    )
    for tensor in others:
        is_same = tf.raw_ops.Equal(
            x=tf.cast(rows.row_splits, tf.int64),
            y=tf.cast(tensor.row_splits, tf.int64),
            incompatible_shape_error=False,
        )
        tf.debugging.assert_equal(tf.reduce_all(is_same), True, message)
    ids = rows.value_rowids()
    entries = []
    for tensor in tensors:
        if isinstance(tensor, tf.RaggedTensor):
            entries.append(tensor.values)
        else:
            entries.append(tf.gather(tensor, ids) if tensor.shape.rank else tensor)
    return entries, rows


def _map(
    tracer: Tracer,
    fn: Callable[[list[tf.Tensor]], Any],
    ragged: Sequence[Any],
    what: str,
    name: str = "kerasrec.map_fn",
) -> Any:
    source = current_source()
    for elem in ragged:
        _check(elem, what, source)
    for elem in ragged:
        parts = [tracer.tensor(part, None, what) for part in (elem.values, elem.row_splits)]
        if any(tracer.kind(part) is Kind.SHARED for part in parts):
            raise TraceError(
                f"{first_upper(what)}{at(source)} is a tf.RaggedTensor that depends on no "
                "token; it must have a row for each token. Look the token's row up: "
                "`tf.gather(ragged, node)`."
            )
        if tracer.is_of_other_rows(parts[0]):
            raise TraceError(
                f"{first_upper(what)}{at(source)} is not one value per token: its entries "
                "were computed from those of all tokens' rows together, as "
                "`tf.cumsum(rows.values)` does. Compute within a row, as `tf.reduce_sum(rows, "
                "axis=1)` does."
            )
    found_rows = tracer.rows.find(ragged[0].row_splits, tracer.scope)
    like = ragged[0] if found_rows else _by_splits(ragged[0])
    rows = [tracer.rows_of(elem) for elem in ragged]
    mapped = _Map(source, rows, [elem.values for elem in ragged])
    with tracer.inside(mapped) as part:
        types = [Type.of(values, Kind.TOKEN) for values in mapped.values]
        mapped.entries = tracer.placeholders(types, mapped.enter)
        try:
            result = fn(mapped.entries)
        except ReturnTypeUnknownError as error:
            error.can_end = True
            raise
        returned = f"the result of the function given to {name}{at(source)}"
        wanted = "it must return tensors, a value for each entry."
        part.outputs, found = tracer.returned(result, (), returned, wanted)
    types = [value_type.as_rows() for value_type in found.types]
    mapped.results = tracer.placeholders(types, mapped.leave)
    return tf.nest.pack_sequence_as(found.structure, list(map(like.with_values, mapped.results)))


@dataclass(eq=False)
class _Map(Divided):
    """A function applied to the entries of rows; the results are all entries of its results.

    Args:
        rows: The rows of each ragged value.
        values: All entries of each ragged value.
        entries: Placeholders for the entries, as the function sees them.
    """

    rows: list[TokenRows]
    values: list[tf.Tensor]
    entries: list[tf.Tensor] = field(default_factory=list, init=False)

    def regions(self, ops: OpNodes, around: Region | None) -> Sequence[Region]:
        """Returns the region of the entries."""
        return [Each(around, ops.tokens(self.rows[0].lengths, around))]

    def key_inside(self, ops: OpNodes, operation: tf.Operation, key: tf.Tensor) -> tf.Tensor:
        """Returns the keys of the entries, each of which has its own."""
        rows, place = self.rows[0], ops.placeholder(Type(tf.int32, ()))
        self._enter(ops, ops.made(rows.ids.op, rows.places), place, rows)
        return ops.made(operation, partial(key_of_entry, place, key))

    def enter(self, ops: OpNodes) -> None:
        """Adds the ENTERs."""
        for values, entry, rows in zip(self.values, self.entries, self.rows, strict=True):
            self._enter(ops, values, entry, rows)

    def _enter(self, ops: OpNodes, values: tf.Tensor, entry: tf.Tensor, rows: TokenRows) -> None:
        region = ops.region_in(self.parts[0].scope)
        lengths = [region.selector]
        if not ops.tracer.rows.same(rows, self.rows[0]):
            lengths.append(ops.tokens(rows.lengths, region.parent))
        given, found = ops.into(values, region.parent), ops.tracer.type(entry)
        ops.values[entry.name] = ops.writer.enter(given, lengths, region, found, self.source)

    def leave(self, ops: OpNodes) -> None:
        """Adds the LEAVEs."""
        (part,) = self.parts
        inside = ops.region_in(part.scope)
        for output, result in zip(part.outputs, self.results, strict=True):
            value = ops.tokens(output, inside)
            if not value.type.is_static:
                raise SignatureError(
                    f"The result of the function given to kerasrec.map_fn at {self.source} has "
                    f"an open shape, {value.type} per entry. Set the shape with tf.ensure_shape, "
                    "or pad to one shape."
                )
            ops.values[result.name] = ops.writer.leave(value, inside.selector, inside.parent)


def _by_splits(rows: tf.RaggedTensor) -> tf.RaggedTensor:
    """Returns the same rows without the lengths or row numbers that they were made of, if any.

    TensorFlow would use them instead of the row splits, and they are not known to be the same.
    """
    if not any(compute() is compute() for compute in (rows.row_lengths, rows.nrows)):
        return rows
    return tf.RaggedTensor.from_row_splits(rows.values, rows.row_splits, validate=False)


def _check(elem: Any, what: str, source: Source | None) -> None:
    if not isinstance(elem, tf.RaggedTensor):
        raise TraceError(
            f"{first_upper(what)}{at(source)} must be a tf.RaggedTensor, a row of entries "
            f"for each token; it is {elem!r}. If its rows all have the same length, "
            "`tf.RaggedTensor.from_tensor` converts it."
        )
    if elem.ragged_rank != 1:
        raise TraceError(_too_ragged(elem, what, source))


def _too_ragged(elem: tf.RaggedTensor, what: str, source: Source | None) -> str:
    return (
        f"{first_upper(what)}{at(source)} has ragged rank {elem.ragged_rank}; only one "
        "ragged axis, the one after the token axis, can be mapped over. Flatten the inner ones "
        "(`.merge_dims(1, 2)`), or pad them."
    )
