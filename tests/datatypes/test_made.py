"""Values that recursive functions make, against the same recursion on Python's objects."""

import collections
import functools
from typing import Literal

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.emit.limits import Limits
from kerasrec._src.schedule.passes import default_passes, optimize
from tests import check_passes
from tests.datatypes.formulas import (
    CUBE,
    FORMULAS,
    SCHEMA,
    Add,
    Const,
    Formula,
    Mul,
    Var,
    derivative,
    derivative_function,
    plain,
    plain_derivative,
    plain_value,
    value,
)
from tests.parameters import few_of
from tests.programs import EVENT_VALUES, EVENTS, makes_values, plain_makes_values

OPTIONS = [
    {},
    pytest.param({"parallel_tokens": 3}, marks=pytest.mark.slow),
    pytest.param({"recompute": True}, marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS)
def test_symbolic_derivatives(options):
    function = derivative_function(**options)
    assert plain(SCHEMA.decode(function(CUBE))) == plain(plain_derivative(CUBE))
    found = function(SCHEMA.of(FORMULAS))
    assert plain(SCHEMA.decode(found)) == plain(list(map(plain_derivative, FORMULAS)))
    twice = function(found)
    expected = [plain_derivative(plain_derivative(item)) for item in FORMULAS]
    assert plain(SCHEMA.decode(twice)) == plain(expected)
    assert function.num_traces == 1


@pytest.mark.slow
def test_what_is_made_is_an_argument_of_another_function():
    xs = np.float32([1.5, -2.0, 0.5, 3.0])
    found = value(derivative(FORMULAS), xs).numpy()
    step = 1e-5
    differences = [
        (plain_value(item, x + step) - plain_value(item, x - step)) / (2 * step)
        for item, x in zip(FORMULAS, xs.astype(float), strict=True)
    ]
    np.testing.assert_allclose(found, differences, rtol=1e-5)


@pytest.mark.slow
def test_a_batch_of_what_is_made_is_like_one_that_was_encoded():
    expected = SCHEMA.encode(list(map(plain_derivative, FORMULAS)))
    batch = SCHEMA.batch(derivative(FORMULAS))
    assert {key: tensor.dtype for key, tensor in batch.items()} == {
        key: tensor.dtype for key, tensor in expected.items()
    }
    for key, spec in SCHEMA.element_spec.items():
        assert spec.is_compatible_with(batch[key])
    roots = [batch["kind"].numpy()[place][0] for place in range(len(FORMULAS))]
    assert roots == [expected["kind"].numpy()[place][0] for place in range(len(FORMULAS))]
    for example in range(len(FORMULAS)):
        for key in ("Add.left", "Add.right", "Mul.left", "Mul.right"):
            kind = SCHEMA.kinds[[kind.name for kind in SCHEMA.kinds].index(key.split(".")[0])]
            holders = np.flatnonzero(batch["kind"][example].numpy() == kind.number)
            assert (batch[key][example].numpy() > holders).all()
    np.testing.assert_allclose(
        value(SCHEMA.values(batch), 2.0), value(SCHEMA.values(expected), 2.0), rtol=1e-6
    )


@pytest.mark.slow
def test_what_is_shared_stays_shared():
    @kerasrec.recursive
    def twice(formula):
        return Add(formula, Mul(formula, formula))

    found = SCHEMA.decode(twice(CUBE))
    assert found.left is found.right.left is found.right.right
    assert SCHEMA.batch(twice(CUBE))["kind"].row_lengths().numpy() == 2 + 7


@kerasrec.recursive
def fold(formula):
    """A formula without sums and products of constants; whether it is a constant, and which."""

    def constant(number):
        return Const(number), True, number

    def both(kind, operation):
        def folded(formula):
            left, left_is_known, one = fold(formula.left)
            right, right_is_known, two = fold(formula.right)
            return kerasrec.cond(
                left_is_known & right_is_known,
                lambda: constant(operation(one, two)),
                lambda: (kind(left, right), False, 0.0),
            )

        return folded

    return kerasrec.match(
        formula,
        {
            Const: lambda f: (f, True, f.value),
            Var: lambda f: (f, False, 0.0),
            Add: both(Add, lambda one, two: one + two),
            Mul: both(Mul, lambda one, two: one * two),
        },
    )


def plain_fold(formula):
    if isinstance(formula, Const | Var):
        return formula
    left, right = plain_fold(formula.left), plain_fold(formula.right)
    if isinstance(left, Const) and isinstance(right, Const):
        return Const(plain_value(type(formula)(left, right), 0.0))
    return type(formula)(left, right)


@pytest.mark.slow
def test_constants_are_folded():
    formulas = [
        Add(Mul(Const(2.0), Const(3.0)), Mul(Var(), Add(Const(1.0), Const(0.5)))),
        Mul(Const(2.0), Add(Const(2.0), Const(4.0))),
        *FORMULAS,
    ]
    found, *_ = fold(formulas)
    assert plain(SCHEMA.decode(found)) == plain(list(map(plain_fold, formulas)))


def grow_function(weights, **options):
    @kerasrec.recursive(**options)
    def grow(n, x):
        return kerasrec.cond(
            n < 1,
            lambda: Const(x * weights[0]),
            lambda: Add(grow(n - 1, tf.sin(x)), Mul(Var(), grow(n - 2, x * weights[1]))),
        )

    return grow


def plain_grow(n, x, weights):
    if n < 1:
        return Const(x * weights[0])
    rest = Mul(Var(), plain_grow(n - 2, x * weights[1], weights))
    return Add(plain_grow(n - 1, np.sin(x), weights), rest)


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS)
def test_gradients_go_through_what_is_made_from_numbers(options):
    numbers, xs, points = [4, 3, 0], np.float32([0.5, 0.7, 0.3]), np.float32([1.5, -2.0, 0.9])
    weights = tf.Variable([1.25, 2.0])
    grow = grow_function(weights, **options)
    given = tf.constant(xs)
    with tf.GradientTape() as tape:
        tape.watch(given)
        found = grow(numbers, given)
        total = tf.reduce_sum(value(found, points))

    def plain_total(values):
        return sum(
            plain_value(plain_grow(n, x, values[:2]), point)
            for n, x, point in zip(numbers, values[2:], points.astype(float), strict=True)
        )

    at = np.concatenate([weights.numpy(), xs]).astype(float)
    assert total.numpy() == pytest.approx(plain_total(at), rel=1e-5)
    gradient = tf.concat(tape.gradient(total, [weights, given]), 0)
    moves = np.eye(len(at)) * 1e-5
    expected = [(plain_total(at + move) - plain_total(at - move)) / 2e-5 for move in moves]
    np.testing.assert_allclose(gradient, expected, rtol=1e-4)
    shapes = plain(SCHEMA.decode(found))
    assert str(shapes[1]).count("Const") == str(plain(plain_grow(3, 0.7, [1, 1]))).count("Const")


