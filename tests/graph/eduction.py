"""The second definition of the meaning of function graphs: their intensional program, run by
demand.

This follows Kostopoulou 2018, section 4.2, after Yaghi. It runs the text that
`inspect/intensional.py` prints, not the graphs: an expression is asked for its value under a tag,
and asks others. Nothing is sent, and a value that nobody asks for is not computed. A variable is
computed once under each tag, and once for all tags if its definition depends on none.

The first definition is `interpreter.py`: there, values are sent as soon as they are computed. Both
give the same results. Only what a program shows, checks or collects may be missing here, where
nobody asks for it.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from kerasrec._src.graph.carried import (
    ROOT,
    Tag,
    carried_by_roots,
    enter,
    enter_row,
    leave_row,
    or_one_token,
)
from kerasrec._src.graph.fire import branch_chosen
from kerasrec._src.graph.graph import FunctionGraphs
from kerasrec._src.inspect.intensional import intensional_program, is_call
from kerasrec._src.ops.notation import OPERATORS

Variable = tuple[str, int | None]

OPS = {type(sign): op for op, sign in OPERATORS.items()}
# Attributes that functions of `tf.raw_ops` call otherwise than their ops.
RENAMED = {"squeeze_dims": "axis"}
# Of Python's recursion: some frames for each call and each operator around it.
MAX_FRAMES = 20_000


@dataclass
class Eduction:
    """The results of a run.

    Args:
        outputs: One array for each flat output, `[tokens, ...]`.
        calls: For each function, how many of its calls were asked for something, including the call
            from outside.
    """

    outputs: list[np.ndarray]
    calls: Counter[str] = field(default_factory=Counter)


def evaluate(graphs: FunctionGraphs, arguments: Sequence[np.ndarray]) -> Eduction:
    """Computes what a program returns, one token at a time.

    It uses Python's own recursion, so it is for small programs.

    Args:
        graphs: The graphs of a program. Assertions in it do not fail, and tables stay empty.
        arguments: One array for each flat argument, `[tokens, ...]`; what tokens carry may follow.
          A function without arguments runs for one token.
    """
    program, arguments = intensional_program(graphs), or_one_token(arguments)
    arguments = [item for place, item in enumerate(arguments) if place not in graphs.left_out]
    entry = graphs.functions[graphs.entry]
    if len(arguments) < len(entry.parameters):
        arguments += carried_by_roots(entry.parameters, len(arguments[0]))
    found = Eduction([])
    rows = []
    for token in range(len(arguments[0])):
        tensors = [tf.constant(np.asarray(item)[token : token + 1]) for item in arguments]
        given = dict(zip(program.arguments, tensors, strict=True))
        run = TextRun(program.text, {**program.given, **given})
        rows.append([value.numpy() for value in run.results()])
        found.calls += Counter({name: len(run.tags_of(name)) for name in graphs.functions})
    found.outputs = [np.concatenate(column) for column in zip(*rows, strict=True)]
    return found


class TextRun:
    """Runs an intensional program for one token of a call from outside.

    Args:
        text: The definitions.
        given: The meaning of other names in it: tensors, and functions of tensors.

    Attributes:
        known: The variables, each with its value under each tag that it was asked for.
    """

    def __init__(self, text: str, given: Mapping[str, Any]):
        self._given = given
        self._definitions: dict[Variable, ast.expr] = {}
        for line in ast.parse(text).body:
            assert isinstance(line, ast.Assign)
            self._definitions[_variable(line.targets[0])] = line.value
        self._tagless = self._without_tags()
        self.known: dict[Variable, dict[Tag, Any]] = {item: {} for item in self._definitions}

    def results(self) -> list[tf.Tensor]:
        """Returns the values of the first definitions, which are those of one name."""
        (first, _), limit = next(iter(self._definitions)), sys.getrecursionlimit()
        sys.setrecursionlimit(MAX_FRAMES)
        try:
            return [_token(self.ask(item, ROOT)) for item in self._definitions if item[0] == first]
        finally:
            sys.setrecursionlimit(limit)

    def tags_of(self, name: str) -> set[Tag]:
        """Returns the tags under which a variable was asked for, or one of its parts."""
        return {tag for item, known in self.known.items() if item[0] == name for tag in known}

    def ask(self, variable: Variable, tag: Tag) -> Any:
        """Returns the value of a variable under a tag."""
        known = self.known[variable]
        tag = ROOT if variable in self._tagless else tag
        if tag not in known:
            known[tag] = self._value(self._definitions[variable], tag)
        return known[tag]

    def _value(self, asked: ast.expr, tag: Tag) -> Any:
        match asked:
            case ast.Constant() | ast.List() | ast.UnaryOp(ast.USub(), ast.Constant()):
                return tf.constant(ast.literal_eval(asked))
            case ast.Tuple(items):
                return [self._value(item, tag) for item in items]
            case ast.Name(name) if name in self._given:
                return self._given[name]
            case ast.Name() | ast.Subscript(ast.Name()) if _variable(asked) in self._definitions:
                return self.ask(_variable(asked), tag)
            case ast.Subscript(whole, ast.Constant(place)):
                return self._value(whole, tag)[place]
            case ast.IfExp(predicate, first, second):
                return self._chosen(predicate, [first, second], tag)
            case ast.UnaryOp(sign, only):
                return _op(OPS[type(sign)], [self._value(only, tag)])
            case ast.BinOp(left, sign, right) | ast.Compare(left, [sign], [right]):
                return _op(OPS[type(sign)], [self._value(left, tag), self._value(right, tag)])
            case ast.Call(ast.Name(name), arguments, attributes):
                options = {item.arg: ast.literal_eval(item.value) for item in attributes}
                if hasattr(tf.dtypes, name):
                    return tf.constant(ast.literal_eval(arguments[0]), name)
                if name in _RULES:
                    return _RULES[name](self, arguments, tag, **options)
                if is_call(name):
                    return self._call(int(name.removeprefix("call_")), arguments, tag)
                inputs = [self._value(item, tag) for item in arguments]
                if name in self._given:
                    return _alone(tf.nest.flatten(self._given[name](*inputs)))
                return _op(name, inputs, **options)
        raise ValueError(f"This is not an expression of the text: {ast.unparse(asked)}")

    def _call(self, number: int, arguments: list[ast.expr], tag: Tag) -> Any:
        """call_i: asks for the function, under the tag with i in front."""
        (function,) = arguments
        return _token(self.ask(_variable(function), enter(number, tag)))

    def _actuals(self, arguments: list[ast.expr], tag: Tag) -> Any:
        """actuals: asks, under the caller's tag, for the argument of the call that is in front."""
        number, *around = tag
        return _token(self._value(arguments[number], tuple(around)))

    def _case(self, arguments: list[ast.expr], tag: Tag) -> Any:
        predicate, *branches = arguments
        return self._chosen(predicate, branches, tag)

    def _chosen(self, predicate: ast.expr, branches: list[ast.expr], tag: Tag) -> Any:
        (branch,) = branch_chosen(_token(self._value(predicate, tag)), len(branches)).numpy()
        return _token(self._value(branches[branch], tag))

    def _entry(self, arguments: list[ast.expr], tag: Tag) -> Any:
        place, around = leave_row(tag)
        return self._value(arguments[0], around)[place : place + 1]

    def _around(self, arguments: list[ast.expr], tag: Tag) -> Any:
        return self._value(arguments[0], leave_row(tag)[1])

    def _row(self, arguments: list[ast.expr], tag: Tag, dtype: str, shape: list[int]) -> Any:
        entries, lengths = arguments
        tags = [enter_row(place, tag) for place in range(int(self._value(lengths, tag)[0]))]
        rows = [_token(self._value(entries, inside)) for inside in tags]
        return tf.concat(rows, 0) if rows else tf.zeros(shape, dtype)

    def _without_tags(self) -> set[Variable]:
        """Returns the variables whose values are the same under all tags."""
        names = {
            item: {node.id for node in ast.walk(made) if isinstance(node, ast.Name)}
            for item, made in self._definitions.items()
        }
        tagged = {name for found in names.values() for name in found if _needs_tag(name)}
        tagged |= {name for made in self._definitions.values() for name in _called(made)}
        size = 0
        while size < len(tagged):
            size = len(tagged)
            tagged |= {name for (name, _), found in names.items() if found & tagged}
        return {item for item in self._definitions if item[0] not in tagged}


