"""Random programs as data: what a program is made of.

A program has three readings. `source.py` prints it, and what is printed runs: by kerasrec
(`engines.py`), or pasted into a file by a human. `plain.py` evaluates the data itself, as recursion
over one token.

Names are unique in a program, so that parts of it can be moved about (`relations.py`) and left out
(`shrink.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Type:
    """Of one token's value.

    Args:
        kind: "float", "int" or "bool"; how many bits a float has is up to the program.
        shape: without the token axis.
        rows: the rows whose entries these are, by name, if there is one value for each entry.
    """

    kind: str
    shape: tuple[int, ...] = ()
    rows: str | None = None

    @property
    def entry(self) -> Type:
        return dataclasses.replace(self, rows=None)

    def of(self, rows: str | None) -> Type:
        return dataclasses.replace(self, rows=rows)


FLOAT, INT, BOOL = Type("float"), Type("int"), Type("bool")
VECTOR, MATRIX = Type("float", (3,)), Type("float", (2, 3))


@dataclass(frozen=True)
class Passed:
    """A parameter that is a function.

    Args:
        name: of the parameter.
        operands: their types, none for a value of `kerasrec.lazy`.
        result: the type of its result.
    """

    name: str
    operands: tuple[Type, ...]
    result: Type


@dataclass(frozen=True)
class Signature:
    """The facts about a function that a caller needs.

    Args:
        name: of the function.
        parameters: names and types; the last one is the fuel, an int that calls make smaller.
        results: types of its results.
        structure: in which nest, "one", "tuple" or "dict".
        packs: whether all arguments but the fuel are passed as one tuple.
        says_returns: whether the decorator is told what it returns.
        is_of_nodes: whether the first argument is a node of `NODE_ROWS`, and the function calls
          itself for its children, so that leaves end it.
        functions: parameters that are functions; they stand behind the fuel.
    """

    name: str
    parameters: tuple[tuple[str, Type], ...]
    results: tuple[Type, ...]
    structure: str
    packs: bool = False
    says_returns: bool = False
    is_of_nodes: bool = False
    functions: tuple[Passed, ...] = ()

    @property
    def fuel(self) -> str:
        return self.parameters[-1][0]


# Expressions. Those with `results` have several values, of which `Part` takes one.


@dataclass(frozen=True)
class Name:
    text: str
    type: Type


@dataclass(frozen=True)
class Constant:
    value: Any
    type: Type


@dataclass(frozen=True)
class Shared:
    """A variable or tensor that the functions close over."""

    text: str
    type: Type


@dataclass(frozen=True)
class Apply:
    """An op of `ops.py`, by name."""

    op: str
    operands: tuple
    type: Type


@dataclass(frozen=True)
class Choice:
    """A `cond` on a bool, a `switch` on an int."""

    selector: Any
    branches: tuple[Block, ...]
    results: tuple[Type, ...]
    structure: str = "one"


@dataclass(frozen=True)
class Call:
    """A call; where arguments are entries of rows, of each of them.

    Args:
        signature: of the function called.
        arguments: by parameter.
        rows: whose entries they are.
        functions: what is passed for the parameters that are functions: `Lambda` or `PassOn`.
    """

    signature: Signature
    arguments: tuple
    rows: str | None = None
    functions: tuple = ()

    @property
    def results(self) -> tuple[Type, ...]:
        return tuple(item.of(self.rows) for item in self.signature.results)

    @property
    def structure(self) -> str:
        return self.signature.structure


@dataclass(frozen=True)
class Part:
    whole: Choice | Call
    index: int

    @property
    def type(self) -> Type:
        return self.whole.results[self.index]


@dataclass(frozen=True)
class MapRows:
    """`map_fn` of entries; they are called `names` in the block."""

    names: tuple[str, ...]
    sources: tuple
    block: Block
    type: Type


@dataclass(frozen=True)
class Loop:
    """The last value of a `while_loop`, from a number of iterations and a state.

    Args:
        names: of the number and of the state, in the condition and in the block.
        count: at most so many iterations.
        first: the state before them.
        condition: whether a state is to go on.
        block: what makes the next state of one.
        type: of the state.
    """

    names: tuple[str, str]
    count: Any
    first: Any
    condition: Any
    block: Block
    type: Type


@dataclass(frozen=True)
class Lambda:
    """A function that is passed; without names a value of `kerasrec.lazy`."""

    names: tuple[str, ...]
    block: Block


@dataclass(frozen=True)
class PassOn:
    """A function that was passed, and is passed on."""

    text: str


@dataclass(frozen=True)
class Invoke:
    """A call of a function that was passed."""

    text: str
    operands: tuple
    type: Type


@dataclass(frozen=True)
class ChildRows:
    """The row of children of a node."""

    node: Any
    type: Type


@dataclass(frozen=True)
class RangeRows:
    """The row of all integers from zero to below a limit, which is at least zero."""

    limit: Any
    type: Type


@dataclass(frozen=True)
class Let:
    """Gives names to the value, or values, of an expression."""

    names: tuple[str, ...]
    value: Any


@dataclass(frozen=True)
class Collect:
    """Keeps a value in a table; without an index as a new row."""

    table: str
    value: Any
    index: Any = None


@dataclass(frozen=True)
class Define:
    """A recursive function that stands inside another."""

    function: Function


@dataclass(frozen=True)
class Block:
    """The body and results of a function or a branch.

    Args:
        statements: in order.
        results: expressions; or a single one with all the results.
        structure: of the results.
    """

    statements: tuple
    results: tuple
    structure: str = "one"


@dataclass(frozen=True)
class Function:
    signature: Signature
    block: Block


@dataclass(frozen=True)
class Program:
    """Functions, the first of which is called, and its tokens.

    Args:
        functions: that call each other.
        dtype: of all floats.
        rows: arguments of some tokens, all of them different.
        tokens: of the call from outside, each the place of its arguments in `rows`; None for a 0-d
          call with the first of them.
        is_special: whether NaN, infinities and the like are among the arguments.
    """

    functions: tuple[Function, ...]
    dtype: str
    rows: tuple[tuple, ...]
    tokens: tuple[int, ...] | None
    is_special: bool = False

    @property
    def entry(self) -> Signature:
        return self.functions[0].signature

    @property
    def num_tokens(self) -> int:
        return 1 if self.tokens is None else len(self.tokens)


NUM_ROWS = 4  # of tables that are collected by an index
NODE_ROWS = ((1, 2, 3), (4,), (), (4, 5), (), ())  # children have larger numbers
WEIGHTS = {
    "w": (),
    "b": (3,),
    "kernel": (3, 3),
    "gates": (6, 9),
    "table": (5, 3),
    "scale": (),
    "offset": (3,),
    "grid": (2, 3),
}
CONSTANTS = ("scale", "offset", "grid")  # tensors; the others are variables


def weight_values(name: str) -> np.ndarray:
    place = list(WEIGHTS).index(name)
    size = int(np.prod(WEIGHTS[name], dtype=int))
    return (0.7 * np.sin(1.3 * np.arange(size) + place + 0.4)).reshape(WEIGHTS[name]).round(2)


def type_of(expression: Any) -> Type:
    """The type of an expression with a single value."""
    if isinstance(expression, Choice | Call):
        (found,) = expression.results
        return found
    return expression.type


def is_token(expression: Any) -> bool:
    """Whether an expression is sure to have one value per token, not one for all."""
    if isinstance(expression, Apply):
        return any(map(is_token, expression.operands))
    # A function that is passed may return a constant.
    return not isinstance(expression, Constant | Shared | Invoke)


Path = tuple


def walk(node: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """All parts of a program, with their places, each before what it holds."""
    if isinstance(node, tuple):
        for place, item in enumerate(node):
            yield from walk(item, (*path, place))
    elif dataclasses.is_dataclass(node) and not isinstance(node, Type | Signature):
        yield path, node
        for field in dataclasses.fields(node):
            if field.name not in ("rows", "tokens", "type", "results") or isinstance(node, Block):
                yield from walk(getattr(node, field.name), (*path, field.name))


def at(node: Any, path: Path) -> Any:
    """The part at a place."""
    for step in path:
        node = node[step] if isinstance(node, tuple) else getattr(node, step)
    return node


def put(node: Any, path: Path, new: Any) -> Any:
    """The same with another part at a place."""
    if not path:
        return new
    first, *rest = path
    if isinstance(node, tuple):
        return (*node[:first], put(node[first], tuple(rest), new), *node[first + 1 :])
    return dataclasses.replace(node, **{first: put(getattr(node, first), tuple(rest), new)})


def reachable(program: Program) -> Program:
    """Without the functions that nobody calls."""
    names = {function.signature.name: function for function in program.functions}
    found = [_without_unused(program.functions[0])]
    for function in found:
        for _, node in walk(function):
            name = node.signature.name if isinstance(node, Call) else None
            if name in names and name not in [item.signature.name for item in found]:
                found.append(_without_unused(names[name]))
    order = list(names)
    found.sort(key=lambda function: order.index(function.signature.name))
    return dataclasses.replace(program, functions=tuple(found))


def _without_unused(function: Function) -> Function:
    """Without functions inside it that nobody but themselves calls."""
    for path, node in walk(function):
        if isinstance(node, Define):
            name = node.function.signature.name
            elsewhere = put(function, path, None)
            calls = [item for _, item in walk(elsewhere) if isinstance(item, Call)]
            if all(item.signature.name != name for item in calls):
                *around, place = path
                statements = at(function, tuple(around))
                kept = (*statements[:place], *statements[place + 1 :])
                return _without_unused(put(function, tuple(around), kept))
    return function
