"""Runs a program in every way there is, for its values, its tables and its gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf

from kerasrec._src.datatypes.made_values import PREFIX as MADE
from kerasrec._src.emit.limits import Limits
from kerasrec._src.engine.executable import Executable
from kerasrec._src.engine.program import Program as Lowered
from kerasrec._src.engine.shared import shared_tensors
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.interpreter import Interpretation, interpret
from kerasrec._src.options import Options
from kerasrec._src.schedule.passes import default_passes
from kerasrec._src.transform.extend import extend
from tests.programs import Program

# For half precision, four roundings.
HALF_TOLERANCE = {"float16": 4 * 2.0**-10, "bfloat16": 4 * 2.0**-7}
TOLERANCE = {**HALF_TOLERANCE, "float32": 1e-5, "float64": 1e-10}
SECOND_TOLERANCE = {**HALF_TOLERANCE, "float32": 1e-4, "float64": 1e-9}


@dataclass
class Run:
    """The results of a run.

    Args:
        outputs: flat, `[tokens, ...]` each.
        tables: collected, by name.
        gradients: of the float arguments and of closure variables, in this order, for
          the cotangents that `cotangents_of` gives; empty without gradient.
    """

    outputs: list[np.ndarray]
    tables: dict[str, np.ndarray]
    gradients: list[np.ndarray]

    def __post_init__(self) -> None:
        self.outputs = [np.asarray(item) for item in self.outputs]
        self.tables = {name: np.asarray(self.tables[name]) for name in names_of(self.tables)}


def assert_same(run: Run, expected: Run, num_gradients: int | None = None) -> None:
    """Values, tables and (the first of) the gradients of two runs are equal, up to rounding."""
    assert list(run.tables) == list(expected.tables)
    wanted = expected.gradients[:num_gradients]
    pairs = [
        *zip(run.outputs, expected.outputs, strict=True),
        *zip(run.tables.values(), expected.tables.values(), strict=True),
        *zip(run.gradients, wanted, strict=True),
    ]
    for found, true in pairs:
        tolerance = TOLERANCE.get(found.dtype.name, 0)
        np.testing.assert_allclose(found, true, rtol=tolerance, atol=tolerance)
        assert (found.dtype, found.shape) == (true.dtype, true.shape)


@functools.cache
def run_plain(program: Program) -> Run:
    """One token at a time, in eager Python."""
    inputs = [tf.constant(item) if is_float(item) else item for item in program.flat_inputs]
    return with_gradients(program, inputs, lambda: plain_result_of(program, inputs))


def run_engine(program: Program) -> Run:
    """All tokens at once, called eagerly, gradients from a tape."""
    inputs = [tf.constant(item) for item in program.flat_inputs]
    return with_gradients(program, inputs, lambda: result_of(program, inputs))


def run_in_queues(program: Program) -> Run:
    """The same by the machine that runs every program, whether this one needs it or not."""
    return run_lowered(program, engine="waves", by_queues=True)


def lowered(
    program: Program, recompute=False, passes=None, by_queues=False, **options
) -> Executable:
    """For an engine of one's choice; other options are those of engines."""
    graph = program.function.tagged_graph(*program.inputs)
    limits = Limits(program.name, 100_000, 1 << 23, 1 << 40)
    passes = default_passes(recompute) if passes is None else passes
    given = Options(recompute=recompute, **options)
    return Executable(Lowered(extend(graph), limits, given, passes, by_queues))


def traced(program: Program, is_open: bool = False, **options) -> Callable:
    """Flat inputs to flat outputs and tables, by an engine of one's choice.

    Args:
        program: to run.
        is_open: whether one trace serves any number of tokens.
        options: as for `lowered`.
    """
    made = lowered(program, **options)

    def run(*flat):
        return made.run(*flat)[:2]

    specs = [tf.TensorSpec([None, *item.shape[1:]], item.dtype) for item in program.flat_inputs]
    return tf.function(run, autograph=False, input_signature=specs if is_open else None)


def run_lowered(program: Program, **options) -> Run:
    """By an engine of one's choice; options as for `lowered`."""
    run = traced(program, **options)
    inputs = [tf.constant(item) for item in program.flat_inputs]
    return with_gradients(program, inputs, lambda: run(*inputs))


def traced_within_xla(program: Program, calls: int) -> Callable:
    """As `traced`, inside of a function that XLA compiles, with room for some calls per token."""
    made = lowered(program, max_xla_calls=calls)

    @tf.function(autograph=False, jit_compile=True)
    def run(*flat):
        return made.within_xla().run(*flat)[:2]

    return run


