"""Which tensors of a traced graph are one value a token.

A tensor that depends on tokens is one value a token if its leading axis is theirs. TensorFlow's
shape inference says so by leaving the size of that axis open; what it cannot say is that an op cut,
joined or reduced the axis, and that is looked up here.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from kerasrec.graph.types import Kind

# Their leading axis has an open size that depends on the values of tokens.
_COUNTING_OPS = frozenset({"BroadcastGradientArgs", "Where", "Unique", "UniqueV2"})
_REDUCTIONS = frozenset({"Sum", "Mean", "Prod", "Max", "Min", "Any", "All", "ArgMax", "ArgMin"})
# They put rows back where the tokens are.
_SCATTERS = frozenset({"ScatterNd", "TensorScatterUpdate", "TensorScatterAdd", "DynamicStitch"})


def kind_of_dependent(tensor: tf.Tensor) -> Kind:
    """Kind of a tensor that depends on tokens: its leading axis is theirs if its size is open."""
    shape = tensor.shape
    is_token = shape.rank is None or (shape.rank >= 1 and shape[0] is None)
    return Kind.TOKEN if is_token and tensor.op.type not in _COUNTING_OPS else Kind.WAVE


class KindFinder:
    """Kinds of the tensors of a graph that is being traced.

    Args:
        graph: it may grow between calls.
    """

    def __init__(self, graph: tf.Graph):
        self._graph = graph
        self._tokens: set[str] = set()
        self._kinds: dict[str, Kind] = {}
        self._mixed: set[str] = set()
        self._num_seen = 0

    def add_tokens(self, tensors: list[tf.Tensor]) -> None:
        """Says that these placeholders are one value a token."""
        self._tokens.update(tensor.op.name for tensor in tensors)

    def kind(self, tensor: tf.Tensor) -> Kind:
        """The kind of a tensor of the graph."""
        operations = self._graph.get_operations()
        for operation in operations[self._num_seen :]:
            if operation.name not in self._tokens:
                self._see(operation)
        self._num_seen = len(operations)
        return self._of(tensor)

    def _of(self, tensor: tf.Tensor) -> Kind:
        return Kind.TOKEN if tensor.op.name in self._tokens else self._kinds[tensor.name]

    def _see(self, operation: tf.Operation) -> None:
        if all(self._of(source) is Kind.SHARED for source in operation.inputs):
            self._kinds.update((output.name, Kind.SHARED) for output in operation.outputs)
            return
        is_mixed = _mixes_tokens(operation, self._of) or (
            any(source.name in self._mixed for source in operation.inputs)
            and operation.type not in _SCATTERS
        )
        for output in operation.outputs:
            self._kinds[output.name] = Kind.WAVE if is_mixed else kind_of_dependent(output)
            if is_mixed:
                self._mixed.add(output.name)


def _mixes_tokens(operation: tf.Operation, kind: Callable[[tf.Tensor], Kind]) -> bool:
    """Whether an op cuts, joins, reorders or reduces the token axis."""
    if operation.type in _COUNTING_OPS:
        return True
    if operation.type == "ConcatV2":
        return tf.get_static_value(operation.inputs[-1]) == 0
    if kind(operation.inputs[0]) is not Kind.TOKEN:
        return False
    if operation.type in _REDUCTIONS:
        return kind_of_dependent(operation.outputs[0]) is Kind.WAVE
    if operation.type == "GatherV2":
        axis = tf.get_static_value(operation.inputs[2])
        return axis == 0 and operation.get_attr("batch_dims") == 0
    if operation.type == "StridedSlice":
        return _cuts_first_axis(operation)
    return False


def _cuts_first_axis(operation: tf.Operation) -> bool:
    if operation.get_attr("ellipsis_mask") & 1 or operation.get_attr("new_axis_mask") & 1:
        return False
    is_whole = operation.get_attr("begin_mask") & operation.get_attr("end_mask") & 1
    strides = tf.get_static_value(operation.inputs[3])
    return not is_whole or strides is None or strides[0] != 1
