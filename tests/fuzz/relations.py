"""Relations between runs of a program that hold whatever it computes: no reference is needed.

Each makes of a program and options two results that must be the same.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzz.engines import PASSES, Options, Run, memoised
from tests.fuzz.ops import REPEAT
from tests.fuzz.plain import Result, float_places, tables_of
from tests.fuzz.syntax import (
    BOOL,
    INT,
    Apply,
    Block,
    Call,
    ChildRows,
    Choice,
    Collect,
    Define,
    Function,
    Lambda,
    Let,
    Name,
    Program,
    Type,
    at,
    is_token,
    put,
    type_of,
    walk,
)

Pair = tuple[Result, Result]
Relation = Callable[[Program, Options, random.Random], Pair | None]


def permuted(program: Program, options: Options, rng: random.Random) -> Pair | None:
    """Tokens in another order give the same in that order; sums over tokens stay."""
    if not program.tokens:
        return None
    run = Run(program, options)
    order = rng.sample(range(len(program.tokens)), len(program.tokens))
    found, one = run([program.tokens[place] for place in order]), run(program.tokens)
    return found, _by_token(program, one, lambda array: array[order])


def split(program: Program, options: Options, rng: random.Random) -> Pair | None:
    """Two batches one after the other give what both give in one."""
    if not program.tokens:
        return None
    run = Run(program, options)
    middle = rng.randint(0, len(program.tokens))
    first, rest = run(program.tokens[:middle]), run(program.tokens[middle:])
    count, tables = len(float_places(program)), tables_of(program)
    joined = Result(
        [np.concatenate(pair) for pair in zip(first.outputs, rest.outputs, strict=True)],
        {
            name: table + rest.tables[name]
            if tables[name][1]
            else np.concatenate([table, rest.tables[name]])
            for name, table in first.tables.items()
        },
        [
            np.concatenate(pair) if place < count else pair[0] + pair[1]
            for place, pair in enumerate(zip(first.gradients, rest.gradients, strict=True))
        ],
    )
    return run(program.tokens), joined


def with_branch(program: Program, options: Options, rng: random.Random) -> Pair | None:
    """A branch that nobody takes changes nothing."""
    places = [
        path
        for path, node in walk(program)
        if isinstance(node, Function) and isinstance(node.block.results[-1], Choice)
    ]
    if not places:
        return None
    changed = program
    for path in places:
        function = at(program, path)
        last = function.block.results[-1]
        fuel = Name(function.signature.fuel, INT)
        never = Apply("less_ints", (fuel, fuel), BOOL)
        # Some branch again, as other things are not known to be of the right types.
        other = renamed(rng.choice(last.branches), "_never")
        whole = Choice(never, (other, Block((), (last,), last.structure)), *_shape(last))
        changed = put(changed, (*path, "block", "results"), (whole,))
    return _both(changed, program, options)


def inlined(program: Program, options: Options, rng: random.Random) -> Pair | None:
    """A call replaced by the body of the function, one level deep."""
    functions = {item.signature.name: item for item in program.functions}
    places = [
        path
        for path, node in walk(program)
        if isinstance(node, Let)
        and isinstance(node.value, Call)
        and node.value.rows is None
        and node.value.signature.name in functions
        and not node.value.functions
        and not any(isinstance(part, Define) for _, part in walk(functions[_callee(node)]))
    ]
    if not places:
        return None
    path = rng.choice(places)
    let = at(program, path)
    body = renamed(functions[_callee(let)], "_inlined")
    parameters = body.signature.parameters
    fuel = next(name for name in _ints_around(program, path))
    values = [
        _with_tokens(value, fuel, found)
        for value, (_, found) in zip(let.value.arguments, parameters, strict=True)
    ]
    lets = [
        Let((f"{name}_inlined",), value)
        for (name, _), value in zip(parameters, values, strict=True)
    ]
    body_lets = [*lets, *body.block.statements]
    results = body.block.results
    if len(results) == 1 and isinstance(results[0], Choice | Call):
        body_lets.append(Let(let.names, results[0]))
    else:
        body_lets += [
            Let((name,), _with_tokens(value, fuel, type_of(value)))
            for name, value in zip(let.names, results, strict=True)
        ]
    *around, place = path
    statements = at(program, tuple(around))
    put_in = (*statements[:place], *body_lets, *statements[place + 1 :])
    return _both(put(program, tuple(around), put_in), program, options)


def other_options(program: Program, options: Options, rng: random.Random) -> Pair | None:
    """Another engine, bound, or set of passes gives the same."""
    other = dataclasses.replace(
        options,
        way="traced" if program.tokens is not None else "eager",
        engine="waves" if options.engine == "compiled" else options.engine,
        parallel_tokens=rng.choice([None, None, 1, 3]),
        recompute=not options.recompute,
    )
    if other.way == "traced":
        passes, in_queues = rng.choice([*PASSES]), not options.in_queues
        other = dataclasses.replace(other, in_queues=in_queues, passes=passes)
    return Run(program, other)(program.tokens), Run(program, options)(program.tokens)


def with_values(program: Program, options: Options, rng: random.Random) -> Pair | None:
    """Branches that another function returns are the same branches."""
    nodes = [node for _, node in walk(program)]
    # Rows are not captured; what captures other tensors is another function to pass on or call.
    if any(isinstance(node, ChildRows | Define | Lambda) for node in nodes):
        return None
    if not any(isinstance(node, Choice) for node in nodes):
        return None
    changed = dataclasses.replace(options, has_values=True)
    return Run(program, changed)(program.tokens), Run(program, options)(program.tokens)


def leaving_out(program: Program, options: Options, rng: random.Random) -> Pair:
    """Calls that leave out an argument, and calls that pass a zero for it, give the same."""
    changed = dataclasses.replace(options, leaves_out=True)
    return Run(program, changed)(program.tokens), Run(program, options)(program.tokens)


def with_memo(program: Program, options: Options, rng: random.Random) -> Pair | None:
    """Equal calls that are one call give the same, but for collected values."""
    program = without_tables(program)
    changed = memoised(options)
    return Run(program, changed)(program.tokens), Run(program, options)(program.tokens)


RELATIONS: dict[str, Relation] = {
    "permuted": permuted,
    "split": split,
    "with_branch": with_branch,
    "inlined": inlined,
    "with_values": with_values,
    "leaving_out": leaving_out,
    "with_memo": with_memo,
    "other_options": other_options,
}


def without_tables(program: Program) -> Program:
    """Without all that is collected."""
    for path, node in walk(program):
        if isinstance(node, Block):
            kept = tuple(item for item in node.statements if not isinstance(item, Collect))
            if len(kept) < len(node.statements):
                return without_tables(put(program, (*path, "statements"), kept))
    return program


def renamed(node: Any, suffix: str) -> Any:
    """A copy in which everything that it names itself, and its parameters, is named otherwise."""
    own = set()
    for _, part in walk(node):
        if isinstance(part, Let):
            own |= set(part.names)
        elif isinstance(part, Function):
            own |= {name for name, _ in part.signature.parameters}
        elif hasattr(part, "names"):
            own |= set(part.names)
    return _renamed(node, own, suffix)


def _renamed(node: Any, own: set[str], suffix: str) -> Any:
    if isinstance(node, Name):
        rows = node.type.rows
        found = node.type.of(f"{rows}{suffix}") if rows in own else node.type
        return Name(f"{node.text}{suffix}" if node.text in own else node.text, found)
    if isinstance(node, Type):
        return node.of(f"{node.rows}{suffix}") if node.rows in own else node
    if isinstance(node, tuple):
        return tuple(
            f"{item}{suffix}"
            if isinstance(item, str) and item in own
            else _renamed(item, own, suffix)
            for item in node
        )
    if not dataclasses.is_dataclass(node) or type(node).__name__ == "Signature":
        return node
    values = {}
    for item in dataclasses.fields(node):
        value = getattr(node, item.name)
        is_rows = item.name == "rows" and isinstance(value, str) and value in own
        values[item.name] = f"{value}{suffix}" if is_rows else _renamed(value, own, suffix)
    return type(node)(**values)


def _both(one: Program, two: Program, options: Options) -> Pair:
    return tuple(Run(item, options)(two.tokens) for item in (one, two))


def _by_token(program: Program, result: Result, change: Callable) -> Result:
    count = len(float_places(program))
    return Result(
        [change(item) for item in result.outputs],
        result.tables,
        [change(item) if place < count else item for place, item in enumerate(result.gradients)],
    )


def _shape(choice: Choice) -> tuple:
    return choice.results, choice.structure


def _callee(let: Let) -> str:
    return let.value.signature.name


def _ints_around(program: Program, path: tuple) -> list[Name]:
    """Some int that tokens have at a place: the fuel of the function there."""
    return [
        Name(node.signature.fuel, INT)
        for place in range(len(path), -1, -1)
        if isinstance(node := at(program, path[:place]), Function)
    ]


def _with_tokens(value: Any, fuel: Name, found: Type) -> Any:
    if isinstance(value, Choice | Call) or is_token(value):
        return value
    return Apply(REPEAT[found].name, (fuel, value), found)
