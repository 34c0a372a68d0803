"""Formulas with one variable, and what is made of them, in plain Python and by recursion."""

from __future__ import annotations

import kerasrec


class Formula(kerasrec.DataType):
    pass


class Const(Formula):
    value: float


class Var(Formula):
    pass


class Add(Formula):
    left: Formula
    right: Formula


class Mul(Formula):
    left: Formula
    right: Formula


SCHEMA = kerasrec.Schema(Formula)
CUBE = Mul(Add(Var(), Const(3.0)), Mul(Var(), Var()))
FORMULAS = [CUBE, Var(), Const(2.0), Add(Mul(CUBE, Const(-1.0)), CUBE)]


def plain(item):
    """An object as tuples and lists, which can be compared."""
    if isinstance(item, kerasrec.DataType):
        return (type(item).__name__, *map(plain, vars(item).values()))
    return list(map(plain, item)) if isinstance(item, list | tuple) else item


def plain_derivative(formula):
    if isinstance(formula, Const):
        return Const(0.0)
    if isinstance(formula, Var):
        return Const(1.0)
    left, right = plain_derivative(formula.left), plain_derivative(formula.right)
    if isinstance(formula, Add):
        return Add(left, right)
    return Add(Mul(left, formula.right), Mul(formula.left, right))


def plain_value(formula, x):
    if isinstance(formula, Const):
        return formula.value
    if isinstance(formula, Var):
        return x
    left, right = plain_value(formula.left, x), plain_value(formula.right, x)
    return left + right if isinstance(formula, Add) else left * right


def derivative_function(**options):
    @kerasrec.recursive(**options)
    def derivative(formula):
        return kerasrec.match(
            formula,
            {
                Const: lambda _: Const(0.0),
                Var: lambda _: Const(1.0),
                Add: lambda f: Add(derivative(f.left), derivative(f.right)),
                Mul: lambda f: Add(
                    Mul(derivative(f.left), f.right), Mul(f.left, derivative(f.right))
                ),
            },
        )

    return derivative


derivative = derivative_function()


@kerasrec.recursive
def value(formula, x):
    return kerasrec.match(
        formula,
        {
            Const: lambda f: f.value,
            Var: lambda _: x,
            Add: lambda f: value(f.left, x) + value(f.right, x),
            Mul: lambda f: value(f.left, x) * value(f.right, x),
        },
    )
