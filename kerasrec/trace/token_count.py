"""Which numbers depend on how many tokens there are.

That depends on which tokens happen to run together. So such a number may say how large a tensor is,
and may not be part of what is computed for a token.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from kerasrec.trace.token_axis import ELEMENTWISE, Axes, static_value

_REDUCTIONS = frozenset({"Sum", "Prod", "Max", "Min"})
# Of two counts, a quotient is how many of something there are for each token.
_QUOTIENTS = frozenset({"FloorDiv", "RealDiv", "Div", "DivNoNan", "TruncateDiv"})
# Their first input is moved or repeated.
_MOVES = frozenset({"BroadcastTo", "ExpandDims", "Reshape", "Squeeze", "StridedSlice", "Tile"})


class TokenCounts:
    """The numbers of a traced graph that depend on how many tokens there are.

    Ops that are not known here, such as those that make a tensor of a given size, are taken for
    independent of it.
    """

    def __init__(self) -> None:
        self._counts: set[str] = set()
        # Sizes of other axes, and what is computed from them.
        self._others: set[str] = set()
        # Shapes of tensors: the place of the number of tokens in them.
        self._shapes: dict[str, int] = {}

    def forget(self, tensor: tf.Tensor) -> None:
        """Looks at a tensor again."""
        self._counts.discard(tensor.name)
        self._others.discard(tensor.name)
        self._shapes.pop(tensor.name, None)

    def has(self, tensor: tf.Tensor) -> bool:
        """Whether a tensor depends on how many tokens there are."""
        return tensor.name in self._counts

    def add(self, tensor: tf.Tensor) -> None:
        """Says that a tensor depends on how many tokens there are."""
        self._counts.add(tensor.name)

    def is_of_other_axes(self, tensor: tf.Tensor) -> bool:
        """Whether a tensor is known to be computed from sizes of other axes alone."""
        return tensor.name in self._others

    def learn(self, operation: tf.Operation, axes: Axes, is_shared: Sequence[bool]) -> bool:
        """Learns of the outputs of an op.

        Args:
            operation: any.
            axes: of its inputs the place of their token axis, None if they have none.
            is_shared: which of its inputs are the same for all tokens.

        Returns:
            Whether they depend on how many tokens there are.
        """
        kind, outputs = operation.type, operation.outputs
        if kind in ("Shape", "ShapeN"):
            pairs = zip(outputs, axes, strict=True)
            self._shapes.update((item.name, axis) for item, axis in pairs if axis is not None)
            return False
        places = [self._shapes.get(source.name) for source in operation.inputs]
        is_count = [source.name in self._counts for source in operation.inputs]
        if any(place is not None for place in places) and not any(is_count):
            self._learn_of_shape(operation, places)
            return False
        is_other = [source.name in self._others for source in operation.inputs]
        pairs = zip(is_other, is_shared, strict=True)
        if any(is_other) and all(other or shared for other, shared in pairs):
            self._others.update(item.name for item in outputs)
            return False
        is_quotient = kind in _QUOTIENTS and all(is_count)
        depends = (
            (kind == "Size" and axes[0] is not None)
            or (kind in ELEMENTWISE and any(is_count) and not is_quotient)
            or (kind in _MOVES and is_count[0])
            or (kind == "Fill" and is_count[1])
        )
        if depends:
            self._counts.update(item.name for item in outputs)
        return depends

    def _learn_of_shape(self, operation: tf.Operation, places: list[int | None]) -> None:
        """Of an op that reads the shape of a tensor with a token axis."""
        kind, outputs, place = operation.type, operation.outputs, places[0]
        if kind in ELEMENTWISE and outputs[0].shape == operation.inputs[0].shape:
            self._shapes[outputs[0].name] = next(item for item in places if item is not None)
        elif place is None:
            return
        elif kind == "Unpack":
            self._counts.add(outputs[place].name)
            self._others.update(item.name for item in outputs if item is not outputs[place])
        elif kind in _REDUCTIONS:
            self._counts.add(outputs[0].name)
        elif kind in ("StridedSlice", "GatherV2"):
            chosen = _chosen(operation)
            if chosen is None:
                return
            if place not in chosen:
                self._others.add(outputs[0].name)
            elif outputs[0].shape.rank == 0:
                self._counts.add(outputs[0].name)
            else:
                self._shapes[outputs[0].name] = list(chosen).index(place)


def _chosen(operation: tf.Operation) -> np.ndarray | None:
    """Which entries of a vector an op chooses, by their places; None where this is not known."""
    size = operation.inputs[0].shape[0]
    given = [static_value(tensor) for tensor in operation.inputs[1:]]
    known = [np.atleast_1d(value) for value in given if value is not None]
    if size is None or len(known) < len(given):
        return None
    if operation.type == "GatherV2":
        return known[0] % size
    begin, end, stride = (int(value[0]) for value in known)
    if operation.get_attr("shrink_axis_mask"):
        return np.array([begin % size])
    first = None if operation.get_attr("begin_mask") else begin
    last = None if operation.get_attr("end_mask") else end
    return np.arange(size)[first:last:stride]
