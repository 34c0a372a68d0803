"""Converts the arguments of a recursive function: Python values to tensors with a token axis."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from kerasrec._src.datatypes.data_type import is_object
from kerasrec._src.datatypes.schema import as_values
from kerasrec._src.datatypes.values import Tables, tables_in
from kerasrec._src.errors import SignatureError, TraceError
from kerasrec._src.graph.types import Kind, Type
from kerasrec._src.trace.ragged import entries_of
from kerasrec._src.trace.signature import (
    Signature,
    Traceable,
    check_shapes,
    signature_of,
    tensors_in,
)
from kerasrec._src.trace.source import at_this_line, here
from kerasrec._src.trace.tracer import is_inside_traced_graph


@dataclass
class Arguments:
    """The arguments of a call from outside.

    Args:
        tensors: The flat tensors, with a token axis unless `is_scalar`.
        is_scalar: Whether all were given without a token axis.
        rows: A RaggedTensor with the tokens as its entries, if any was given.
        signature: The signature of the tensors.
        tables: The tables of the values of data types among them.
    """

    tensors: list[tf.Tensor]
    is_scalar: bool
    rows: tf.RaggedTensor | None
    signature: Signature
    tables: list[Tables]

    def tokens(self) -> list[tf.Tensor]:
        """The tensors with a token axis."""
        return as_token(self.tensors) if self.is_scalar else self.tensors


def bind(function: Traceable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Returns the arguments by position, keyword-only ones last, with defaults filled in.

    Raises:
        SignatureError: If they do not fit the function, or one without a default is None.
    """
    try:
        bound = function.python_signature.bind(*args, **kwargs)
    except TypeError as error:
        parameters = function.python_signature.parameters
        takes_any = any(item.kind is item.VAR_KEYWORD for item in parameters.values())
        others = [] if takes_any else [repr(name) for name in kwargs if name not in parameters]
        # Python's error names a missing argument first.
        reason = f"it has no argument {', '.join(others)}" if others else error
        raise SignatureError(
            f"A call of {function.name}{function.python_signature} does not fit: "
            f"{reason}.{at_this_line()}"
        ) from error
    bound.apply_defaults()
    keywords = keyword_only(function)
    others = [name for name in bound.kwargs if name not in keywords]
    if others:
        raise SignatureError(
            f"{function.name} takes any keyword (**) and was given {', '.join(others)}, but the "
            "arguments of a recursive function need names in its signature. Name them there, "
            "or pass a dict."
        )
    given = (*bound.args, *(bound.kwargs[name] for name in keywords))
    flat = tf.nest.flatten(given)
    if any(item is None for item in flat):
        _check_defaults(function, bound.arguments)
    if given and not flat:
        raise SignatureError(
            f"{function.name} was called with nothing but empty lists, which have no dtype. For no "
            "tokens pass an empty array, such as np.zeros([0], np.int32), or for no values of a "
            "data type schema.values(schema.encode([]))."
        )
    return given


def _check_defaults(function: Traceable, arguments: Mapping[str, Any]) -> None:
    """Raises SignatureError if an argument without a default is None, or has None in it."""
    for name, item in function.python_signature.parameters.items():
        is_none = any(leaf is None for leaf in tf.nest.flatten(arguments[name]))
        if is_none and item.default is item.empty:
            raise SignatureError(
                f"{function.name} was given None for {name!r}{here()}, which cannot be converted "
                "to a tensor. An argument may be None if it has a default."
            )


def keyword_only(function: Traceable) -> list[str]:
    """The names of the keyword-only parameters of a function, which `bind` puts last."""
    parameters = function.python_signature.parameters.values()
    return [item.name for item in parameters if item.kind is item.KEYWORD_ONLY]


