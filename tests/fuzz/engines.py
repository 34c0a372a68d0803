"""Runs random programs by kerasrec, in every way there is."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

import kerasrec
from kerasrec._src.emit.limits import Limits
from kerasrec._src.engine.executable import Executable
from kerasrec._src.engine.program import Program as Lowered
from kerasrec._src.engine.shared import shared_tensors
from kerasrec._src.frames.rows_xla.ops import obstacles
from kerasrec._src.graph.carried import tables_of_roots
from kerasrec._src.graph.interpreter import interpret
from kerasrec._src.graph.nodes import RowsOfRoots
from kerasrec._src.options import Options as OptionsOfDecorator
from kerasrec._src.schedule.passes import WAVE_PASSES, default_passes
from kerasrec._src.schedule.passes.among_devices import among_devices
from kerasrec._src.transform.extend import extend
from tests.frames.helpers import never_by_waves
from tests.fuzz.plain import (
    Result,
    array,
    cotangent,
    float_places,
    table_cotangent,
    tables_of,
    weights,
)
from tests.fuzz.source import KEYS, source_of, weights_of
from tests.fuzz.syntax import CONSTANTS, NODE_ROWS, NUM_ROWS, Program

PASSES = {
    "default": None,
    "none": (),
    "all": WAVE_PASSES,
    "devices": (*WAVE_PASSES, partial(among_devices, devices=["/CPU:0"] * 3)),
}


@dataclass(frozen=True)
class Options:
    """How a program runs.

    Args:
        way: "traced", one trace of values and gradients together; "eager", called as a user does;
          "function", called in a tf.function that does not know how many tokens there are;
          "inside XLA", called in a tf.function that XLA compiles as a whole; "interpreter".
        engine: as the decorator takes it; and the same for those below.
        parallel_tokens: see there.
        recompute: see there.
        max_depth: see there; None for its default.
        in_queues: whether a program of one round also runs by the engine for all programs.
        passes: over the schedule, by name. These two are only of "traced".
        has_values: whether branches are function values.
        leaves_out: whether calls leave out an argument, or pass a zero.
        memo: whether equal calls are one.
    """

    way: str = "traced"
    engine: str = "waves"
    parallel_tokens: int | None = None
    recompute: bool = False
    max_depth: int | None = None
    in_queues: bool = False
    passes: str = "default"
    has_values: bool = False
    leaves_out: bool = False
    memo: bool = False

    def __str__(self) -> str:
        fields = {name: value for name, value in vars(self).items() if value not in (None, False)}
        return ", ".join(f"{name}={value!r}" for name, value in fields.items())


def memoised(options: Options) -> Options:
    """The same with `memo=True`, without what that does not take."""
    return dataclasses.replace(
        options,
        engine=options.engine if options.engine == "compiled" else "waves",
        in_queues=False,
        passes="default" if options.passes == "devices" else options.passes,
        memo=True,
    )


class Run:
    """A program, compiled under some options; runs any of its tokens.

    Args:
        program: to compile.
        options: how it runs.
    """

    def __init__(self, program: Program, options: Options):
        self.program = program
        self.options = options
        self.weights = weights(program.dtype)
        self.read = [self.weights[name] for name in weights_of(program)]
        self.tables = tables_of(program)
        self.function = self._function()
        if options.way == "traced":
            self._call = self._traced()
        elif options.way == "function":
            self._call = tf.function(self._called, autograph=False, reduce_retracing=True)
        elif options.way == "inside XLA":
            self.function = self._function(max_xla_calls=self._most_calls())
            self._call = tf.function(self._called, autograph=False, jit_compile=True)
        elif options.way == "eager":
            self._call = self._called

    def _most_calls(self) -> int:
        """The number of calls per token, itself among them."""
        rows = range(len(self.program.rows))
        found = (self.packed(arguments_of(self.program, [row])) for row in rows)
        return max(self.function.run_trace(*arguments).num_calls for arguments in found)

    def _function(self, **options: Any) -> kerasrec.RecursiveFunction:
        options |= {
            name: getattr(self.options, name)
            for name in ("engine", "parallel_tokens", "recompute", "max_depth", "memo")
            if getattr(self.options, name) is not None
        }
        space: dict[str, Any] = {
            **self.weights,
            "tf": tf,
            "FLOAT": tf.as_dtype(self.program.dtype),
            "CHILDREN": tf.ragged.constant(NODE_ROWS, dtype=tf.int32),
            "cond": kerasrec.cond,
            "switch": kerasrec.switch,
            "collect": kerasrec.collect,
            "map_fn": kerasrec.map_fn,
            "while_loop": kerasrec.while_loop,
            "lazy": kerasrec.lazy,
            "functions": kerasrec.functions,
            "recursive": functools.partial(kerasrec.recursive, **options),
        }
        exec(source_of(self.program, self.options.has_values, self.options.leaves_out), space)
        return space[self.program.entry.name]

    def __call__(self, tokens: Sequence[int] | None) -> Result:
        """Runs tokens, each the place of its arguments in the rows of the program.

        A compiled run that waves take over fails.
        """
        with never_by_waves():
            return self._run(tokens)

    def _run(self, tokens: Sequence[int] | None) -> Result:
        arguments = [tf.constant(item) for item in arguments_of(self.program, tokens)]
        cotangents = [tf.constant(item) for item in cotangents_of(self.program, tokens)]
        if self.options.way == "interpreter":
            return self._interpreted([item.numpy() for item in arguments], cotangents)
        if self.options.way == "eager":
            outputs, tables, gradients = self._with_tape(arguments, cotangents)
        else:
            outputs, tables, gradients = self._call(arguments, cotangents)
        return Result(
            [item.numpy() for item in outputs],
            {name: tables[name].numpy() for name in sorted(tables)},
            [item.numpy() for item in gradients],
        )

    def packed(self, flat: Sequence) -> tuple:
        return (tuple(flat[:-1]), flat[-1]) if self.program.entry.packs else tuple(flat)

    def _pairs(self, outputs: list, tables: dict, cotangents: Sequence) -> tuple[list, list]:
        """The outputs with a gradient, and cotangents for them."""
        found = [item for item in outputs if item.dtype.is_floating]
        given = list(cotangents)
        for name in sorted(tables):
            if tables[name].dtype.is_floating and self.tables[name][1]:
                found.append(tables[name])
                shape = (NUM_ROWS, *tables[name].shape[1:])
                given.append(tf.constant(table_cotangent(shape, self.program.dtype)))
        return found, given

    def _with_tape(self, arguments: list, cotangents: list) -> tuple:
        sources = [*(arguments[place] for place in float_places(self.program)), *self.read]
        with tf.GradientTape() as tape:
            tape.watch(sources)
            outputs, tables = self._outputs(arguments)
        found, given = self._pairs(outputs, tables, cotangents)
        return outputs, tables, _dense(tape.gradient(found, sources, given), sources)

    def _outputs(self, arguments: Sequence) -> tuple[list, dict]:
        result, tables = self.function.with_collected(*self.packed(arguments))
        return _flat(result, self.program.entry.structure), tables

    def _called(self, arguments: list, cotangents: list) -> tuple:
        sources = self._sources(arguments)
        outputs, tables = self._outputs(arguments)
        found, given = self._pairs(outputs, tables, cotangents)
        return outputs, tables, _dense(tf.gradients(found, sources, given), sources)

    def _sources(self, arguments: list) -> list:
        """The sources of gradients, in a graph; its own tensors for those that it captures."""
        graph = tf.compat.v1.get_default_graph()
        return [arguments[place] for place in float_places(self.program)] + [
            self.weights[name] if name not in CONSTANTS else graph.capture(self.weights[name])
            for name in weights_of(self.program)
        ]

    def _traced(self) -> Any:
        lowered = self.lowered()

        def run(arguments: list, cotangents: list) -> tuple:
            sources = self._sources(arguments)
            outputs, tables, _ = lowered.run(*arguments)
            found, given = self._pairs(outputs, tables, cotangents)
            gradients = tf.gradients(found, sources, given) if found else [None] * len(sources)
            return outputs, tables, _dense(gradients, sources)

        none = [
            [tf.TensorSpec([None, *item.shape[1:]], item.dtype) for item in found(self.program, ())]
            for found in (arguments_of, cotangents_of)
        ]
        return tf.function(run, input_signature=none, autograph=False)

    def lowered(self) -> Executable:
        """The program, as it is lowered for "traced"."""
        options = self.options
        limits = Limits(self.program.entry.name, options.max_depth or 100_000, 1 << 23, 1 << 40)
        passes = PASSES[options.passes]
        program = Lowered(
            extend(self.function.tagged_graph(*self.packed(arguments_of(self.program, ())))),
            limits,
            OptionsOfDecorator(
                engine=options.engine,
                parallel_tokens=options.parallel_tokens,
                recompute=options.recompute,
            ),
            default_passes(options.recompute) if passes is None else passes,
            by_queues=options.in_queues,
        )
        return Executable(program)

    def extended_graph(self) -> Any:
        return self.function.extended_graph(*self.packed(arguments_of(self.program, ())))

    def _interpreted(self, arguments: list, cotangents: list) -> Result:
        graph = self.extended_graph()
        left = iter(cotangents)
        given = [
            next(left).numpy() if item.kind == "float" else None
            for item in self.program.entry.results
        ]
        is_differentiable = any(graph.bodies[graph.entry].sweeps[1].outputs) or any(
            body.accumulates for body in graph.bodies.values()
        )
        sums = {
            (1, name): table_cotangent((NUM_ROWS, *found.shape), self.program.dtype)
            for name, (found, has_index) in self.tables.items()
            if has_index and found.kind == "float"
        }
        if not is_differentiable:
            found = interpret(graph, arguments)
            gradients = [None] * len(arguments)
        else:
            sweep = graph.bodies[graph.entry].sweeps[1]
            # Where no argument has a gradient but zero, the sweep is not called from outside.
            is_called = bool(graph.root.linkages[1].calls)
            given = [
                item if node is not None else None
                for item, node in zip(given, sweep.parameters, strict=True)
                if is_called
            ]
            found = interpret(graph, arguments, given, sums=sums)
            gradients = found.gradients or [None] * len(arguments)
        of_arguments = [
            np.zeros_like(arguments[place]) if gradients[place] is None else gradients[place]
            for place in float_places(self.program)
        ]
        values = [
            value
            for value in found.shared_gradients
            if not isinstance(value.node, RowsOfRoots)  # A table of arguments.
        ]
        tables = {
            node.output(): tf.constant(arguments[node.place]) for node in tables_of_roots(graph)
        }
        with tf.GradientTape() as tape:
            tape.watch(self.read)
            tensors = tf.function(
                lambda: [*map(shared_tensors(graph, tables).__getitem__, values)], autograph=False
            )()
        through = tape.gradient(
            tensors, self.read, [tf.constant(found.shared_gradients[value]) for value in values]
        )
        of_weights = [item.numpy() for item in _dense(through, self.read)]
        tables = {name: found.tables[name] for name in sorted(found.tables)}
        return Result(found.outputs, tables, [*of_arguments, *of_weights])


def can_be_compiled(program: Program, memo: bool = False) -> bool:
    """Whether the engine "compiled" takes a program."""
    return not obstacles(Run(program, Options(way="eager", memo=memo)).extended_graph())


def arguments_of(program: Program, tokens: Sequence[int] | None) -> list[np.ndarray]:
    """Flat arguments `[tokens, ...]`; of a 0-d call, without a token axis."""
    types = [item for _, item in program.entry.parameters]
    columns = list(zip(*program.rows, strict=True))
    found = []
    for values, item in zip(columns, types, strict=True):
        column = array(values, item, program.dtype)
        found.append(column[0] if tokens is None else column[list(tokens)])
    return found


def cotangents_of(program: Program, tokens: Sequence[int] | None) -> list[np.ndarray]:
    """For each float output `[tokens, ...]`; equal for equal tokens."""
    found = []
    for place, item in enumerate(program.entry.results):
        if item.kind == "float":
            rows = [cotangent(place, row, item, program.dtype) for row in range(len(program.rows))]
            found.append(rows[0] if tokens is None else np.stack(rows)[list(tokens)])
    return found


def _flat(result: Any, structure: str) -> list:
    """The parts of a result in the order of the signature."""
    return (
        [result[key] for key in KEYS if key in result]
        if structure == "dict"
        else (tf.nest.flatten(result))
    )


def _dense(gradients: Sequence, sources: Sequence) -> list[tf.Tensor]:
    return [
        tf.zeros(tf.shape(source), source.dtype)
        if gradient is None
        else tf.convert_to_tensor(gradient)
        for gradient, source in zip(gradients, sources, strict=True)
    ]
