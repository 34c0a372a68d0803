"""Checks that numbers fit into the dtypes of a model's inputs.

A functional model casts its inputs before any layer sees them. With `keras.Input(dtype="int32")`
the token 2**32 + 5 of an int64 array would become 5, and a child 1.5 would become 1.
"""

from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.int_range import cast_integers, whole_numbers


def checked_inputs(model: keras.Model, given: Any) -> Any:
    """Returns the inputs of a model, with numbers cast to the integers that it expects.

    Args:
        model: A model of any kind; if it has no `inputs`, as subclassed models, nothing is cast or
            checked.
        given: A nest of tensors and arrays, as the model takes it.

    Raises:
        tf.errors.InvalidArgumentError: When the step runs, if a number does not fit into the dtype
            of its input; the message has the number, its place and the name of the input.
    """
    inputs = keras.tree.flatten(getattr(model, "inputs", None) or [])
    if isinstance(given, dict):
        by_name = {symbol.name: symbol for symbol in inputs}
        return {
            name: _checked(value, by_name[name]) if name in by_name else value
            for name, value in given.items()
        }
    flat = keras.tree.flatten(given)
    if len(flat) != len(inputs):
        return given  # Keras reports the mismatch.
    checked = [_checked(value, symbol) for value, symbol in zip(flat, inputs, strict=True)]
    return keras.tree.pack_sequence_as(given, checked)


def _checked(value: Any, symbol: keras.KerasTensor) -> Any:
    """The value for an input of a model, cast to the input's dtype if that is an integer."""
    if isinstance(value, keras.KerasTensor) or not hasattr(value, "dtype"):
        return value
    dtype, wanted = tf.as_dtype(value.dtype), tf.as_dtype(symbol.dtype)
    if not (wanted.is_integer and (dtype.is_integer or dtype.is_floating)):
        return value
    what = f"The input {symbol.name}"
    is_ragged = isinstance(value, tf.RaggedTensor)
    flat = value.flat_values if is_ragged else tf.convert_to_tensor(value)
    if dtype.is_floating:
        flat = whole_numbers(flat, what)
    flat = cast_integers(flat, wanted, what)
    return value.with_flat_values(flat) if is_ragged else flat
