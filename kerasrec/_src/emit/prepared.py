"""Values that are computed once, from values that all tokens share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import tensorflow as tf

from kerasrec._src.graph.fire import fire
from kerasrec._src.graph.values import Value
from kerasrec._src.schedule.instructions import Fire


def tensor_of(value: Value, shared: Mapping[Value, tf.Tensor]) -> tf.Tensor:
    """The tensor of a SHARED value, which may be a constant."""
    return fire(value.node, [])[0] if value.node.is_constant else shared[value]


def with_prepared(
    shared: Mapping[Value, tf.Tensor], prepared: Iterable[Fire]
) -> dict[Value, tf.Tensor]:
    """Returns the tensors of SHARED values, with those prepared from them, computed in order."""
    tensors = dict(shared)
    for instruction in prepared:
        inputs = [tensor_of(value, tensors) for value in instruction.inputs]
        results = fire(instruction.node, inputs, has_gradient=False)
        tensors.update(zip(instruction.outputs, results, strict=True))
    return tensors
