"""Functions as values: a label for each token, and what was captured; a call is a switch.

Also values as functions, which are computed only for the tokens that read them. Values and
gradients by all engines: `functions_as_values` and `passes_a_lazy_value` of `tests/programs.py`.
"""

import copy
import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from tests.parameters import few_of
from tests.programs import fib, plain_fib

LEFT = tf.constant([1, 3, 5, -1, -1, -1, -1])
RIGHT = tf.constant([2, 4, 6, -1, -1, -1, -1])
KINDS = tf.constant([0, 2, 1, -1, -1, -1, -1])
CHILDREN = tf.ragged.constant([[1, 2, 3], [4], [], [], []], dtype=tf.int32)


def square(x):
    return x * x


def increment(x):
    return x + 1


OPERATIONS = kerasrec.functions([square, fib, increment])
PLAIN = [square, plain_fib, increment]


@kerasrec.recursive
def applied(index, x):
    return OPERATIONS[index](x)


@kerasrec.recursive
def repeated(function, count, x):
    return kerasrec.cond(count < 1, lambda: x, lambda: repeated(function, count - 1, function(x)))


def plain_repeated(function, count, x):
    return x if count < 1 else plain_repeated(function, count - 1, function(x))


@kerasrec.recursive
def adds_or_times(n):
    return kerasrec.functions([lambda x: x + n, lambda x: x * n])[n % 2]


def plain_adds_or_times(n):
    return (lambda x: x * n) if n % 2 else (lambda x: x + n)


@pytest.mark.slow
def test_each_token_has_its_function():
    index, x = [0, 1, 2, 1, 0], [5, 7, 3, 10, -2]
    expected = [PLAIN[i](n) for i, n in zip(index, x, strict=True)]
    np.testing.assert_array_equal(applied(index, x), expected)
    assert applied(1, 10) == 55


@pytest.mark.slow
def test_a_function_is_returned_with_what_it_captured():
    @kerasrec.recursive
    def f(n, x):
        one, other = adds_or_times(n), adds_or_times(n + 1)
        return kerasrec.cond(x > 2, lambda: one, lambda: other)(x) + 100 * repeated(one, 2, x)

    def plain(n, x):
        one = plain_adds_or_times(n)
        return (one if x > 2 else plain_adds_or_times(n + 1))(x) + 100 * one(one(x))

    n, x = [1, 2, 3, 4], [1, 2, 3, 4]
    np.testing.assert_array_equal(f(n, x), list(map(plain, n, x)))


@pytest.mark.slow
def test_each_function_gets_its_tokens_alone():
    run = applied.run_trace([0, 1, 2, 0], [5, 1, 3, 40])
    assert run.num_calls == 4 + 1


@pytest.mark.parametrize("dtype", few_of(["int8", "uint8", "int32", "int64"], many=[]))
def test_any_int_dtype(dtype):
    np.testing.assert_array_equal(applied(np.array([0, 2], dtype), [3, 3]), [9, 4])


@pytest.mark.slow
def test_an_index_out_of_range_chooses_the_last_as_switch_does():
    np.testing.assert_array_equal(applied([-1, 3, 1 << 30], [3, 4, 5]), [4, 5, 6])
    np.testing.assert_array_equal(applied(np.array([1 << 32]), [3]), [4])


@pytest.mark.many
def test_a_python_index_is_the_same_for_all_tokens():
    @kerasrec.recursive
    def f(x):
        return OPERATIONS[0](x) + 100 * OPERATIONS[-1](x)

    np.testing.assert_array_equal(f([3, 4]), [409, 516])
    assert len(OPERATIONS) == len(list(OPERATIONS)) == 3
    with pytest.raises(IndexError, match=r"functions\(\[square, fib, increment\]\)\[3\] at .*3 f"):
        OPERATIONS[3]
    with pytest.raises(IndexError):
        OPERATIONS[-4]


