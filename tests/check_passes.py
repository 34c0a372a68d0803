"""Runs a program before and after every pass and compares the results: for work on passes.

    KERASREC_CHECK_PASSES=1 python -m pytest tests/layers
    python -m tests.check_passes program.py

With the environment variable, tests run like this; the second line runs any program. The first
call of a recursive function for each signature checks all passes on the first tokens of the call,
unless the call is made while a graph is being built. The interpreter runs the tagged graph, the
extended graph, and the extended graph without simplification. Then waves run the schedule without
passes, and with one more pass each time. All must give the interpreter's values, tables and
gradients. This takes seconds for each signature.
"""

from __future__ import annotations

import contextlib
import runpy
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf

from kerasrec._src.emit.limits import Limits
from kerasrec._src.engine.program import Program
from kerasrec._src.engine.shared import shared_tensors, with_cotangents
from kerasrec._src.errors import GraphError
from kerasrec._src.function.arguments import Arguments
from kerasrec._src.function.concrete_function import ConcreteFunction
from kerasrec._src.graph.carried import with_carried
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.interpreter import interpret
from kerasrec._src.graph.nodes import SumCotangent, SumKey, name_of, operations
from kerasrec._src.graph.values import Value
from kerasrec._src.options import Options
from kerasrec._src.schedule.passes import Pass, default_passes
from kerasrec._src.trace.functions import unrepeatable_op
from kerasrec._src.transform import primitives
from kerasrec._src.transform.extend import extend
from kerasrec._src.transform.recompute import unrepeatable

NUM_TOKENS = 2
_TOLERANCE = {2: 1e-2, 4: 1e-3, 8: 1e-8}  # by the bytes of a float


@contextlib.contextmanager
def checked_passes() -> Iterator[None]:
    """Checks the passes of each program at its first eager call."""
    run, checked = ConcreteFunction.run, set()

    def run_checked(function: ConcreteFunction, given: Arguments) -> Any:
        if tf.executing_eagerly() and function not in checked:
            checked.add(function)
            program = function.executable.program
            check_passes(function.tagged, program.graph, given.tokens(), program.limits)
        return run(function, given)

    with mock.patch.object(ConcreteFunction, "run", run_checked):
        yield


@dataclass
class _Found:
    """The results of a run, NumPy arrays by name: outputs, tables, and gradients."""

    values: dict[Any, np.ndarray] = field(default_factory=dict)
    gradients: dict[Any, np.ndarray] = field(default_factory=dict)


def check_passes(
    tagged: TaggedGraph,
    extended: TaggedGraph,
    arguments: Sequence[tf.Tensor],
    limits: Limits,
    passes: Sequence[Pass] | None = None,
) -> None:
    """Checks the passes of one program on the first tokens of its arguments.

    A program that cannot be repeated, such as one that draws random numbers, is not checked.

    Args:
        tagged: The tagged graph of the program.
        extended: The extended graph of the program.
        arguments: The flat arguments, `[tokens, ...]` each, not symbolic.
        limits: The limits of the program.
        passes: The passes over the schedule; by default all that this machine uses.

    Raises:
        GraphError: If results differ; it names the pass.
    """
    given = [np.asarray(tensor[:NUM_TOKENS]) for tensor in arguments]
    shared = operations(tagged.shared)
    if not len(given[0]) or unrepeatable(tagged) or (shared and unrepeatable_op(shared)):
        return
    found = interpret(tagged, given)
    before = _Found(_values(found.outputs, found.tables))
    cotangents = _cotangents(extended, before)
    true = _interpreted(extended, given, cotangents)
    _compare("extend", true, before)
    if cotangents is not None:
        whole = _not_simplified(tagged)
        _compare("simplify", true, _interpreted(whole, given, cotangents))
    if passes is None:
        passes = default_passes(recomputes=True)
    for count in range(1 + len(passes)):
        program = Program(extended, limits, Options(), passes[:count])
        name = getattr(passes[count - 1], "__name__", repr(passes[count - 1])) if count else "build"
        _compare(name, _run(program, given, cotangents), true)


def _not_simplified(tagged: TaggedGraph) -> TaggedGraph:
    with (
        mock.patch.object(primitives, "simpler", lambda node: None),
        mock.patch.object(primitives, "sum_of_broadcast", lambda node: None),
    ):
        return extend(tagged)


@dataclass
class _Cotangents:
    """The inputs of the gradient: cotangents of outputs, None if they have none, and of tables."""

    outputs: list[np.ndarray | None]
    tables: dict[str, np.ndarray]


def _cotangents(extended: TaggedGraph, before: _Found) -> _Cotangents | None:
    """Makes cotangents with varied entries; returns None if the program has no gradient."""
    sweep = extended.bodies[extended.entry].sweeps[1]
    if extended.obstacles or not any(sweep.parameters):
        return None
    outputs = [
        None if node is None else _waves_of(before.values[("output", place)], place)
        for place, node in enumerate(sweep.parameters)
    ]
    tables = [str(node.key[1]) for node in _asked(extended, is_read=False)]
    return _Cotangents(
        outputs,
        {name: _cotangent_of(before.values[("table", name)]) for name in tables},
    )


