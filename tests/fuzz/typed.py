"""Random data types, values of them, and recursive functions that read and make such values.

A program is Python source. `typed_run.py` runs it.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import Any

TYPES = {
    "float64": "np.float64",
    "float32": "float",
    "int": "int",
    "bool": "bool",
    "str": "str",
    "choice": 'Literal["a", "b", "c"]',
    "vector": "tf.TensorSpec([2], tf.float64)",
    "floats": "list[np.float64]",
    "ints": "list[int]",
    "float64?": "np.float64 | None",
    "int?": "int | None",
    "choice?": 'Literal["a", "b", "c"] | None',
    "tree?": "Tree | None",
    "trees": "list[Tree]",
    "tree": "Tree",
    "part": "Part",
    "pair": "Pair",
    "pair?": "Pair | None",
}
WITHOUT_TREES = tuple(name for name in TYPES if "tree" not in name and "pa" not in name)
IN_PAIRS = (*WITHOUT_TREES, "tree?", "trees")  # A value must end somewhere.
PARTS = ("PartA", "PartB")


@dataclasses.dataclass(frozen=True)
class Scope:
    """The values that an expression may read.

    Args:
        fields: source of each field, with its type.
        numbers: names of numbers.
        calls: whether it may call.
    """

    fields: tuple[tuple[str, str], ...]
    numbers: tuple[str, ...]
    calls: bool = True

    def within(self, **changed: Any) -> Scope:
        return dataclasses.replace(self, **changed)


class Typed:
    """A random program.

    Args:
        seed: a program has one.

    Attributes:
        kinds: for each kind its fields, name and type.
        declared: source of the classes.
        source: of `value`, which gives a number for each value and a number, and of `change`,
            which gives a value.
    """

    def __init__(self, seed: str):
        self.rng = random.Random(seed)
        self.count = 0
        trees = ["TreeA", "TreeB", "TreeC"][: self.rng.randint(1, 3)]
        self.kinds = {name: self.fields(TYPES, 3) for name in [*trees, *PARTS]}
        self.kinds["TreeA"] = self.fields(WITHOUT_TREES, 3)
        self.kinds["PartA"] = self.fields(WITHOUT_TREES, 2)
        self.kinds["Pair"] = self.fields(IN_PAIRS, 3)
        self.trees = [*trees, *PARTS]
        self.declared = self.declarations()
        self.source = "\n\n".join(
            [
                self.function("value", self.match("item", "Tree", self.read_kind)),
                self.function("value_of_pair", self.number(self.scope("Pair", "item"), 4)),
                self.function("change", self.match("item", "Tree", self.make_kind)),
            ]
        )

    def __str__(self) -> str:
        return f"{self.declared}\n\n{self.source}"

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def new(self, word: str) -> str:
        self.count += 1
        return f"{word}{self.count}"

    # Types.

    def fields(self, types: Sequence[str], most: int) -> list[tuple[str, str]]:
        count = self.rng.randint(0, most)
        return [(self.new("field"), self.rng.choice([*types])) for _ in range(count)]

    def declarations(self) -> str:
        lines = ["class Tree(DataType):", "    pass", "class Part(Tree):", "    pass"]
        for name in ["Pair", *self.trees]:
            base = "DataType" if name == "Pair" else "Part" if name in PARTS else "Tree"
            fields = [f"    {field}: {TYPES[found]}" for field, found in self.kinds[name]]
            lines += [f"class {name}({base}):", *(fields or ["    pass"])]
        return "\n".join(lines)

    # Values.

    def values(self, classes: dict[str, Any], count: int) -> list[Any]:
        made: list[Any] = []
        return [self.value_of("tree", classes, 2, made) for _ in range(count)]

    def value_of(self, found: str, classes: dict[str, Any], depth: int, made: list[Any]) -> Any:
        """A value of a field; trees may be shared."""
        rng = self.rng
        if found.endswith("?"):
            if depth <= 0 or self.chance(0.4):
                return None
            return self.value_of(found[:-1], classes, depth, made)
        if found in ("floats", "ints"):
            one = {"floats": "float64", "ints": "int"}[found]
            return [self.value_of(one, classes, 0, made) for _ in range(rng.randint(0, 3))]
        if found == "trees":
            count = rng.randint(0, 2) if depth > 0 else 0
            return [self.value_of("tree", classes, depth, made) for _ in range(count)]
        if found in ("tree", "part", "pair"):
            wanted = classes[found.capitalize()]
            known = [item for item in made if isinstance(item, wanted)]
            if known and self.chance(0.1):
                return rng.choice(known)
            names = {"tree": self.trees, "part": PARTS, "pair": ("Pair",)}[found]
            name = rng.choice(names) if depth > 0 else names[0]
            parts = [self.value_of(item, classes, depth - 1, made) for _, item in self.kinds[name]]
            made.append(classes[name](*parts))
            return made[-1]
        return {
            "float64": lambda: round(rng.uniform(-1.5, 1.5), 3),
            "float32": lambda: rng.randint(-8, 8) / 4,
            "int": lambda: rng.randint(-3, 5),
            "bool": lambda: self.chance(0.5),
            "str": lambda: rng.choice(["", "a", "bcd"]),
            "choice": lambda: rng.choice("abc"),
            "vector": lambda: [round(rng.uniform(-1, 1), 3), round(rng.uniform(-1, 1), 3)],
        }[found]()

    # Functions.

    def function(self, name: str, body: str) -> str:
        return f"@recursive\ndef {name}(item, x):\n    return {body}"

    def scope(self, kind: str, variable: str, numbers: Sequence[str] = ("x",)) -> Scope:
        fields = [(f"{variable}.{name}", found) for name, found in self.kinds[kind]]
        return Scope(tuple(fields), tuple(numbers))

    def match(self, item: str, whole: str, branch: Callable[[str, str], str]) -> str:
        """A match of all kinds in some order, where one branch may match those of `Part`.

        Args:
            item: source of the matched value.
            whole: its type.
            branch: what is done with a kind, and the variable that has it.
        """
        kinds = [*(PARTS if whole == "Part" else self.trees)]
        if whole == "Tree" and self.chance(0.3):
            kinds = [*(kind for kind in kinds if kind not in PARTS), "Part"]
        self.rng.shuffle(kinds)
        found = []
        for kind in kinds:
            variable = self.new("item")
            is_part = kind == "Part"
            body = self.match(variable, kind, branch) if is_part else branch(kind, variable)
            found.append(f"{kind}: lambda {variable}: {body}")
        return f"match({item}, {{{', '.join(found)}}})"

    def read_kind(self, kind: str, variable: str) -> str:
        return self.number(self.scope(kind, variable), 4)

    def number(self, scope: Scope, size: int) -> str:
        if size <= 0:
            return self.rng.choice([*scope.numbers, *scope.numbers, "const(0.3)", "w"])
        fields = [item for item in scope.fields if scope.calls or item[1] in WITHOUT_TREES]
        if fields and self.chance(0.7):
            return self.read(*self.rng.choice(fields), scope, size - 1)
        template = self.rng.choice(
            [
                "({0} + {1})",
                "({0} + {1})",
                "({0} * tanh({1}))",
                "sin({0})",
                "maximum({0}, {1})",
                "where({0} > {1}, {0}, 0.5 * {1})",
                "(0.5 * {0})",
            ]
        )
        part = self.rng.randint(0, size - 1)
        return template.format(self.number(scope, part), self.number(scope, size - 1 - part))

    def read(self, field: str, found: str, scope: Scope, size: int) -> str:
        """A number that depends on a field."""
        half = size // 2
        other = lambda: self.number(scope, half)  # noqa: E731
        variable, _, name = field.partition(".")
        if found.endswith("?"):
            if found[:-1] in ("tree", "pair"):
                part, function = self.new("part"), self.called(found[:-1])
                some = f"{found[:-1].capitalize()}: lambda {part}: {function}({part}, {other()})"
                none = f"None: lambda: {other()}"
                pairs = [some, none] if self.chance(0.5) else [none, some]
                return f"match({field}, {{{', '.join(pairs)}}})"
            if found != "choice?" and self.chance(0.3):
                return f"number(or_zero({field}))"
            some = self.read(field, found[:-1], scope, half)
            return f'cond(has({variable}, "{name}"), lambda: {some}, lambda: {other()})'
        if found in ("tree", "part"):
            if self.chance(0.25) and size > 1:
                kinds = [*PARTS] if found == "part" else self.rng.sample(self.trees, 2)
                branches = [
                    f"{kind}: lambda {variable}: "
                    + self.number(self.scope(kind, variable, scope.numbers), half)
                    for kind in kinds
                    for variable in [self.new("item")]
                ]
                if found == "tree":
                    part = self.new("item")
                    branches.append(f"Tree: lambda {part}: value({part}, {other()})")
                return f"match({field}, {{{', '.join(branches)}}})"
            return f"value({field}, {other()})"
        if found == "pair":
            return f"value_of_pair({field}, {other()})"
        if found == "trees":
            if self.chance(0.3):
                part = self.new("part")
                return f"total(each(lambda {part}: value({part}, {other()}), {field}))"
            return f"total(value({field}, {other()}))"
        if found in ("floats", "ints"):
            entry = self.new("entry")
            as_number = entry if found == "floats" else f"number({entry})"
            inside = scope.within(numbers=(*scope.numbers, as_number, as_number), calls=False)
            return f"total(each(lambda {entry}: {self.number(inside, half)}, {field}))"
        if found == "bool":
            if self.chance(0.5):
                return f"where({field}, {other()}, {other()})"
            return f"cond({field}, lambda: {other()}, lambda: {other()})"
        if found == "choice":
            branches = ", ".join(f"lambda: {other()}" for _ in "abc")
            return f"switch(choice({field}), [{branches}])"
        return {
            "float64": f"({field} * {other()})",
            "float32": f"(number({field}) + {other()})",
            "int": f"(0.2 * number({field}) * {other()})",
            "str": f"number(length({field}))",
            "vector": f"dot({field}, {field})",
        }[found]

    def called(self, found: str) -> str:
        return "value_of_pair" if found == "pair" else "value"

    # Expressions that make values.

    def make_kind(self, kind: str, variable: str) -> str:
        return self.made(self.rng.choice(self.trees), variable, self.scope(kind, variable), 3)

    def made(self, kind: str, variable: str, scope: Scope, size: int) -> str:
        parts = [self.part(found, variable, scope, size - 1) for _, found in self.kinds[kind]]
        return f"{kind}({', '.join(parts)})"

    def part(self, found: str, variable: str, scope: Scope, size: int) -> str:
        """The source of a field: another field, a call's result, or something new."""
        same = [field for field, item in scope.fields if item == found and "?" not in item]
        without_calls = scope.within(calls=False)
        if found.endswith("?"):
            if size <= 0 or self.chance(0.4):
                return "None"
            return self.part(found[:-1], variable, scope, size)
        if same and self.chance(0.4):
            return self.rng.choice(same)
        if found in ("tree", "trees", "part", "pair"):
            return self.part_of_trees(found, variable, scope, size)
        if found in ("floats", "ints"):
            if same and self.chance(0.7):
                entry = self.new("entry")
                body = f"{entry} + 1"
                if found == "floats":
                    inside = without_calls.within(numbers=(*scope.numbers, entry))
                    body = self.number(inside, 1)
                return f"each(lambda {entry}: {body}, {self.rng.choice(same)})"
            one = {"floats": "float64", "ints": "int"}[found]
            count = self.rng.randint(0, 2)
            return f"[{', '.join(self.part(one, variable, scope, 0) for _ in range(count))}]"
        ints = [field for field, item in scope.fields if item == "int"]
        return {
            "float64": lambda: self.number(without_calls, 2),
            "float32": lambda: self.rng.choice(["0.25", "-1.5"]),
            "int": lambda: f"{self.rng.choice(ints)} + 1" if ints else "3",
            "bool": lambda: self.rng.choice([f"{self.number(without_calls, 1)} > 0.1", "True"]),
            "str": lambda: self.rng.choice(['"new"', '""']),
            "choice": lambda: self.rng.choice(['"a"', '"c"']),
            "vector": lambda: "[0.5, -0.25]",
        }[found]()

    def part_of_trees(self, found: str, variable: str, scope: Scope, size: int) -> str:
        below = [field for field, item in scope.fields if item in ("tree", "part")]
        lists = [field for field, item in scope.fields if item == "trees"]
        other = self.number(scope.within(calls=False), 1)
        if found == "pair":
            return self.made("Pair", variable, scope, min(size, 1))
        if found == "part":
            parts = [field for field, item in scope.fields if item == "part"]
            return self.rng.choice([*parts, self.made("PartA", variable, scope, size)])
        if found == "trees":
            if lists and self.chance(0.8):
                return f"change({self.rng.choice(lists)}, {other})"
            count = self.rng.randint(0, 2) if size > 0 else 0
            parts = [self.part_of_trees("tree", variable, scope, size - 1) for _ in range(count)]
            return f"[{', '.join(parts)}]"
        if below and self.chance(0.7):
            return f"change({self.rng.choice(below)}, {other})"
        if self.chance(0.2):
            return variable
        name = self.rng.choice(self.trees) if size > 0 else self.rng.choice(["TreeA", "PartA"])
        return self.made(name, variable, scope, size)
