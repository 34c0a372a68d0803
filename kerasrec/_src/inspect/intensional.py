"""Prints the intensional program of function graphs (Kostopoulou 2018, section 4.2, after Yaghi).

In this text, functions and parameters are variables, and a variable has a value for each tag. The
lines follow this grammar, which is a part of Python's, so that `ast.parse` reads them:

    program    := definition {newline definition}
    definition := variable " = " expression
    variable   := NAME ["[" NUMBER "]"]
    expression := variable | literal | operator | OP "(" [arguments] ")" | choice
                | "call_" NUMBER "(" variable ")" | "actuals(" expression {", " expression} ")"
                | ("token" | "entry" | "around" | "row" | "rows") "(" arguments ")"
    arguments  := argument {", " argument}, then attributes: {", " NAME "=" LITERAL}
    argument   := expression, or "(" [expression {"," expression}] ")" for an input that is a list
    choice     := expression " if " expression " else " expression
                | "case(" expression {", " expression} ")", with the number of the branch first

The first definitions, of a single name, are those that the outside asks for. Under the tag `t`:

* `call_i(f)` is the value of f under `i : t`. Calls of a function are numbered from 0 in the order
  of the program; the call from outside is the last.
* `actuals(e0, e1, ...)`, the definition of a parameter, is the value of `ei` under the tail of `t`,
  where i is the head of `t`.
* `entry(e)` is row j of `e` under the tail of `t`, where `Entry(j)` is the head of `t`; `around(e)`
  is `e` under the tail of `t`; `row(e, k)` is the list of the values of `e` under `Entry(j) : t`
  for each j below `k`; `rows(k)` has a 0 for each of them.
* All others are computed from values under `t`: operators, `OP`s of TensorFlow, choices, and
  `token(e)`, which adds the token axis to `e`. Number literals are tokens where one is expected.

A value that several expressions read has a variable, as has a long one, or one from a variable of
TensorFlow. Values that nobody asks for are left out.
"""

from __future__ import annotations

import ast
import itertools
import keyword
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from kerasrec._src.errors import TraceError
from kerasrec._src.graph import nodes
from kerasrec._src.graph.fire import read_shared
from kerasrec._src.graph.graph import FunctionGraph, FunctionGraphs
from kerasrec._src.graph.values import Node, Value
from kerasrec._src.ops.notation import OPERATORS

_WORDS = {"actuals", "case", "token", "entry", "around", "row", "rows", *keyword.kwlist}
# Literals of these dtypes are printed without it.
_PLAIN = (tf.int32, tf.float32, tf.bool, tf.string)
_MAX_ENTRIES = 6
_MAX_LENGTH = 60


@dataclass(frozen=True)
class IntensionalProgram:
    """A program as a text of definitions; `print` shows it.

    Args:
        text: The definitions.
        arguments: The names that stand for the flat arguments of the call from outside.
        given: By name, the values that the text does not spell out: captured tensors and variables,
          large constants, and ops that hold functions.
    """

    text: str
    arguments: tuple[str, ...]
    given: dict[str, Any]

    def __str__(self) -> str:
        return self.text


def intensional_program(graphs: FunctionGraphs) -> IntensionalProgram:
    """Returns the intensional program of function graphs."""
    return _Writer(graphs).program()


