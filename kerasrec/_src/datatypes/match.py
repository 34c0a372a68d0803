"""`match`: a conditional on the kind of a value."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import tensorflow as tf

from kerasrec._src.autograph import not_converted
from kerasrec._src.datatypes.data_type import DataType
from kerasrec._src.datatypes.made_rows import number_by_kind
from kerasrec._src.datatypes.values import Value
from kerasrec._src.errors import TraceError
from kerasrec._src.trace.conditional import as_int32, choose
from kerasrec._src.trace.source import here
from kerasrec._src.trace.tracer import tracer_for


@not_converted
def match(value: Any, branches: Mapping[type | None, Callable[..., Any]]) -> Any:
    """Chooses a branch by the kind of a value of a data type, for each token separately.

    ```python
    @kerasrec.recursive
    def total(e):
        return kerasrec.match(e, {
            Number: lambda e: e.value,
            Apply: lambda e: tf.reduce_sum(total(e.arguments), axis=1),
        })
    ```

    In the graph this is the SWITCH and MERGE of `kerasrec.switch`.

    Args:
        value: A value of a data type: an argument of a recursive function, a value that the run has
            made, or a field of one.
        branches: A dict with a function for each kind. A type stands for all its kinds that have no
            branch before it; its function gets the value, to match it again. None stands for an
            optional field without a value; its function is called without arguments.

    Returns:
        The results of the chosen branches, in the order of the tokens. Where others return values
        of a data type, a branch may return None: the result is then a value that may be None.

    Raises:
        TraceError: If `value` is not a value of a data type, or if a kind has no branch.
        SignatureError: If the branches return different structures, dtypes or shapes.
    """
    tracer = tracer_for("kerasrec.match")
    if not isinstance(value, Value):
        is_empty = isinstance(value, list) and not value
        raise TraceError(
            f"kerasrec.match got {value!r}; expected a value of a data type, as an argument of a "
            "recursive function is that was called with one, or a field of such a value."
            + (" For no values pass schema.values(schema.encode([]))." * is_empty)
        )
    schema, left = value._tables.schema, list(value._kinds)
    chosen: dict[str, Callable[..., Any]] = {}
    places = [len(branches)] * len(schema.kinds)
    for kind, branch in branches.items():
        if kind is None:
            continue
        if not (isinstance(kind, type) and issubclass(kind, DataType)):
            raise TraceError(
                f"kerasrec.match has a branch for {kind!r}; expected kerasrec.DataType or "
                "a subclass of it, or None."
            )
        taken = [number for number in left if issubclass(schema.kinds[number].type, kind)]
        if not taken:
            names = ", ".join(schema.kinds[number].name for number in value._kinds)
            raise TraceError(
                f"kerasrec.match has a branch for {kind.__name__}, but the value can only be "
                f"{names}, and branches before it take their kinds. Leave it out."
            )
        for number in taken:
            places[number] = len(chosen)
            left.remove(number)
        name = f"the branch for {kind.__name__}"
        if name in chosen:  # Another module has a type of this name.
            name += f", number {len(chosen)},"
        chosen[name] = partial(_branch, name, branch, value, tuple(taken))
    missing = [schema.kinds[number].name for number in left]
    missing += ["None"] * (value._is_optional and None not in branches)
    if missing:
        raise TraceError(
            f"kerasrec.match has no branch for {', '.join(missing)}, which the value may be. Add "
            "one for each, or one for their type, after the others."
        )
    if not value._is_optional and len(chosen) == 1:
        (branch,) = chosen.values()
        return branch()
    node, tables, of_none = value._node, value._tables, len(chosen)
    if value._is_optional:
        name = "the branch for None"
        chosen[name] = partial(_called, name, branches[None])
    if value._is_made:
        index = number_by_kind(tables, node, places, of_none)
    else:
        # A table of all tree nodes, computed once for all tokens; the last row is for None.
        table = tf.concat([tf.gather(tf.constant(places), tables.kinds), [of_none]], 0)
        if value._is_optional:
            node = tf.where(node < 0, tf.size(tables.kinds, tf.int64), node)
        index = tf.gather(table, node)
    return choose(tracer, as_int32(index), chosen)


def _branch(name: str, branch: Callable[..., Any], value: Value, kinds: tuple[int, ...]) -> Any:
    """The result of a branch for a value of these kinds."""
    is_known = len(kinds) == 1 and not value._is_made
    row = tf.gather(value._tables.rows, value._node) if is_known else None
    chosen = dataclasses.replace(value, _kinds=kinds, _is_optional=False, _row=row)
    return _called(name, branch, chosen)


def _called(name: str, branch: Callable[..., Any], *arguments: Value) -> Any:
    """The result of a branch."""
    if not callable(branch):
        raise TraceError(
            f"{name[0].upper()}{name[1:]} of kerasrec.match{here()} is {branch!r}, not a function. "
            "Wrap what it computes: `lambda: ...` for None, and `lambda value: ...` for a type."
        )
    return branch(*arguments)
