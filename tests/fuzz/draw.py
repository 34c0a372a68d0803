"""Draws random programs. A seed and a number always give the same one.

All of them end: each call passes less fuel, and without fuel nobody calls; a function of nodes
calls itself for children, whose numbers are larger.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.fuzz.ops import BY_RESULT, FUELS, REPEAT
from tests.fuzz.plain import Evaluator, TooLongError
from tests.fuzz.syntax import (
    BOOL,
    FLOAT,
    INT,
    MATRIX,
    NODE_ROWS,
    VECTOR,
    WEIGHTS,
    Apply,
    Block,
    Call,
    ChildRows,
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
    Passed,
    PassOn,
    Program,
    Shared,
    Signature,
    Type,
    is_token,
    reachable,
    type_of,
)

NAMES = ("f", "g", "h")
NUM_CALLS = 60
MANY_TOKENS = 1000
SPECIAL = ("nan", "inf", "-inf", "-0.0", "0.0", "1e38", "-1e38", "1e-39")
SPECIAL_INTS = (2**31 - 1, -(2**31), -1, 0)


def draw_program(seed: int, number: int) -> Program:
    """The program with this number."""
    return drawn(Drawer, seed, number)


def drawn(drawer: type[Drawer], seed: int, number: int, kind: str = "") -> Program:
    """The first program of a drawer that ends; `kind` gives it separate random numbers."""
    attempt = 0
    while True:
        rng = random.Random(f"{seed} {number} {attempt}{kind}")
        program = ending(reachable(drawer(rng).program()))
        if program is not None:
            return program
        attempt += 1


def ending(program: Program) -> Program | None:
    """The same with so little fuel that it makes few calls; None if it makes many without."""
    for most in (3, 2, 1, 0):
        rows = tuple((*row[:-1], min(row[-1], most)) for row in program.rows)
        found = dataclasses.replace(program, rows=rows)
        if num_calls(found) <= NUM_CALLS:
            return found
    return None


def num_calls(program: Program) -> int:
    """How many calls the rows of a program make; many if it is too many to count."""
    evaluator = Evaluator(program)
    try:
        evaluator.run_rows()
    except (TooLongError, RecursionError):  # Plain recursion nests as deeply as the calls do.
        return NUM_CALLS + 1
    return evaluator.num_calls


@dataclass(frozen=True)
class Scope:
    """The values and functions that may be read and called at a place.

    Args:
        names: values of tokens.
        rows: values of entries of their rows.
        callees: signatures, each with the fuel that its calls make less.
        passed: functions that were passed.
        handed: arguments that are not read here, only passed to calls that do not read them either.
    """

    names: tuple[Name, ...]
    rows: tuple[Name, ...] = ()
    callees: tuple[tuple[Signature, str], ...] = ()
    passed: tuple[Passed, ...] = ()
    handed: tuple[Name, ...] = ()

    def with_names(self, names: Sequence[Name]) -> Scope:
        return dataclasses.replace(
            self,
            names=(*self.names, *(name for name in names if not name.type.rows)),
            rows=(*self.rows, *(name for name in names if name.type.rows)),
        )

    def without_calls(self) -> Scope:
        return dataclasses.replace(self, callees=(), passed=())

    def inside(self, names: Sequence[Name]) -> Scope:
        """The same for a loop or a function that stands here."""
        return dataclasses.replace(self, names=(*self.names, *names), rows=())

    def with_passed(self, passed: Sequence[Passed]) -> Scope:
        """With functions that were passed, and without callees that take others.

        A function passed to a call of the function itself must be one of these, or read no tokens:
        otherwise it is another function in each call, and tracing never ends.
        """
        if not passed:
            return self
        known = {item.result for item in passed if not item.operands}
        callees = tuple(
            item
            for item in self.callees
            if all(one.operands or one.result in known for one in item[0].functions)
        )
        return dataclasses.replace(self, callees=callees, passed=tuple(passed))

    @property
    def callees_of_rows(self) -> list[tuple[Signature, str]]:
        """The functions that may be called for each entry of rows."""
        return [item for item in self.callees if not item[0].functions]

    @property
    def fuel(self) -> Name:
        """Some int of the tokens that are here: constants take their token axis."""
        return next(name for name in self.names[::-1] if name.type == INT)


class Drawer:
    def __init__(self, rng: random.Random):
        self.rng = rng
        self.count = 0
        self.calls_left = 0
        self.unread: set[str] = set()  # Parameters that their functions do not read.
        self.is_of_numbers = self.chance(0.15)
        self.has_rows = not self.is_of_numbers and self.chance(0.35)
        self.tables: list[tuple[str, Type, bool]] = []
        if not self.is_of_numbers and self.chance(0.3):
            self.tables = [
                (f"table_{place}", self.type(), self.chance(0.8))
                for place in range(self.rng.randint(1, 2))
            ]

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def new(self, word: str) -> str:
        self.count += 1
        return f"{word}{self.count}"

    def type(self) -> Type:
        if self.is_of_numbers:
            return self.rng.choice([FLOAT, FLOAT, FLOAT, INT])
        return self.rng.choice([FLOAT, FLOAT, VECTOR, VECTOR, MATRIX, INT])

    # The program.

    def program(self) -> Program:
        names = NAMES[: self.rng.choice([1, 1, 1, 1, 1, 2, 2, 3])]
        signatures = [self.signature(name) for name in names]
        functions = tuple(self.function(item, signatures) for item in signatures)
        is_special = self.chance(0.2)
        dtype = "float64" if self.chance(0.8) else "float32"
        rows = tuple(self.row(signatures[0], is_special) for _ in range(self.rng.randint(1, 3)))
        return Program(functions, dtype, rows, self.tokens(signatures[0], len(rows)), is_special)

    def tokens(self, entry: Signature, num_rows: int) -> tuple[int, ...] | None:
        is_of_numbers = all(item.shape == () for _, item in entry.parameters)
        if is_of_numbers and self.chance(0.15):
            return None
        (count,) = self.rng.choices([0, 1, num_rows, 7, MANY_TOKENS], [5, 10, 50, 30, 5])
        places = [place % num_rows for place in range(count)]
        self.rng.shuffle(places)
        return tuple(places)

    def row(self, entry: Signature, is_special: bool) -> tuple:
        values = []
        for place, (_, found) in enumerate(entry.parameters[:-1]):
            if entry.is_of_nodes and place == 0:
                values.append(self.rng.randrange(len(NODE_ROWS)))
            else:
                values.append(self.value(found, found.shape, is_special))
        return (*values, self.rng.choice([-1, 0, 1, 2, 3, 3, 3]))

    def value(self, found: Type, shape: tuple[int, ...], is_special: bool) -> Any:
        if shape:
            return tuple(self.value(found, shape[1:], is_special) for _ in range(shape[0]))
        if found.kind == "int":
            is_special = is_special and self.chance(0.2)
            return self.rng.choice(SPECIAL_INTS) if is_special else self.rng.randint(-3, 6)
        if is_special and self.chance(0.3):
            return float(self.rng.choice(SPECIAL))
        return round(self.rng.uniform(-1.3, 1.3), 2)

    def signature(self, name: str, is_inner: bool = False) -> Signature:
        is_of_nodes = self.has_rows and not is_inner and self.chance(0.3)
        types = [INT] if is_of_nodes else []
        types += [self.type() for _ in range(self.rng.choice([1, 1, 1, 2, 2, 3]) - len(types))]
        if not any(item.kind == "float" for item in types) and self.chance(0.9):
            types.append(FLOAT)
        words = {FLOAT: "x", VECTOR: "v", MATRIX: "m", INT: "k"}
        parameters = [(self.new(words[item]), item) for item in types]
        if not is_of_nodes and not is_inner and len(parameters) > 1 and self.chance(0.25):
            self.unread.add(self.rng.choice(parameters)[0])
        results = tuple(self.type() for _ in range(self.rng.choice([1, 1, 1, 1, 2, 2, 3])))
        if self.tables and all(item.kind != "float" for item in results):
            results = (*results[1:], FLOAT)  # Gradients enter a function through what it returns.
        structure = "one" if len(results) == 1 else self.rng.choice(["tuple", "tuple", "dict"])
        return Signature(
            name,
            (*parameters, (self.new("n"), INT)),
            results,
            structure,
            packs=self.chance(0.15),
            says_returns=is_of_nodes and (structure != "one" or self.chance(0.5)),
            is_of_nodes=is_of_nodes,
            functions=() if is_of_nodes or name == NAMES[0] else self.functions(),
        )

    def functions(self) -> tuple[Passed, ...]:
        """Parameters that are functions; what they return is of the type of their first operand."""
        found = []
        for _ in range(self.rng.choice([0, 1, 1, 2])):
            result = self.type()
            others = self.rng.choice([(), (self.type(),)])
            operands = (result, *others) if self.chance(0.6) else ()
            found.append(Passed(self.new("p"), operands, result))
        return tuple(found)

    def function(self, signature: Signature, callees: Sequence[Signature]) -> Function:
        names = tuple(Name(*item) for item in signature.parameters)
        handed = tuple(name for name in names if name.text in self.unread)
        names = tuple(name for name in names if name not in handed)
        callees_here = tuple((item, signature.fuel) for item in callees)
        scope = Scope(names, (), callees_here, (), handed).with_passed(signature.functions)
        if signature.is_of_nodes:
            return Function(signature, self.body_of_nodes(signature, scope))
        fuel = Name(signature.fuel, INT)
        statements = self.collects(scope, 0.3)
        around = scope
        if self.chance(0.3):
            statements, around = self.lets(scope.without_calls(), statements, 1)
            around = dataclasses.replace(around, callees=scope.callees, passed=scope.passed)
        if self.chance(0.12) and not self.is_inside(signature):
            inner = self.inner(around)
            statements = [*statements, Define(inner)]
            added = (inner.signature, signature.fuel)
            around = dataclasses.replace(around, callees=(*around.callees, added, added))
        last = self.last(signature, around, fuel)
        return Function(signature, Block(tuple(statements), (last,), signature.structure))

    def is_inside(self, signature: Signature) -> bool:
        return signature.name not in NAMES

    def inner(self, around: Scope) -> Function:
        """A function that stands inside another, and may read what it has and call it."""
        signature = self.signature(self.new("inner"), is_inner=True)
        names = tuple(Name(*item) for item in signature.parameters)
        callees = (*around.callees, (signature, signature.fuel))
        scope = Scope((*around.names, *names), (), callees)
        scope = scope.with_passed((*around.passed, *signature.functions))
        last = self.last(signature, scope, Name(signature.fuel, INT))
        return Function(signature, Block((), (last,), signature.structure))

    def last(self, signature: Signature, scope: Scope, fuel: Name) -> Choice:
        """A function's result: without fuel something that calls nobody."""
        is_done = Apply("is_done", (fuel,), BOOL)
        base = self.block(signature, scope.without_calls(), self.rng.randint(0, 2))
        if self.chance(0.2):
            selector = Apply("branch", (fuel, self.expression(INT, 2, scope.without_calls())), INT)
            branches = [base]
            branches += [
                self.step(signature, scope, 1) for _ in range(self.rng.choice([1, 1, 2, 3]))
            ]
        else:
            selector, branches = (
                is_done,
                [base, self.step(signature, scope, self.rng.choice([1, 2, 3, 4]))],
            )
            if self.chance(0.15):
                other = self.expression(BOOL, 2, scope.without_calls())
                selector = Apply("or", (is_done, other), BOOL)
        return Choice(selector, tuple(branches), signature.results, signature.structure)

    def step(self, signature: Signature, scope: Scope, size: int) -> Block:
        """A branch that calls somebody."""
        self.calls_left = self.rng.choice([1, 1, 2, 2, 3])
        statements = self.collects(scope, 0.2)
        statements, inside = self.lets(scope, statements, self.rng.choice([0, 0, 0, 1, 2]))
        if not _has_call(statements):
            statements, inside = self.call_let(inside, statements)
        if self.chance(0.15):
            self.calls_left += 1
            statements, _ = self.call_let(inside, statements)  # Nobody reads what it returns.
        for item in scope.passed:
            if self.chance(0.6):
                name = Name(self.new("given"), item.result)
                value = self.with_tokens(self.invoke(item, 2, inside), inside)
                statements.append(Let((name.text,), value))
                inside = inside.with_names([name])
        found = self.block(signature, inside, size)
        return dataclasses.replace(found, statements=(*statements, *found.statements))

    def body_of_nodes(self, signature: Signature, scope: Scope) -> Block:
        """The body of a function of nodes: it calls itself for all children."""
        node = scope.names[0]
        group = self.new("children")
        rows = Name(group, INT.of(group))
        inside = scope.without_calls().with_names([rows])
        statements = [Let((group,), ChildRows(node, rows.type)), *self.collects(scope, 0.3)]
        self.calls_left = 3
        arguments = [rows]
        for _, found in signature.parameters[1:-1]:
            arguments.append(self.argument(found, inside, group))
        arguments.append(Apply("less_by_one", (Name(signature.fuel, INT),), INT))
        call = Call(signature, tuple(arguments), group)
        names = [Name(self.new("below"), found) for found in call.results]
        statements.append(Let(tuple(name.text for name in names), call))
        others = tuple(item for item in scope.callees if item[0] != signature)
        inside = dataclasses.replace(inside.with_names(names), callees=others)
        self.calls_left = 1
        found = self.block(signature, inside, 3)
        results = found.results
        if not signature.says_returns and type_of(results[0]).kind == "float":
            # Otherwise the sum of children's results may be of any type.
            results = (_plus_weight(results[0]),)
        statements += found.statements
        return dataclasses.replace(found, statements=tuple(statements), results=results)

    # Blocks.

    def block(self, signature: Signature, scope: Scope, size: int) -> Block:
        share = max(1, size // len(signature.results)) if size else 0
        results = tuple(self.expression(item, share, scope) for item in signature.results)
        return Block((), results, signature.structure)

    def small_block(self, found: Type, size: int, scope: Scope) -> Block:
        """A branch of an expression."""
        statements = self.collects(scope, 0.05)
        if size > 2 and self.chance(0.2):
            statements, scope = self.lets(scope, statements, 1)
        return Block(tuple(statements), (self.expression(found, size, scope),))

    def lets(self, scope: Scope, statements: list, count: int) -> tuple[list, Scope]:
        statements = list(statements)
        for _ in range(count):
            if self.has_rows and self.chance(0.5):
                statements, scope = self.rows_let(scope, statements)
            elif scope.callees and self.calls_left and self.chance(0.5):
                statements, scope = self.call_let(scope, statements)
            else:
                found = self.type()
                value = self.with_tokens(self.expression(found, 2, scope), scope)
                name = Name(self.new("let"), found)
                statements.append(Let((name.text,), value))
                scope = scope.with_names([name])
        return statements, scope

    def call_let(self, scope: Scope, statements: list) -> tuple[list, Scope]:
        call = self.call(*self.rng.choice(scope.callees), scope)
        names = [Name(self.new("got"), found) for found in call.results]
        let = Let(tuple(name.text for name in names), call)
        read = [name for name in names if len(names) == 1 or self.chance(0.8)]
        return [*statements, let], scope.with_names(read)

    def rows_let(self, scope: Scope, statements: list) -> tuple[list, Scope]:
        """Rows of children, and perhaps what a call for each of them returns."""
        group = self.new("children")
        rows = Name(group, INT.of(group))
        statements = [*statements, Let((group,), self.new_rows(scope, rows.type))]
        scope = scope.with_names([rows])
        if scope.callees_of_rows and self.calls_left and self.chance(0.7):
            call = self.call(*self.rng.choice(scope.callees_of_rows), scope, group)
            names = [Name(self.new("below"), found) for found in call.results]
            statements.append(Let(tuple(name.text for name in names), call))
            scope = scope.with_names(names)
        return statements, scope

    def new_rows(self, scope: Scope, found: Type) -> Any:
        return ChildRows(self.node(scope, None), found)

    def collects(self, scope: Scope, probability: float) -> list:
        found = []
        for table, kind, has_index in self.tables:
            if self.chance(probability):
                scope = scope.without_calls()
                value = self.with_tokens(self.expression(kind, 2, scope), scope)
                place = self.with_tokens(self.expression(INT, 1, scope), scope)
                index = Apply("place_in_table", (place,), INT) if has_index else None
                found.append(Collect(table, value, index))
        return found

    # Expressions.

    def expression(self, found: Type, size: int, scope: Scope) -> Any:
        """One with so many ops, about."""
        if size <= 0:
            return self.leaf(found, scope)
        ways = {"leaf": 1.0, "op": 9.0, "choice": 1.2 if size > 1 else 0.1}
        if size > 1:
            ways["loop"] = 1.5
        callees = [
            (item, fuel) for item, fuel in scope.callees if found in item.results and size > 1
        ]
        if callees and self.calls_left:
            ways["call"] = 4.0
        passed = [item for item in scope.passed if item.result == found and size > 1]
        if passed:
            ways["invoke"] = 4.0
        groups = sorted({name.type.rows for name in scope.rows})
        if groups and found.kind == "float":
            ways["rows"] = 5.0
        way = self.pick(ways)
        if way == "op":
            return self.op(found, size, scope)
        if way == "choice":
            return self.choice(found, size, scope)
        if way == "loop":
            return self.loop(found, size, scope)
        if way == "call":
            call = self.call(*self.rng.choice(callees), scope)
            places = [place for place, item in enumerate(call.results) if item == found]
            return Part(call, self.rng.choice(places))
        if way == "invoke":
            return self.invoke(self.rng.choice(passed), size, scope)
        if way == "rows":
            entries = self.of_rows(found.of(self.rng.choice(groups)), size - 1, scope)
            return Apply("sum_of_rows", (entries,), found)
        return self.leaf(found, scope)

    def leaf(self, found: Type, scope: Scope) -> Any:
        names = [name for name in scope.names if name.type == found]
        if names and self.chance(0.85):
            # The last names have most chances to be read.
            return self.rng.choice([*names, *names[-2:]])
        if found == BOOL:
            return Apply("is_even", (self.leaf_int(scope),), BOOL)
        if found.kind == "float" and self.chance(0.5):
            weights = [name for name, shape in WEIGHTS.items() if shape == found.shape]
            return Shared(self.rng.choice(weights), found)
        return Constant(self.value(found, found.shape, False), found)

    def leaf_int(self, scope: Scope) -> Name:
        return self.rng.choice([name for name in scope.names if name.type == INT])

    def op(self, found: Type, size: int, scope: Scope) -> Any:
        ops = [
            op
            for op in BY_RESULT[found]
            if not self.is_of_numbers or all(item.shape == () for item in op.operands)
        ]
        if self.is_of_numbers:
            ops = [op for op in ops if "table" not in op.template and "offset" not in op.template]
        (op,) = self.rng.choices(ops, [op.weight for op in ops])
        left = size - 1
        operands = []
        for place, kind in enumerate(op.operands):
            is_last = place == len(op.operands) - 1
            part = left if is_last else self.rng.randint(0, left)
            left -= part
            operand = self.expression(kind, part, scope)
            operands.append(operand if op.is_elementwise else self.with_tokens(operand, scope))
        return Apply(op.name, tuple(operands), found)

    def with_tokens(self, expression: Any, scope: Scope) -> Any:
        """The same with a token axis, where it has none."""
        if is_token(expression):
            return expression
        found = type_of(expression)
        return Apply(REPEAT[found].name, (scope.fuel, expression), found)

    def choice(self, found: Type, size: int, scope: Scope) -> Choice:
        size -= 1
        if self.chance(0.7):
            kind, count = BOOL, 2
        else:
            kind, count = INT, self.rng.choice([1, 2, 3, 3, 5])
        selector = self.with_tokens(self.selector(kind, scope), scope)
        branches = tuple(self.small_block(found, size // count, scope) for _ in range(count))
        return Choice(selector, branches, (found,))

    def selector(self, kind: Type, scope: Scope) -> Any:
        """An expression that chooses a branch."""
        return self.expression(kind, 1, scope)

    def loop(self, found: Type, size: int, scope: Scope) -> Loop:
        """At most three iterations, which may call somebody."""
        names = [Name(self.new("number"), INT), Name(self.new("state"), found)]
        number = self.with_tokens(self.expression(INT, 1, scope.without_calls()), scope)
        first = self.expression(found, self.rng.choice([0, 1]), scope)
        inside = scope.inside(names)
        condition = self.with_tokens(self.expression(BOOL, 1, inside.without_calls()), inside)
        block = self.small_block(found, max(1, size - 2), inside)
        count = Apply("place_in_table", (number,), INT)
        return Loop((names[0].text, names[1].text), count, first, condition, block, found)

    def call(self, signature: Signature, fuel: str, scope: Scope, group: str | None = None) -> Call:
        """A call, of each entry of a group of rows if there is one."""
        self.calls_left -= 1
        arguments: list[Any] = []
        for place, (name, found) in enumerate(signature.parameters[:-1]):
            handed = [item for item in scope.handed if item.type == found and name in self.unread]
            if signature.is_of_nodes and place == 0:
                arguments.append(self.node(scope, group))
            elif handed and self.chance(0.7):
                is_float = found.kind == "float"
                arguments.append(_plus_weight(handed[0]) if is_float else handed[0])
            else:
                arguments.append(self.argument(found, scope, group))
        if group is not None and not any(map(_is_row, arguments)):
            # At least one argument must have rows.
            place = 0
            found = signature.parameters[place][1]
            arguments[place] = self.of_rows(found.of(group), 2, scope)
        less = self.rng.choices(FUELS, [7, 2, 1])[0]
        operands = [Name(fuel, INT)]
        if len(less.operands) == 2:
            operands.append(self.expression(INT, 1, scope.without_calls()))
        arguments.append(Apply(less.name, tuple(operands), INT))
        functions = tuple(self.passed(item, scope) for item in signature.functions)
        return Call(signature, tuple(arguments), group, functions)

    def passed(self, wanted: Passed, scope: Scope) -> Lambda | PassOn:
        """A function to pass: one that was passed, or a new one."""
        known = [
            item
            for item in scope.passed
            if (item.operands, item.result) == (wanted.operands, wanted.result)
        ]
        names = tuple(Name(self.new("a"), found) for found in wanted.operands)
        if known and (not names or self.chance(0.5)):
            return PassOn(self.rng.choice(known).name)
        if scope.passed:
            results = names[:1] or (self.leaf(wanted.result, dataclasses.replace(scope, names=())),)
            return Lambda(tuple(name.text for name in names), Block((), results))
        inside = dataclasses.replace(scope.inside(names), passed=())
        block = self.small_block(wanted.result, self.rng.choice([1, 2, 3]), inside)
        results = tuple(self.with_tokens(item, inside) for item in block.results)
        return Lambda(
            tuple(name.text for name in names), dataclasses.replace(block, results=results)
        )

    def invoke(self, function: Passed, size: int, scope: Scope) -> Invoke:
        """A call of a function that was passed."""
        values = [self.expression(item, size - 1, scope) for item in function.operands]
        operands = [self.with_tokens(value, scope) for value in values]
        return Invoke(function.name, tuple(operands), function.result)

    def node(self, scope: Scope, group: str | None) -> Any:
        """An argument that is a node: children, where there are rows of them."""
        if group is not None:
            return Name(group, INT.of(group))
        return Apply("node", (self.with_tokens(self.expression(INT, 1, scope), scope),), INT)

    def argument(self, found: Type, scope: Scope, group: str | None) -> Any:
        if group is not None and self.chance(0.5):
            names = [name for name in scope.rows if name.type == found.of(group)]
            if names:
                return self.rng.choice(names)
        return self.expression(found, self.rng.choice([0, 1, 1, 2]), scope)

    def of_rows(self, found: Type, size: int, scope: Scope) -> Any:
        """A value for each entry of rows."""
        group = found.rows
        names = [name for name in scope.rows if name.type == found]
        if names and (size <= 0 or self.chance(0.4)):
            return self.rng.choice(names)
        unary = [op for op in BY_RESULT[found.entry] if op.is_for_rows]
        if names and unary and self.chance(0.3):
            return Apply(self.rng.choice(unary).name, (self.rng.choice(names),), found)
        sources = [name for name in scope.rows if name.type.rows == group]
        sources = self.rng.sample(sources, self.rng.randint(1, min(3, len(sources))))
        inside = tuple(Name(self.new("entry_"), item.type.entry) for item in sources)
        scope = scope.inside(inside)
        block = self.small_block(found.entry, max(1, size), scope)
        return MapRows(tuple(name.text for name in inside), tuple(sources), block, found)

    def pick(self, ways: dict[str, float]) -> str:
        return self.rng.choices(list(ways), list(ways.values()))[0]


def _plus_weight(expression: Any) -> Any:
    found = type_of(expression)
    name, word = {FLOAT: ("w", ""), VECTOR: ("b", "_vector"), MATRIX: ("grid", "_matrix")}[found]
    return Apply(f"add{word}", (expression, Shared(name, found)), found)


def _is_row(expression: Any) -> bool:
    return type_of(expression).rows is not None


def _has_call(statements: Sequence) -> bool:
    return any(isinstance(item, Let) and isinstance(item.value, Call) for item in statements)
