"""Makes a program that shows a fault smaller, as long as it shows it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.fuzz.syntax import (
    Apply,
    Block,
    Call,
    Choice,
    Constant,
    Function,
    Invoke,
    Let,
    Loop,
    MapRows,
    Name,
    Part,
    Program,
    Shared,
    put,
    reachable,
    type_of,
    walk,
)


def shrink(program: Program, fails: Callable[[Program], bool], seconds: float = 60.0) -> Program:
    """The smallest program that was found in some time.

    Args:
        program: that fails.
        fails: whether another one fails in the same way. An error means that a program makes no
            sense, such as one that reads a name that is not there any more.
        seconds: after which the search ends.
    """
    end = time.monotonic() + seconds
    is_smaller = True
    while is_smaller and time.monotonic() < end:
        is_smaller = False
        for candidate in _smaller(program):
            if time.monotonic() > end:
                break
            if _is_fault(candidate, fails):
                program, is_smaller = reachable(candidate), True
                break
    return program


def _is_fault(candidate: Program, fails: Callable[[Program], bool]) -> bool:
    try:
        return fails(candidate)
    except Exception:
        return False


def _smaller(program: Program) -> Iterator[Program]:
    yield from _fewer_tokens(program)
    for path, node in walk(program):
        for other in _instead_of(node):
            yield put(program, path, other)


def _fewer_tokens(program: Program) -> Iterator[Program]:
    if program.tokens is not None and len(program.tokens) > 1:
        for row in range(len(program.rows)):
            yield dataclasses.replace(program, rows=(program.rows[row],), tokens=(0,))
        yield dataclasses.replace(program, tokens=tuple(sorted(set(program.tokens))))
    for place, row in enumerate(program.rows):
        if row[-1] > 0:
            less = (*row[:-1], row[-1] - 1)
            rows = (*program.rows[:place], less, *program.rows[place + 1 :])
            yield dataclasses.replace(program, rows=rows)


def _instead_of(node: Any) -> Iterator[Any]:
    """Smaller parts that may stand in the place of one."""
    if isinstance(node, Block):
        for place in range(len(node.statements)):
            kept = (*node.statements[:place], *node.statements[place + 1 :])
            yield dataclasses.replace(node, statements=kept)
            yield from _written_out(dataclasses.replace(node, statements=kept), node, place)
        if len(node.results) == 1 and isinstance(node.results[0], Choice):
            for branch in node.results[0].branches:
                yield Block((*node.statements, *branch.statements), branch.results, node.structure)
    elif isinstance(node, Choice) and len(node.branches) > 2:
        yield dataclasses.replace(node, branches=(node.branches[0], node.branches[-1]))
    if isinstance(node, Function | Block | Program):
        return
    if isinstance(node, Choice) and len(node.results) == 1:
        yield from (branch.results[0] for branch in node.branches if not branch.statements)
    if isinstance(node, Name | Apply | Invoke | Part | MapRows | Loop | Choice | Call | Shared):
        if isinstance(node, Choice | Call) and len(node.results) != 1:
            return
        found = type_of(node)
        for _, part in walk(node):
            is_simple = part is not node and isinstance(part, Name | Apply | Part | Shared)
            if is_simple and type_of(part) == found:
                yield part
        if not found.rows and found.kind != "bool":
            yield Constant(_ones(found.shape, 1 if found.kind == "int" else 0.5), found)


def _written_out(kept: Block, block: Block, place: int) -> Iterator[Block]:
    """The value of a statement instead of its name, if that is read once.

    Args:
        kept: the block without the statement.
        block: with it.
        place: of the statement.
    """
    statement = block.statements[place]
    if isinstance(statement, Let) and len(statement.names) == 1:
        (name,) = statement.names
        readers = [
            path for path, part in walk(kept) if isinstance(part, Name) and part.text == name
        ]
        if len(readers) == 1:  # Each further copy of the value would make the program larger.
            yield put(kept, readers[0], statement.value)


def _ones(shape: tuple[int, ...], value: Any) -> Any:
    def nested(array: Any) -> Any:
        return tuple(map(nested, array)) if isinstance(array, list) else array

    return nested(np.full(shape, value, object).tolist())