@pytest.mark.slow
def test_gradients_reach_the_numbers_of_a_batch():
    batch = SCHEMA.encode(FORMULAS)
    numbers = batch["Const.value"]
    with tf.GradientTape() as tape:
        tape.watch(numbers.values)
        batch["Const.value"] = numbers.with_values(tf.identity(numbers.values))
        total = tf.reduce_sum(value(derivative(SCHEMA.values(batch)), 2.0))
    found = tf.convert_to_tensor(tape.gradient(total, numbers.values)).numpy()

    def plain_total(values):
        moved = {**batch, "Const.value": numbers.with_values(tf.constant(values, tf.float32))}
        return sum(plain_value(plain_derivative(item), 2.0) for item in SCHEMA.decode(moved))

    moves = np.eye(len(found)) * 0.5  # It is linear in each of them.
    at = numbers.values.numpy()
    expected = [plain_total(at + move) - plain_total(at - move) for move in moves]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert np.abs(found).max() > 1


@pytest.mark.slow
def test_equal_calls_make_one_value():
    weight = tf.Variable(2.0)

    @kerasrec.recursive(memo=True)
    def sums(n):
        return kerasrec.cond(
            n < 2,
            lambda: Const(tf.cast(n, tf.float32) * weight),
            lambda: Add(sums(n - 1), sums(n - 2)),
        )

    def fibonacci(n):
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    for numbers in ([15, 10, 15], [12, 12]):
        expected = np.array(list(map(fibonacci, numbers)))
        with tf.GradientTape() as tape:
            made = sums(numbers)
            found = value(made, 0.0)
        np.testing.assert_allclose(found, 2 * expected)
        assert tape.gradient(found, weight).numpy() == expected.sum()
        nodes = SCHEMA.batch(made)["kind"].row_lengths()
        assert nodes.numpy().tolist() == [n + 1 for n in numbers]


@pytest.mark.slow
def test_second_derivatives():
    x = tf.constant([0.5, 0.7])
    grow = grow_function(tf.Variable([1.25, 2.0]))
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            total = tf.reduce_sum(value(grow([3, 4], x), 2.0))
        first = inner.gradient(total, x)
    found = outer.gradient(first, x).numpy()

    def slope(at):
        at = tf.constant(at, tf.float32)
        with tf.GradientTape() as tape:
            tape.watch(at)
            total = tf.reduce_sum(value(grow([3, 4], at), 2.0))
        return tape.gradient(total, at).numpy()

    difference = (slope([0.51, 0.71]) - slope([0.49, 0.69])) / 0.02
    np.testing.assert_allclose(found, difference, rtol=1e-2)


@pytest.mark.many
def test_the_interpreter_makes_the_same():
    grow = grow_function([tf.Variable(1.25), tf.Variable(2.0)])
    given = tf.constant([2, 1]), tf.constant([0.5, 0.7])
    graphs = grow.tagged_graph(*given), grow.extended_graph(*given)
    all_passes = functools.partial(optimize, passes=default_passes(recomputes=True))
    limits = Limits("check", 1000, 1000, 1 << 30)
    check_passes.check_passes(*graphs, given, limits, [all_passes])
    assert plain(SCHEMA.decode(grow(*given)))[1][0] == "Add"


