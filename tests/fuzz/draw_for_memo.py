"""Draws random programs that `memo=True` takes.

Integers and bools tell calls apart, and values that decide or are passed come only of these, or of
floats that all calls have in common: they are passed on unchanged, and read by integers. In some
programs, integers and bools that calls return also decide or are passed.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from tests.fuzz.draw import Drawer, Scope, drawn
from tests.fuzz.ops import FUELS
from tests.fuzz.syntax import (
    BOOL,
    FLOAT,
    INT,
    MATRIX,
    VECTOR,
    Apply,
    Block,
    Call,
    Name,
    Passed,
    Program,
    RangeRows,
    Signature,
    Type,
)


def draw_for_memo(seed: int, number: int) -> Program:
    """The program with this number."""
    return drawn(MemoDrawer, seed, number, " memo")


class MemoDrawer(Drawer):
    """Draws one program.

    Args:
        rng: of random numbers.
    """

    def __init__(self, rng: random.Random):
        super().__init__(rng)
        self.is_of_numbers = False
        self.has_rows = self.chance(0.6)
        self.tables = []
        self.has_equal_keys = self.chance(0.4)
        self.in_common = rng.choices([FLOAT, VECTOR, MATRIX], [1, 3, 3], k=rng.choice([1, 1, 2, 3]))
        self.places: dict[str, int] = {}  # of parameters among those that all calls have in common
        self.keys: set[str] = set()
        self.results_decide = self.chance(0.4)

    def signature(self, name: str, is_inner: bool = False) -> Signature:
        found = super().signature(name, is_inner)
        parameters = []
        for place, item in enumerate(self.in_common):
            parameters.append((self.new("x"), item))
            self.places[parameters[-1][0]] = place
        others = [INT] if self.has_rows else self.rng.choices([INT, BOOL], [3, 1], k=1)
        parameters += [(self.new("k"), item) for item in [*others, BOOL][: self.rng.randint(1, 2)]]
        self.rng.shuffle(parameters)
        parameters.append((found.fuel, INT))
        self.keys |= {name for name, item in parameters if item.kind != "float"}
        return dataclasses.replace(
            found, parameters=tuple(parameters), is_of_nodes=False, says_returns=self.chance(0.2)
        )

    def functions(self) -> tuple[Passed, ...]:
        return ()

    def row(self, entry: Signature, is_special: bool) -> tuple:
        values = super().row(entry, is_special)
        if not self.has_equal_keys:
            return values
        rng = random.Random("".join(name for name, _ in entry.parameters))
        return tuple(
            value if found.kind == "float" else self.value_of_key(found, rng)
            for value, (_, found) in zip(values, entry.parameters, strict=True)
        )

    def value_of_key(self, found: Type, rng: random.Random) -> Any:
        return rng.choice([True, False]) if found == BOOL else rng.choice([0, 1, 3, 3])

    def value(self, found: Type, shape: tuple[int, ...], is_special: bool) -> Any:
        return self.chance(0.5) if found == BOOL else super().value(found, shape, is_special)

    def known(self, scope: Scope) -> Scope:
        """The names that may decide."""
        names = [
            name
            for name in scope.names
            if name.text in {*self.keys, *self.places}
            or (self.results_decide and name.type in (INT, BOOL))
        ]
        return dataclasses.replace(scope, names=tuple(names), rows=(), callees=(), passed=())

    def call(self, signature: Signature, fuel: str, scope: Scope, group: str | None = None) -> Call:
        """A call that passes on the common arguments of all calls."""
        self.calls_left -= 1
        arguments: list[Any] = []
        for name, found in signature.parameters[:-1]:
            if name in self.places:
                arguments.append(self.same(name, scope))
            else:
                arguments.append(self.expression(found, self.size_of_key(), self.known(scope)))
        operands = [Name(fuel, INT)]
        less = self.rng.choices(FUELS, [7, 4, 1])[0]
        if len(less.operands) == 2:
            operands.append(self.expression(INT, 1, self.known(scope)))
        arguments.append(Apply(less.name, tuple(operands), INT))
        if group is None:
            return Call(signature, tuple(arguments))
        places = [place for place, item in enumerate(signature.parameters) if item[1] == INT]
        arguments[self.rng.choice(places[:-1])] = Name(group, INT.of(group))
        return Call(signature, tuple(arguments), group)

    def step(self, signature: Signature, scope: Scope, size: int) -> Block:
        """A branch that calls somebody more than once, perhaps equally."""
        statements, scope = self.call_let(scope, [])
        found = super().step(signature, scope, size)
        return dataclasses.replace(found, statements=(*statements, *found.statements))

    def same(self, parameter: str, scope: Scope) -> Name:
        """A common argument, under the name that it has here."""
        place = self.places[parameter]
        return self.rng.choice(
            [name for name in scope.names if self.places.get(name.text) == place]
        )

    def size_of_key(self) -> int:
        return self.rng.choice([0, 0, 0, 1, 1, 2])

    def selector(self, kind: Type, scope: Scope) -> Any:
        if scope.callees and self.chance(0.95):
            scope = self.known(scope)
        return super().selector(kind, scope)

    def loop(self, found: Type, size: int, scope: Scope) -> Any:
        """A loop in programs that run by queues anyway; otherwise an op instead."""
        return (
            super().loop(found, size, scope) if self.results_decide else self.op(found, size, scope)
        )

    def new_rows(self, scope: Scope, found: Type) -> Any:
        if self.chance(0.5):
            return super().new_rows(self.known(scope), found)
        number = self.with_tokens(self.expression(INT, 0, self.known(scope)), scope)
        return RangeRows(Apply("mod_int", (number,), INT), found)
