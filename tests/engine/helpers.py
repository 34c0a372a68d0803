"""Runs a program in every way there is, for its values, its tables and its gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf

from kerasrec.engine.lower import shared_tensors
from kerasrec.graph.graph import TaggedGraph
from kerasrec.graph.interpreter import Interpretation, interpret
from tests.programs import Program


@dataclass
class Run:
    """What a run gave.

    Args:
        outputs: flat, `[tokens, ...]` each.
        tables: collected, by name.
        gradients: of a fixed weighted sum of all outputs and tables, by `wanted`.
    """

    outputs: list[np.ndarray]
    tables: dict[str, np.ndarray] = field(default_factory=dict)
    gradients: list[np.ndarray] = field(default_factory=list)


def weights(place: int, tensor: tf.Tensor) -> np.ndarray:
    """Cotangents, different for every output and every element of it."""
    size = int(np.prod(tensor.shape))
    return np.cos(np.arange(size) + place).reshape(tensor.shape).astype(tensor.dtype.name)


def cotangents(outputs: Sequence[tf.Tensor], place: int = 0) -> list[np.ndarray | None]:
    return [
        weights(place + index, tf.convert_to_tensor(item)) if is_float(item) else None
        for index, item in enumerate(outputs)
    ]


def loss(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """The weighted sum; its gradient by each tensor is `weights`."""
    floats = [(place, item) for place, item in enumerate(tensors) if is_float(item)]
    return tf.add_n([tf.reduce_sum(item * weights(place, item)) for place, item in floats])


def is_float(value) -> bool:
    return tf.as_dtype(value.dtype).is_floating


def float_inputs(program: Program, inputs: Sequence) -> list:
    return [item for item in inputs if is_float(item)]


def dense(gradients: Sequence, sources: Sequence) -> list[np.ndarray]:
    """Gradients as arrays, zero where there is none."""
    return [
        np.zeros(source.shape, tf.as_dtype(source.dtype).as_numpy_dtype)
        if gradient is None
        else tf.convert_to_tensor(gradient).numpy()
        for gradient, source in zip(gradients, sources, strict=True)
    ]


def run_plain(program: Program) -> Run:
    """One token at a time, in eager Python."""
    inputs = [tf.constant(item) if is_float(item) else item for item in program.flat_inputs]
    sources = [*float_inputs(program, inputs), *program.sources]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        tokens = [
            tf.nest.pack_sequence_as(program.inputs, [_token(item[row]) for item in inputs])
            for row in range(program.num_tokens)
        ]
        rows = [tf.nest.flatten(program.plain(*token)) for token in tokens]
        outputs = [tf.stack(column) for column in zip(*rows, strict=True)]
        tables = {}
        if program.plain_tables:
            parts = [program.plain_tables(*token) for token in tokens]
            tables = {name: tf.add_n([part[name] for part in parts]) for name in parts[0]}
        total = loss([*outputs, *_by_name(tables)]) if program.has_gradient else None
    gradients = dense(tape.gradient(total, sources), sources) if program.has_gradient else []
    return _run(outputs, tables, gradients)


def run_engine(program: Program, function: Callable | None = None) -> Run:
    """All tokens at once, called eagerly, gradients from a tape.

    Args:
        program: to run.
        function: what to call in place of `program.function.with_tables`.
    """
    inputs = [tf.constant(item) for item in program.flat_inputs]
    sources = [*float_inputs(program, inputs), *program.sources]
    function = function or program.function.with_tables
    with tf.GradientTape() as tape:
        tape.watch(sources)
        result, tables = function(*tf.nest.pack_sequence_as(program.inputs, inputs))
        outputs = tf.nest.flatten(result)
        total = loss([*outputs, *_by_name(tables)]) if program.has_gradient else None
    gradients = dense(tape.gradient(total, sources), sources) if program.has_gradient else []
    return _run(outputs, tables, gradients)


def run_in_function(program: Program) -> Run:
    """Inside a tf.function that knows no number of tokens, gradients from tf.gradients.

    Tensors that the program closes over are left out: tf.gradients cannot be asked for them.
    """
    variables = [item for item in program.sources if isinstance(item, tf.Variable)]
    inputs = [tf.constant(item) for item in program.flat_inputs]
    num_tokens = program.num_tokens

    @tf.function(
        input_signature=[tf.TensorSpec([None, *item.shape[1:]], item.dtype) for item in inputs],
        autograph=False,
    )
    def call(*flat):
        result, tables = program.function.with_tables(
            *tf.nest.pack_sequence_as(program.inputs, flat)
        )
        outputs = tf.nest.flatten(result)
        if not program.has_gradient:
            return outputs, tables, []
        known = [tf.ensure_shape(item, [num_tokens, *item.shape[1:]]) for item in outputs]
        sized = [tf.ensure_shape(item, [8, *item.shape[1:]]) for item in _by_name(tables)]
        wanted = [*float_inputs(program, flat), *variables]
        gradients = tf.gradients(loss([*known, *sized]), wanted)
        found = [
            tf.zeros_like(source) if gradient is None else tf.convert_to_tensor(gradient)
            for gradient, source in zip(gradients, wanted, strict=True)
        ]
        return outputs, tables, found

    outputs, tables, gradients = call(*inputs)
    return _run(outputs, tables, [item.numpy() for item in gradients])


def run_interpreter(program: Program) -> tuple[Run, Interpretation]:
    """One token at a time, by the papers' rules, on the extended graph."""
    graph = program.function.extended_graph(*program.inputs)
    inputs = program.flat_inputs
    if not program.has_gradient:
        found = interpret(graph, inputs)
        return _run(found.outputs, found.tables, []), found
    plain = run_plain(program)
    tables = dict(zip(sorted(plain.tables), _by_name(plain.tables), strict=True))
    given = cotangents([*plain.outputs, *tables.values()])
    found = interpret(
        graph,
        inputs,
        given[: len(plain.outputs)],
        dict(zip(tables, given[len(plain.outputs) :], strict=True)),
    )
    floats = float_inputs(program, inputs)
    gradients = [
        gradient for gradient, item in zip(found.gradients, inputs, strict=True) if is_float(item)
    ]
    gradients = [
        np.zeros_like(item) if gradient is None else gradient
        for gradient, item in zip(gradients, floats, strict=True)
    ]
    gradients += _through_shared(graph, found, program.sources)
    return _run(found.outputs, found.tables, gradients), found


def _through_shared(graph: TaggedGraph, found: Interpretation, sources: tuple) -> list[np.ndarray]:
    """Gradients of variables and tensors, from those of the shared values that tokens read."""
    values = list(found.shared_gradients)
    with tf.GradientTape() as tape:
        tape.watch(sources)
        tensors = tf.function(lambda: [shared_tensors(graph)[value] for value in values])()
    given = [tf.constant(found.shared_gradients[value]) for value in values]
    return dense(tape.gradient(tensors, sources, given), sources)


def _token(value):
    """A token's value: Python's own for integer scalars, so that plain programs are quick."""
    return value.item() if isinstance(value, np.generic) else value


def _by_name(tables: dict) -> list:
    return [tables[name] for name in sorted(tables)]


def _run(outputs: Sequence, tables: dict, gradients: list) -> Run:
    return Run(
        [np.asarray(item) for item in outputs],
        {name: np.asarray(table) for name, table in tables.items()},
        gradients,
    )
