"""Recursive functions over values of data types, against plain Python."""

import abc
import dataclasses
import enum
import gc
import weakref
from typing import Literal, Protocol

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from tests.datatypes.expressions import SCHEMA, TREE, TREES, Apply, Expr, Let, Number, plain_value


def value_function(**options):
    @kerasrec.recursive(**options)
    def value(expr):
        def apply(expr):
            below = value(expr.arguments)
            return kerasrec.switch(
                expr.operator,
                [lambda: tf.reduce_sum(below, axis=1), lambda: tf.reduce_prod(below, axis=1)],
            )

        def let(expr):
            bound = kerasrec.match(expr.bound, {None: lambda: 10.0, Expr: value})
            scale = tf.where(expr.has("scale"), expr.scale, 3.0)
            length = tf.cast(tf.strings.length(expr.name), tf.float32)
            return bound * scale + value(expr.body) * length

        return kerasrec.match(expr, {Number: lambda expr: expr.value, Apply: apply, Let: let})

    return value


value = value_function()
EXPECTED = [plain_value(tree) for tree in TREES]


@pytest.mark.many
@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"parallel_tokens": 3}, marks=pytest.mark.slow),
        pytest.param({"recompute": True}, marks=pytest.mark.many),
    ],
)
def test_values_and_gradients(options):
    function = value_function(**options)
    batch = SCHEMA.encode(TREES)
    numbers = batch["Number.value"]
    with tf.GradientTape() as tape:
        tape.watch(numbers.values)
        batch["Number.value"] = numbers.with_values(numbers.values)
        found = function(SCHEMA.values(batch))
    np.testing.assert_allclose(found, EXPECTED, rtol=1e-6)
    gradient = tf.convert_to_tensor(tape.gradient(found, numbers.values)).numpy()
    assert np.abs(gradient).max() > 1
    for place in range(len(gradient)):
        moved = numbers.values.numpy()
        moved[place] += 1e-2
        batch["Number.value"] = numbers.with_values(moved)
        sums = [sum(map(plain_value, SCHEMA.decode(batch)))]
        moved[place] -= 2e-2
        batch["Number.value"] = numbers.with_values(moved)
        sums.append(sum(map(plain_value, SCHEMA.decode(batch))))
        assert gradient[place] == pytest.approx((sums[0] - sums[1]) / 2e-2, rel=2e-3, abs=2e-3)


@pytest.mark.slow
def test_objects_are_arguments_and_one_trace_serves_all():
    function = value_function()
    assert function(TREE).shape == ()
    np.testing.assert_allclose(function(TREE), plain_value(TREE), rtol=1e-6)
    np.testing.assert_allclose(function(TREES), EXPECTED, rtol=1e-6)
    np.testing.assert_allclose(function(SCHEMA.of(TREES[:1])), EXPECTED[:1], rtol=1e-6)
    assert function.num_traces == 1
    function.clear_cache()
    assert function.num_traces == 0


@pytest.mark.slow
def test_batches_in_a_graph():
    @tf.function(input_signature=[SCHEMA.element_spec])
    def run(batch):
        return value(SCHEMA.values(batch))

    np.testing.assert_allclose(run(SCHEMA.encode(TREES)), EXPECTED, rtol=1e-6)
    np.testing.assert_allclose(run(SCHEMA.encode(TREES[::-1] * 3)), EXPECTED[::-1] * 3, rtol=1e-6)
    assert run(SCHEMA.encode([])).shape == [0]
    assert run.experimental_get_tracing_count() == 1


@pytest.mark.slow
def test_a_type_stands_for_the_kinds_that_are_left():
    @kerasrec.recursive
    def count(expr):
        """How many values are in a list."""
        return kerasrec.match(
            expr,
            {
                Apply: lambda expr: tf.reduce_sum(count(expr.arguments) + 1, axis=1),
                Expr: lambda expr: kerasrec.match(
                    expr, {Let: lambda let: count(let.body), Number: lambda _: 0}
                ),
            },
        )

    def plain(expr):
        if isinstance(expr, Apply):
            return sum(plain(item) + 1 for item in expr.arguments)
        return plain(expr.body) if isinstance(expr, Let) else 0

    assert count(TREES).numpy().tolist() == list(map(plain, TREES))


class Chain(kerasrec.DataType):
    value: int
    rest: "Chain | None"


