"""The stage `lower`: an extended graph to stock TensorFlow ops."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import tensorflow as tf

from kerasrec.engine.choice import choose
from kerasrec.engine.limits import Limits
from kerasrec.engine.plan import Plan, plan
from kerasrec.engine.results import Outcome, Tensors
from kerasrec.errors import TraceError
from kerasrec.graph.custom_gradient import custom_gradient
from kerasrec.graph.fire import fire, read_shared
from kerasrec.graph.graph import Node, TaggedGraph, Value


class Program:
    """An extended graph, ready to run.

    Args:
        graph: the extended graph.
        limits: bounds on depth and width.
        engine: which engine is to run it, one of `choice.ENGINES`.
        parallel_tokens: how many tokens may run at once; None for all.
        is_linear: False runs a program of one round by the engine for all programs, too.
    """

    def __init__(
        self,
        graph: TaggedGraph,
        limits: Limits,
        engine: str = "auto",
        parallel_tokens: int | None = None,
        is_linear: bool | None = None,
    ):
        self.plan: Plan = plan(graph, is_linear)
        self.graph = graph
        self.limits = limits
        self.choice = choose(self.plan, engine, parallel_tokens)

    def __str__(self) -> str:
        return f"{self.choice}\n{self.plan}"

    def run(self, arguments: Sequence[tf.Tensor]) -> Outcome:
        """Runs the program on flat arguments, `[tokens, ...]` each; differentiable.

        Call it while a graph is being built. Gradients come from the extended graph, through
        `custom_gradient`: to the arguments, and to every shared value that tokens read, from
        where TensorFlow takes them to the variables and tensors that the functions close over.
        TensorFlow may ask for the gradient in several graphs; each walks back for itself.
        """
        shared = shared_tensors(self.graph)
        wanted = self._wanted_shared()
        names: list[str] = []

        @custom_gradient
        def engine(*tensors: tf.Tensor) -> tuple:
            given = list(tensors[: len(arguments)])
            known = {**shared, **dict(zip(wanted, tensors[len(arguments) :], strict=True))}
            run = self.choice.run(self.plan, known, self.limits)
            outcome = run.forward(given)
            names.extend(outcome.tables)
            outputs = (*outcome.outputs, *outcome.tables.values())

            def gradient(*cotangents: tf.Tensor) -> list:
                if self.graph.obstacles:
                    raise TraceError(self.graph.obstacles[0])
                passed = list(cotangents[: len(outcome.outputs)])
                tables = dict(zip(names, cotangents[len(outcome.outputs) :], strict=True))
                found = copy.copy(run).backward(
                    passed, with_table_cotangents(self.graph, known, tables)
                )
                gradients = [*found.arguments, *(found.shared.get(value) for value in wanted)]
                return _once(gradients, self.limits.name) if self._holds_functions else gradients

            return outputs, gradient

        results: Tensors = list(engine(*arguments, *(shared[value] for value in wanted)))
        num_outputs = len(self.graph.root.returns)
        return Outcome(results[:num_outputs], dict(zip(names, results[num_outputs:], strict=True)))

    @property
    def _holds_functions(self) -> bool:
        """Whether there are loops of TensorFlow, or other ops with functions, in a body."""
        bodies = self.graph.bodies.values()
        return any("function" in node.attributes for body in bodies for node in body.all_nodes)

    def _wanted_shared(self) -> list[Value]:
        """Shared values that have a gradient."""
        return list(
            dict.fromkeys(
                node.attributes["to"]
                for body in self.graph.bodies.values()
                for node in body.accumulates
            )
        )


def lower(
    extended: TaggedGraph,
    limits: Limits,
    engine: str = "auto",
    parallel_tokens: int | None = None,
) -> Program:
    """A program of stock TensorFlow ops for an extended graph; arguments as for `Program`."""
    return Program(extended, limits, engine, parallel_tokens)


def _once(gradients: list, name: str) -> list:
    """The gradients, without gradients of their own: asking for these fails when it runs.

    TensorFlow does not come to an end with the second derivative of calls in loops, and a
    persistent tape prepares it unasked (seen with TensorFlow 2.21). So frames fire calls without
    gradient.
    """

    @custom_gradient
    def first(*tensors: tf.Tensor) -> tuple:
        def second(*_: tf.Tensor) -> list[tf.Tensor]:
            message = (
                f"{name} has no second derivative: tf.while_loop, tf.map_fn, tf.cond or a "
                "tf.function stands in its body."
            )
            with tf.control_dependencies([tf.debugging.Assert(False, [message])]):
                return [tf.zeros_like(tensor) for tensor in tensors]

        return tuple(map(tf.identity, tensors)), second

    flat = tf.nest.flatten(gradients, expand_composites=True)
    known = iter(first(*(tensor for tensor in flat if tensor is not None)))
    passed = [None if tensor is None else next(known) for tensor in flat]
    return tf.nest.pack_sequence_as(gradients, passed, expand_composites=True)


def shared_tensors(graph: TaggedGraph) -> dict[Value, tf.Tensor]:
    """Tensors of the shared values that need no cotangent, computed once, before all tokens."""
    return _compute_shared(graph.shared, {})


def with_table_cotangents(
    graph: TaggedGraph, shared: dict[Value, tf.Tensor], tables: dict[str, tf.Tensor]
) -> dict[Value, tf.Tensor]:
    """The shared values again, with those that depend on the cotangents of tables."""
    known = dict(shared)
    for node in graph.shared:
        name = node.attributes.get("cotangent_of_table")
        if name is not None:
            known[node.output()] = tables[name]
    return _compute_shared(graph.shared, known)


def _compute_shared(nodes: Sequence[Node], known: dict[Value, tf.Tensor]) -> dict[Value, tf.Tensor]:
    found = dict(known)
    for node in nodes:
        is_done = node.output() in found if node.outputs else bool(known)
        if "cotangent_of_table" in node.attributes or is_done:
            continue
        if node.op == "SHARED":
            found[node.output()] = read_shared(node)
        elif node.op == "ReadVariableOp" and node.inputs[0].node.op == "SHARED":
            variable = node.inputs[0].node.attributes["variable"]
            found[node.output()] = variable.read_value()
        elif all(value in found for value in node.inputs):
            found.update(
                zip(node.outputs, fire(node, [found[item] for item in node.inputs]), strict=True)
            )
    return found
