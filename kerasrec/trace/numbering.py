"""Which tensors of a traced graph are the same computation."""

from __future__ import annotations

import tensorflow as tf


class Numbering:
    """Value numbering: tensors with one number come from the same op on the same tensors.

    Args:
        graph: it may grow between calls.
    """

    def __init__(self, graph: tf.Graph):
        self._graph = graph
        self._numbers: dict[tuple[object, ...], int] = {}
        self._of: dict[str, int] = {}
        self._first: list[int] = []
        self._num_seen = 0

    def first_op(self, tensor: tf.Tensor) -> int:
        """The place in the graph of the first op that computes the same as a tensor."""
        return self._first[self.number(tensor)]

    def number(self, tensor: tf.Tensor) -> int:
        """The number of a tensor of the graph."""
        operations = self._graph.get_operations()
        for place in range(self._num_seen, len(operations)):
            key = self._key(operations[place])
            for output in operations[place].outputs:
                number = self._numbers.setdefault((*key, output.value_index), len(self._numbers))
                self._of[output.name] = number
                if number == len(self._first):
                    self._first.append(place)
        self._num_seen = len(operations)
        return self._of[tensor.name]

    def _key(self, operation: tf.Operation) -> tuple[object, ...]:
        if operation.type == "Placeholder" or operation.op_def.is_stateful:
            return (operation.name,)
        attributes = sorted(
            (name, value.SerializeToString())
            for name, value in operation.node_def.attr.items()
            if not name.startswith("_")
        )
        inputs = [self._of[source.name] for source in operation.inputs]
        return (operation.type, *inputs, *attributes)
