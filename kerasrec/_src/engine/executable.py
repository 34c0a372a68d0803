"""A program as a function of TensorFlow: it runs by an engine, and has derivatives of any order."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import tensorflow as tf

from kerasrec._src.emit.results import Outcome
from kerasrec._src.emit.run import Run
from kerasrec._src.engine.choice import choose, choose_within_xla
from kerasrec._src.engine.derivatives import Inputs, dense, differentiable
from kerasrec._src.engine.program import Program
from kerasrec._src.engine.shared import shared_tensors, with_cotangents
from kerasrec._src.errors import TraceError
from kerasrec._src.graph.carried import rows_of_roots, with_carried
from kerasrec._src.graph.graph import TaggedGraph, order_of
from kerasrec._src.graph.nodes import SumCotangent, keys_of
from kerasrec._src.graph.values import Node, Value
from kerasrec._src.options import Options
from kerasrec._src.private import as_in_xla
from kerasrec._src.transform.reads import output_result, table_result

Results: TypeAlias = tuple[Sequence[tf.Tensor], dict[str, tf.Tensor], dict[str, tf.Tensor]]
"""Flat outputs, tables by name, and the marks of results that have one, by the result's name."""


@dataclass(eq=False)
class Executable:
    """A program as a function of TensorFlow.

    Args:
        program: The program with its gradient, or with all derivatives up to some order.
        is_within_xla: Whether it runs inside of a larger program that XLA compiles as a whole.
    """

    program: Program
    is_within_xla: bool = False

    def __post_init__(self) -> None:
        self.plan = (choose_within_xla if self.is_within_xla else choose)(self.program)
        self._lock = threading.Lock()
        self._derivative: Executable | None = None

    @property
    def graph(self) -> TaggedGraph:
        """The graph of the program with its derivatives."""
        return self.program.graph

    def in_waves(self) -> Executable:
        """Returns the same program, always run in waves, without a bound on parallel tokens."""
        return Executable(replace(self.program, options=Options(engine="waves")))

    def within_xla(self) -> Executable:
        """Returns the same program, to run inside of one that XLA compiles as a whole."""
        return Executable(self.program, is_within_xla=True)

    @property
    def derivative(self) -> Executable:
        """The program with one more derivative, made when it is first asked for, by any thread."""
        with self._lock:
            if self._derivative is None:
                self._derivative = Executable(self.program.extended(), self.is_within_xla)
            return self._derivative

    @property
    def num_xla_sizes(self) -> int:
        """The number of sizes for which XLA has compiled it; 0 if it compiles once or never."""
        return len(self.plan.known or ()) + (
            self._derivative.num_xla_sizes if self._derivative else 0
        )

    def run(
        self, *arguments: tf.Tensor, closed_over: Mapping[Value, tf.Tensor] | None = None
    ) -> Results:
        """Runs the program on flat arguments; the results are differentiable.

        Call it while a graph is being built. The extended graph computes the gradients of the
        arguments and of every SHARED value. From there, TensorFlow passes them on to the variables
        and tensors that the functions close over. TensorFlow may ask for the gradient in several
        graphs; each has its own backward pass.

        TensorFlow passes zeros to a gradient for a result that is not read. Where this matters,
        each result has a mark: `engine/derivatives.py` gives it a cotangent if the result has one.
        If results have cotangents other than zero and no mark has one, all results count as read.

        Args:
            arguments: The flat arguments, `[tokens, ...]` each.
            closed_over: The tensors that the functions close over, if `tensors_closed_over` has
                read them; otherwise they are read here.

        """
        run: Run
        keys: dict[Any, tf.Tensor]

        def forward(inputs: Inputs) -> Outcome:
            nonlocal run, keys
            run = self.plan.run(inputs.shared)
            outcome = run.forward(list(inputs.sweeps[0]))
            keys = self._keys(outcome)
            outcome.sums.update((_mark(result), tf.zeros([])) for result in self._marked)
            return outcome

        def backward(inputs: Inputs) -> Outcome:
            shared = with_cotangents(self.graph, inputs.shared, keys)
            return run.backward(inputs.sweeps[1:], shared)

        def gradient(inputs: Inputs, cotangents: Outcome) -> Outcome:
            if self.graph.obstacles:
                raise TraceError(self.graph.obstacles[0])
            for name in self._names_of_keys:
                cotangents.sums.pop(name)
            marks = {result: cotangents.sums.pop(_mark(result)) for result in self._marked}
            is_read = self._read(marks, cotangents) if self._asked else {}
            inputs = Inputs(inputs.sweeps, {**inputs.shared, **is_read})
            return self._differentiable(backward, inputs, cotangents)

        given = with_carried(self.graph, list(arguments))
        known = {**(closed_over or {}), **rows_of_roots(self.graph, list(arguments))}
        inputs = Inputs([given], shared_tensors(self.graph, known))
        outcome = differentiable(forward, gradient, inputs)
        for node in self.graph.collects:
            if not node.has_gradient:  # Rows without an index have no gradient.
                outcome.sums[node.name] = tf.stop_gradient(outcome.sums[node.name])
        for name in self._names_of_keys:
            outcome.sums.pop(name)
        marks = {result: outcome.sums.pop(_mark(result)) for result in self._marked}
        return tuple(outcome.outputs), outcome.tables, marks

    @functools.cached_property
    def _names_of_keys(self) -> list[str]:
        """The names of the tables that hold the keys of rows with a gradient."""
        names = {
            keys_of(node.name)
            for node in self.graph.collects
            if node.has_keys and node.inputs[0].type.is_differentiable
        }
        return sorted(names)

    def _keys(self, outcome: Outcome) -> dict[Any, tf.Tensor]:
        """The keys by which a gradient finds rows of tables, as `with_cotangents` takes them."""
        return {(1, name): outcome.sums[name] for name in self._names_of_keys}

    @functools.cached_property
    def _marked(self) -> list[str]:
        """All results with a gradient, if the gradient needs to know which of them are read."""
        if not self._asked:
            return []
        outputs = self.graph.bodies[self.graph.entry].outputs
        of_outputs = [
            output_result(place)
            for place, node in enumerate(outputs)
            if node.types[0].is_differentiable
        ]
        tables = {
            table_result(node.name)
            for node in self.graph.collects
            if node.has_gradient and node.inputs[0].type.is_differentiable
        }
        return [*of_outputs, *sorted(tables)]

    @functools.cached_property
    def _asked(self) -> dict[Value, frozenset[str]]:
        """The SHARED values that tell whether any result of a set is read, each with its set."""
        nodes = [node for node in self.graph.shared if isinstance(node, SumCotangent)]
        return {node.output(): node.key[1] for node in nodes if isinstance(node.key[1], frozenset)}

    def _read(self, marks: dict[str, tf.Tensor], cotangents: Outcome) -> dict[Value, tf.Tensor]:
        """Returns whether results are read, from the cotangents of the marks.

        An outer tape may pass zeros for all cotangents, including those of the marks.
        """
        is_read = {result: tf.not_equal(mark, 0) for result, mark in marks.items()}
        is_unknown = ~tf.reduce_any([False, *is_read.values()]) & _any_but_zero(cotangents)
        return {
            value: tf.reduce_any([is_unknown, *map(is_read.__getitem__, sorted(results))])
            if results
            else tf.constant(False)
            for value, results in self._asked.items()
        }

    def _differentiable(
        self, run: Callable[[Inputs], Outcome], inputs: Inputs, cotangents: Outcome
    ) -> Outcome:
        """Runs the last derivative in such a way that its results are also differentiable.

        Args:
            run: Computes the derivative.
            inputs: The inputs of the derivative before.
            cotangents: The cotangents of the results of the derivative before.
        """
        num_tokens = tf.shape(inputs.sweeps[0][0])[0]
        outputs = [sweep.outputs for sweep in self.graph.bodies[self.graph.entry].sweeps]
        given = [
            cotangents.sweeps.get(index) or _zeros(outputs[index], num_tokens)
            for index in reversed(range(len(inputs.sweeps)))
        ]
        order = order_of(self.graph.num_sweeps - 1)
        sums = {(order, key): dense(tensor) for key, tensor in cotangents.sums.items()}
        with as_in_xla() if self.is_within_xla else nullcontext():
            shared = with_cotangents(self.graph, inputs.shared, sums)
            return differentiable(run, self._further, Inputs([*inputs.sweeps, *given], shared))

    def _further(self, inputs: Inputs, cotangents: Outcome) -> Outcome:
        """Runs a second or higher derivative: all sweeps of the program with one more derivative.

        Raises:
            TraceError: Inside of XLA, if there is no such derivative or XLA cannot run it.
        """
        further = self.derivative

        def run(inputs: Inputs) -> Outcome:
            # TensorFlow may build a derivative that is never used: errors are raised at run time.
            obstacles = further.graph.obstacles[:1]
            refusals = [tf.debugging.Assert(False, [message]) for message in obstacles]
            with tf.control_dependencies(refusals):
                arguments = [tf.identity(tensor) for tensor in inputs.sweeps[0]]
            whole = further.plan.run(inputs.shared)
            keys = self._keys(whole.forward(arguments))
            shared = with_cotangents(further.graph, inputs.shared, keys)
            return whole.backward(inputs.sweeps[1:], shared)

        return further._differentiable(run, inputs, cotangents)


def _mark(result: str) -> tuple[str, str]:
    """The key of a result's mark among the sums of a run."""
    return "mark", result


def _any_but_zero(cotangents: Outcome) -> tf.Tensor:
    """Bool scalar: whether any cotangent has an entry other than zero."""
    tensors = [
        tensor
        for tensor in cotangents.flat()
        if tensor.dtype.is_floating or tensor.dtype.is_complex
    ]
    return tf.reduce_any([False, *(tf.reduce_any(tf.not_equal(tensor, 0)) for tensor in tensors)])


def _zeros(nodes: Sequence[Node | None], num_tokens: tf.Tensor) -> list[tf.Tensor | None]:
    """Cotangents of zero for the outputs of a sweep."""
    return [
        node and tf.zeros([num_tokens, *(node.types[0].shape or ())], node.types[0].dtype)
        for node in nodes
    ]