@pytest.mark.slow
def test_from_outside():
    """The callee is compiled once for a table, whichever of its functions tokens have."""
    repeated.clear_cache()
    for index in ([0, 1, 2], [2, 2, 1]):
        found = repeated(OPERATIONS[index], [2, 2, 5], [3, 5, 3])
        expected = [
            plain_repeated(PLAIN[i], c, x)
            for i, c, x in zip(index, [2, 2, 5], [3, 5, 3], strict=True)
        ]
        np.testing.assert_array_equal(found, expected)
    assert repeated.num_traces == 1
    other = kerasrec.functions([lambda x: x - 1, lambda x: x - 2])
    np.testing.assert_array_equal(repeated(other[[0, 1]], 3, 10), [7, 4])


@pytest.mark.slow
def test_a_value_that_is_returned_to_the_outside_may_be_passed_on():
    np.testing.assert_array_equal(repeated(adds_or_times([3, 4]), [2, 1], [5, 5]), [45, 9])
    np.testing.assert_array_equal(repeated(adds_or_times(2), 1, 5), 7)


@pytest.mark.slow
def test_a_function_passes_itself_a_new_function():
    def decide(n):
        return kerasrec.functions([lambda x: x + n, lambda x: x * n])[n % 2]

    @kerasrec.recursive
    def total(n, function):
        return kerasrec.cond(
            n < 1, lambda: function(n), lambda: function(n) + total(n - 1, decide(n))
        )

    @kerasrec.recursive
    def f(n):
        return total(n, decide(n))

    def plain(n, function):
        return function(n) if n < 1 else function(n) + plain(n - 1, plain_adds_or_times(n))

    expected = [plain(n, plain_adds_or_times(n)) for n in (0, 1, 2, 5)]
    np.testing.assert_array_equal(f([0, 1, 2, 5]), expected)
    assert list(f.function_graphs(1).functions) == ["f", "total"]


@pytest.mark.slow
def test_in_a_nest_and_in_the_state_of_a_loop():
    @kerasrec.recursive
    def pair(n):
        return {"function": adds_or_times(n), "next": n + 1}

    @kerasrec.recursive
    def f(n, count):
        def step(i, items):
            x = items["function"](i)
            return i + 1, {"function": adds_or_times(x), "next": items["next"] + x}

        return kerasrec.while_loop(lambda i, _: i < count, step, (0, pair(n)))[1]["next"]

    def plain(n, count):
        function, following = plain_adds_or_times(n), n + 1
        for i in range(count):
            x = function(i)
            function, following = plain_adds_or_times(x), following + x
        return following

    np.testing.assert_array_equal(f([1, 2, 5], [4, 3, 0]), list(map(plain, [1, 2, 5], [4, 3, 0])))


@pytest.mark.many
def test_rows_of_functions():
    """One for each child: as arguments of a ragged call, and as entries that are returned."""

    @kerasrec.recursive
    def f(function, node):
        below = tf.gather(CHILDREN, node)
        kerasrec.map_fn(lambda entry: entry, below)
        found = f(OPERATIONS[below % 3], below)
        made = kerasrec.map_fn(adds_or_times, below)
        called = kerasrec.map_fn(lambda item: item(10), made)
        return function(node) + tf.reduce_sum(found, axis=1) + tf.reduce_sum(called, axis=1)

    def plain(function, node):
        below = CHILDREN[node].numpy().tolist()
        found = sum(plain(PLAIN[child % 3], child) for child in below)
        return function(node) + found + sum(plain_adds_or_times(child)(10) for child in below)

    found = f(OPERATIONS[[0, 1]], [0, 1])
    np.testing.assert_array_equal(found, [plain(PLAIN[0], 0), plain(PLAIN[1], 1)])


@pytest.mark.many
def test_recursive_functions_that_capture():
    """One that is defined in the call itself, by another that is also defined there."""

    @kerasrec.recursive
    def made(n):
        def scaled(x):
            return x * n

        @kerasrec.recursive
        def total(x):
            return kerasrec.cond(x < 1, lambda: n, lambda: scaled(x) + total(x - 1))

        return kerasrec.functions([total, functools.partial(max_of, n)])[n % 2]

    @kerasrec.recursive
    def f(n, x):
        return repeated(made(n), 2, x)

    def plain_total(n, x):
        return n if x < 1 else x * n + plain_total(n, x - 1)

    def plain(n, x):
        function = (lambda x: max(n, x)) if n % 2 else (lambda x: plain_total(n, x))
        return function(function(x))

    n, x = [2, 3, 4, 3], [3, 1, 2, 5]
    np.testing.assert_array_equal(f(n, x), list(map(plain, n, x)))