def arguments_of(function: Traceable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    """Returns the arguments of a call from outside, as tensors.

    Raises:
        SignatureError: If they do not fit the function, or each other.
        TraceError: If the function cannot be called here: inside TensorFlow's own control flow, or
            while `tf.function`s run eagerly.
    """
    name = function.name
    if is_inside_traced_graph():
        raise TraceError(
            f"{name} is called in the body of tf.cond, tf.while_loop, tf.map_fn or a "
            "tf.function, inside a recursive function. Call it in kerasrec.cond, "
            "kerasrec.while_loop or kerasrec.map_fn."
        )
    if tf.config.functions_run_eagerly():
        raise TraceError(
            f"{name} cannot run under tf.config.run_functions_eagerly(True): a recursive "
            "function runs in a graph. Turn it off; model.compile(run_eagerly=True) runs the "
            "rest of a model eagerly. tf.print and run_trace show the steps of a recursion."
        )
    bound = tuple(_array_like(name, item) for item in as_values(bind(function, args, kwargs)))
    defaults = {id(item.default): key for key, item in function.python_signature.parameters.items()}
    found = [_tensor(name, item, defaults.get(id(item))) for item in tensors_in(bound)]
    tensors, rows = entries_of(name, found)
    for tensor in tensors:
        if tensor.shape.rank is None:
            raise SignatureError(
                f"An argument of {name} has an unknown rank; set its shape (tf.ensure_shape)."
            )
    is_scalar = all(tensor.shape.rank == 0 for tensor in tensors)
    if is_scalar:
        types = [Type(tensor.dtype, ()) for tensor in tensors]
    else:
        tensors = _same_tokens(name, tensors)
        types = [Type.of(tensor, Kind.TOKEN) for tensor in tensors]
    signature = signature_of(function, bound, types)
    if not getattr(function, "memo", False):
        check_shapes(name, signature.names, types)
    return Arguments(tensors, is_scalar, rows, signature, tables_in(signature.structure))


def as_token(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Gives tensors without a token axis the axis of one token."""
    return [tf.expand_dims(tensor, 0) for tensor in tensors]


def _array_like(name: str, value: Any) -> Any:
    """Makes one tensor of each list of numbers or strings; other lists and tuples are nests."""
    items = tf.nest.flatten(value) if isinstance(value, list) else []
    given = [item for item in items if item is not None]
    if given and all(
        isinstance(item, int | float | complex | str | bytes | np.generic) for item in given
    ):
        return _tensor(name, value)
    if isinstance(value, dict):
        return {key: _array_like(name, item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_array_like(name, item) for item in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_array_like(name, item) for item in value))
    return value


def _tensor(name: str, value: Any, default_of: str | None = None) -> tf.Tensor | tf.RaggedTensor:
    if isinstance(value, tf.RaggedTensor):
        return value
    try:
        return tf.convert_to_tensor(value)
    except (TypeError, ValueError) as error:
        is_value = is_object(value)
        shown = reprlib.repr(value) if is_value or isinstance(value, list) else repr(value)
        raise SignatureError(
            f"{name} was given {shown}, which cannot be converted to a tensor: "
            f"{str(error).rstrip('.')}.{_hint(value, is_value, str(error))}"
            + (f" It is the default of `{default_of}`." if default_of else "")
        ) from error


def _hint(value: Any, is_value: bool, reason: str) -> str:
    """Returns what to pass instead of a value that is not a tensor."""
    if is_value:
        return " Pass an object of a data type by itself, or several of one type in a list."
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return " Documents are passed as schema.of(documents), with a schema of Schema.infer."
    if "non-rectangular" in reason:
        return (
            " Rows of different lengths are passed as tf.ragged.constant(rows), which makes a call "
            "for each entry. To let a call see a whole row, pad the rows to one length."
        )
    return ""


def _same_tokens(name: str, tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    """Gives every tensor the same token axis; 0-d tensors are repeated."""
    if len(tensors) == 1:
        return tensors
    with_axis = [tensor for tensor in tensors if tensor.shape.rank]
    sizes = {tensor.shape[0] for tensor in with_axis}
    if len(sizes - {None}) > 1:
        shapes = ", ".join(str(tensor.shape) for tensor in tensors)
        raise SignatureError(
            f"Arguments of {name} have different numbers of tokens, shapes {shapes}. "
            "The first axis of every argument is the token axis: its size must be equal in all "
            "arguments that are not 0-d. Close over a value that all tokens share, or repeat it."
        )
    count = tf.shape(with_axis[0])[0] if None in sizes else max(sizes)
    for tensor in with_axis[1:] if None in sizes else ():
        tf.debugging.assert_equal(
            tf.shape(tensor)[0],
            count,
            f"Arguments of {name} have different numbers of tokens; the first axis of "
            "every argument is the token axis, and its size must be equal.",
        )
    return [tensor if tensor.shape.rank else tf.fill([count], tensor) for tensor in tensors]
