"""Runs programs over random data types: `python -m tests.fuzz --typed --programs 100 --seed 0`.

A program runs twice: by kerasrec, and as plain Python on objects and NumPy's numbers, where
`match`, `cond` and the like are a few lines each (`PLAIN`).
"""

from __future__ import annotations

import dataclasses
import itertools
import random
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal

import numpy as np
import tensorflow as tf

import kerasrec
from kerasrec._src.options import Engine
from tests.fuzz.typed import Typed

WEIGHT = 0.7
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"parallel_tokens": 3},
    {"recompute": True},
)


def _match(item: Any, branches: dict) -> Any:
    for kind, branch in branches.items():
        if kind is None and item is None:
            return branch()
        if kind is not None and isinstance(item, kind):
            return branch(item)
    raise AssertionError(f"no branch is for {item}")


class TooLongError(Exception):
    """More calls than a random program is meant to have."""


class _Recursive:
    """Makes functions call themselves for each entry of a list.

    Args:
        most: how many calls they may make together.
    """

    def __init__(self, most: int):
        self._left = most

    def __call__(self, function: Any) -> Any:
        def call(item: Any, x: Any) -> Any:
            if isinstance(item, list):
                return [call(one, x) for one in item]
            self._left -= 1
            if self._left < 0:
                raise TooLongError
            return function(item, x)

        return call


PLAIN: dict[str, Any] = {
    "match": _match,
    "cond": lambda predicate, one, other: one() if predicate else other(),
    "switch": lambda index, branches: branches[index](),
    "has": lambda item, name: getattr(item, name) is not None,
    "or_zero": lambda value: 0 if value is None else value,
    "choice": "abc".index,
    "each": lambda function, items: [function(item) for item in items],
    "total": lambda items: np.float64(sum(items)),
    "dot": np.dot,
    "number": np.float64,
    "length": len,
    "const": np.float64,
    "sin": np.sin,
    "tanh": np.tanh,
    "maximum": np.maximum,
    "where": np.where,
    "w": np.float64(WEIGHT),
}
BY_KERASREC: dict[str, Any] = {
    "match": kerasrec.match,
    "cond": kerasrec.cond,
    "switch": kerasrec.switch,
    "has": lambda item, name: item.has(name),
    "or_zero": lambda value: value,
    "choice": lambda value: value,
    "each": kerasrec.map_fn,
    "total": lambda rows: tf.reduce_sum(rows, axis=1),
    "dot": lambda one, other: tf.reduce_sum(one * other, axis=1),
    "number": lambda value: tf.cast(value, tf.float64),
    "length": tf.strings.length,
    "const": lambda value: tf.constant(value, tf.float64),
    "sin": tf.sin,
    "tanh": tf.tanh,
    "maximum": tf.maximum,
    "where": tf.where,
}


@dataclasses.dataclass
class Results:
    """The results of a program.

    Args:
        values: of `value`; of `value` of the result of `change`; and of `value` of the result of
            `change` of that, all in one run; `[tokens]` each.
        slopes: of a sum of the same, into a direction of the numbers of the batch, of the second
            argument and of the weight.
        made: the result of `change`, in plain lists.
    """

    values: list[np.ndarray]
    slopes: list[np.ndarray]
    made: list[Any]


