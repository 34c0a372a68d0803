"""Gradients of ops that TensorFlow differentiates by changing them.

To differentiate a `tf.while_loop`, a `tf.cond` or a call of a `tf.function`, TensorFlow changes the
forward op so that it also returns the values that the gradient reads. In a recursive function, the
forward op is already a node and cannot change. Therefore its gradient is another node: a function
that runs the op again on the same inputs, and has TensorFlow differentiate it there. Chen et al.
2016, "Training Deep Nets with Sublinear Memory Cost", recompute to save memory; here, nothing from
inside the loop is kept either.

Ops that pass each other a value without a cotangent, such as the lists of `tf.map_fn`, run again
together.
"""

from __future__ import annotations

import graphlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from kerasrec._src.graph.fire import fire
from kerasrec._src.graph.graph import Sweep, TaggedGraph
from kerasrec._src.graph.nodes import (
    Call,
    Computed,
    Entrance,
    Recomputed,
    Return,
    Shared,
    operations,
)
from kerasrec._src.graph.values import Node, Value
from kerasrec._src.ops.table import Is, has, is_constant, reads_variable
from kerasrec._src.trace.functions import (
    definitions_held,
    held_functions,
    hides_a_variable,
    unrepeatable_op,
)


@dataclass(frozen=True)
class Group:
    """Ops of a body that run again together.

    Args:
        nodes: The ops in order, all in one branch.
        inputs: The values that they read from other nodes, except constants.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]

    @classmethod
    def of(cls, nodes: Sequence[Node]) -> Group:
        """A group of nodes, with the constants and the shared lists that they read."""
        members = dict.fromkeys(_with_shared(nodes))
        read = [value for node in members for value in node.inputs if value.node not in members]
        return cls(tuple(members), tuple(dict.fromkeys(read)))

    @property
    def title(self) -> str:
        """The op by which the user knows the group, and its line."""
        (first, *_) = filter(_runs_again, self.nodes)
        return f"{first.op} at {first.source}"

    def obstacle(self) -> str | None:
        """Returns why these nodes cannot run again, in words for the user; None if they can."""
        for node in self.nodes:
            if not isinstance(node, Computed):
                return (
                    "a value goes from it to a call or a conditional of kerasrec, and back to the "
                    "same tf.TensorArray; stack the array before that"
                )
        traced = operations(self.nodes)
        is_gradient = any(isinstance(node, Recomputed) for node in self.nodes)
        reads_variables = any(map(is_handle, self.inputs))
        name = unrepeatable_op(traced)
        if name:
            return (
                f"{name} runs in it, which gives a different result when the gradient runs it "
                "again; draw random numbers (and change state) outside it, and pass them in"
            )
        if (is_gradient and reads_variables) or any(map(hides_a_variable, traced)):
            return (
                "a loop or conditional inside it reads a variable. Read the variable outside, "
                "`weight = tf.convert_to_tensor(variable)`, or wrap it all in a tf.function"
            )
        return None

    def gradients(
        self, cotangents: Sequence[Value], wanted: Sequence[Value]
    ) -> tuple[tf.types.experimental.ConcreteFunction, list[Value]]:
        """Makes a function that runs the nodes again and returns cotangents of their inputs.

        Args:
            cotangents: The outputs of the nodes that have a cotangent.
            wanted: The inputs whose cotangents are asked for; a variable's handle means the
                variable.

        Returns:
            The function, which takes one tensor for each of `inputs` and each of `cotangents`; and
            the inputs for which it returns a cotangent.
        """
        reached: list[Value] = []

        def backward(*tensors: tf.Tensor) -> list[tf.Tensor]:
            known = dict(zip(self.inputs, tensors, strict=False))
            for node in self.nodes:
                made = fire(node, [known[value] for value in node.inputs])
                known.update(zip(node.outputs, made, strict=True))
            gradients = tf.gradients(
                [known[value] for value in cotangents],
                [known[value] for value in wanted],
                list(tensors[len(self.inputs) :]),
            )
            pairs = [pair for pair in zip(wanted, gradients, strict=True) if pair[1] is not None]
            reached.extend(value for value, _ in pairs)
            return [tf.convert_to_tensor(cotangent) for _, cotangent in pairs]

        # A handle knows its variable; a spec of the handle would not.
        specs = [
            variable_of(value).handle if is_handle(value) else value.type.tensor_spec()
            for value in (*self.inputs, *cotangents)
        ]
        return tf.function(backward, autograph=False).get_concrete_function(*specs), reached


def unrepeatable(graph: TaggedGraph, in_other_waves: bool = False) -> str | None:
    """Returns why a program must not run again, in words for the user; None if it may.

    Args:
        graph: The program.
        in_other_waves: Whether other tokens run together when it runs again.
    """
    for body in graph.bodies.values():
        nodes = body.sweeps[0].nodes
        draw = next(filter(_draws_by_count, nodes), None) if in_other_waves else None
        if draw:
            return (
                f"{draw.op} at {draw.source} draws for each of the tokens that run together, and "
                f"when {body.name} runs again, others run together, so that it would draw other "
                "numbers. Draw random numbers before the call and pass them in"
            )
        if unrepeatable_op(operations(nodes)):
            for node in nodes:
                name = unrepeatable_op(operations([node]))
                if name:
                    return (
                        f"{name} at {node.source} would give a different result when {body.name} "
                        "runs again. Draw random numbers (and change state) before the call and "
                        "pass them in, or draw with tf.random.stateless_uniform and its like"
                    )
    return None


def _draws_by_count(node: Node) -> bool:
    """Whether a node draws numbers for all tokens that run together, from one given seed.

    In a loop, a draw of a constant shape is for one token, which has its own seed.
    """
    if not operations([node]) or all(value.is_shared for value in node.outputs):
        return False
    (operation,) = operations([node])
    if held_functions(operation.node_def):
        return any(map(_draws_in, definitions_held([operation])))
    return has(operation.type, Is.SEEDED)


def _draws_in(function: Any) -> bool:
    """Whether a function's definition draws numbers of a shape that is not constant."""
    constants = {node.name for node in function.node_def if is_constant(node.op)}
    return any(
        has(node.op, Is.SEEDED) and node.input[0].split(":")[0] not in constants
        for node in function.node_def
    )


