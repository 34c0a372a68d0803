"""Finds tensors of a traced graph that are computed in the same way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import tensorflow as tf

from kerasrec._src.private import graph_held


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
        self._same: dict[int, int] = {}
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

    def unite(self, number: int, other: int, since: tf.Operation) -> None:
        """Records that tensors with one number are equal to those with another number.

        Args:
            number: The first number. No tensor has it from now on.
            other: The second number.
            since: An op before all that compute tensors with the first number.
        """
        if number != other:
            self._same[number] = other
            place = self._graph.get_operations().index(since)
            self._num_seen = min(self._num_seen, place)

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
        if operation.type == "Identity":
            numbers[operation.outputs[0].name] = numbers[operation.inputs[0].name]
            return
        key = tuple(self._key(operation, numbers, place))
        for output in operation.outputs:
            number = self._number_of(place, *key, output.value_index)
            numbers[output.name] = self._same.get(number, number)

    def _number_of(self, place: int, *key: object) -> int:
        """Returns the number of a key, which is first seen at a place if it has none yet."""
        number = self._numbers.setdefault(key, len(self._numbers))
        if number == len(self._first):
            self._first.append(place)
        return number

    def _key(
        self, operation: tf.Operation, numbers: Mapping[str, int], place: int
    ) -> Iterator[object]:
        """Yields what ops have in common if their outputs are equal."""
        yield operation.type
        if operation.type == "Placeholder" or operation.op_def.is_stateful:
            yield from (operation.graph, operation.name)
            return
        yield from (numbers[source.name] for source in operation.inputs)
        for name, value in sorted(operation.node_def.attr.items()):
            if name.startswith("_"):
                continue
            yield name
            if value.func.name or value.list.func:
                for graph in graph_held(operation, name):
                    yield self._number_of_function(graph, place)
            else:
                yield value.SerializeToString()

    def _number_of_function(self, graph: tf.Graph, place: int) -> int:
        """Returns the number of a function, which others have that compute the same outputs."""
        numbers = {
            tensor.name: self._number_of(place, "argument", number)
            for number, tensor in enumerate(graph.inputs)
        }
        for operation in graph.get_operations():
            if operation.type != "Placeholder":
                self._see(operation, numbers, place)
        outputs = [numbers[tensor.name] for tensor in graph.outputs]
        return self._number_of(place, "function", *outputs)