class _Writer:
    def __init__(self, graphs: FunctionGraphs):
        self._graphs = graphs
        self._sites: dict[str, list[nodes.CallOf]] = {function.name: [] for function in graphs}
        self._numbers: dict[Node, int] = {}
        for site in (site for function in graphs for site in function.call_sites):
            self._numbers[site] = len(self._sites[site.callee])
            self._sites[site.callee].append(site)
        self._callees: dict[Node, str] = {}
        self._places: dict[Node, int] = {}
        for function in graphs:
            self._callees.update(dict.fromkeys(function.parameters, function.name))
            self._places.update((node, place) for place, node in enumerate(function.parameters))
        self._taken: set[str] = set()
        self._functions = {function.name: self._name(function.name) for function in graphs}
        self._entry = graphs.functions[graphs.entry]
        self._result = self._name("result")
        self._arguments = [self._name(f"argument_{node.name}") for node in self._entry.parameters]
        self._results = {_source(value) for function in graphs for value in function.outputs}
        self._num_readers = self._count()
        self._expressions: dict[Value, ast.expr] = {}
        self._given: dict[str, Any] = {}
        self._locals: dict[str, Iterator[int]] = defaultdict(lambda: itertools.count(1))
        self._lines: list[str] = []

    def program(self) -> IntensionalProgram:
        entry = self._graphs.entry
        if any(node.output() in self._num_readers for node in self._entry.parameters):
            for index in range(len(self._entry.outputs)):
                call = self._call(len(self._sites[entry]), entry, index)
                self._define(_indexed(self._result, index, len(self._entry.outputs)), call)
        for function in self._graphs:
            self._write(function)
        for function in self._graphs:
            for node in function.parameters:
                if node.output() in self._num_readers:
                    self._define(self._expressions[node.output()], self._actuals(node))
        return IntensionalProgram("\n".join(self._lines), tuple(self._arguments), self._given)

    def _count(self) -> Counter[Value]:
        """Returns how many expressions read each value that the outside needs.

        A result counts as read by the definition of its function, however often that is called.
        """
        counts = Counter(map(_source, self._entry.outputs))
        waiting = list(counts)
        while waiting:
            reader = waiting.pop()
            for value in map(_source, self._read_by(reader)):
                if value not in counts:
                    waiting.append(value)
                elif isinstance(reader.node, nodes.CallOf):
                    continue
                counts[value] += 1
        return counts

    def _read_by(self, value: Value) -> Iterator[Value]:
        node = value.node
        if isinstance(node, nodes.CallOf):
            yield self._graphs.functions[node.callee].outputs[value.index]
        elif isinstance(node, nodes.Parameter):
            yield from self._actual_values(node)
        else:
            # The other inputs of these only choose the tokens.
            is_alone = isinstance(node, nodes.Broadcast | nodes.Enter | nodes.Repeat)
            yield from node.inputs[:1] if is_alone else node.inputs
            if isinstance(node, nodes.Merge):
                yield node.predicate

    def _actual_values(self, node: Node) -> list[Value]:
        place = self._places[node]
        return [site.inputs[place] for site in self._sites[self._callees[node]]]

    def _write(self, function: FunctionGraph) -> None:
        """Makes the expressions of a function, and the definitions of its variables."""
        start, local = len(self._lines), self._functions[function.name]
        for node in function.nodes:
            needed = [value for value in node.outputs if value in self._num_readers]
            if not needed or isinstance(node, nodes.Switch):
                continue
            for value, made in zip(needed, self._made(node, local, needed), strict=True):
                named = self._has_variable(value, made)
                self._expressions[value] = self._variable(local, made) if named else made
        results = len(function.outputs)
        for index, value in reversed(list(enumerate(function.outputs))):
            if _source(value) in self._num_readers:
                line = _line(_indexed(local, index, results), self._token(value))
                self._lines.insert(start, line)

    def _made(self, node: Node, local: str, needed: list[Value]) -> list[ast.expr]:
        """Returns the expressions of some outputs of a node."""
        if isinstance(node, nodes.CallOf):
            number = self._numbers[node]
            return [self._call(number, node.callee, value.index) for value in needed]
        if isinstance(node, nodes.Get):
            raise TraceError(
                f"{local} reads a value at {node.source} that may have been made in the same run. "
                "Such a program has no text, since a value has no tag there; its function graphs "
                "can be printed: function_graphs(...)."
            )
        whole, length = self._expression(node), len(node.types)
        if length > 1:
            whole = self._variable(local, whole)
        return [_indexed(whole, value.index, length) for value in needed]

    def _has_variable(self, value: Value, made: ast.expr) -> bool:
        node = value.node
        source = node.inputs[0].node if isinstance(node, nodes.Broadcast) else node
        if source.is_constant or isinstance(made, ast.Name):
            return False
        is_stateful = isinstance(node, nodes.Primitive) and node.operation.op_def.is_stateful
        is_once = value.is_shared and is_stateful
        is_long = value not in self._results and len(ast.unparse(made)) > _MAX_LENGTH
        return is_once or is_long or self._num_readers[value] > 1

    def _expression(self, node: Node) -> ast.expr:
        """Returns the expression of a node, of all its outputs together."""
        if isinstance(node, nodes.Parameter):
            function = self._callees[node]
            is_free = node.name not in self._taken
            return ast.Name(self._name(node.name if is_free else f"{node.name}_of_{function}"))
        if isinstance(node, nodes.Shared):
            return self._give(node.name or "shared", read_shared(node))
        if isinstance(node, nodes.Merge):
            return self._choice(node)
        if isinstance(node, nodes.Broadcast):
            return _calls("token", [self._of(node.inputs[0])])
        if isinstance(node, nodes.Enter | nodes.Repeat):
            word = "entry" if isinstance(node, nodes.Enter) else "around"
            return _calls(word, [self._of(node.inputs[0])])
        if isinstance(node, nodes.Leave | nodes.Rows):
            dtype, shape = node.types[0].dtype.name, [0, *(node.types[0].shape or ())[1:]]
            word = "row" if isinstance(node, nodes.Leave) else "rows"
            return _calls(word, map(self._of, node.inputs), dtype=dtype, shape=shape)
        if not isinstance(node, nodes.Primitive) or node.function is not None:
            held = self._give(node.op.lower(), getattr(node, "function", None))
            return ast.Call(held, [self._of(value) for value in node.inputs], [])
        if node.is_constant:
            return self._constant(nodes.constant_of(node.output()), node.types[0].dtype)
        return self._primitive(node)

    def _primitive(self, node: nodes.Primitive) -> ast.expr:
        inputs = [self._of(value) for value in node.inputs]
        attributes = _attributes(node.operation)
        operator = None if attributes else OPERATORS.get(node.op)
        if isinstance(operator, ast.unaryop):
            return ast.UnaryOp(operator, *inputs)
        if isinstance(operator, ast.cmpop):
            return ast.Compare(inputs[0], [operator], inputs[1:])
        if operator is not None:
            return ast.BinOp(inputs[0], operator, inputs[1])
        return _calls(node.op, _grouped(node.operation, inputs), **attributes)

    def _choice(self, node: nodes.Merge) -> ast.expr:
        predicate, branches = self._of(node.predicate), list(map(self._token, node.inputs))
        if node.predicate.type.dtype.is_bool:
            return ast.IfExp(predicate, *branches)
        return _calls("case", [predicate, *branches])

    def _actuals(self, node: nodes.Parameter) -> ast.expr:
        values = list(map(self._token, self._actual_values(node)))
        if node in self._entry.parameters:
            values.append(ast.Name(self._arguments[self._places[node]]))
        return _calls("actuals", values)

    def _call(self, number: int, callee: str, index: int) -> ast.expr:
        results = len(self._graphs.functions[callee].outputs)
        return _calls(f"call_{number}", [_indexed(self._functions[callee], index, results)])

    def _of(self, value: Value) -> ast.expr:
        return self._expressions[_source(value)]

    def _token(self, value: Value) -> ast.expr:
        """Returns the expression of a value where a token is expected."""
        value = _source(value)
        if isinstance(value.node, nodes.Broadcast):
            inner = self._of(value.node.inputs[0])
            if isinstance(inner, ast.Constant):
                return inner
        return self._of(value)

    def _constant(self, value: np.ndarray | None, dtype: tf.DType) -> ast.expr:
        """Returns a literal; a large constant is given by name."""
        if value is None or value.size > _MAX_ENTRIES or 0 in value.shape or dtype.is_complex:
            return self._give("constant", value)
        if dtype.is_floating and np.isnan(value).any():
            return self._give("constant", value)
        if dtype == tf.float32:
            value = value.astype(str).astype(float)  # With as many digits as float32 needs.
        literal = _literal(value.tolist())
        return literal if dtype in _PLAIN else _calls(dtype.name, [literal])

    def _variable(self, function: str, made: ast.expr) -> ast.expr:
        """Defines a new variable of a function, and returns it."""
        number = next(self._locals[function])
        name = ast.Name(self._name(f"{function}_{number}"))
        self._define(name, made)
        return name

    def _define(self, variable: ast.expr, made: ast.expr) -> None:
        self._lines.append(_line(variable, made))

    def _give(self, name: str, value: Any) -> ast.Name:
        name = self._name(name)
        self._given[name] = value
        return ast.Name(name)

    def _name(self, wanted: str) -> str:
        """Returns a name that nothing else has: the one that is wanted, or with a number."""
        wanted = re.sub(r"\W|^(?=\d)", "_", wanted) or "_"
        if wanted in _WORDS or is_call(wanted):
            wanted += "_"
        numbers = itertools.count(2)
        name = wanted
        while name in self._taken:
            name = f"{wanted}_{next(numbers)}"
        self._taken.add(name)
        return name


