"""Inputs of tree layers in ragged rows, without padding."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


def is_ragged(x: Any) -> bool:
    """Whether a tensor, symbolic or not, is ragged."""
    return isinstance(x, tf.RaggedTensor) or getattr(x, "ragged", False)


def num_trees(x: Any) -> tf.Tensor:
    """The number of trees in a batch, padded or ragged; an int32 scalar."""
    return tf.cast(x.nrows(), tf.int32) if is_ragged(x) else tf.shape(x)[0]


def like(x: Any, shape: Any, dtype: Any) -> keras.KerasTensor:
    """A symbolic output; ragged if `x` is and it has tree nodes, `[batch, nodes, units]`."""
    return keras.KerasTensor(shape, dtype, ragged=is_ragged(x) and len(shape) == 3)


def as_rows(x: tf.RaggedTensor, children: tf.RaggedTensor) -> tuple[Any, Any]:
    """Both with int64 row splits; `children` is in rows even if all have the same length.

    Args:
        x: The inputs of tree nodes, `[batch, (nodes), features]` or `[batch, (nodes)]`.
        children: The children, `[batch, (nodes), (children)]` or `[batch, (nodes), arity]`.
    """
    x, children = (of.with_row_splits_dtype(tf.int64) for of in (x, children))
    if children.ragged_rank == 1:
        rows = tf.RaggedTensor.from_tensor(children.values, row_splits_dtype=tf.int64)
        children = children.with_values(rows)
    return x, children


def check_children(name: str, children: Any) -> None:
    """Raises a ValueError if `children`, or their shape, are missing."""
    if children is None:
        raise ValueError(
            f"{name} needs two inputs, layer(x, children): what the tree nodes read, [batch, "
            "nodes, ..], and the indices of their children, [batch, nodes, arity]. In a "
            "keras.Sequential only the first layer can have two inputs, and no keras.Input before "
            "it: call that model with [x, children], or use the functional API. Layers around "
            "other layers, such as keras.layers.TimeDistributed, pass one input."
        )


def both_inputs(name: str, x: Any, children: Any, takes_ragged: bool = False) -> tuple[Any, Any]:
    """Returns `x` and `children` of a call, whether given separately or as one list.

    Args:
        name: The layer's name.
        x: The inputs of tree nodes.
        children: The children; None if `x` is a list of both.
        takes_ragged: Whether both may be ragged.

    Raises:
        ValueError: If `children` are missing, if either tensor is sparse, or if one is ragged where
            the layer or the other tensor does not allow it.
    """
    if children is None and isinstance(x, list | tuple) and len(x) == 2:
        x, children = x
    check_children(name, children)
    one_is_padded = not (is_ragged(x) and is_ragged(children))
    for what, given, filler in (("x", x, ""), ("children", children, "default_value=-1")):
        if is_ragged(given) and (one_is_padded or not takes_ragged):
            other = "children" if what == "x" else "x"
            both = f", or {other} in rows, too" if takes_ragged else ""
            raise ValueError(
                f"`{what}` of {name} must be padded, with as many nodes in `x` as in `children`, "
                f"received a ragged tensor. Give {what}.to_tensor({filler}){both}."
            )
        if isinstance(given, tf.SparseTensor) or getattr(given, "sparse", False):
            raise ValueError(
                f"`{what}` of {name} must be dense, received a sparse tensor. Give "
                f"tf.sparse.to_dense({what})."
            )
    return x, children