def variable_of(value: Value) -> Any:
    """The variable whose handle a value is; None for other values."""
    return value.node.variable if isinstance(value.node, Shared) else None


def is_handle(value: Value) -> bool:
    """Whether a value is the handle of a variable."""
    return variable_of(value) is not None


def is_weight(value: Value) -> bool:
    """Whether a value is the handle of a variable that has a gradient."""
    variable = variable_of(value)
    return variable is not None and (variable.dtype.is_floating or variable.dtype.is_complex)


def in_groups(sweep: Sweep) -> list[Node | Group]:
    """The nodes of a sweep, inputs before readers; nodes that run again together form groups."""
    parts = _Parts(sweep)
    for node in sweep.nodes:
        if _runs_again(node):
            parts.join([node, *(value.node for value in node.inputs if _is_list(value))])
    return parts.in_order()


def _runs_again(node: Node) -> bool:
    if not isinstance(node, Computed):
        return False
    return (
        node.function is not None
        or any(_is_list(value) for value in (*node.inputs, *node.outputs))
        or (not reads_variable(node.op) and any(map(is_handle, node.inputs)))
    )


def _is_list(value: Value) -> bool:
    return value.type.dtype == tf.variant


class _Parts:
    """A partition of a sweep's nodes in which no two parts wait for each other."""

    def __init__(self, sweep: Sweep):
        self._nodes = sweep.nodes
        self._own = set(sweep.nodes)
        self._parts: dict[Node, tuple[Node, ...]] = {node: (node,) for node in sweep.nodes}
        self._grouped: set[Node] = set()
        self._calls: dict[int, list[Call]] = defaultdict(list)
        for node in sweep.nodes:
            if isinstance(node, Call):
                self._calls[node.label].append(node)

    def join(self, nodes: Iterable[Node]) -> None:
        """Joins the parts of all these nodes into one part."""
        joined = {item for node in nodes if node in self._own for item in self._parts[node]}
        part = tuple(node for node in self._nodes if node in joined)
        self._parts.update(dict.fromkeys(part, part))
        self._grouped |= joined

    def in_order(self) -> list[Node | Group]:
        """Nodes and groups, inputs before their readers."""
        if not self._grouped:
            return list(self._nodes)
        while True:
            needs = {part: self._needs(part) for part in self._parts.values()}
            try:
                order = list(graphlib.TopologicalSorter(needs).static_order())
            except graphlib.CycleError as error:
                self.join(node for part in error.args[1] for node in part)
            else:
                return [Group.of(part) if part[0] in self._grouped else part[0] for part in order]

    def _needs(self, part: tuple[Node, ...]) -> list[tuple[Node, ...]]:
        """The parts that must come before a part."""
        nodes = (item for node in part for item in self._needs_of_node(node) if item in self._own)
        return [
            other for other in dict.fromkeys(self._parts[node] for node in nodes) if other != part
        ]

    def _needs_of_node(self, node: Node) -> list[Node]:
        """The nodes that must come before a node.

        Entrances of a body and RETURNs read values of other calls, so only their control edges
        count. The CALLs of a call site keep their order.
        """
        if isinstance(node, Call):
            calls = self._calls[node.label]
            return [node.inputs[0].node, *calls[: calls.index(node)]]
        if isinstance(node, Return | Entrance):
            return node.control
        return [value.node for value in (*node.inputs, *node.named.values())] + node.control


def _with_shared(nodes: Sequence[Node]) -> list[Node]:
    """The nodes, each after the constants and the makers of shared lists that it reads."""
    ordered: list[Node] = []
    for node in nodes:
        shared = [
            value.node
            for value in node.inputs
            if value.is_shared and isinstance(value.node, Computed)
            if value.node.is_constant or _is_list(value)
        ]
        ordered += [*_with_shared(shared), node]
    return ordered