@pytest.mark.slow
def test_references_may_be_returned_and_passed_with_other_arguments():
    @kerasrec.recursive
    def nth(chain, n):
        return kerasrec.cond(
            n < 1,
            lambda: chain,
            lambda: kerasrec.match(
                chain.rest, {None: lambda: chain, Chain: lambda c: nth(c, n - 1)}
            ),
        )

    @kerasrec.recursive
    def value_at(chain, n):
        return nth(chain, n).value

    chain = Chain(5, Chain(6, Chain(7, None)))
    assert value_at([chain] * 4, [0, 1, 2, 9]).numpy().tolist() == [5, 6, 7, 7]
    assert value_at(chain, 1).numpy() == 6
    found = nth([chain, chain.rest], 1)
    assert found.value.numpy().tolist() == [6, 7]


@pytest.mark.slow
def test_chains_may_be_deep():
    @kerasrec.recursive
    def total(chain):
        return chain.value + kerasrec.match(chain.rest, {None: lambda: 0, Chain: total})

    chain = None
    for number in range(3_000):
        chain = Chain(number, chain)
    assert total(chain).numpy() == sum(range(3_000))


@pytest.mark.slow
def test_two_values_of_one_function_are_told_apart():
    @kerasrec.recursive
    def difference(one, other):
        below = kerasrec.cond(
            one.has("rest") & other.has("rest"),
            lambda: kerasrec.match(
                one.rest,
                {
                    None: lambda: 0,
                    Chain: lambda a: kerasrec.match(
                        other.rest, {None: lambda: 0, Chain: lambda b: difference(b, a)}
                    ),
                },
            ),
            lambda: 0,
        )
        return one.value - other.value + 10 * below

    one, other = Chain(5, Chain(1, None)), Chain(2, Chain(9, Chain(4, None)))
    assert difference(one, other).numpy() == 3 + 10 * (9 - 1)


@pytest.mark.slow
def test_collecting_at_values():
    @kerasrec.recursive
    def depth(expr, level):
        kerasrec.collect("level", tf.cast(level, tf.float32), expr, size)
        none = lambda _: 0  # noqa: E731

        def apply(expr):
            levels = kerasrec.map_fn(lambda item: depth(item, level + 1), expr.arguments)
            return tf.reduce_sum(levels, axis=1)

        return kerasrec.match(expr, {Apply: apply, Expr: none})

    batch = SCHEMA.encode([Apply("+", [Number(1.0), Apply("+", [Number(2.0)])])])
    size = batch["kind"].values.shape[0]
    _, tables = depth.with_collected(SCHEMA.values(batch), 0)
    assert tables["level"].numpy().tolist() == [0, 1, 1, 2]


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Op(enum.IntEnum):
    ADD = 1
    MUL = 2


class Sign(enum.IntEnum):
    PLUS = 0
    MINUS = 1


class Chosen(kerasrec.DataType):
    color: Color = Color.BLUE
    op: Op = Op.MUL
    sign: Sign = Sign.MINUS
    size: Literal[1, 2, 3] = 3
    sizes: list[Literal[2, 4]] = dataclasses.field(default_factory=list)
    level: Literal[0, 1, 2] = 2
    is_on: Literal[True, False] = False
    number: int = Op.MUL


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("op", "int"),
        *(
            pytest.param(*one, marks=pytest.mark.many)
            for one in (("size", "int"), ("sizes", "int"), ("is_on", "bool"))
        ),
    ],
)
def test_choices_that_are_numbers_of_others_are_not_read(name, plain):
    with pytest.raises(kerasrec.TraceError) as error:
        traced(lambda chosen: getattr(chosen, name) * 10, Chosen())
    assert f"Chosen.{name} is declared as " in str(error.value)
    assert f"Declare the field as {plain} to read" in str(error.value)


@pytest.mark.many
def test_choices_that_are_their_own_numbers():
    read = kerasrec.recursive(
        lambda e: (e.sign == Sign.MINUS, e.level, e.number == Op.MUL, e.color)
    )
    results = read([Chosen(), Chosen(sign=Sign.PLUS, level=1, number=Op.ADD, color=Color.RED)])
    found = [result.numpy().tolist() for result in results]
    assert found == [[True, False], [2, 1], [True, False], [1, 0]]