def max_of(x, y):
    return tf.maximum(x, y)


@pytest.mark.slow
def test_a_function_that_captured_functions():
    """A composition: a value that has captured values of another table."""

    @kerasrec.recursive
    def composed(n):
        first, then = adds_or_times(n), [adds_or_times(n + 1), OPERATIONS[2]]
        both = [lambda x: then[0](first(x)), lambda x, last=then[1]: last(first(x))]
        return kerasrec.functions(both)[tf.where(n > 2, 1, 0)]

    @kerasrec.recursive
    def f(n, x):
        return repeated(composed(n), 2, x)

    def plain(n, x):
        last = increment if n > 2 else plain_adds_or_times(n + 1)
        for _ in range(2):
            x = last(plain_adds_or_times(n)(x))
        return x

    n, x = [1, 2, 3, 4], [4, 3, 2, 1]
    np.testing.assert_array_equal(f(n, x), list(map(plain, n, x)))


@pytest.mark.slow
def test_variables_are_read_when_a_value_is_passed_on():
    @kerasrec.recursive
    def f(n):
        tensor = n
        function = kerasrec.functions([lambda x: x + tensor])[0]
        first = repeated(function, 1, n)
        tensor = 10 * n
        return first + 1000 * repeated(function, 1, n) + 1000_000 * function(n)

    assert f(2) == 4 + 1000 * 22 + 1000_000 * 22


@pytest.mark.slow
def test_values_of_data_types_are_captured():
    class Leaf(kerasrec.DataType):
        number: int

    @kerasrec.recursive
    def adds(leaf):
        return kerasrec.functions([lambda x: x + leaf.number, lambda x: x - leaf.number])[
            leaf.number % 2
        ]

    @kerasrec.recursive
    def f(leaf):
        return repeated(adds(leaf), 2, 100)

    np.testing.assert_array_equal(f([Leaf(2), Leaf(5)]), [104, 90])


@pytest.mark.slow
def test_keras_layers():
    layers = [keras.layers.Dense(2), keras.layers.Dense(2, activation="tanh")]
    table = kerasrec.functions(layers)

    @kerasrec.recursive
    def f(function, n, x):
        return kerasrec.cond(n < 1, lambda: x, lambda: f(function, n - 1, function(x)))

    index, n = [0, 1, 1], [2, 1, 3]
    x = np.array([[0.1, 0.2], [0.3, -0.2], [1.0, 0.5]], np.float32)
    with tf.GradientTape() as tape:
        found = f(table[index], n, x)
    expected = []
    for token in range(3):
        row = x[token : token + 1]
        for _ in range(n[token]):
            row = layers[index[token]](row)
        expected.append(row[0])
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    weights = [layer.trainable_variables[0].value for layer in layers]
    assert all(gradient is not None for gradient in tape.gradient(found, weights))


