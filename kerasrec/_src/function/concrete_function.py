"""A recursive function under one signature: its stages, and its calls from outside."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from kerasrec._src.datatypes.made_values import with_made
from kerasrec._src.engine.derivatives import marked
from kerasrec._src.engine.executable import Executable, Results
from kerasrec._src.engine.shared import tensors_closed_over
from kerasrec._src.function.arguments import Arguments, as_token
from kerasrec._src.graph.graph import FunctionGraphs, TaggedGraph
from kerasrec._src.inspect.record import Recorder
from kerasrec._src.inspect.run_trace import RunTrace
from kerasrec._src.private import in_xla, show_to_tapes, unseen_by_op_callbacks, unseen_by_tapes
from kerasrec._src.trace.signature import Signature
from kerasrec._src.transform.reads import output_result, table_result


@dataclass(eq=False)
class ConcreteFunction:
    """A recursive function under one signature.

    Args:
        signature: The signature of its arguments.
        graphs: The graphs of the functions.
        tagged: The tagged graph of the program.
        executable: The program with its derivatives, as a function of TensorFlow.
        returns: The nest of its results.
    """

    signature: Signature
    graphs: FunctionGraphs
    tagged: TaggedGraph
    executable: Executable
    returns: Any

    def __post_init__(self) -> None:
        self._specs = self.signature.tensor_specs()
        self._run = _traced(self.executable, self._specs)
        self._recorder = Recorder(self.executable, self._specs)

    @property
    def num_traces(self) -> int:
        """The number of times that TensorFlow has traced the function that runs the program."""
        return self._run.experimental_get_tracing_count()

    def run(self, given: Arguments) -> tuple[Any, dict[str, tf.Tensor]]:
        """Returns the result, and the collected rows `[size, ...]` by name."""
        is_session = not tf.compat.v1.executing_eagerly_outside_functions()
        with unseen_by_op_callbacks():
            outputs, collected, marks = self._results(given, is_session)
        if marks and not is_session:
            outputs = [
                marked(tensor, marks.get(output_result(place)))
                for place, tensor in enumerate(outputs)
            ]
            collected = {
                name: marked(table, marks.get(table_result(name)))
                for name, table in collected.items()
            }
        # After the function's own results, there may be one more, by which gradients enter.
        num_results = len(tf.nest.flatten(self.returns))
        result = tf.nest.pack_sequence_as(self.returns, outputs[:num_results])
        result, collected = with_made(result, collected)
        if given.rows is not None:
            result = tf.nest.map_structure(given.rows.with_values, result)
        return result, collected

    def record(self, given: Arguments) -> RunTrace:
        """Runs the program forward, in waves, and returns a record of it."""
        return self._recorder.record(given.tokens())

    def _results(self, given: Arguments, is_session: bool) -> Results:
        run = self._run_in_session if is_session else self._run
        if in_xla():
            run = self._run_within_xla
        if given.is_scalar and tf.executing_eagerly():
            return self._run_one(*given.tensors)
        if given.is_scalar:
            return _of_one(run, *given.tensors)
        outputs, collected, marks = run(*given.tensors)
        if not tf.executing_eagerly():
            for tensor in outputs:  # A loop around the call may need the static size.
                tensor.set_shape([given.tensors[0].shape[0], *tensor.shape[1:]])
        return outputs, collected, marks

    @functools.cached_property
    def _run_in_session(self) -> Any:
        """The run in waves, for graphs of TensorFlow 1.

        In these, version 2.21 mixes up the frames of nested loops around a function that XLA
        compiles.
        """
        return _traced(self.executable.in_waves(), self._specs)

    @functools.cached_property
    def _run_within_xla(self) -> Any:
        """The run inside of a program that XLA compiles as a whole.

        It is not a `tf.function`. XLA must know shapes when it compiles. If it must know one result
        of a function, it takes all of them, and everything from which they are computed, for
        constants. Then it would compile again for each batch. Therefore the ops of the run are in
        the graph around it, and tapes of that graph are told to see them as one op.
        """
        executable = self.executable.within_xla()

        def run(*arguments: tf.Tensor) -> Results:
            given = [tf.identity(tensor) for tensor in arguments]
            closed_over = tensors_closed_over(executable.graph)
            with unseen_by_tapes():
                results = executable.run(*given, closed_over=closed_over)
            show_to_tapes([*given, *closed_over.values()], tf.nest.flatten(results))
            return results

        return run

    @functools.cached_property
    def _run_one(self) -> Any:
        """The run of one token, with tensors that have no token axis."""
        specs = [tf.TensorSpec(spec.shape[1:], spec.dtype, spec.name) for spec in self._specs]
        one = functools.partial(_of_one, self._run)
        return tf.function(one, input_signature=specs, autograph=False)


def _of_one(run: Any, *tensors: tf.Tensor) -> Results:
    """Runs one token, with tensors without a token axis."""
    outputs, collected, marks = run(*as_token(tensors))
    return tuple(tf.squeeze(tensor, 0) for tensor in outputs), collected, marks


def _traced(executable: Executable, specs: Sequence[tf.TensorSpec]) -> Any:
    # TensorFlow warns of many traces of one Python function; partials are counted separately.
    run = functools.partial(executable.run)
    return tf.function(run, input_signature=specs, autograph=False)