class Part(kerasrec.DataType):
    pass


class Leaf(Part):
    name: str
    sort: Literal["a", "b"]
    vector: tf.TensorSpec([2])
    note: int | None


class Node(Part):
    weight: float
    parts: list[Part]
    extra: Part | None
    tags: list[int]


PARTS = kerasrec.Schema(Part)
NONE = Leaf("none", "a", [9.0, 9.0], None)
WHOLE = Node(
    2.0,
    [
        Leaf("x", "a", [1.0, 2.0], None),
        Node(3.0, [], None, []),
        Leaf("y", "b", [3.0, 4.0], 7),
    ],
    Leaf("z", "b", [0.0, 1.0], 1),
    [4, 5, 6],
)


def change_function(**options):
    @kerasrec.recursive(**options)
    def change(part):
        def node(part):
            none = lambda: Leaf("none", "a", [9.0, 9.0], None)  # noqa: E731
            extra = kerasrec.match(part.extra, {None: none, Part: change})
            return Node(part.weight * 2.0, change(part.parts), extra, part.tags + 1)

        def noted(part):
            name = tf.strings.join([part.name, "!"])
            return Leaf(name, part.sort, part.vector * 2.0, part.note + 1)

        def bare(part):
            return Node(1, [Leaf("w", 1 - part.sort, part.vector, None), NONE, part], None, [])

        def leaf(part):
            return kerasrec.cond(part.has("note"), lambda: noted(part), lambda: bare(part))

        return kerasrec.match(part, {Leaf: leaf, Node: node})

    return change


def plain_change(part):
    if isinstance(part, Node):
        extra = NONE if part.extra is None else plain_change(part.extra)
        parts = [plain_change(item) for item in part.parts]
        return Node(part.weight * 2, parts, extra, [tag + 1 for tag in part.tags])
    if part.note is None:
        other = Leaf("w", "b" if part.sort == "a" else "a", part.vector, None)
        return Node(1.0, [other, NONE, part], None, [])
    return Leaf(part.name + "!", part.sort, [2 * item for item in part.vector], part.note + 1)


@pytest.mark.many
@pytest.mark.parametrize("options", OPTIONS)
def test_lists_and_optional_fields(options):
    parts = [WHOLE, WHOLE.extra, WHOLE.parts[1], Node(0.5, [WHOLE, WHOLE], WHOLE, [])]
    change = change_function(**options)
    assert plain(PARTS.decode(change(parts))) == plain(list(map(plain_change, parts)))
    assert plain(PARTS.decode(change(WHOLE))) == plain(plain_change(WHOLE))


@pytest.mark.slow
def test_gradients_of_entries_of_lists():
    @kerasrec.recursive
    def scaled(numbers, x):
        return Series(kerasrec.map_fn(lambda item: item * x, numbers.items), x)

    @kerasrec.recursive
    def polynomial(numbers):
        squares = kerasrec.map_fn(tf.square, numbers.items).to_tensor(shape=[None, 3])
        return tf.linalg.matvec(squares, [1.0, 2.0, 3.0]) + numbers.last

    x = tf.constant([2.0, 3.0, 5.0])
    series = [Series([1.0, 2.0, 4.0], 0.0), Series([], 0.0), Series([7.0], 0.0)]
    with tf.GradientTape() as tape:
        tape.watch(x)
        found = polynomial(scaled(kerasrec.Schema(Series).of(series), x))
    squares = np.array([1 + 2 * 4 + 3 * 16, 0, 49])
    np.testing.assert_allclose(found, squares * x.numpy() ** 2 + x.numpy(), rtol=1e-6)
    np.testing.assert_allclose(tape.gradient(found, x), 2 * squares * x.numpy() + 1, rtol=1e-6)


class Series(kerasrec.DataType):
    items: list[float]
    last: float


class Words(kerasrec.DataType):
    """Tokens of a formula in prefix form: 0 is `+`, 1 is `*`, 2 is `x`, others are numbers."""

    word: int
    rest: "Words | None"


@pytest.mark.slow
def test_a_parser_whose_second_call_waits_for_the_first():
    words = tf.ragged.constant([[0, 5, 1, 2, 3], [2], [1, 0, 2, 2, 0, 9, 2]])

    @kerasrec.recursive
    def parse(sentence, place):
        word = tf.gather_nd(words, tf.stack([sentence, place], 1))

        def both(kind):
            left, middle = parse(sentence, place + 1)
            right, end = parse(sentence, middle)
            return kind(left, right), end

        return kerasrec.switch(
            word,
            [
                lambda: both(Add),
                lambda: both(Mul),
                lambda: (Var(), place + 1),
                lambda: (Const(tf.cast(word, tf.float32)), place + 1),
            ],
        )

    def plain_parse(sentence, place):
        word = sentence[place]
        if word > 1:
            return (Var() if word == 2 else Const(float(word))), place + 1
        left, middle = plain_parse(sentence, place + 1)
        right, end = plain_parse(sentence, middle)
        return (Add, Mul)[word](left, right), end

    found, ends = parse([0, 1, 2], 0)
    expected = [plain_parse(sentence, 0) for sentence in words.to_list()]
    assert plain(SCHEMA.decode(found)) == [plain(tree) for tree, _ in expected]
    assert ends.numpy().tolist() == [end for _, end in expected]


