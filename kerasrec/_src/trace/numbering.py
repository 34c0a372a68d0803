"""Finds tensors of a traced graph that are computed in the same way."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from kerasrec._src.ops.table import Is, has, is_given
from kerasrec._src.private import graph_held


@dataclass(frozen=True)
class Step:
    """An op apart from its graph.

    Args:
        key: The key that ops share if their outputs are equal for equal inputs and functions; None
            if the op only passes its input on.
        inputs: The names of the tensors that it reads.
        outputs: The names of those that it computes.
        bodies: The functions that it holds.
    """

    key: Hashable
    inputs: Sequence[str]
    outputs: Sequence[str]
    bodies: Sequence[Body] = ()


@dataclass(frozen=True)
class Body:
    """A function: its ops, and the names of its inputs and outputs."""

    inputs: Sequence[str]
    steps: Sequence[Step]
    outputs: Sequence[str]


class Numbering:
    """Value numbering: tensors with one number come from the same op on the same tensors.

    Args:
        graph: The graph. It may grow between calls.
    """

    def __init__(self, graph: tf.Graph):
        self._graph = graph
        self._numbers: dict[Hashable, int] = {}
        self._of: dict[str, int] = {}
        self._same: dict[int, int] = {}
        self._num_seen = 0

    def number(self, tensor: tf.Tensor) -> int:
        """Returns the number of a tensor of the graph."""
        operations = self._graph.get_operations()
        for operation in operations[self._num_seen :]:
            self._see(step_of(operation), self._of)
        self._num_seen = len(operations)
        return self._of[tensor.name]

    def again_from(self, operation: tf.Operation) -> None:
        """Numbers what an op and all later ones compute again, since more is known to be equal."""
        place = self._graph.get_operations().index(operation)
        self._num_seen = min(self._num_seen, place)

    def numbers_as(
        self,
        steps: Sequence[Step],
        known: Mapping[str, int],
        equal: Mapping[str, int] | None = None,
    ) -> dict[str, int]:
        """Returns the numbers that tensors would have if their ops were part of the graph.

        Args:
            steps: The ops of another graph, in order.
            known: The numbers of the tensors that these ops read from outside, by name.
            equal: By the names of tensors that the ops compute, the numbers of tensors that are
                known to be equal. No tensor has their own numbers from now on.
        """
        numbers, equal = dict(known), equal or {}
        for step in steps:
            self._see(step, numbers)
            for name in equal.keys() & step.outputs:
                self._same[numbers[name]] = equal[name]
                numbers[name] = equal[name]
        return numbers

    def _see(self, step: Step, numbers: dict[str, int]) -> None:
        """Numbers the outputs of an op whose inputs have numbers."""
        inputs = [numbers[name] for name in step.inputs]
        if step.key is None:
            numbers.update(zip(step.outputs, inputs, strict=False))
            return
        key = (step.key, *inputs, *map(self._number_of_body, step.bodies))
        for place, name in enumerate(step.outputs):
            number = self._number_of(*key, place)
            numbers[name] = self._same.get(number, number)

    def _number_of(self, *key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _number_of_body(self, body: Body) -> int:
        """Returns the number of a function, which others have that compute the same outputs."""
        given = {name: self._number_of("input", place) for place, name in enumerate(body.inputs)}
        numbers = self.numbers_as(body.steps, given)
        return self._number_of("body", *map(numbers.__getitem__, body.outputs))


def step_of(operation: tf.Operation) -> Step:
    """Returns an op apart from its graph."""
    inputs = [tensor.name for tensor in operation.inputs]
    outputs = [tensor.name for tensor in operation.outputs]
    if has(operation.type, Is.PASSING):
        return Step(None, inputs, outputs)
    if is_given(operation) or operation.op_def.is_stateful:
        return Step((operation.graph, operation.name), inputs, outputs)
    key: list[Hashable] = [operation.type]
    bodies: list[Body] = []
    for name, value in sorted(operation.node_def.attr.items()):
        if name.startswith("_"):
            continue
        if value.func.name or value.list.func:
            bodies += map(_body_of, graph_held(operation, name))
        else:
            key += (name, value.SerializeToString())
    return Step(tuple(key), inputs, outputs, bodies)


def _body_of(graph: tf.Graph) -> Body:
    operations = [item for item in graph.get_operations() if not is_given(item)]
    return Body(
        [tensor.name for tensor in graph.inputs],
        list(map(step_of, operations)),
        [tensor.name for tensor in graph.outputs],
    )