def _called(made: ast.expr) -> set[str]:
    """Returns the names of the functions that an expression calls."""
    calls = [node for node in ast.walk(made) if isinstance(node, ast.Call)]
    called = [call.args[0] for call in calls if is_call(ast.unparse(call.func))]
    return {_variable(function)[0] for function in called}


def _needs_tag(name: str) -> bool:
    return is_call(name) or name in ("actuals", "entry", "around", "row")


def _variable(written: ast.expr) -> Variable:
    """Returns the name and the number of `f[1]`; `f` has no number."""
    match written:
        case ast.Name(name):
            return name, None
        case ast.Subscript(ast.Name(name), ast.Constant(place)):
            return name, place
    raise ValueError(f"This is not a variable: {ast.unparse(written)}")


def _token(value: Any) -> tf.Tensor:
    """Returns a value with the token axis, which only number literals lack."""
    return value[None] if value.shape.rank == 0 else value


def _op(name: str, inputs: Sequence[Any], **attributes: Any) -> Any:
    """Runs an op of TensorFlow and returns its output, or a list if there are several."""
    op, names = _raw_op(name)
    given = dict(zip(names, inputs, strict=False))
    return _alone(
        op(**given, **{RENAMED.get(key, key): value for key, value in attributes.items()})
    )


@functools.cache
def _raw_op(name: str) -> tuple[Callable[..., Any], list[str]]:
    op = getattr(tf.raw_ops, name)
    return op, list(inspect.signature(op).parameters)


def _alone(outputs: Any) -> Any:
    flat = tf.nest.flatten(outputs)
    return flat[0] if len(flat) == 1 else flat


_RULES: dict[str, Callable[..., Any]] = {
    "actuals": TextRun._actuals,
    "case": TextRun._case,
    "entry": TextRun._entry,
    "around": TextRun._around,
    "row": TextRun._row,
    "rows": lambda run, arguments, tag, dtype, shape: tf.zeros(
        run._value(arguments[0], tag), dtype
    ),
    "token": lambda run, arguments, tag: run._value(arguments[0], tag)[None],
}