def is_call(name: str) -> bool:
    """Whether a name is one of the operators call_0, call_1, and so on."""
    return re.fullmatch(r"call_\d+", name) is not None


def _source(value: Value) -> Value:
    """Returns a value as it is before SWITCHes, which do not change it."""
    while isinstance(value.node, nodes.Switch):
        value = value.node.inputs[0]
    return value


def _line(variable: ast.expr, made: ast.expr) -> str:
    return f"{ast.unparse(variable)} = {ast.unparse(made)}"


def _indexed(whole: ast.expr | str, index: int, length: int) -> ast.expr:
    whole = ast.Name(whole) if isinstance(whole, str) else whole
    return ast.Subscript(whole, ast.Constant(index)) if length > 1 else whole


def _calls(name: str, arguments: Iterable[ast.expr], **attributes: Any) -> ast.expr:
    keywords = [ast.keyword(key, _literal(value)) for key, value in attributes.items()]
    return ast.Call(ast.Name(name), list(arguments), keywords)


def _literal(value: Any) -> ast.expr:
    if isinstance(value, list):
        return ast.List([_literal(item) for item in value])
    return ast.Constant(value)


def _grouped(operation: tf.Operation, inputs: list[ast.expr]) -> Iterator[ast.expr]:
    """Yields an expression for each argument of an op; some of them are lists of inputs."""
    waiting = iter(inputs)
    for argument in operation.op_def.input_arg:
        if argument.number_attr:
            length = operation.get_attr(argument.number_attr)
        elif argument.type_list_attr:
            length = len(operation.get_attr(argument.type_list_attr))
        else:
            yield next(waiting)
            continue
        yield ast.Tuple([next(waiting) for _ in range(length)])


def _attributes(operation: tf.Operation) -> dict[str, Any]:
    """Returns the attributes that follow neither from the inputs nor from the op's defaults."""
    known = {
        name
        for argument in operation.op_def.input_arg
        for name in (argument.type_attr, argument.number_attr, argument.type_list_attr)
    }
    # It matters only for shapes that do not fit, and those of a traced op do.
    known.add("incompatible_shape_error")
    return {
        item.name: _plain(operation.get_attr(item.name))
        for item in operation.op_def.attr
        if item.name not in known and operation.node_def.attr[item.name] != item.default_value
    }


def _plain(value: Any) -> Any:
    """Returns the value of an attribute as a literal."""
    if isinstance(value, list):
        return list(map(_plain, value))
    if isinstance(value, tf.DType):
        return value.name
    if isinstance(value, bytes):
        return value.decode()
    if hasattr(value, "dim"):
        return None if value.unknown_rank else [dim.size for dim in value.dim]
    return value
