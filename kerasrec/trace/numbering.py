"""Finds tensors of a traced graph that are computed in the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf


class Numbering:
    """Value numbering: tensors with one number come from the same op on the same tensors.

    Args:
        graph: The graph. It may grow between calls.
    """

    def __init__(self, graph: tf.Graph):
        self._graph = graph
        self._numbers: dict[tuple[object, ...], int] = {}
        self._of: dict[str, int] = {}
        self._first: list[int] = []
        self._num_seen = 0

    def first_op(self, tensor: tf.Tensor) -> int:
        """Returns the place in the graph of the first op that computes the value of a tensor."""
        return self._first[self.number(tensor)]

    def number(self, tensor: tf.Tensor) -> int:
        """Returns the number of a tensor of the graph."""
        operations = self._graph.get_operations()
        for place in range(self._num_seen, len(operations)):
            self._see(operations[place], self._of, place)
        self._num_seen = len(operations)
        return self._of[tensor.name]

    def numbers_as(
        self, operations: Sequence[tf.Operation], known: Mapping[str, int]
    ) -> dict[str, int]:
        """Returns the numbers that tensors would have if their ops were part of the graph.

        Args:
            operations: The ops of another graph, in order.
            known: The numbers of the tensors that these ops read from outside, by name.
        """
        place = len(self._graph.get_operations())
        numbers = dict(known)
        for operation in operations:
            self._see(operation, numbers, place)
        return numbers

    def _see(self, operation: tf.Operation, numbers: dict[str, int], place: int) -> None:
        """Numbers the outputs of an op whose inputs have numbers."""
        key = _key(operation, numbers)
        for output in operation.outputs:
            number = self._numbers.setdefault((*key, output.value_index), len(self._numbers))
            numbers[output.name] = number
            if number == len(self._first):
                self._first.append(place)


def _key(operation: tf.Operation, numbers: Mapping[str, int]) -> tuple[object, ...]:
    if operation.type == "Placeholder" or operation.op_def.is_stateful:
        return (operation.name,)
    attributes = sorted(
        (name, value.SerializeToString())
        for name, value in operation.node_def.attr.items()
        if not name.startswith("_")
    )
    inputs = [numbers[source.name] for source in operation.inputs]
    return (operation.type, *inputs, *attributes)
