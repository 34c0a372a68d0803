"""A data type with several kinds, and its values computed in plain Python."""

from __future__ import annotations

import math
from typing import Literal

import kerasrec


class Expr(kerasrec.DataType):
    pass


class Number(Expr):
    value: float


class Apply(Expr):
    operator: Literal["+", "*"]
    arguments: list[Expr]


class Let(Expr):
    """A variable's value times `scale`; what it is bound to may be left out."""

    name: str
    bound: Expr | None
    scale: float | None
    body: Expr


SCHEMA = kerasrec.Schema(Expr)

TREE = Apply(
    "+",
    [
        Number(1.5),
        Apply("*", [Number(2.0), Number(-3.0), Let("x", None, 0.5, Number(4.0))]),
        Let("y", Apply("+", []), None, Apply("*", [])),
        Number(0.25),
    ],
)
TREES = [TREE, Number(7.0), Apply("*", [TREE, TREE]), Let("z", TREE, -2.0, Number(1.0))]


def plain_value(expr):
    if isinstance(expr, Number):
        return expr.value
    if isinstance(expr, Apply):
        values = [plain_value(item) for item in expr.arguments]
        return math.fsum(values) if expr.operator == "+" else math.prod(values)
    bound = 10.0 if expr.bound is None else plain_value(expr.bound)
    scale = 3.0 if expr.scale is None else expr.scale
    return bound * scale + plain_value(expr.body) * len(expr.name)