@pytest.mark.many
def test_choices_that_are_numbers_of_others_in_new_values_and_layers():
    made = kerasrec.recursive(lambda n: Chosen(op=Op.ADD, size=2, level=n))(1)
    (found,) = [kerasrec.Schema(Chosen).decode(made)]
    assert (found.op, found.size, found.level) == (Op.ADD, 2, 1)
    with pytest.raises(kerasrec.SignatureError, match=r"Chosen.size .*is a tensor; expected a"):
        kerasrec.recursive(lambda n: Chosen(size=n))(1)
    schema = kerasrec.Schema(Chosen)
    batch = schema.encode([Chosen(), Chosen(op=Op.ADD)])
    assert batch["Chosen.op"].to_list() == [[1], [0]]
    assert kerasrec.layers.SchemaEncoder(schema, 3)(batch).shape == (2, 3)


@pytest.mark.many
def test_a_member_of_an_enum_is_no_number():
    for body, part in (
        (
            lambda e: e.color == Color.BLUE,
            r"from 0\. For Color\.BLUE it is list\(Color\)\.index\(",
        ),
        (lambda e: kerasrec.switch(e.color, {Color.RED: lambda: 1}), "Choices are numbered from 0"),
    ):
        with pytest.raises((kerasrec.SignatureError, kerasrec.TraceError), match=part):
            kerasrec.recursive(body)(Chosen())


def of_bound(expr, branches):
    """A match on a field that may be None."""
    return kerasrec.match(
        expr, {Let: lambda expr: kerasrec.match(expr.bound, branches), Expr: lambda expr: 1.0}
    )


def of_apply(expr, read):
    """A function's result from a choice."""
    return kerasrec.match(expr, {Apply: lambda expr: read(expr.operator), Expr: lambda expr: 1.0})


def traced(body, argument=TREE):
    return kerasrec.recursive(lambda expr: body(expr))(argument)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            lambda e: e.value,
            "The field value is not available for a value that may be Number, Apply or Let",
        ),
        (
            lambda e: kerasrec.match(e, {Number: lambda e: e.value}),
            "kerasrec.match has no branch for Apply, Let, which the value may be",
        ),
        (
            lambda e: kerasrec.match(e, {Expr: lambda e: 1.0, Let: lambda e: 2.0}),
            "has a branch for Let, but the value can only be Number, Apply, Let, and branches bef",
        ),
        (
            lambda e: kerasrec.match(e, {3: lambda e: 1.0}),
            "has a branch for 3; expected kerasrec.Da",
        ),
        (
            lambda e: kerasrec.match(1.0, {Expr: lambda e: 1.0}),
            "kerasrec.match got 1.0; expected a",
        ),
        (
            lambda e: kerasrec.match([], {Expr: lambda e: 1.0}),
            "such a value. For no values pass schema.values(schema.encode([])).",
        ),
        (
            lambda e: of_bound(e, {Expr: value}),
            "kerasrec.match has no branch for None, which the value may be",
        ),
        (
            lambda e: of_bound(e, {None: lambda: None, Expr: lambda e: 1.0}),
            "the branch for None of the conditional at ",
        ),
        (
            lambda e: of_bound(e, {None: lambda: 1.0, Expr: lambda e: print(end="")}),
            " returns None, and no other branch returns a value of a data type",
        ),
        (
            lambda e: kerasrec.match(e, {Expr: lambda e: None}),
            " is None; a recursive function must return tensors",
        ),
        (
            lambda e: kerasrec.match(e, {Number: lambda _: None, Expr: lambda e: e}).value,
            "a value that may be Number, Apply, Let or None",
        ),
        (
            lambda e: of_bound(e, {None: 1.0, Expr: lambda e: 1.0}),
            "1.0, not a function. Wrap what it computes: `lambda: ...` for None",
        ),
        (
            lambda e: of_bound(e, {None: lambda: 1, Expr: lambda e: 1.0}),
            "  the branch for Expr returns f32[]\n  the branch for None returns i32[]\n",
        ),
        (
            lambda e: kerasrec.match(e, {Number: lambda e: e.size, Expr: lambda e: 1.0}),
            "Number has no field 'size'; its fields are: value.",
        ),
        (
            lambda e: kerasrec.match(
                e, {Number: lambda e: tf.where(e.has("value"), 1.0, 0.0), Expr: lambda e: 1.0}
            ),
            "Number.value always has a value",
        ),
        (
            lambda e: of_apply(e, lambda operator: operator == "+"),
            "holds the number of its choice, from 0.",
        ),
        (
            lambda e: of_apply(e, lambda operator: [1.0, 2.0][operator]),
            "kerasrec.functions([...])[index]",
        ),
        (
            lambda e: of_apply(e, lambda operator: {0: 1.0, 1: 2.0}[operator]),
            "kerasrec.functions([...])[index]",
        ),
        (
            lambda e: of_apply(e, lambda operator: kerasrec.switch(operator, {"+": tf.add})),
            "kerasrec.switch got a dict of branches; expected a list",
        ),
    ],
)
def test_errors(body, message):
    with pytest.raises((kerasrec.TraceError, kerasrec.SignatureError, AttributeError)) as error:
        traced(body)
    assert message in str(error.value)