@pytest.mark.slow
def test_a_value_that_is_made_may_be_passed_on():
    @kerasrec.recursive
    def reverse(words, found):
        found = Words(words.word, found)
        return kerasrec.match(
            words.rest, {None: lambda: found, Words: lambda rest: reverse(rest, found)}
        )

    @kerasrec.recursive
    def count(n):
        return kerasrec.while_loop(
            lambda n, _: n > 0,
            lambda n, found: (n - 1, Words(n, found)),
            (n, Words(0, None)),
        )[1]

    schema = kerasrec.Schema(Words)
    found = reverse(Words(1, Words(2, Words(3, None))), Words(0, None))
    assert plain(schema.decode(found)) == plain(Words(3, Words(2, Words(1, Words(0, None)))))
    assert plain(schema.decode(count([2, 0]))) == plain(
        [Words(1, Words(2, Words(0, None))), Words(0, None)]
    )


class Twig(kerasrec.DataType):
    value: float
    left: "Twig | None"
    right: "Twig | None"


def plain_pruned(twig, least):
    if twig is None or twig.value < least:
        return None
    return Twig(twig.value, *(plain_pruned(side, least) for side in (twig.left, twig.right)))


def plain_total(twig):
    return 0.0 if twig is None else twig.value + plain_total(twig.left) + plain_total(twig.right)


@pytest.mark.slow
def test_a_branch_returns_none_for_a_value_that_is_left_out():
    weight = tf.Variable(1.0)

    @kerasrec.recursive
    def pruned(twig, least):
        def side(below):
            there = {None: lambda: None, Twig: lambda below: pruned(below, least)}
            return kerasrec.match(below, there)

        return kerasrec.cond(
            twig.value < least,
            lambda: None,
            lambda: Twig(twig.value * weight, side(twig.left), side(twig.right)),
        )

    @kerasrec.recursive
    def total(twig):
        def of_twig(twig):
            return twig.value + total(twig.left) + total(twig.right)

        return kerasrec.match(twig, {None: lambda: 0.0, Twig: of_twig})

    twig = Twig(5.0, Twig(3.0, None, Twig(4.0, None, None)), Twig(1.0, Twig(9.0, None, None), None))
    leasts = [0.0, 2.0, 3.5, 6.0]
    with tf.GradientTape() as tape:
        found = pruned([twig] * 4, leasts)
        totals = total(found)
    expected = [plain_pruned(twig, least) for least in leasts]
    assert plain(kerasrec.Schema(Twig).decode(found)) == plain(expected)
    assert expected[3] is None and expected[2].left is None
    np.testing.assert_allclose(totals, list(map(plain_total, expected)))
    # All numbers are multiples of the weight, which is 1.
    np.testing.assert_allclose(tape.gradient(totals, weight), sum(map(plain_total, expected)))


@pytest.mark.slow
def test_the_state_of_a_loop_may_become_none_or_made():
    def left(twig):
        return kerasrec.match(twig, {None: lambda: None, Twig: lambda twig: twig.left})

    @kerasrec.recursive
    def leftmost(twig, count):
        _, found = kerasrec.while_loop(
            lambda count, _: count > 0, lambda count, at: (count - 1, left(at)), (count, twig)
        )
        return kerasrec.match(found, {None: lambda: -1.0, Twig: lambda twig: twig.value})

    twig = Twig(5.0, Twig(3.0, None, None), None)
    assert leftmost([twig] * 4, [0, 1, 2, 3]).numpy().tolist() == [5.0, 3.0, -1.0, -1.0]

    @kerasrec.recursive
    def reads_what_it_made(twig, count):
        return kerasrec.while_loop(
            lambda count, _: count > 0,
            lambda count, at: (count - 1, Twig(at.value + 1.0, None, at)),
            (count, twig),
        )[1]

    expected = Twig(7.0, None, Twig(6.0, None, twig))
    found = kerasrec.Schema(Twig).decode(reads_what_it_made([twig, twig], [2, 0]))
    assert plain(found) == plain([expected, twig])


