"""The meaning of a program: plain eager recursion over one token, with a tape for its gradient.

It shares nothing with kerasrec. A value has a leading axis of one token, so that ops are the same;
rows are Python lists with a value for each entry.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from tests.fuzz.ops import OPS
from tests.fuzz.source import weights_of
from tests.fuzz.syntax import (
    CONSTANTS,
    NODE_ROWS,
    NUM_ROWS,
    WEIGHTS,
    Apply,
    Block,
    Call,
    ChildRows,
    Choice,
    Collect,
    Constant,
    Define,
    Function,
    Invoke,
    Lambda,
    Let,
    Loop,
    MapRows,
    Name,
    Part,
    PassOn,
    Program,
    RangeRows,
    Shared,
    Type,
    reachable,
    type_of,
    walk,
    weight_values,
)

MAX_CALLS = 100


class TooLongError(Exception):
    """More calls than a random program is meant to have."""


@dataclass
class Result:
    """The results of a run.

    Args:
        outputs: flat, `[tokens, ...]` each.
        tables: collected, by name.
        gradients: of the float arguments, `[tokens, ...]`, then of the weights that the program
          reads, for the cotangents of `cotangents_of`.
    """

    outputs: list[np.ndarray]
    tables: dict[str, np.ndarray] = field(default_factory=dict)
    gradients: list[np.ndarray] = field(default_factory=list)


@functools.cache
def weights(dtype: str) -> dict[str, Any]:
    """All that functions may close over."""
    return {
        name: tf.constant(weight_values(name), dtype)
        if name in CONSTANTS
        else tf.Variable(weight_values(name), dtype=dtype, name=name)
        for name in WEIGHTS
    }


def float_places(program: Program) -> list[int]:
    """Which arguments of the call from outside have gradients."""
    types = [item for _, item in program.entry.parameters]
    return [place for place, item in enumerate(types) if item.kind == "float"]


def array(values: Any, found: Type, dtype: str) -> np.ndarray:
    return np.array(values, {"float": dtype, "int": "int32", "bool": "bool"}[found.kind])


def cotangent(place: int, row: int, found: Type, dtype: str) -> np.ndarray:
    """Of an output of one row, all elements different."""
    size = int(np.prod(found.shape, dtype=int))
    return np.cos(np.arange(size) + 3.0 * place + row).reshape(found.shape).astype(dtype)


def table_cotangent(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    size = int(np.prod(shape, dtype=int))
    return np.sin(1.0 + np.arange(size)).reshape(shape).astype(dtype)


@dataclass
class _Row:
    """The results of one token."""

    outputs: list[np.ndarray]
    collected: dict[str, list]
    gradients: list[np.ndarray]
    weight_gradients: list[np.ndarray]


def run_plain(program: Program) -> Result:
    """All tokens, one at a time; equal tokens once.

    Raises:
        TooLongError: it makes more than `MAX_CALLS` calls.
    """
    evaluator = Evaluator(program)
    tokens = (0,) if program.tokens is None else program.tokens
    rows = {row: _run_row(evaluator, program, row) for row in sorted(set(tokens))}
    results = program.entry.results
    outputs = [
        np.stack([rows[token].outputs[place] for token in tokens])
        if tokens
        else array(np.zeros((0, *found.shape)), found, program.dtype)
        for place, found in enumerate(results)
    ]
    gradients = [
        np.stack([rows[token].gradients[index] for token in tokens])
        if tokens
        else np.zeros((0, *program.entry.parameters[place][1].shape), program.dtype)
        for index, place in enumerate(float_places(program))
    ]
    for index, name in enumerate(weights_of(program)):
        parts = [rows[token].weight_gradients[index] for token in tokens]
        gradients.append(np.sum(parts, axis=0) if parts else np.zeros(WEIGHTS[name], program.dtype))
    tables = {
        name: _table(found, has_index, [rows[token].collected[name] for token in tokens], program)
        for name, (found, has_index) in evaluator.tables.items()
    }
    if program.tokens is None:
        outputs, gradients = (
            [item[0] for item in outputs],
            [
                item[0] if index < len(float_places(program)) else item
                for index, item in enumerate(gradients)
            ],
        )
    return Result(outputs, tables, gradients)


def _table(found: Type, has_index: bool, parts: list[list], program: Program) -> np.ndarray:
    if not has_index:
        rows = [value for part in parts for value, _ in part]
        empty = array(np.zeros((0, *found.shape)), found, program.dtype)
        return np.concatenate([empty, *rows])
    table = array(np.zeros((NUM_ROWS, *found.shape)), found, program.dtype)
    for part in parts:
        for value, index in part:
            table[index] += value[0]
    return table


def _run_row(evaluator: Evaluator, program: Program, row: int) -> _Row:
    arguments = evaluator.arguments(row)
    read = [evaluator.weights[name] for name in weights_of(program)]
    sources = [*(arguments[place] for place in float_places(program)), *read]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        outputs, collected = evaluator.run(arguments)
    pairs = [
        (value, tf.constant(cotangent(place, row, found, program.dtype)[np.newaxis]))
        for place, (value, found) in enumerate(zip(outputs, program.entry.results, strict=True))
        if found.kind == "float"
    ]
    for name, (found, has_index) in evaluator.tables.items():
        if has_index and found.kind == "float":
            given = table_cotangent((NUM_ROWS, *found.shape), program.dtype)
            pairs += [(value, given[index][np.newaxis]) for value, index in collected[name]]
    gradients = tape.gradient([value for value, _ in pairs], sources, [given for _, given in pairs])
    dense = [
        np.zeros(source.shape, program.dtype)
        if gradient is None
        else tf.convert_to_tensor(gradient).numpy()
        for gradient, source in zip(gradients, sources, strict=True)
    ]
    count = len(sources) - len(read)
    return _Row(
        [value.numpy()[0] for value in outputs],
        {
            name: [(value.numpy(), index) for value, index in collected[name]]
            for name in evaluator.tables
        },
        [item[0] for item in dense[:count]],
        dense[count:],
    )


class Evaluator:
    """Evaluates programs, one token at a time.

    Args:
        program: whose functions are called.

    Attributes:
        num_calls: so far.
        depth: the largest number of calls that were nested in each other, the first one counted.

    A body computes a value of `kerasrec.lazy` once for its readers in a branch and in branches
    inside that branch, and passes on the result; this shows in effects of the value.
    """

    def __init__(self, program: Program):
        self.program = program
        self.weights = weights(program.dtype)
        self.functions = {item.signature.name: item for item in program.functions}
        self.tables = tables_of(program)
        self.num_calls = 0
        self.depth = 0
        self._nested = 0
        self._collected: dict[str, list] = {}
        # The lazy values that a body has computed, by branch, from the outermost to this one.
        self._computed: list[list[tuple[Any, tf.Tensor]]] = []

    def run(self, arguments: list[tf.Tensor]) -> tuple[list[tf.Tensor], dict[str, list]]:
        """The first function's results, and (value, index) of collected values, by table."""
        self._collected = {name: [] for name in self.tables}
        self._computed = []
        outputs = self._call(self.program.functions[0], arguments, {}, [])
        return outputs, self._collected

    def arguments(self, row: int) -> list[tf.Tensor]:
        """Those of a row, with an axis of one token."""
        types = [item for _, item in self.program.entry.parameters]
        return [
            tf.constant(array([value], found, self.program.dtype))
            for value, found in zip(self.program.rows[row], types, strict=True)
        ]

    def run_rows(self) -> None:
        """Runs all rows, for the counts on the way."""
        for row in range(len(self.program.rows)):
            self.run(self.arguments(row))

    def _call(self, function: Function, arguments: list, scope: dict, passed: list) -> list:
        """The results of a function.

        Args:
            function: to call.
            arguments: of it.
            scope: what is around it.
            passed: for its parameters that are functions, each with its scope.
        """
        signature = function.signature
        names = [name for name, _ in signature.parameters]
        names += [item.name for item in signature.functions]
        given = dict(zip(names, [*arguments, *passed], strict=True))
        outside, self._computed = self._computed, [[]]
        found = self._within(function.block, {**scope, **given})
        self._computed = outside
        return found

    def _within(self, block: Block, scope: dict) -> list:
        """The results of a block that is called."""
        self._enter()
        found = self._block(block, scope)
        self._nested -= 1
        return found

    def _enter(self) -> None:
        """Counts a call that is nested in those before."""
        self.num_calls += 1
        if self.num_calls > MAX_CALLS:
            raise TooLongError
        self._nested += 1
        self.depth = max(self.depth, self._nested)

    def _in_branch(self, block: Block, scope: dict) -> list:
        """The results of a block whose tokens are some of those of the body."""
        self._computed.append([])
        found = self._block(block, scope)
        self._computed.pop()
        return found

    def _block(self, block: Block, scope: dict) -> list:
        scope = dict(scope)
        for statement in block.statements:
            if isinstance(statement, Let):
                scope.update(zip(statement.names, self._all(statement.value, scope), strict=True))
            elif isinstance(statement, Define):
                scope[statement.function.signature.name] = (statement.function, scope)
            else:
                self._collect(statement, scope)
        return [value for item in block.results for value in self._all(item, scope)]

    def _collect(self, statement: Collect, scope: dict) -> None:
        (value,) = self._all(statement.value, scope)
        index = None
        if statement.index is not None:
            index = int(self._all(statement.index, scope)[0].numpy()[0])
        self._collected[statement.table].append((value, index))

    def _all(self, expression: Any, scope: dict) -> list:
        """The values of an expression, each with its token axis."""
        if isinstance(expression, Choice):
            selector = self._one(expression.selector, scope).numpy()[0]
            place = _branch(selector, len(expression.branches))
            return self._in_branch(expression.branches[place], scope)
        if isinstance(expression, Call):
            return self._calls(expression, scope)
        value = self._one(expression, scope)
        if isinstance(value, tf.Tensor) and value.shape.rank == len(type_of(expression).shape):
            value = value[tf.newaxis]
        return [value]

    def _one(self, expression: Any, scope: dict) -> Any:
        """The value of an expression with a single one; constants have no token axis."""
        if isinstance(expression, Name):
            return scope[expression.text]
        if isinstance(expression, Shared):
            return tf.convert_to_tensor(self.weights[expression.text])
        if isinstance(expression, Constant):
            return tf.constant(array(expression.value, expression.type, self.program.dtype))
        if isinstance(expression, Apply):
            return self._apply(expression, scope)
        if isinstance(expression, Part):
            return self._all(expression.whole, scope)[expression.index]
        if isinstance(expression, MapRows):
            return self._map(expression, scope)
        if isinstance(expression, Loop):
            return self._loop(expression, scope)
        if isinstance(expression, Invoke):
            passed = self._computed_or(scope[expression.text])
            if isinstance(passed, tf.Tensor):
                return passed
            function, around = passed
            values = [self._all(item, scope)[0] for item in expression.operands]
            inside = {**around, **dict(zip(function.names, values, strict=True))}
            (value,) = self._within(function.block, inside)
            if not function.names:
                self._computed[-1].append((passed, value))
            return value
        if isinstance(expression, ChildRows):
            (node,) = self._one(expression.node, scope).numpy()
            return [tf.constant([child]) for child in NODE_ROWS[node]]
        if isinstance(expression, RangeRows):
            (limit,) = self._one(expression.limit, scope).numpy()
            return [tf.constant([number]) for number in range(limit)]
        (value,) = self._all(expression, scope)
        return value

    def _passed(self, function: Lambda | PassOn, scope: dict) -> tuple[Lambda, dict] | tf.Tensor:
        if isinstance(function, PassOn):
            return self._computed_or(scope[function.text])
        return function, scope

    def _computed_or(self, passed: Any) -> Any:
        """The value of a lazy value that this body has computed here; otherwise what is given."""
        known = itertools.chain.from_iterable(self._computed)
        return next((value for lazy, value in known if lazy is passed), passed)

    def _apply(self, expression: Apply, scope: dict) -> Any:
        operands = [self._one(item, scope) for item in expression.operands]
        if expression.op == "sum_of_rows":
            found = expression.type
            zero = tf.constant(array(np.zeros((1, *found.shape)), found, self.program.dtype))
            value = tf.add_n([zero, *operands[0]])
        elif expression.type.rows:
            return [self._fire(expression.op, [item]) for item in operands[0]]
        else:
            value = self._fire(expression.op, operands)
        return value

    def _fire(self, op: str, operands: list) -> tf.Tensor:
        return kernel(op, self.program.dtype)(*operands)

    def _map(self, expression: MapRows, scope: dict) -> list:
        sources = [self._one(item, scope) for item in expression.sources]
        found = []
        for entries in zip(*sources, strict=True):
            inside = {**scope, **dict(zip(expression.names, entries, strict=True))}
            (value,) = self._in_branch(expression.block, inside)
            found.append(value)
        return found

    def _loop(self, loop: Loop, scope: dict) -> tf.Tensor:
        (state,) = self._all(loop.first, scope)
        (most,) = self._all(loop.count, scope)
        nested, outside = self._nested, self._computed
        self._enter()
        for number in itertools.count():
            self._computed = [[]]
            inside = {**scope, **dict(zip(loop.names, (tf.constant([number]), state), strict=True))}
            (goes_on,) = self._all(loop.condition, inside)
            # The condition also runs where the count ends the loop: it may collect something.
            if number >= int(most.numpy()[0]) or not goes_on.numpy()[0]:
                break
            (state,) = self._in_branch(loop.block, inside)
            self._enter()  # The next iteration is a call of the loop in itself.
        self._nested, self._computed = nested, outside
        return state

    def _calls(self, call: Call, scope: dict) -> list:
        """The results of a call; with rows, for each result a list."""
        arguments = [self._all(item, scope)[0] for item in call.arguments]
        name = call.signature.name
        function, around = scope[name] if name in scope else (self.functions[name], {})
        if call.rows is None:
            passed = [self._passed(item, scope) for item in call.functions]
            return self._call(function, arguments, around, passed)
        count = next(len(item) for item in arguments if isinstance(item, list))
        found = [
            self._call(
                function,
                [item[entry] if isinstance(item, list) else item for item in arguments],
                around,
                [],
            )
            for entry in range(count)
        ]
        return [[values[place] for values in found] for place in range(len(call.results))]


