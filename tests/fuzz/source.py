"""Random programs as Python source."""

from __future__ import annotations

import re
import zlib
from typing import Any

from tests.fuzz.ops import OPS
from tests.fuzz.syntax import (
    NUM_ROWS,
    WEIGHTS,
    Apply,
    Block,
    Call,
    Choice,
    Collect,
    Constant,
    Define,
    Function,
    Invoke,
    Lambda,
    Let,
    Loop,
    MapRows,
    Name,
    Part,
    PassOn,
    Program,
    RangeRows,
    Shared,
    Signature,
    reachable,
    type_of,
)

KEYS = ("a", "b", "c")  # in the order of tf.nest


def source_of(program: Program, has_values: bool = False, leaves_out: bool = False) -> str:
    """The functions as Python source, with `tf`, `kerasrec`'s names and weights given.

    Args:
        program: to print.
        has_values: whether branches are function values, which another function returns.
        leaves_out: whether functions take one more argument, a zero that about half of the calls
          leave out.
    """
    functions = [
        "\n".join(_Printer(has_values, leaves_out).function(function))
        for function in reachable(program).functions
    ]
    returned = "@recursive\ndef returned(function):\n    return function"
    return "\n\n".join([returned] * has_values + functions)


def weights_of(program: Program) -> list[str]:
    """The weights that a program reads."""
    source = source_of(program)
    return [name for name in WEIGHTS if re.search(rf"\b{name}\b", source)]