@pytest.mark.slow
def test_objects_of_several_arguments_stand_in_one_value():
    @kerasrec.recursive
    def substitute(formula, other):
        return kerasrec.match(
            formula,
            {
                Const: lambda f: f,
                Var: lambda _: other,
                Add: lambda f: Add(substitute(f.left, other), substitute(f.right, other)),
                Mul: lambda f: Mul(substitute(f.left, other), substitute(f.right, other)),
            },
        )

    found = SCHEMA.decode(substitute(CUBE, Add(Var(), Const(1.0))))
    assert plain_value(found, 2.0) == plain_value(CUBE, 3.0)
    found = SCHEMA.decode(substitute([CUBE, Var()], [Const(2.0), CUBE]))
    assert plain_value(found[0], 0.0) == plain_value(CUBE, 2.0)
    assert plain(found[1]) == plain(CUBE)


@pytest.mark.slow
@pytest.mark.parametrize("formulas", [[Var()], [Const(1.0), Var()], []])
def test_kinds_that_no_token_makes(formulas):
    found = derivative(SCHEMA.of(formulas))
    assert plain(SCHEMA.decode(found)) == plain(list(map(plain_derivative, formulas)))


class Tree(kerasrec.DataType):
    value: int
    below: list["Tree"]


@pytest.mark.slow
def test_each_entry_of_a_row_makes_values_of_its_own():
    @kerasrec.recursive
    def spread(tree, n):
        def each(tree):
            return Tree(tree.value, [spread(tree, n - 1), Tree(0, [])])

        return kerasrec.cond(
            n < 1,
            lambda: Tree(n, []),
            lambda: Tree(n, kerasrec.map_fn(each, tree.below)),
        )

    def plain_spread(tree, n):
        each = lambda tree: Tree(tree.value, [plain_spread(tree, n - 1), Tree(0, [])])  # noqa: E731
        return Tree(n, list(map(each, tree.below)) if n > 0 else [])

    tree = Tree(1, [Tree(2, [Tree(3, []), Tree(4, [])]), Tree(5, [])])
    schema = kerasrec.Schema(Tree)
    assert plain(schema.decode(spread(tree, 2))) == plain(plain_spread(tree, 2))
    rows = schema.of([tree, tree.below[0], tree.below[1]]).below
    found = tf.nest.map_structure(lambda rows: rows.values, spread(rows, 1))
    expected = [plain_spread(item, 1) for item in [*tree.below, *tree.below[0].below]]
    assert plain(schema.decode(found)) == plain(expected)


@pytest.mark.slow
def test_a_program_that_asserts():
    @kerasrec.recursive
    def grow(n):
        tf.debugging.assert_less(n, 5, "too large")
        return kerasrec.cond(n < 1, lambda: Var(), lambda: Add(grow(n - 1), grow(n - 2)))

    assert plain(SCHEMA.decode(grow(2))) == plain(Add(Add(Var(), Var()), Var()))
    with pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
        grow(7)


@pytest.mark.many
def test_saved_and_loaded(tmp_path):
    class Module(tf.Module):
        @tf.function(input_signature=[SCHEMA.element_spec])
        def serve(self, batch):
            return SCHEMA.batch(derivative(SCHEMA.values(batch)))

    tf.saved_model.save(Module(), str(tmp_path))
    found = tf.saved_model.load(str(tmp_path)).serve(SCHEMA.encode(FORMULAS))
    assert plain(SCHEMA.decode(found)) == plain(list(map(plain_derivative, FORMULAS)))


@pytest.mark.slow
def test_in_a_graph():
    traces = []

    @tf.function(input_signature=[SCHEMA.element_spec])
    def slopes(batch):
        traces.append(batch)
        made = derivative(SCHEMA.values(batch))
        return value(made, 2.0), SCHEMA.batch(made)

    for formulas in (FORMULAS, [CUBE]):
        found, batch = slopes(SCHEMA.encode(formulas))
        expected = list(map(plain_derivative, formulas))
        np.testing.assert_allclose(found, [plain_value(item, 2.0) for item in expected])
        assert plain(SCHEMA.decode(batch)) == plain(expected)
    assert len(traces) == 1


class Slope(keras.layers.Layer):
    """The derivative of formulas at a point that is learned."""

    def __init__(self):
        super().__init__()
        self.supports_jit = False
        self.derivative = derivative_function()

    def build(self, shape):
        self.point = self.add_weight(shape=(), initializer="ones")

    def call(self, batch):
        return value(self.derivative(SCHEMA.values(batch)), tf.convert_to_tensor(self.point))[
            :, None
        ]

    def compute_output_shape(self, shape):
        return None, 1


@pytest.mark.slow
def test_a_model_is_fitted_through_what_is_made():
    inputs, layer = SCHEMA.inputs(), Slope()
    model = keras.Model(inputs, layer(inputs))
    model.compile(keras.optimizers.Adam(0.1), "mse")
    slopes = [[plain_value(plain_derivative(item), 2.0)] for item in FORMULAS * 4]
    batch = SCHEMA.encode(FORMULAS * 4)
    model.fit(batch, np.float32(slopes), batch_size=8, epochs=40, verbose=0)
    assert layer.point.numpy() == pytest.approx(2.0, abs=0.05)
    assert layer.derivative.num_traces <= 2  # Once to learn shapes, once to train.