@functools.cache
def kernel(op: str, dtype: str) -> Callable:
    """An op as a function of its operands."""
    names = [f"operand_{place}" for place in range(len(OPS[op].operands) or 1)]
    source = f"lambda {', '.join(names)}: {OPS[op].template.format(*names)}"
    return eval(source, {"tf": tf, "FLOAT": tf.as_dtype(dtype), **weights(dtype)})


def _branch(selector: Any, num_branches: int) -> int:
    if isinstance(selector, np.bool_ | bool):
        return 0 if selector else 1
    return int(selector) if 0 <= selector < num_branches else num_branches - 1


def tables_of(program: Program) -> dict[str, tuple[Type, bool]]:
    """The type of each table, and whether its rows have places.

    Functions that are passed to a parameter which nobody calls are not traced.
    """
    nodes = list(walk(reachable(program)))
    passed = [
        ((*path, "functions", place), parameter.name, function)
        for path, node in nodes
        if isinstance(node, Call)
        for place, (function, parameter) in enumerate(
            zip(node.functions, node.signature.functions, strict=True)
        )
    ]
    called = {node.text for _, node in nodes if isinstance(node, Invoke)}
    for _ in passed:  # A chain of functions that are passed on is at most so long.
        called |= {
            function.text
            for _, name, function in passed
            if isinstance(function, PassOn) and name in called
        }
    untraced = [path for path, name, _ in passed if name not in called]
    found = {
        node.table: (type_of(node.value), node.index is not None)
        for path, node in nodes
        if isinstance(node, Collect) and not any(path[: len(at)] == at for at in untraced)
    }
    return dict(sorted(found.items()))