class Point(kerasrec.DataType):
    x: float


class Line(kerasrec.DataType):
    points: list[Point]


@pytest.mark.many
def test_a_list_of_one_kind_has_its_fields_and_no_lengths():
    line = Line([Point(1.0), Point(2.5)])
    assert traced(lambda line: tf.reduce_sum(line.points.x, axis=1), line).numpy() == 3.5
    with pytest.raises(AttributeError, match=r"'row_lengths'; .* This is a list of Point, which"):
        traced(lambda line: line.points.row_lengths(), line)


def by_case(expr):
    match expr:
        case Number(value):
            return value
    return 1.0


def of_list(expr, read):
    """A function's result from a list of values."""
    return kerasrec.match(expr, {Apply: lambda expr: read(expr.arguments), Expr: lambda expr: 1.0})


@pytest.mark.many
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            lambda e: 1.0 if isinstance(e, Number) else 2.0,
            r"`isinstance\(\.\.\., Number\)` is not available for a value of Expr, whose kind is "
            r"known for each token only, when the graph runs\. Use kerasrec\.match\(value, "
            r"{Number: lambda value: .*}\)\. .* At .*test_match\.py:\d+\.",
        ),
        (
            lambda e: isinstance(e, str | kerasrec.DataType),
            r"`isinstance\(\.\.\., DataType\)` is not",
        ),
        (by_case, r"`isinstance\(\.\.\., Number\)` is not available for a value of Expr"),
        (
            lambda e: isinstance(Number(1.0), Number),
            r"`isinstance\(\.\.\., Number\)` is not available for a value of Expr",
        ),
        (
            lambda e: of_bound(e, {None: lambda: 1.0, Expr: lambda e: 1.0 if e else 2.0}),
            r"The truth \(`if`, `and`, `or`, `not`\) is not available for a value of Expr",
        ),
        (
            lambda e: kerasrec.match(e, {Let: lambda e: e.bound == None, Expr: lambda e: 1.0}),  # noqa: E711
            r"`==` is not available for a value of Expr, .*{None: lambda: \.\.\., Number: lambda",
        ),
        (
            lambda e: of_list(e, lambda items: 1.0 if items else 2.0),
            "The truth .* for a list of Ex",
        ),
        (
            lambda e: of_list(e, lambda items: items.row_lengths()),
            r"The field row_lengths is not available for a list of Expr, .* Its length is `tf",
        ),
        (
            lambda e: of_list(e, len),
            r"`len` is not available for a list of Expr, which is a row of values",
        ),
        (lambda e: of_list(e, sum), r"A loop in Python is not available for a list of Expr, which"),
        (
            lambda e: of_list(e, lambda items: items[0]),
            r"The index 0 is not available for a list of Expr",
        ),
        (
            lambda e: of_list(e, lambda items: e in items),
            r"A loop in Python is not available for a list",
        ),
    ],
)
def test_what_python_cannot_know_is_refused(body, message):
    with pytest.raises(kerasrec.TraceError, match=message):
        traced(body)


@pytest.mark.many
def test_what_python_cannot_know_of_values_outside_of_functions():
    values = SCHEMA.of([TREE])
    for ask in (len, list):
        with pytest.raises(kerasrec.TraceError, match=r"Schema\(Expr\).decode\(values\)`"):
            ask(values)
    # Not the objects that they stand for, but none of these is true for some of them only.
    assert values and values == values and not isinstance(values, Expr)
    assert isinstance(TREE, Expr) and not isinstance(TREE, Number) and not isinstance(1, Expr)