@pytest.mark.slow
def test_models_read_what_is_made_and_train_what_makes_it():
    keras.utils.set_random_seed(0)
    encoder = kerasrec.layers.SchemaEncoder(SCHEMA, units=4)
    head = keras.layers.Dense(1)
    weights = keras.Variable([0.5, 0.5])
    grow = grow_function(weights)

    @tf.function
    def loss():
        batch = SCHEMA.batch(grow([3, 4, 2], [0.5, -0.7, 0.9]))
        return tf.reduce_mean((head(encoder(batch))[:, 0] - tf.constant([1.0, -1.0, 0.5])) ** 2)

    first = loss()
    trained = [weights, *encoder.trainable_variables, *head.trainable_variables]
    optimizer = keras.optimizers.Adam(0.02)
    for _ in range(30):
        with tf.GradientTape() as tape:
            now = loss()
        gradients = tape.gradient(now, [getattr(item, "value", item) for item in trained])
        assert np.abs(gradients[0].numpy()).max() > 0
        optimizer.apply_gradients(zip(gradients, trained, strict=True))
    assert now < first / 2


@pytest.mark.slow
def test_grown_trees_feed_a_tree_layer():
    class Binary(kerasrec.DataType):
        word: int
        left: "Binary | None"
        right: "Binary | None"

    schema = kerasrec.Schema(Binary)

    @kerasrec.recursive
    def grow(word):
        return kerasrec.cond(
            word > 5,
            lambda: Binary(word, None, None),
            lambda: Binary(word, grow(2 * word), grow(2 * word + 1)),
        )

    def plain_grow(word):
        if word > 5:
            return Binary(word, None, None)
        return Binary(word, plain_grow(2 * word), plain_grow(2 * word + 1))

    keras.utils.set_random_seed(0)
    layer = kerasrec.layers.TreeLSTM(3)
    embedding = keras.layers.Embedding(20, 4)

    def states(batch):
        children = tf.stack([batch["Binary.left"], batch["Binary.right"]], axis=2)
        return layer(
            embedding(batch["Binary.word"].to_tensor()), children.to_tensor(-1, [None, None, 2])
        )

    found = states(schema.batch(grow([1, 3, 7])))
    expected = states(schema.encode(list(map(plain_grow, [1, 3, 7]))))
    assert found.shape == (3, 3)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


class Type(kerasrec.DataType):
    pass


class Atom(Type):
    pass


class Lasting(Type):
    """A part of the type: one of two kinds."""


class Int(Lasting):
    size: int


class Pair(Lasting):
    left: Lasting
    right: Type


@pytest.mark.many
def test_fields_that_take_a_part_of_a_type():
    @kerasrec.recursive
    def twin(n, first):
        return kerasrec.cond(
            n < 1,
            lambda: kerasrec.cond(first < 1, lambda: Int(first), lambda: Atom()),
            lambda: Pair(twin(n - 1, first), Atom()),
        )

    schema = kerasrec.Schema(Type)
    assert plain(schema.decode(twin(2, 0))) == plain(Pair(Pair(Int(0), Atom()), Atom()))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Pair.left was made with a value"):
        twin(2, 1)


def made(body, *arguments):
    return kerasrec.recursive(lambda *given: body(*given))(*arguments)


@pytest.mark.many
@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (lambda f: Const("a"), kerasrec.SignatureError, "Const.value.* is 'a' .*expected a number"),
        (lambda f: Const(f), kerasrec.SignatureError, "Const.value.* is a value that may be Const"),
        (lambda f: Add(f, 1.0), kerasrec.SignatureError, "Add.right.* is 1.0 .*a value of Formula"),
        (lambda f: Add(f, None), kerasrec.SignatureError, "Add.right.* is None .*a value of"),
        (lambda f: Add(f, tf.constant(1)), kerasrec.SignatureError, "Add.right.* is a tensor;"),
        (lambda f: Add(f), TypeError, "missing 1 required positional argument: 'right'"),
        (
            lambda f: Const(tf.constant([1, 2])),
            kerasrec.SignatureError,
            r"Const.value.* is int32 of shape \[2\] per token; expected float32 of shape \[\]",
        ),
        (
            lambda f: Const(1.0).lookup(tf.constant([1.0])),
            kerasrec.TraceError,
            r"A row of a table is not available for a value that may have been made.*second\(first",
        ),
        (lambda f: Formula(), kerasrec.TraceError, "Call one of Const, Var, Add, Mul"),
        (lambda f: Series(f, 0.0), kerasrec.TraceError, "has no such kind; it has Const, Var"),
    ],
)
def test_errors(body, error, message):
    with pytest.raises(error, match=message):
        made(body, CUBE)


@pytest.mark.many
def test_a_number_of_no_choice():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Leaf.sort was made with a number"):
        made(lambda sort: Leaf("x", sort, [0.0, 0.0], None), 2)