def _asked(extended: TaggedGraph, is_read: bool) -> list[SumCotangent]:
    """The nodes for cotangents of tables, or those for whether results are read."""
    return [
        node
        for node in extended.shared
        if isinstance(node, SumCotangent) and node.types[0].dtype.is_bool == is_read
    ]


def _cotangent_of(table: np.ndarray) -> np.ndarray:
    """Returns a cotangent for a table; for a table of keys, the keys, which the gradient reads."""
    return table if table.dtype.kind == "i" else _waves_of(table, 1)


def _waves_of(value: np.ndarray, place: int) -> np.ndarray:
    return np.cos(np.arange(value.size) + place).reshape(value.shape).astype(value.dtype)


def _values(outputs: Sequence[Any], tables: dict[str, Any]) -> dict[Any, np.ndarray]:
    found: dict[Any, np.ndarray] = {
        ("output", place): np.asarray(value) for place, value in enumerate(outputs)
    }
    return found | {("table", name): np.asarray(value) for name, value in tables.items()}


def _gradients(arguments: Sequence[Any], sums: dict[Value, Any]) -> dict[Any, np.ndarray]:
    found: dict[Any, np.ndarray] = {
        ("argument", place): np.asarray(value)
        for place, value in enumerate(arguments)
        if value is not None
    }
    for value, total in sums.items():
        found[("shared", value.node, name_of(value.node), value.index)] = np.asarray(total)
    return found


def _interpreted(
    graph: TaggedGraph, given: Sequence[np.ndarray], cotangents: _Cotangents | None
) -> _Found:
    if cotangents is None:
        run = interpret(graph, given)
        return _Found(_values(run.outputs, run.tables))
    sums: dict[SumKey, np.ndarray] = {(1, name): value for name, value in cotangents.tables.items()}
    run = interpret(graph, given, cotangents.outputs, sums=sums)
    return _Found(_values(run.outputs, run.tables), _gradients(run.gradients, run.shared_gradients))


def _run(program: Program, given: Sequence[np.ndarray], cotangents: _Cotangents | None) -> _Found:
    """The results of a program that is run in waves."""
    graph = program.graph
    keys: list[Value] = []

    def run() -> tuple[Any, ...]:
        shared = shared_tensors(graph)
        waves = program.wave_run(shared)
        arguments = with_carried(graph, [tf.constant(item) for item in given])
        forward = waves.forward(arguments)
        if cotangents is None:
            return forward.outputs, forward.tables, [], []
        sums: dict[Any, tf.Tensor] = {
            (1, name): tf.constant(value) for name, value in cotangents.tables.items()
        }
        for node in _asked(graph, is_read=True):
            sums[node.key] = tf.constant(True)
        outputs = [item if item is None else tf.constant(item) for item in cotangents.outputs]
        back = waves.backward([outputs], with_cotangents(graph, shared, sums))
        keys[:] = back.sums
        totals = [tf.convert_to_tensor(back.sums[key]) for key in keys]
        return forward.outputs, forward.tables, back.sweeps[1], totals

    outputs, tables, arguments, totals = tf.function(run, autograph=False)()
    sums = dict(zip(keys, totals, strict=True))
    return _Found(_values(outputs, tables), _gradients(arguments, sums))


def _compare(name: str, after: _Found, before: _Found) -> None:
    """Raises GraphError if two runs differ in a result that both have."""
    pairs = [(after.values, before.values)]
    if before.gradients:
        pairs.append((after.gradients, before.gradients))
    for one, two in pairs:
        # A sum over no tokens may be missing.
        for key in [key for key in two if key in one]:
            if not _is_same(one[key], two[key]):
                what = " ".join(str(part) for part in key if isinstance(part, str | int))
                raise GraphError(
                    f"The pass {name} changed a result, {what}: {one[key]} with it, {two[key]} "
                    "without."
                )


def _is_same(one: np.ndarray, two: np.ndarray) -> bool:
    if one.shape != two.shape:
        return False
    if one.dtype.kind not in "fc":
        # Rows of a table without an index may be in any order.
        return bool(np.all(one == two)) or sorted(one.ravel()) == sorted(two.ravel())
    tolerance = _TOLERANCE.get(one.dtype.itemsize, 1e-8)

    def close(one: np.ndarray, two: np.ndarray) -> bool:
        finite = np.abs(two[np.isfinite(two)])
        scale = tolerance * (1.0 + (finite.max() if finite.size else 0.0))
        return bool(np.allclose(one, two, rtol=tolerance, atol=scale, equal_nan=True))

    return close(one, two)


if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    with checked_passes():
        runpy.run_path(sys.argv[0], run_name="__main__")