@pytest.mark.slow
def test_the_number_of_values_in_a_list():
    number = lambda items: tf.reduce_sum(kerasrec.map_fn(lambda _: 1.0, items), axis=1)  # noqa: E731
    assert traced(lambda e: of_list(e, number)).numpy() == len(TREE.arguments)


class Shape(kerasrec.DataType, abc.ABC):
    @abc.abstractmethod
    def area(self):
        """Of Python objects."""


class Square(Shape):
    register: float  # ABCMeta has a method of this name.

    def area(self):
        return self.register**2


class HasSize(Protocol):
    size: int


class Box(kerasrec.DataType, HasSize):
    size: int


def test_a_type_may_follow_a_protocol():
    assert isinstance(Box(2), Box) and not isinstance(Square(2.0), Box)


def test_a_type_may_be_abstract():
    assert isinstance(Square(2.0), Shape) and Square(2.0).area() == 4.0
    for kind in (Shape, Square):
        with pytest.raises(TypeError):
            kind()


@pytest.mark.many
def test_branches_that_return_values_of_two_batches_are_an_error():
    other = SCHEMA.of([Number(1.0)])

    @kerasrec.recursive
    def either(expr, that):
        return kerasrec.match(expr, {Number: lambda _: that, Expr: lambda expr: expr})

    with pytest.raises(kerasrec.SignatureError, match="return different structures"):
        either(SCHEMA.of([TREE]), other)


@pytest.mark.many
def test_a_batch_as_an_argument_says_how_values_are_passed():
    batch = {"kind": tf.ragged.constant([[0]]), "Number.value": tf.ragged.constant([[1.0, 2.0]])}
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"`schema.values\(batch\)`"):
        traced(lambda batch: 1.0, batch)


def test_a_batch_that_lacks_a_tensor():
    batch = SCHEMA.encode([TREE])
    del batch["Number.value"]
    with pytest.raises(ValueError, match=r"The batch has no Number.value; expected a dict as"):
        SCHEMA.values(batch)


@pytest.mark.many
@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        ("kind", lambda values: values + 5, "holds a number of no kind. Encode"),
        (
            "Apply.arguments",
            lambda values: values + 6,
            "holds a number of no tree node of its exam",
        ),
        (
            "Apply.arguments",
            lambda values: -values,
            "holds a number of no tree node of its example",
        ),
        ("Apply.operator", lambda values: values + 1, "holds a number of no choice"),
    ],
)
def test_a_batch_that_was_changed(key, change, message):
    batch = SCHEMA.encode(TREES)
    batch[key] = tf.ragged.map_flat_values(change, batch[key])
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        value(SCHEMA.values(batch))
    assert message in str(error.value)


def test_a_batch_whose_rows_do_not_fit():
    batch = SCHEMA.encode(TREES)
    batch["Number.value"] = batch["Number.value"][:, 1:]
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"Number.value.* has not a row for ea"
    ):
        SCHEMA.values(batch)


class Leaf(kerasrec.DataType):
    size: float


class Branch(kerasrec.DataType):
    leaf: Leaf
    twig: "Branch | None"


@pytest.mark.slow
def test_a_batch_whose_references_lead_to_another_type():
    schema = kerasrec.Schema(Branch)
    batch = schema.encode([Branch(Leaf(1.0), Branch(Leaf(2.0), None))])
    assert schema.decode(batch)[0].twig.leaf.size == 2.0
    batch["Branch.leaf"] = tf.ragged.constant([[2, 2]], tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Branch.leaf.* node of another type"):
        schema.values(batch)


@pytest.mark.slow
def test_the_values_of_a_call_are_not_kept():
    function = value_function()
    values = SCHEMA.of(TREES)
    tables = weakref.ref(values._tables)
    function(values)
    del values
    gc.collect()
    assert tables() is None and function.num_traces == 1


@pytest.mark.many
def test_many_functions_are_not_taken_for_one_that_is_traced_again(caplog):
    """TensorFlow warns of that in its log."""

    def times(factor):
        return kerasrec.recursive(lambda document: factor * document.n)

    document = kerasrec.Schema.infer([{"n": 2.5}]).of([{"n": 2.5}])
    found = [times(factor)(document) for factor in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)]
    assert np.array_equal(found, [[2.5], [5.0], [7.5], [10.0], [12.5], [15.0]])
    assert "retracing" not in caplog.text