class Sort(kerasrec.DataType):
    pass


class Known(Sort):
    pass


class Large(Known):
    size: float


class Small(Known):
    size: float


class Neither(Sort):
    pass


class Holder(Sort):
    known: Known


def test_a_value_of_another_kind_is_found_when_it_is_read():
    @kerasrec.recursive
    def sort(n):
        return kerasrec.switch(n, [lambda: Large(2.0), lambda: Small(1.0), Neither])

    @kerasrec.recursive
    def size(n):
        sizes = {Large: lambda large: large.size, Small: lambda small: -small.size}
        return kerasrec.match(Holder(sort(n)).known, sizes)

    assert size([1, 0, 1]).numpy().tolist() == [-1.0, 2.0, -1.0]
    message = r"Holder.known was made with a value of another kind; expected .* root token 1"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        size([0, 2])


class Item(kerasrec.DataType):
    number: float
    name: str
    vector: tf.TensorSpec([2], tf.float16)
    is_large: bool
    note: int | None
    rest: "Item | None"


@pytest.mark.many
@pytest.mark.parametrize(
    "options", [*OPTIONS, pytest.param({"devices": ["CPU:0", "CPU:0"]}, marks=pytest.mark.slow)]
)
def test_fields_of_all_types_are_read_again(options):
    @kerasrec.recursive(**options)
    def items(n, x):
        vector = tf.cast(tf.stack([x, 2.0 * x], 1), tf.float16)

        def before(rest):
            return kerasrec.cond(
                n % 2 == 0,
                lambda: Item(x, tf.strings.as_string(n), vector, n > 2, n, rest),
                lambda: Item(x, "none", [1.0, 2.0], False, None, rest),
            )

        more = lambda: before(items(n - 1, 1.5 * x))  # noqa: E731
        return kerasrec.cond(n < 1, lambda: before(None), more)

    @kerasrec.recursive(**options)
    def total(item):
        square = tf.cast(tf.reduce_sum(item.vector * item.vector, 1), tf.float32)
        note = kerasrec.cond(item.has("note"), lambda: tf.cast(item.note, tf.float32), lambda: 0.5)
        length = tf.cast(tf.strings.length(item.name), tf.float32)
        own = item.number + square + note + length + tf.where(item.is_large, 10.0, 0.0)
        return own + kerasrec.match(item.rest, {None: lambda: 0.0, Item: total})

    @kerasrec.recursive(**options)
    def total_of_items(n, x):
        return total(items(n, x))

    def plain_total(n, x):
        of_even, of_odd = x + 5 * x**2 + n + len(str(n)) + 10 * (n > 2), x + 5 + 0.5 + 4
        own = of_odd if n % 2 else of_even
        return own + (plain_total(n - 1, 1.5 * x) if n > 0 else 0.0)

    numbers, x = [3, 0, 4], tf.Variable([0.5, 0.25, 1.0])
    found, gradient = _with_gradient(lambda: total_of_items(numbers, x), x)
    expected, slopes = _with_gradient(
        lambda: tf.stack([plain_total(n, x[token]) for token, n in enumerate(numbers)]), x
    )
    np.testing.assert_allclose(found, expected, rtol=2e-3)
    np.testing.assert_allclose(gradient, tf.convert_to_tensor(slopes), rtol=2e-3)


class Stack(kerasrec.DataType):
    pass


class Bottom(Stack):
    pass


class Top(Stack):
    number: float
    rest: Stack


class Queue(kerasrec.DataType):
    """The last ones are in reverse."""

    first: Stack
    last: Stack


