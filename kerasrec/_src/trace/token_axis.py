"""Finds where the token axis is after an op, and whether the op works along it.

Tokens are independent of each other, so an op that adds up, sorts or multiplies along the token
axis mixes them. This also holds if a transpose or a new axis has made it the second axis or the
last. If the token axis is not the first, only the ops listed here are known to keep tokens apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from kerasrec._src.trace.functions import held_functions

# fmt: off
REDUCTIONS = frozenset({
    "Sum", "Mean", "Prod", "Max", "Min", "Any", "All", "ArgMax", "ArgMin", "EuclideanNorm",
    "ReduceJoin",
})
# fmt: on
_MATRIX_PRODUCTS = frozenset({"MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"})
# fmt: off
ELEMENTWISE = frozenset({
    "Identity", "Cast", "StopGradient", "PreventGradient", "ZerosLike", "OnesLike", "Neg", "Abs",
    "Sign", "Exp", "Expm1", "Log", "Log1p", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh",
    "Cosh", "Tanh", "Sigmoid", "Relu", "Relu6", "Elu", "Selu", "Softplus", "Softsign", "Erf",
    "Erfc", "Sqrt", "Rsqrt", "Square", "Reciprocal", "Inv", "Floor", "Ceil", "Round", "Rint",
    "IsNan", "IsInf", "IsFinite", "LogicalNot", "AddV2", "Add", "Sub", "Mul", "RealDiv", "Div",
    "DivNoNan", "MulNoNan", "FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod", "Mod",
    "Maximum", "Minimum", "Pow", "Atan2", "SquaredDifference", "Greater", "GreaterEqual", "Less",
    "LessEqual", "Equal", "NotEqual", "LogicalAnd", "LogicalOr", "SelectV2", "Xlogy", "Xdivy",
    "Xlog1py", "NextAfter", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift",
    "Igamma", "Igammac", "Zeta", "Polygamma", "Betainc", "Complex",
})
# Ops on the last axes of their inputs, and how many axes these are.
_LAST_AXES = {"FFT": 1, "IFFT": 1, "RFFT": 1, "IRFFT": 1, "AdjustContrastv2": 3} | dict.fromkeys((
    "FFT2D", "IFFT2D", "RFFT2D", "IRFFT2D", "MatrixDeterminant", "LogMatrixDeterminant",
    "MatrixInverse", "MatrixBandPart", "MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3",
    "MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3", "MatrixSolve", "MatrixTriangularSolve",
    "MatrixSolveLs", "MatrixExponential", "MatrixLogarithm", "MatrixSquareRoot", "Cholesky",
    "Lu", "Qr", "Svd", "Eig", "SelfAdjointEigV2", "TridiagonalSolve", "TridiagonalMatMul",
), 2)
# fmt: on
_LAST_AXIS = frozenset({"Softmax", "LogSoftmax"})
# Ops that work along the axes that their last input names.
AXIS_OPS = frozenset({"Cumsum", "Cumprod", "ReverseV2", "CumulativeLogsumexp", "Roll"})
SIZES = frozenset({"Shape", "ShapeN", "Size", "Rank"})
# The results of these ops may lack the token axis without being computed from all tokens: sizes;
# broadcasts that put new axes before the token axis; and results of Python functions.
_WITHOUT_TOKENS = SIZES | {"BroadcastTo", "PyFunc", "PyFuncStateless", "EagerPyFunc"}
# How NumPy computes the ops that orders of axes come from.
_STATIC_OPS: dict[str, Callable[..., np.ndarray]] = {
    "Sub": np.subtract,
    "AddV2": np.add,
    "Range": np.arange,
    "ConcatV2": lambda *parts: np.concatenate(parts[:-1]),
    "Pack": lambda *parts: np.stack(parts),
}

# Instead of the place of the token axis, if an op mixes tokens or is not known to keep them apart.
MIXED = -1

# For each input, the place of its token axis; None if it has none.
Axes = Sequence[int | None]


def axes_after(operation: tf.Operation, axes: Axes, is_trial: bool = False) -> Sequence[int | None]:
    """Returns the places of the token axis in the outputs of an op, as far as they can be told.

    Args:
        operation: An op.
        axes: The places of the token axis in its inputs.
        is_trial: Whether return types are being tried, so that ranks may be wrong.

    Returns:
        For each output, the place; or `MIXED`; or None if the token axis is the first, if there is
        none, or if the op is not looked at.
    """
    count = len(operation.outputs)
    if all(axis is None for axis in axes):
        return [None] * count
    place = _axis_after(operation, axes, is_trial)
    if operation.type == "TensorListPopBack" and place:
        return [place, place - 1]
    return [place] * count


def _axis_after(operation: tf.Operation, axes: Axes, is_trial: bool) -> int | None:
    kind = operation.type
    if kind in _MATRIX_PRODUCTS:
        return _after_matrices(operation, axes)
    if kind == "Einsum":
        return _after_einsum(operation, axes)
    if kind in ELEMENTWISE:
        return _after_elementwise(operation, axes, is_trial)
    if kind.startswith("TensorList"):
        return _after_list(kind, axes)
    if _works_along_tokens(operation, axes):
        return MIXED
    axis = axes[0] if axes else None
    if kind in ("Transpose", "ExpandDims") and axis is not None:
        return _after_new_order(operation, axis)
    if kind == "Pack":
        return _after_stack(operation, axes)
    if kind == "Reshape" and axis is not None and not is_trial:
        return _after_reshape(operation, axis)
    if kind == "StridedSlice" and axis == 0:
        return _after_new_axes(operation)
    if not any(axes) or kind in SIZES:
        return None
    return _after_moved(operation, axes[0])


def static_value(tensor: tf.Tensor) -> np.ndarray | None:
    """Returns the value of a tensor that is known while tracing; None if it is not.

    This includes the orders of axes that TensorFlow computes, for instance in `tf.nn.softmax`.
    """
    found = tf.get_static_value(tensor)
    operation = tensor.op
    if found is not None or operation.type not in _STATIC_OPS:
        return found
    inputs = [static_value(source) for source in operation.inputs]
    return None if any(item is None for item in inputs) else _STATIC_OPS[operation.type](*inputs)


def _after_matrices(operation: tf.Operation, axes: Axes) -> int | None:
    """Returns the place of the token axis after a product of matrices, or of batches of these."""
    if operation.type == "MatMul":
        is_turned = [operation.get_attr(f"transpose_{side}") for side in "ab"]
    else:
        is_turned = [operation.get_attr(f"adj_{side}") for side in "xy"]
    ranks = [source.shape.rank for source in operation.inputs]
    out_rank = operation.outputs[0].shape.rank
    if None in (*ranks, out_rank):
        return None
    places = set()
    for side, (axis, rank, turned) in enumerate(zip(axes, ranks, is_turned, strict=True)):
        if axis is None:
            continue
        place = axis - rank  # -2 and -1 are the axes of the matrix.
        if place < -2:
            places.add(place)
            continue
        is_row = (place == -2) != turned
        if is_row == (side == 1):
            return MIXED  # The product sums over this axis.
        places.add(-2 if side == 0 else -1)
    return MIXED if len(places) > 1 else places.pop() + out_rank


def _after_einsum(operation: tf.Operation, axes: Axes) -> int | None:
    given, _, result = operation.get_attr("equation").decode().partition("->")
    labels = set()
    for part, axis, source in zip(given.split(","), axes, operation.inputs, strict=True):
        if axis is None:
            continue
        before, dots, after = part.partition("...")
        num_before = len(before)
        if dots and axis >= num_before:
            place = axis - source.shape.rank
            if -place > len(after):
                labels.add(f"...{place + len(after)}")
                continue
            labels.add(after[place])
        else:
            labels.add(before[axis])
    if len(labels) > 1:
        return MIXED
    label = labels.pop()
    before, _, after = result.partition("...")
    if label.startswith("..."):
        rank = operation.outputs[0].shape.rank
        return None if rank is None else rank - len(after) + int(label[3:])
    if label in before:
        return before.index(label)
    if label not in after:
        return MIXED
    rank = operation.outputs[0].shape.rank
    return None if rank is None else rank - len(after) + after.index(label)


def _works_along_tokens(operation: tf.Operation, axes: Axes) -> bool:
    """Whether a bias, or an op on the last axes such as a determinant, works along tokens."""
    if operation.type == "BiasAdd":
        return axes[1] is not None
    ranks = [source.shape.rank for source in operation.inputs]
    count = _LAST_AXES.get(operation.type, 0)
    pairs = zip(axes, ranks, strict=True)
    return any(None not in (axis, rank) and axis >= rank - count for axis, rank in pairs)


def _after_elementwise(operation: tf.Operation, axes: Axes, is_trial: bool) -> int | None:
    """Returns the place of the token axis after an elementwise op.

    Inputs are aligned at their last axes. Token axes that are not aligned make an outer product,
    for instance those of `[tokens]` and `[tokens, n]`. At run time that is an error, unless there
    is one token or as many as `n`.
    """
    rank = operation.outputs[0].shape.rank
    ranks = [source.shape.rank for source in operation.inputs]
    if rank is None or None in ranks:
        return None
    places = {axis - rank for axis, rank in zip(axes, ranks, strict=True) if axis is not None}
    if len(places) == 1:
        return places.pop() + rank
    return None if is_trial and not any(axes) else MIXED


def _after_new_order(operation: tf.Operation, axis: int) -> int | None:
    source, order = operation.inputs[0], static_value(operation.inputs[1])
    if order is None or source.shape.rank is None:
        return MIXED if axis else None
    if operation.type == "Transpose":
        return [int(place) % source.shape.rank for place in order].index(axis)
    place = int(order) % (source.shape.rank + 1)
    return axis + (place <= axis)


def _after_stack(operation: tf.Operation, axes: Axes) -> int | None:
    rank = operation.outputs[0].shape.rank
    places = {axis for axis in axes if axis is not None}
    if rank is None or len(places) > 1:
        return MIXED if any(places) else None
    (place,) = places
    return place + (operation.get_attr("axis") % rank <= place)


def _after_reshape(operation: tf.Operation, axis: int) -> int | None:
    """Returns the place of the token axis after a reshape.

    If the number of values before or after the token axis changes, the reshape mixes it with other
    axes.
    """
    before, after = (item.shape for item in (operation.inputs[0], operation.outputs[0]))
    if after.rank is None or (axis == 0 and after.rank and after[0] is None):
        return None if axis == 0 else MIXED
    if before.rank is None:
        return MIXED
    places = [place for place, size in enumerate(after) if size is None]
    if len(places) != 1:
        return MIXED
    (place,) = places
    wanted = before[:axis].num_elements(), before[axis + 1 :].num_elements()
    found = after[:place].num_elements(), after[place + 1 :].num_elements()
    return place if None not in wanted and found == wanted else MIXED


def loses_tokens(operation: tf.Operation, output: tf.Tensor) -> bool:
    """Whether an output without a token axis is computed from the values of all tokens.

    Args:
        operation: An op with an input in which the token axis is the first.
        output: An output of the op, with a first axis of known size, or without axes.
    """
    kind = operation.type
    is_value = output.dtype not in (tf.variant, tf.resource)  # Not a list that a loop fills, say.
    is_drawn = kind.endswith("CandidateSampler")
    if kind in _WITHOUT_TOKENS or is_drawn or not is_value:
        return False
    return not held_functions(operation.node_def)


def _after_new_axes(operation: tf.Operation) -> int | None:
    """Returns the place of the token axis after a slice such as `x[None]`.

    Other slices do not move the token axis.
    """
    new, whole = (operation.get_attr(f"{mask}_mask") for mask in ("new_axis", "begin"))
    whole &= operation.get_attr("end_mask")
    axis = 0
    while new >> axis & 1:
        axis += 1
    count = operation.inputs[1].shape[0]
    is_named = axis and (count is None or axis < count)
    ellipsis_mask = operation.get_attr("ellipsis_mask")
    if is_named and not (whole >> axis & 1 or ellipsis_mask >> axis & 1):
        return MIXED
    return axis


def _after_list(kind: str, axes: Axes) -> int | None:
    """Returns the place of the token axis after an op on a list of tensors that have one.

    The place in a list is the place in the tensor that stacks its items.
    """
    if kind == "TensorListSetItem" and axes[2] is not None:
        return axes[2] + 1
    if kind == "TensorListGetItem" and axes[0]:
        return axes[0] - 1
    return axes[0] or None


def _after_slice(operation: tf.Operation, axis: int) -> int:
    """Returns the place of the token axis after a slice.

    The slice must leave the axis whole, as `x[-1]` does if it is the second axis.
    """
    strides = tf.get_static_value(operation.inputs[3])
    rank = operation.inputs[0].shape.rank
    masks = ("begin", "end", "new_axis", "ellipsis", "shrink_axis")
    begin, end, new, ellipsis, shrink = (operation.get_attr(f"{name}_mask") for name in masks)
    if strides is None:
        return MIXED
    dim = place = 0
    for entry, stride in enumerate(strides):
        if new >> entry & 1:
            place += 1
            continue
        if ellipsis >> entry & 1:
            others = [later for later in range(entry + 1, len(strides)) if not new >> later & 1]
            count = rank - dim - len(others)
        else:
            count = 1
        if dim <= axis < dim + count:
            is_whole = count > 1 or (begin & end & ~shrink) >> entry & 1 or ellipsis >> entry & 1
            return place + axis - dim if is_whole and stride == 1 else MIXED
        dim += count
        place += 0 if shrink >> entry & 1 else count
    return place + axis - dim


def _after_moved(operation: tf.Operation, axis: int | None) -> int | None:
    """Returns the place of the token axis after an op, if it was not the first axis before."""
    rank = operation.inputs[0].shape.rank
    if axis is None or rank is None:
        return MIXED
    if operation.type in _LAST_AXIS and axis + 1 < rank:
        return axis
    if operation.type in AXIS_OPS:
        axes = static_value(operation.inputs[-1])
        return MIXED if axes is None or axis in np.atleast_1d(axes) % rank else axis
    if operation.type == "StridedSlice":
        return _after_slice(operation, axis)
    if operation.type == "Unpack":
        place = operation.get_attr("axis") % rank
        return MIXED if place == axis else axis - (place < axis)
    if operation.type in REDUCTIONS:
        axes = static_value(operation.inputs[1])
        if axes is None:
            return MIXED
        reduced = {int(place) % rank for place in np.atleast_1d(axes)}
        if axis in reduced:
            return MIXED
        keeps = operation.outputs[0].shape.rank == rank
        return axis if keeps else axis - sum(place < axis for place in reduced)
    if operation.type == "Squeeze":
        sizes = operation.inputs[0].shape
        dims = operation.get_attr("squeeze_dims") or [d for d in range(rank) if sizes[d] == 1]
        return axis - sum(int(dim) % rank < axis for dim in dims)
    return MIXED