def run_within_xla(program: Program, calls: int) -> Run:
    """Inside of a function that XLA compiles, with room for some calls per token."""
    run = traced_within_xla(program, calls)
    inputs = [tf.constant(item) for item in program.flat_inputs]
    return with_gradients(program, inputs, lambda: run(*inputs))


def second_gradients_within_xla(program: Program, calls: int) -> list[np.ndarray]:
    """Second derivatives inside of a function that XLA compiles."""
    run = traced_within_xla(program, calls)
    return second_gradients(program, lambda inputs: run(*map(tf.constant, inputs)))


def run_one(program: Program, **options) -> Run:
    """Only the first token, as 0-d tensors, which TensorFlow knows to be one."""
    one = with_tokens(program, 1)
    made = lowered(one, **options)

    @tf.function(autograph=False)
    def run(*flat):
        outputs, tables, _ = made.run(*[tf.expand_dims(item, 0) for item in flat])
        return tuple(tf.squeeze(item, 0) for item in outputs), tables

    def result(inputs: Sequence) -> tuple[list, dict]:
        outputs, tables = run(*[tf.squeeze(item, 0) for item in inputs])
        return [tf.expand_dims(item, 0) for item in outputs], tables

    inputs = [tf.constant(item) for item in one.flat_inputs]
    return with_gradients(one, inputs, lambda: result(inputs))


@functools.cache
def with_tokens(program: Program, number: int) -> Program:
    """The program on so many tokens: its first ones, or all of them again and again."""
    rows = np.arange(number) % program.num_tokens
    return replace(
        program, inputs=tf.nest.map_structure(lambda item: np.asarray(item)[rows], program.inputs)
    )


def run_in_function(program: Program, num_tokens: int | None) -> Run:
    """Inside a tf.function that knows so many tokens, with tf.gradients.

    Tensors that the program closes over are left out: tf.gradients cannot be asked for them.
    """
    inputs = [tf.constant(item) for item in program.flat_inputs]
    variables = [item for item in program.sources if isinstance(item, tf.Variable)]
    given = cotangents_of(run_plain(program))

    @tf.function(
        input_signature=[
            tf.TensorSpec([num_tokens, *item.shape[1:]], item.dtype) for item in inputs
        ],
        autograph=False,
    )
    def call(*flat):
        outputs, tables = result_of(program, flat)
        if not program.has_gradient:
            return outputs, tables, []
        wanted = [*filter(is_float, flat), *variables]
        results = [item for item in [*outputs, *by_name(tables)] if is_float(item)]
        gradients = tf.gradients(results, wanted, [item for item in given if item is not None])
        return outputs, tables, dense(gradients, wanted)

    outputs, tables, gradients = call(*inputs)
    return Run(outputs, tables, [item.numpy() for item in gradients])


def run_interpreter(program: Program) -> tuple[Run, Interpretation]:
    """One token at a time, by the papers' rules, on the extended graph."""
    graph = program.function.extended_graph(*program.inputs)
    if not program.has_gradient:
        found = interpret(graph, program.flat_inputs)
        return Run(found.outputs, found.tables, []), found
    plain = run_plain(program)
    given = cotangents_of(plain)
    num_outputs = len(plain.outputs)
    keys = [(1, name) for name in plain.tables]
    sums = dict(zip(keys, given[num_outputs:], strict=True))
    if any(node.name not in plain.tables for node in graph.collects):  # Those of values made.
        for name, table in interpret(graph, program.flat_inputs).tables.items():
            sums.setdefault((1, name), np.zeros_like(table) if is_float(table) else table)
    found = interpret(graph, program.flat_inputs, given[:num_outputs], sums=sums)
    gradients = [
        np.zeros_like(item) if gradient is None else gradient
        for gradient, item in zip(found.gradients, program.flat_inputs, strict=True)
        if is_float(item)
    ]
    gradients += _through_shared(graph, found, program.sources)
    tables = {name: table for name, table in found.tables.items() if "kerasrec/" not in name}
    return Run(found.outputs, tables, gradients), found


def weights(place: int, shape: Sequence[int], dtype) -> np.ndarray:
    """Factors of a gradient, for something to take the second derivative of."""
    size = np.prod(shape, dtype=int)
    return np.sin(1.0 + np.arange(size) + place).reshape(shape).astype(dtype)


def second_gradients(
    program: Program, result_of_inputs: Callable[[Sequence], tuple[Sequence, dict]]
) -> list[np.ndarray]:
    """Gradients of the weighted sum of all gradients."""
    inputs = [tf.constant(item) if is_float(item) else item for item in program.flat_inputs]
    sources = [*filter(is_float, inputs), *program.sources]
    given = [tf.constant(item) for item in cotangents_of(run_plain(program)) if item is not None]
    with tf.GradientTape() as second:
        second.watch(sources)
        with tf.GradientTape() as first:
            first.watch(sources)
            outputs, tables = result_of_inputs(inputs)
        results = [item for item in [*outputs, *by_name(tables)] if is_float(item)]
        gradients = dense(first.gradient(results, sources, given), sources)
        weighted = tf.add_n(
            [
                tf.reduce_sum(item * weights(place, item.shape, item.dtype.as_numpy_dtype))
                for place, item in enumerate(gradients)
            ]
        )
    return [item.numpy() for item in dense(second.gradient(weighted, sources), sources)]


