"""Nested operations on digits, as those of ListOps: Nangia and Bowman 2018, section 2.

An expression is a digit, or a list of an operator and two to five expressions. They are drawn as in
the paper: at each place an operation with probability 0.25, or else a digit, and no operation below
level 20. MAX, MIN, MED and SM are equally likely, and so are all digits.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from kerasrec.datasets import encode_objects, tree_batches

OPERATORS: dict[str, Callable[[list[int]], int]] = {
    "MAX": max,
    "MIN": min,
    "MED": lambda values: int(statistics.median(values)),
    "SM": lambda values: sum(values) % 10,
}
SYMBOLS = [None, *range(10), *OPERATORS]  # tokens are places in it


def arguments(expression: Any) -> list[Any]:
    """The expressions that an operator is applied to; none of a digit."""
    return expression[1:] if isinstance(expression, list) else []


def value(expression: Any) -> int:
    """The value of an expression, a digit."""
    if not isinstance(expression, list):
        return expression
    return OPERATORS[expression[0]]([value(of) for of in expression[1:]])


def length(expression: Any) -> int:
    """The number of its symbols: digits, operators and closing brackets."""
    return 2 + sum(map(length, expression[1:])) if isinstance(expression, list) else 1


def draw(count: int, shortest: int, longest: int, seed: int) -> list[Any]:
    """Draws expressions of these lengths, no two the same."""
    random = np.random.default_rng(seed)

    def expression(level: int) -> Any:
        if level >= 20 or random.random() > 0.25:
            return int(random.integers(10))
        operator = list(OPERATORS)[random.integers(4)]
        return [operator, *(expression(level + 1) for _ in range(random.integers(2, 6)))]

    found: dict[str, Any] = {}
    while len(found) < count:
        drawn = expression(1)
        if shortest <= length(drawn) <= longest:
            found[str(drawn)] = drawn
    return list(found.values())


def batches(expressions: Sequence[Any], size: int, seed: int | None = None) -> tf.data.Dataset:
    """Ragged batches of expressions, with their values.

    Args:
        expressions: as `draw` returns them.
        size: expressions per batch.
        seed: To shuffle with; None keeps the order.
    """

    def token(node: Any) -> int:
        return SYMBOLS.index(node[0] if isinstance(node, list) else node)

    of = {"children_of": arguments, "token_of": token, "label_of": value}
    trees = [encode_objects(expression, **of, labels="root") for expression in expressions]
    order = {"shuffle": True, "bucket_by_size": True} if seed is not None else {}
    return tree_batches(trees, size, seed=seed, ragged=True, **order)