class Check:
    """A program, with values for it.

    Args:
        seed: of the program.
    """

    def __init__(self, seed: str, most_calls: int = 1000):
        self._most_calls = most_calls
        self.typed = Typed(seed)
        self.rng = np.random.default_rng(random.Random(seed).randrange(1 << 30))
        names = {"DataType": kerasrec.DataType, "Literal": Literal, "np": np, "tf": tf}
        # Annotations are to be classes, and not strings as in this file.
        exec(compile(self.typed.declared, "declared", "exec", dont_inherit=True), names)
        self.classes = names
        self.schema = kerasrec.Schema(names["Tree"])
        count = self.typed.rng.choice([1, 2, 4, 30])
        self.batch = self.schema.encode(self.typed.values(names, count))
        self.x, self.y, self.cotangents, self.direction_of_x = self.rng.normal(size=[4, count])
        self.moved = [name for name, tensor in self.batch.items() if tensor.dtype == tf.float64]
        self.directions = {name: self._direction(name) for name in self.moved}

    def _direction(self, name: str) -> np.ndarray:
        """Of the numbers of a field; zero where a field is None and a zero is stored."""
        found = self.rng.normal(size=self.batch[name].flat_values.shape)
        has = self.batch.get(".has.".join(name.split(".")))
        return found if has is None else found * has.flat_values.numpy()

    def plain(self) -> Results:
        """By plain Python on objects; slopes by differences."""
        values, made = self._plain_values(0.0, 0.0, 0.0)
        step, slopes = 1e-5, []
        for moves in np.eye(3) * step:
            after, before = (
                np.array([item @ self.cotangents for item in self._plain_values(*way)[0]])
                for way in (moves, -moves)
            )
            slopes.append((after - before) / (2 * step))
        return Results(values, list(np.transpose(slopes)), made)

    def _plain_values(self, batch: float, x: float, w: float) -> tuple[list, list]:
        space = {**self.classes, **PLAIN, "w": np.float64(WEIGHT + w)}
        space["recursive"] = _Recursive(self._most_calls)
        exec(self.typed.source, space)
        value, change = space["value"], space["change"]
        xs, items = self.x + x * self.direction_of_x, self.schema.decode(self._moved(batch))
        found = [value(*item) for item in zip(items, xs, strict=True)]
        made = [change(*item) for item in zip(items, xs, strict=True)]
        of_made = [value(*item) for item in zip(made, self.y, strict=True)]
        pairs = zip(made, self.y, strict=True)
        of_made_again = [value(change(item, y), y) for item, y in pairs]
        values = [np.array(item) for item in (found, of_made, of_made_again)]
        return values, [as_lists(item) for item in made]

    def _moved(self, size: float) -> dict[str, Any]:
        moved = {
            name: self.batch[name].with_flat_values(
                self.batch[name].flat_values + size * self.directions[name]
            )
            for name in self.moved
        }
        return {**self.batch, **moved}

    def run(self, **options: Any) -> Results:
        """By kerasrec."""
        weight = tf.Variable(np.float64(WEIGHT))
        space = {**self.classes, **BY_KERASREC, "w": weight}
        space["recursive"] = partial(_recursive, **options)
        exec(self.typed.source, space)
        value, change = space["value"], space["change"]

        def change_twice_then_value(item: Any, x: Any, y: Any) -> Any:
            return value(change(change(item, x), y), y)

        at_once = _recursive(change_twice_then_value, **options)

        def run(x: tf.Tensor, batch: dict[str, tf.RaggedTensor]) -> tuple:
            flat = [batch[name].flat_values for name in self.moved]
            items = self.schema.values(batch)
            made = change(items, x)
            found = [value(items, x), value(made, self.y), at_once(items, x, self.y)]
            totals = [tf.reduce_sum(item * self.cotangents) for item in found]
            return (
                found,
                [tf.gradients(total, [weight, x, *flat]) for total in totals],
                self.schema.batch(made),
            )

        # Of any size: the engine "compiled" pads tables whose size a graph does not know.
        specs = [tf.TensorSpec([None], tf.float64), self.schema.element_spec]
        traced = tf.function(run, autograph=False, input_signature=specs)
        found, gradients, made = traced(self.x, self.batch)
        slopes = []
        for gradient in gradients:
            of_weight, of_x, *of_batch = (
                0.0 if item is None else tf.convert_to_tensor(item).numpy() for item in gradient
            )
            along = sum(
                np.sum(one * self.directions[name])
                for one, name in zip(of_batch, self.moved, strict=True)
            )
            slopes.append(np.array([along, np.sum(of_x * self.direction_of_x), of_weight]))
        decoded = self.schema.decode(made)
        return Results([item.numpy() for item in found], slopes, [*map(as_lists, decoded)])

    def differences(self, **options: Any) -> list[str]:
        """Where kerasrec gives something else than plain Python."""
        expected = self.plain()
        found = self.run(**options)
        lines = []
        for name in ("values", "slopes"):
            for place, (one, two) in enumerate(
                zip(getattr(found, name), getattr(expected, name), strict=True)
            ):
                if not np.allclose(one, two, rtol=1e-6, atol=1e-6):
                    lines.append(f"{name} {place}: got {one}, expected {two}")
        if not same(found.made, expected.made):
            lines.append(f"made: got {found.made}\n  expected {expected.made}")
        return lines


def _recursive(function: Callable, engine: Engine = "auto", **options: Any) -> Any:
    """`kerasrec.recursive`; only waves run what makes values of data types."""
    engine = engine if function.__name__.startswith("value") else "auto"
    return kerasrec.recursive(function, engine=engine, **options)


def as_lists(item: Any) -> Any:
    """A value as its kind and its fields."""
    if dataclasses.is_dataclass(item):
        return [type(item).__name__, *(as_lists(part) for part in vars(item).values())]
    if isinstance(item, np.ndarray | np.generic):
        item = item.tolist()
    return [*map(as_lists, item)] if isinstance(item, list) else item


def same(one: Any, two: Any) -> bool:
    if isinstance(one, list):
        return (
            isinstance(two, list)
            and len(one) == len(two)
            and all(same(*pair) for pair in zip(one, two, strict=True))
        )
    if one is None or two is None or isinstance(one, str):
        return type(one) is type(two) and one == two
    return bool(np.isclose(one, two, rtol=1e-6, atol=1e-6))


def drawn(seed: int, number: int) -> tuple[Check, dict[str, Any]]:
    """The program with this number, of those that make few calls, and options."""
    for attempt in itertools.count():
        check = Check(f"{seed} {number} {attempt} typed")
        try:
            check.plain()
        except TooLongError:
            continue
        return check, OPTIONS[number % len(OPTIONS)]
    raise AssertionError


def run(seed: int, numbers: Iterable[int], compiled: bool) -> int:
    """Checks programs of a seed and reports those that differ; how many these are.

    Args:
        seed: of the programs.
        numbers: of the programs.
        compiled: whether the engine "compiled" runs those that it takes.
    """
    kinds: Counter = Counter()
    for number in numbers:
        check, options = drawn(seed, number)
        if compiled:
            recompute = options.get("recompute", False)
            options = {"engine": "compiled", "recompute": recompute}
        try:
            found = check.differences(**options)
        except Exception as error:
            if "engine='compiled' cannot run" in str(error):
                kinds["refused"] += 1
                continue
            found = [traceback.format_exc(limit=-4)]
        kinds["differs" if found else "same"] += 1
        if found:
            print(
                f"=== program {number}, with {options}", check.typed, *found, sep="\n", flush=True
            )
    print(f"{kinds.total():,} programs: {dict(kinds)}")
    return kinds["differs"]
