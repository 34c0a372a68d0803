"""How numbers depend on how many tokens happen to run together.

`tf.shape(x)[0]` is good for shapes, but a token's value must not depend on it. Of each number the
finder of kinds keeps the power in which that of the tokens is in it: 1 for `tf.shape(x)[0]`, 0 for
`tf.shape(x)[1]` and for `tf.size(x) // tf.shape(x)[0]`, NaN for what depends on it in another way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from kerasrec.trace.token_axis import static_value

# Names of inputs, in TensorFlow's definitions of ops, that say how large or where an output is.
# fmt: off
_OF_SHAPES = frozenset({
    "shape", "dims", "multiples", "begin", "end", "strides", "size", "size_splits", "paddings",
    "num_segments", "depth", "output_shape", "input_sizes", "filter_sizes", "element_shape",
    "num_elements", "num_rows", "num_cols", "num_samples", "fft_length", "block_shape", "crops",
    "axis", "reduction_indices", "dim", "perm",
})
# fmt: on
_SAME = frozenset({"Identity", "Cast", "StopGradient", "EnsureShape", "Neg", "Squeeze"})
_EXACT_QUOTIENTS = frozenset({"RealDiv", "Div"})
_WHOLE_QUOTIENTS = frozenset({"FloorDiv", "TruncateDiv"})

Power = np.ndarray
"""Of a vector one for each entry, otherwise one for all of a tensor."""

NONE = np.zeros(())
UNKNOWN = np.array(np.nan)


def depends(power: Power) -> bool:
    """Whether numbers of this power depend on how many tokens run together."""
    return bool((power != 0).any())


def are_values(operation: tf.Operation) -> list[bool]:
    """Of each input of an op whether outputs are computed from it, and not only shaped by it."""
    found: list[bool] = []
    for item in operation.op_def.input_arg:
        count = 1
        if item.number_attr:
            count = operation.get_attr(item.number_attr)
        elif item.type_list_attr:
            count = len(operation.get_attr(item.type_list_attr))
        is_of_sizes = operation.type == "ConcatOffset" and item.name == "shape"
        found += [item.name not in _OF_SHAPES or is_of_sizes] * count
    return found


def powers_after(operation: tf.Operation, powers: Sequence[Power]) -> list[Power]:
    """Of each output of an op, from those of its inputs."""
    pairs = zip(powers, are_values(operation), strict=True)
    if not any(depends(power) and is_value for power, is_value in pairs):
        return [NONE] * len(operation.outputs)
    if operation.type == "IdentityN":
        return list(powers)
    if operation.type == "Unpack" and powers[0].ndim == 1:
        return list(powers[0])
    if operation.type == "Split" and powers[1].ndim == 1:
        return np.split(powers[1], len(operation.outputs))
    try:
        found = _after(operation, powers)
    except (IndexError, TypeError, ValueError):  # Other shapes than those of sizes.
        found = None
    if found is None or operation.outputs[0].shape.rank not in (0, 1):
        return [UNKNOWN] * len(operation.outputs)
    return [np.asarray(found, float)]


def _after(operation: tf.Operation, powers: Sequence[Power]) -> Power | None:
    kind, first = operation.type, powers[0]
    if kind in _SAME:
        return first.reshape([]) if operation.outputs[0].shape.rank == 0 else first
    if kind == "Pack":
        return np.stack(powers)
    if kind == "ConcatV2":
        parts = zip(powers[:-1], operation.inputs[:-1], strict=True)
        return np.concatenate([np.broadcast_to(one, item.shape) for one, item in parts])
    if kind == "StridedSlice" and first.ndim == 1:
        return _slice(operation, first)
    if kind == "GatherV2" and first.ndim == 1 and not depends(powers[1]):
        indices = static_value(operation.inputs[1])
        return None if indices is None else first[indices]
    if kind == "Prod" and first.ndim == 1:
        return first.sum()
    if kind == "Mul":
        return first + powers[1]
    if kind in _EXACT_QUOTIENTS:
        return first - powers[1]
    if kind in _WHOLE_QUOTIENTS:
        return np.where(first == powers[1], 0.0, np.nan)
    if kind == "Maximum":  # TensorFlow's own way to divide by a size that may be zero.
        other = tf.get_static_value(operation.inputs[1])
        return first if other is not None and (other <= 1).all() else None
    return None


def _slice(operation: tf.Operation, power: Power) -> Power | None:
    begin, end, strides = (tf.get_static_value(item) for item in operation.inputs[1:])
    if begin is None or end is None or strides is None or len(begin) != 1:
        return None
    masks = {name: operation.get_attr(f"{name}_mask") for name in ("begin", "end", "shrink_axis")}
    if operation.get_attr("new_axis_mask") or operation.get_attr("ellipsis_mask"):
        return None
    if masks["shrink_axis"]:
        return power[begin[0]]
    first = None if masks["begin"] else begin[0]
    return power[first : None if masks["end"] else end[0] : strides[0]]