def literal(value: Any) -> str:
    """A number, or numbers in tuples, as Python writes it in a list."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(literal, value))}]"
    return repr(value)


def nested(structure: str, parts: list[str]) -> str:
    """Source of a nest."""
    if structure == "one":
        return parts[0]
    if structure == "tuple":
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    pairs = zip(KEYS, parts, strict=False)
    return "{" + ", ".join(f'"{key}": {part}' for key, part in pairs) + "}"


class _Printer:
    def __init__(self, has_values: bool, leaves_out: bool) -> None:
        self.has_values = has_values
        self.leaves_out = leaves_out
        self.count = 0

    def function(self, function: Function) -> list[str]:
        signature = function.signature
        names = [name for name, _ in signature.parameters]
        head = (
            f"@recursive(returns={_specs(signature)})" if signature.says_returns else "@recursive"
        )
        lines = []
        if signature.packs:
            state = f"state_of_{signature.name}"
            lines.append(f"{', '.join(names[:-1])}{',' if len(names) == 2 else ''} = {state}")
            names = [state, names[-1]]
        names += [item.name for item in signature.functions]
        if self.leaves_out:
            more = f"more_{signature.fuel}"
            names.append(f"{more}=None")
            added = f"{signature.fuel} = {signature.fuel} + {more}"
            lines += [f"if {more} is not None:", *_indented([added])]
        lines += self.block(function.block)
        return [head, f"def {signature.name}({', '.join(names)}):", *_indented(lines)]

    def block(self, block: Block) -> list[str]:
        lines: list[str] = []
        for statement in block.statements:
            if isinstance(statement, Define):
                lines += self.function(statement.function)
            elif isinstance(statement, Collect):
                value = self.expression(statement.value, lines)
                place = ""
                if statement.index is not None:
                    place = f", {self.expression(statement.index, lines)}, {NUM_ROWS}"
                lines.append(f'collect("{statement.table}", {value}{place})')
            else:
                self.let(statement, lines)
        results = self.results(block, lines)
        return [*lines, f"return {results}"]

    def results(self, block: Block, lines: list[str]) -> str:
        if len(block.results) == 1 and isinstance(block.results[0], Choice | Call):
            return self.expression(block.results[0], lines)
        return nested(block.structure, [self.expression(item, lines) for item in block.results])

    def let(self, let: Let, lines: list[str]) -> None:
        value = self.expression(let.value, lines)
        structure = getattr(let.value, "structure", "one")
        if structure == "dict":
            whole = f"{let.names[0]}_and_others"
            lines.append(f"{whole} = {value}")
            value = ", ".join(f'{whole}["{key}"]' for key, _ in zip(KEYS, let.names, strict=False))
        comma = "," if structure == "tuple" and len(let.names) == 1 else ""
        lines.append(f"{', '.join(let.names)}{comma} = {value}")

    def expression(self, expression: Any, lines: list[str]) -> str:
        """Source of an expression; what must stand before it is added to the lines."""
        if isinstance(expression, Name | Shared):
            return expression.text
        if isinstance(expression, Constant):
            dtype = {"float": "FLOAT", "int": "tf.int32", "bool": "tf.bool"}[expression.type.kind]
            return f"tf.constant({literal(expression.value)}, {dtype})"
        if isinstance(expression, Apply):
            return self.apply(OPS[expression.op].template, expression.operands, lines)
        if isinstance(expression, Choice):
            selector = self.expression(expression.selector, lines)
            branches = ", ".join(self.branch(item, lines) for item in expression.branches)
            is_cond = len(expression.branches) == 2 and _kind(expression.selector) == "bool"
            if self.has_values:
                index = f"tf.where({selector}, 0, 1)" if is_cond else selector
                return f"returned(functions([{branches}])[{index}])()"
            if is_cond:
                return f"cond({selector}, {branches})"
            return f"switch({selector}, [{branches}])"
        if isinstance(expression, Call):
            *parts, fuel = [self.expression(item, lines) for item in expression.arguments]
            if expression.signature.packs:
                parts = [nested("tuple", parts)]
            parts += [fuel, *(self.passed(item, lines) for item in expression.functions)]
            if self.leaves_out and zlib.crc32(fuel.encode()) % 2:
                parts.append(f"more_{expression.signature.fuel}=0")
            return f"{expression.signature.name}({', '.join(parts)})"
        if isinstance(expression, Invoke):
            operands = [self.expression(item, lines) for item in expression.operands]
            return f"{expression.text}({', '.join(operands)})"
        if isinstance(expression, Part):
            whole = self.expression(expression.whole, lines)
            structure = expression.whole.structure
            key = f'"{KEYS[expression.index]}"' if structure == "dict" else expression.index
            return whole if structure == "one" else f"{whole}[{key}]"
        if isinstance(expression, MapRows):
            sources = [self.expression(item, lines) for item in expression.sources]
            name = self.new("entry")
            body = [f"{', '.join(expression.names)}, = {name}", *self.block(expression.block)]
            mapped = self.new("mapped")
            lines += [f"def {mapped}({name}):", *_indented(body)]
            return f"map_fn({mapped}, {nested('tuple', sources)})"
        if isinstance(expression, Loop):
            return self.loop(expression, lines)
        if isinstance(expression, RangeRows):
            return f"tf.ragged.range({self.expression(expression.limit, lines)})"
        return f"tf.gather(CHILDREN, {self.expression(expression.node, lines)})"

    def passed(self, function: Lambda | PassOn, lines: list[str]) -> str:
        if isinstance(function, PassOn):
            return function.text
        if not function.names:
            return f"lazy({self.branch(function.block, lines)})"
        name = self.new("passed")
        lines += [
            f"def {name}({', '.join(function.names)}):",
            *_indented(self.block(function.block)),
        ]
        return name

    def loop(self, loop: Loop, lines: list[str]) -> str:
        first = self.expression(loop.first, lines)
        number, state = loop.names
        step, goes_on = self.new("step"), self.new("goes_on")
        lines += [f"def {step}({number}, {state}):", *_indented(self.block(loop.block))]
        inside: list[str] = []
        count = self.expression(loop.count, inside)
        condition = self.expression(loop.condition, inside)
        inside.append(f"return ({number} < {count}) & ({condition})")
        lines += [f"def {goes_on}({number}, {state}):", *_indented(inside)]
        step = f"lambda {number}, {state}: ({number} + 1, {step}({number}, {state}))"
        return f"while_loop({goes_on}, {step}, (0, {first}))[1]"

    def apply(self, template: str, operands: tuple, lines: list[str]) -> str:
        """An op; what it reads more than once gets a name."""
        parts = []
        for place, operand in enumerate(operands):
            part = self.expression(operand, lines)
            if template.count(f"{{{place}}}") > 1 and not isinstance(operand, Name | Shared):
                name = self.new("value")
                lines.append(f"{name} = {part}")
                part = name
            parts.append(part)
        return template.format(*parts)

    def branch(self, block: Block, lines: list[str]) -> str:
        body = self.block(block)
        if len(body) == 1:
            return f"lambda: {body[0].removeprefix('return ')}"
        name = self.new("branch")
        lines += [f"def {name}():", *_indented(body)]
        return name

    def new(self, word: str) -> str:
        self.count += 1
        return f"{word}_{self.count}"


def _kind(expression: Any) -> str:
    return type_of(expression).kind


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _specs(signature: Signature) -> str:
    dtypes = {"float": "FLOAT", "int": "tf.int32", "bool": "tf.bool"}
    parts = [
        f"tf.TensorSpec({list(item.shape)}, {dtypes[item.kind]})" for item in signature.results
    ]
    return nested(signature.structure, parts)