def test_values_made_from_nothing_hold_values_of_other_types():
    """Round robin: each number in front is halved and queued again, until it is small."""

    @kerasrec.recursive
    def reverse(stack, found):
        top = lambda top: reverse(top.rest, Top(top.number, found))  # noqa: E731
        return kerasrec.match(stack, {Bottom: lambda _: found, Top: top})

    @kerasrec.recursive
    def run(queue, total):
        def top(top):
            left = lambda: Queue(top.rest, queue.last)  # noqa: E731
            again = lambda: Queue(top.rest, Top(top.number / 2.0, queue.last))  # noqa: E731
            following = kerasrec.cond(top.number < 1.0, left, again)
            return run(following, top.number + 0.5 * total)

        def bottom(_):
            turned = lambda _: run(Queue(reverse(queue.last, Bottom()), Bottom()), total)  # noqa: E731
            return kerasrec.match(queue.last, {Bottom: lambda _: total, Top: turned})

        return kerasrec.match(queue.first, {Top: top, Bottom: bottom})

    @kerasrec.recursive
    def start(x, y):
        return run(Queue(Top(x, Top(y, Bottom())), Bottom()), 0.0)

    def plain(*numbers):
        queue, total = collections.deque(numbers), 0.0
        while queue:
            number = queue.popleft()
            total = number + 0.5 * total
            if number >= 1.0:
                queue.append(number / 2.0)
        return total

    x, y = tf.constant([5.0, 0.5]), tf.constant([3.0, 9.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        found = start(x, y)
        expected = tf.stack([plain(x[token], y[token]) for token in range(2)])
    np.testing.assert_allclose(found, expected)
    for one, other in zip(
        tape.gradient(found, [x, y]), tape.gradient(expected, [x, y]), strict=True
    ):
        np.testing.assert_allclose(one, other)


class Wait(kerasrec.DataType):
    pass


class Done(Wait):
    pass


class ThenRight(Wait):
    formula: Formula
    rest: Wait


class ThenAdd(Wait):
    number: float
    rest: Wait


class Start(kerasrec.DataType):
    formula: Formula
    rest: Wait


@pytest.mark.many
def test_continuations_that_capture_what_was_given():
    @kerasrec.recursive
    def walk(formula, rest):
        return kerasrec.match(
            formula,
            {
                Const: lambda f: resume(rest, f.value),
                Add: lambda f: walk(f.left, ThenRight(f.right, rest)),
                Formula: lambda _: resume(rest, 1.0),
            },
        )

    @kerasrec.recursive
    def resume(rest, found):
        return kerasrec.match(
            rest,
            {
                Done: lambda _: found,
                ThenRight: lambda rest: walk(rest.formula, ThenAdd(found, rest.rest)),
                ThenAdd: lambda rest: resume(rest.rest, 0.5 * rest.number + found),
            },
        )

    def plain_walk(formula):
        if isinstance(formula, Add):
            return 0.5 * plain_walk(formula.left) + plain_walk(formula.right)
        return formula.value if isinstance(formula, Const) else 1.0

    formulas = [Add(Add(Const(2.0), Var()), Const(3.0)), Const(4.0), Add(Var(), Const(5.0))]
    run = kerasrec.recursive(lambda start: walk(start.formula, start.rest))
    found = run([Start(formula, Done()) for formula in formulas])
    np.testing.assert_allclose(found, list(map(plain_walk, formulas)))


@pytest.mark.parametrize(
    "options",
    few_of([{}, {"memo": True}, {"memo": True, "parallel_tokens": 2}], many=[{"memo": True}]),
)
def test_what_equal_calls_make_is_read(options):
    weight = tf.Variable(0.3)

    @kerasrec.recursive(**options)
    def series(n):
        more = lambda: Add(Const(total(series(n - 1)) + total(series(n - 2))), series(n - 1))  # noqa: E731
        return kerasrec.cond(n < 2, lambda: Const(weight), more)

    @kerasrec.recursive(**options)
    def total(formula):
        both = lambda both: total(both.left) + total(both.right)  # noqa: E731
        kinds = {Const: lambda made: tf.sin(made.value), Add: both, Formula: lambda _: 0.0}
        return kerasrec.match(formula, kinds)

    @kerasrec.recursive(**options)
    def total_of_series(n):
        return total(series(n))

    def plain_series(n):
        if n < 2:
            return [weight]
        return [plain_total(n - 1) + plain_total(n - 2), *plain_series(n - 1)]

    def plain_total(n):
        return sum(map(tf.sin, plain_series(n)))

    numbers = [1, 4, 3]
    found, expected = (
        _with_gradient(function, weight)
        for function in (
            lambda: total_of_series(numbers),
            lambda: tf.stack(list(map(plain_total, numbers))),
        )
    )
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-5)


def _with_gradient(function, variable):
    with tf.GradientTape() as tape:
        found = function()
    return found, tape.gradient(found, variable)


@pytest.mark.many
def test_values_of_two_batches_cannot_be_one():
    with pytest.raises(kerasrec.TraceError, match=r"Add.* is made of values of several"):
        made(Add, SCHEMA.of([CUBE]), SCHEMA.of([CUBE]))


@pytest.mark.slow
def test_what_decode_does_not_take():
    with pytest.raises(ValueError, match="expected values of Words"):
        kerasrec.Schema(Words).decode(derivative(CUBE))
    rest = kerasrec.recursive(lambda words: words.rest)
    with pytest.raises(tf.errors.InvalidArgumentError, match="A value is None; an example"):
        kerasrec.Schema(Words).batch(rest(Words(1, None)))
    assert kerasrec.Schema(Words).decode(rest(Words(1, None))) is None


@pytest.mark.many
@pytest.mark.parametrize("engine", ["scalar", "compiled"])
def test_engines_that_cannot_make_values_say_so(engine):
    grow = grow_function(tf.Variable([1.0, 1.0]), engine=engine)
    with pytest.raises(kerasrec.TraceError, match="grow makes a value of a data type at"):
        grow(2, 1.0)


def test_values_that_are_neither_read_nor_returned():
    x = tf.constant([0.4, 0.7, -0.3, 1.2], tf.float64)
    expected = [plain_makes_values(*inputs) for inputs in zip(EVENTS, x, strict=True)]
    np.testing.assert_allclose(makes_values(EVENT_VALUES, x), expected, rtol=1e-12)