@pytest.mark.parametrize("engine", few_of(["waves", "scalar", "compiled"], many=[]))
def test_gradients_of_what_was_captured(engine):
    """Against finite differences."""
    weight = tf.Variable(0.7, dtype=tf.float64)

    @kerasrec.recursive
    def made(x, n):
        table = kerasrec.functions([lambda v: tf.sin(v * x), lambda v: v * weight + x])
        return table[n % 2]

    @kerasrec.recursive
    def f(function, v, n):
        return kerasrec.cond(
            n < 1, lambda: v, lambda: f(function, function(v), n - 1) * function(v)
        )

    @kerasrec.recursive(engine=engine)
    def g(x, n):
        return f(made(x, n), x * 0.5, n)

    def loss(x):
        return tf.reduce_sum(g(tf.constant(x), [2, 3, 1, 0]))

    x = np.array([0.3, 0.8, -0.4, 0.6])
    with tf.GradientTape() as tape:
        given = tf.constant(x)
        tape.watch(given)
        y = tf.reduce_sum(g(given, [2, 3, 1, 0]))
    found, of_weight = tape.gradient(y, [given, weight])
    step = 1e-6
    expected = [
        (loss(x + step * row) - loss(x - step * row)) / (2 * step) for row in np.eye(len(x))
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    weight.assign_add(step)
    above = loss(x)
    weight.assign_sub(2 * step)
    np.testing.assert_allclose(of_weight, (above - loss(x)) / (2 * step), rtol=1e-6)


@pytest.mark.slow
def test_a_tree_of_operators():
    operators = kerasrec.functions([tf.add, tf.multiply, lambda x, y: x - y])

    @kerasrec.recursive
    def value(node):
        def inner():
            left, right = tf.gather(LEFT, node), tf.gather(RIGHT, node)
            return operators[tf.gather(KINDS, node)](value(left), value(right))

        return kerasrec.cond(tf.gather(KINDS, node) < 0, lambda: node, inner)

    assert value(0) == (3 - 4) + 5 * 6


@pytest.mark.many
@pytest.mark.parametrize("given", [[], square, [square, 3], "add"])
def test_a_table_of_something_else(given):
    with pytest.raises(kerasrec.SignatureError, match="expected a list of one or more functions"):
        kerasrec.functions(given)


@pytest.mark.many
@pytest.mark.parametrize("index", [0.5, True, None, "add", [0.5]])
def test_an_index_that_is_none(index):
    with pytest.raises(kerasrec.TraceError, match=r"index of kerasrec\.functions at .* expected"):
        OPERATIONS[index]
    if index is not None and index != "add":
        with pytest.raises(kerasrec.TraceError, match=r"kerasrec\.functions.*`index`"):
            kerasrec.recursive(lambda x: OPERATIONS[tf.constant(index)](x))(3)


@pytest.mark.many
def test_other_arguments_than_the_functions_take():
    table = kerasrec.functions([square, lambda x, y: x + y])
    with pytest.raises(
        kerasrec.SignatureError,
        match=r"A call at .* may call functions\[0\] \(square\), which takes \(x\): too many",
    ):
        kerasrec.recursive(lambda i, x: table[i](x, x))(0, 3)


@pytest.mark.many
def test_functions_that_return_other_types():
    table = kerasrec.functions([square, lambda x: tf.cast(x, tf.float32)])
    with pytest.raises(kerasrec.SignatureError, match=r"(?s)functions\[0\] \(square\) returns i32"):
        kerasrec.recursive(lambda i, x: table[i](x))(0, 3)


@pytest.mark.many
def test_a_value_of_another_table():
    other = kerasrec.functions([increment])

    @kerasrec.recursive
    def chosen(n):
        return kerasrec.cond(n < 1, lambda: OPERATIONS[n], lambda: other[n])(n)

    with pytest.raises(
        kerasrec.SignatureError,
        match=r"(?s)one of kerasrec\.functions\(\[square, fib, increment\]\).*one of kerasrec\."
        r"functions\(\[increment\]\).*function values of one table",
    ):
        chosen(3)


@pytest.mark.many
def test_a_value_that_captures_itself_grows_without_end():
    @kerasrec.recursive
    def f(n, then):
        grown = kerasrec.functions([lambda x: then(x * n), lambda x: then(x + n)])
        return kerasrec.cond(n < 1, lambda: then(1), lambda: f(n - 1, grown[n % 2]))

    with pytest.raises(kerasrec.TraceError, match="captures another one of the same lines"):
        f(3, OPERATIONS[2])


@pytest.mark.many
def test_rows_are_not_captured():
    @kerasrec.recursive
    def made(node):
        below = kerasrec.map_fn(lambda child: child, tf.gather(CHILDREN, node))
        return kerasrec.functions([lambda x: x + tf.reduce_sum(below, axis=1)])[0]

    with pytest.raises(kerasrec.TraceError, match=r"captures rows of its call, a tf\.RaggedTensor"):
        kerasrec.recursive(lambda node: made(node)(node))(0)


@pytest.mark.slow
def test_a_call_from_outside_is_an_error():
    with pytest.raises(kerasrec.TraceError, match=r"was called outside a recursive function"):
        OPERATIONS[0](3)


@kerasrec.recursive
def pick(flag, n, x):
    return kerasrec.cond(flag, lambda: n, lambda: x() if callable(x) else x)


@pytest.mark.slow
def test_what_nobody_reads_is_not_computed():
    """The call of pick, and of the function that calls it; fib(10) by itself makes 177."""

    @kerasrec.recursive
    def eager(n, flag):
        return pick(flag, n, fib(n))

    @kerasrec.recursive
    def on_demand(n, flag):
        return pick(flag, n, kerasrec.lazy(lambda: fib(n)))

    assert eager.run_trace(10, True).num_calls == 179
    assert on_demand.run_trace(10, True).num_calls == 2
    assert on_demand.run_trace(10, False).num_calls == 179
    np.testing.assert_array_equal(on_demand([10, 10], [True, False]), [10, 55])


@pytest.mark.slow
def test_what_never_ends_does_no_harm_where_nobody_reads_it():
    @kerasrec.recursive
    def endless(n):
        return kerasrec.cond(n < 0, lambda: n, lambda: 1 + endless(n + 1))

    @kerasrec.recursive
    def safe(n):
        return pick(n > 0, n, kerasrec.lazy(lambda: endless(n)))

    np.testing.assert_array_equal(safe([1, 2]), [1, 2])


@pytest.mark.slow
def test_a_copy_has_computed_nothing():
    later = kerasrec.lazy(lambda: 3)

    @kerasrec.recursive
    def f(n, x):
        return n + x()

    assert f(1, later) == f(1, copy.copy(later)) == f(1, copy.deepcopy(later)) == 4


@pytest.mark.slow
def test_within_a_branch_it_is_computed_once():
    """And once in each of two branches that exclude each other, which do not see each other."""

    @kerasrec.recursive
    def f(n):
        x = kerasrec.lazy(lambda: fib(n))

        def reads_twice():
            return x() + kerasrec.cond(n > 3, lambda: x(), lambda: -x())

        return kerasrec.cond(n < 2, lambda: x() + x(), reads_twice)

    np.testing.assert_array_equal(f([1, 3, 4, 10]), [2, 0, 6, 110])
    assert f.run_trace(10).num_calls == 178
    assert f.run_trace(1).num_calls == 2


@pytest.mark.many
def test_what_is_not_lazy():
    @kerasrec.recursive
    def f(n):
        return kerasrec.lazy(fib(n))()

    with pytest.raises(kerasrec.SignatureError, match=r"lazy at .*, which is computed already"):
        f(3)

    with pytest.raises(kerasrec.TraceError, match="outside a recursive function"):
        kerasrec.lazy(lambda: 3)()


# The result of a lazy value is passed on.


@kerasrec.recursive
def sum_of_reads(n, x):
    return kerasrec.cond(n == 0, lambda: 0.0, lambda: x() + sum_of_reads(n - 1, x))


@pytest.mark.many
def test_a_value_that_was_read_is_passed_on_as_it_is():
    """Only fib(10) makes 177 calls. Nobody reads the value for n = 0, and it is not computed."""

    @kerasrec.recursive
    def walk(n, x):
        return kerasrec.cond(n == 0, lambda: n, lambda: x() + walk(n - 1, x))

    @kerasrec.recursive
    def start(n, m):
        return walk(n, kerasrec.lazy(lambda: fib(m)))

    np.testing.assert_array_equal(start([4, 0, 1], [10, 10, 5]), [220, 0, 5])
    assert start.run_trace(4, 10).num_calls == 1 + 5 + 177
    assert start.run_trace(0, 10).calls["fib"] == 0


@pytest.mark.many
def test_each_branch_passes_on_what_it_has_computed():
    @kerasrec.recursive
    def below(n, x):
        return kerasrec.cond(n == 0, lambda: x(), lambda: below(n - 1, x) + below(n - 1, x))

    @kerasrec.recursive
    def start(n, m, reads):
        x = kerasrec.lazy(lambda: fib(m))
        return kerasrec.cond(reads, lambda: x() + below(n, x), lambda: below(n, x))

    np.testing.assert_array_equal(start([2, 2], [10, 10], [True, False]), [275, 220])
    assert start.run_trace(2, 10, True).calls["fib"] == 177
    assert start.run_trace(2, 10, False).calls["fib"] == 4 * 177


@pytest.mark.many
@pytest.mark.parametrize("engine", ["waves", "compiled", "scalar"])
def test_gradients_of_a_value_that_is_passed_on(engine):
    @kerasrec.recursive(engine=engine)
    def start(n, y):
        return sum_of_reads(n, kerasrec.lazy(lambda: tf.exp(y)))

    y = tf.constant([1.0, 0.5])
    with tf.GradientTape() as tape:
        tape.watch(y)
        total = start([3, 0], y)
    np.testing.assert_allclose(total, [3 * np.exp(1.0), 0], rtol=1e-6)
    np.testing.assert_allclose(tape.gradient(total, y), [3 * np.exp(1.0), 0], rtol=1e-6)


@pytest.mark.many
def test_rows_are_computed_again_and_memo_passes_on_nothing():
    @kerasrec.recursive
    def rows_sum(n, x):
        return kerasrec.cond(
            n == 0, lambda: n, lambda: tf.reduce_sum(x(), axis=1) + rows_sum(n - 1, x)
        )

    @kerasrec.recursive
    def start(n):
        return rows_sum(
            n,
            kerasrec.lazy(
                lambda: tf.RaggedTensor.from_row_lengths(tf.ones_like(tf.repeat(n, n)), n)
            ),
        )

    np.testing.assert_array_equal(start([2, 3]), [4, 9])

    @kerasrec.recursive(memo=True)
    def with_memo(n, m):
        return sum_of_reads(n, kerasrec.lazy(lambda: tf.cast(fib(m), tf.float32)))

    np.testing.assert_array_equal(with_memo([4, 2], [10, 5]), [220, 10])


@pytest.mark.many
@pytest.mark.parametrize(("memo", "calls"), [(False, 5 * 177), (True, 11)])
def test_siblings_that_read_a_value_share_its_calls_with_memo(memo, calls):
    @kerasrec.recursive(memo=memo)
    def fib(n):
        return kerasrec.cond(n < 2, lambda: n, lambda: fib(n - 1) + fib(n - 2))

    @kerasrec.recursive(memo=memo)
    def below(n, x):
        return kerasrec.cond(n < 2, lambda: x(), lambda: below(n - 1, x) + below(n - 2, x))

    @kerasrec.recursive(memo=memo)
    def start(n, m):
        return below(n, kerasrec.lazy(lambda: fib(m)))

    assert start(4, 10).numpy() == 5 * 55
    assert start.run_trace(4, 10).calls["fib"] == calls


@pytest.mark.many
def test_a_new_one_for_each_call_is_refused_with_a_way_out():
    @kerasrec.recursive
    def last(n, x):
        return kerasrec.cond(
            n == 0, lambda: x(), lambda: last(n - 1, kerasrec.lazy(lambda: fib(n)))
        )

    @kerasrec.recursive
    def start(n):
        return last(n, kerasrec.lazy(lambda: fib(n)))

    with pytest.raises(kerasrec.TraceError, match=r"or pass kerasrec.functions\(\[...\]\)\[0\]"):
        start(3)

    def later(n):
        return kerasrec.functions([lambda: fib(n)])[0]

    @kerasrec.recursive
    def last_value(n, x):
        return kerasrec.cond(n == 0, lambda: x(), lambda: last_value(n - 1, later(n)))

    @kerasrec.recursive
    def start_value(n):
        return last_value(n, later(n))

    np.testing.assert_array_equal(start_value([0, 3, 8]), [0, 1, 1])