@functools.cache
def plain_second(program: Program) -> list[np.ndarray]:
    """Second derivatives by nested tapes around plain eager Python."""
    return second_gradients(program, lambda inputs: plain_result_of(program, inputs))


def assert_same_second(program: Program, found: Sequence[np.ndarray]) -> None:
    """Second derivatives are those of nested tapes around plain eager recursion."""
    expected = plain_second(program)
    tolerance = SECOND_TOLERANCE[found[0].dtype.name]
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance)


def result_of(program: Program, inputs: Sequence | None = None) -> tuple[list, dict]:
    """Flat outputs and tables of the engine."""
    flat = program.flat_inputs if inputs is None else inputs
    result, tables = program.function.with_collected(
        *tf.nest.pack_sequence_as(program.inputs, flat)
    )
    return tf.nest.flatten(result), tables


def plain_result_of(program: Program, inputs: Sequence) -> tuple[list, dict]:
    """Flat outputs and tables of plain Python, of tensors, but arrays of integers."""
    graph = program.function.extended_graph(*program.inputs)
    dtypes = [node.output().type.dtype for node in graph.bodies[graph.entry].outputs]
    tokens = [
        tf.nest.pack_sequence_as(program.inputs, [_token(item[row]) for item in inputs])
        for row in range(program.num_tokens)
    ]
    rows = [tf.nest.flatten(program.plain(*token)) for token in tokens]
    outputs = [
        tf.stack([tf.cast(item, dtype) for item in column])
        for column, dtype in zip(zip(*rows, strict=True), dtypes, strict=True)
    ]
    if not program.plain_tables:
        return outputs, {}
    parts = [program.plain_tables(*token) for token in tokens]
    return outputs, {name: tf.add_n([part[name] for part in parts]) for name in parts[0]}


def cotangents_of(run: Run) -> list[np.ndarray | None]:
    """One for each output and table, all elements different; None for integers."""
    return [
        np.cos(np.arange(item.size) + place).reshape(item.shape).astype(item.dtype)
        if is_float(item)
        else None
        for place, item in enumerate([*run.outputs, *run.tables.values()])
    ]


def is_float(value) -> bool:
    return tf.as_dtype(value.dtype).is_floating


def names_of(tables: dict) -> list[str]:
    """The names of the tables that a program collects, without those of values that it makes."""
    return sorted(name for name in tables if not name.startswith(MADE))


def by_name(tables: dict) -> list:
    return [tables[name] for name in names_of(tables)]


def with_gradients(
    program: Program, inputs: Sequence, run: Callable[[], tuple[Sequence, dict]]
) -> Run:
    """The results of a program on some inputs, with gradients from a tape."""
    sources = [*filter(is_float, inputs), *program.sources]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        outputs, tables = run()
    found = Run(outputs, tables, [])
    if program.has_gradient:
        results = [item for item in [*outputs, *by_name(tables)] if is_float(item)]
        given = [tf.constant(item) for item in cotangents_of(found) if item is not None]
        gradients = tape.gradient(results, sources, given)
        found.gradients = [item.numpy() for item in dense(gradients, sources)]
    return found


def dense(gradients: Sequence, sources: Sequence) -> list[tf.Tensor]:
    """Gradients as tensors, zero where there is none."""
    return [
        tf.zeros(tf.shape(source), source.dtype)
        if gradient is None
        else tf.convert_to_tensor(gradient)
        for gradient, source in zip(gradients, sources, strict=True)
    ]


def _through_shared(graph: TaggedGraph, found: Interpretation, sources: tuple) -> list[np.ndarray]:
    """Gradients of variables and tensors, from those of the shared values that tokens read."""
    values = list(found.shared_gradients)
    with tf.GradientTape() as tape:
        tape.watch(sources)
        tensors = tf.function(
            lambda: [*map(shared_tensors(graph).__getitem__, values)], autograph=False
        )()
    given = [tf.constant(found.shared_gradients[value]) for value in values]
    return [item.numpy() for item in dense(tape.gradient(tensors, sources, given), sources)]


def _token(value):
    """A token's value: Python's own for integer scalars, so that plain programs are quick."""
    return value.item() if isinstance(value, np.generic) else value
