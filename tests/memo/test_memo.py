"""Programs in which equal calls are one call, against `functools.cache` and differences."""

from __future__ import annotations

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.graph.interpreter import interpret
from tests.memo.cases import CASES, RULES, TRANSITIONS, at, distance, fib
from tests.memo.helpers import differences, gradients, with_options

_FIRST, *_OTHERS = CASES
_FIND_GRADIENTS = [case for case in CASES if any(a.dtype == np.float64 for a in case.arguments)]


def each(cases, many):
    """Parametrizes a test with cases; those that are not named as `many` are slow."""
    marks = dict.fromkeys(many, pytest.mark.many)
    return pytest.mark.parametrize(
        "case",
        [
            pytest.param(case, id=case.name, marks=marks.get(case.name, pytest.mark.slow))
            for case in cases
        ],
    )


@each(CASES, many=["knapsack"])
def test_values_and_calls(case):
    expected, calls = case.expected(case.arguments)
    np.testing.assert_allclose(case.function(*case.arguments), expected, rtol=1e-9)
    assert sum(case.function.run_trace(*case.arguments).calls.values()) == calls
    first = tuple(array[:1] for array in case.arguments)
    np.testing.assert_allclose(case.function(*first), expected[:1], rtol=1e-9)
    alike = tuple(np.repeat(array[:1], 3, axis=0) for array in case.arguments)
    np.testing.assert_allclose(case.function(*alike), np.repeat(expected[:1], 3, 0), rtol=1e-9)


@each(_FIND_GRADIENTS, many=[])
def test_gradients(case):
    values = case.expected(case.arguments)[0]
    weights = np.random.default_rng(1).normal(size=values.shape)
    found = gradients(case.function, case.arguments, weights)
    places = [place for place, array in enumerate(case.arguments) if array.dtype == np.float64]
    for place, gradient in zip(places, found, strict=True):
        np.testing.assert_allclose(gradient, differences(case, weights, place), atol=1e-5)


@pytest.mark.many
@each(_FIND_GRADIENTS, many=["knapsack"])
def test_the_interpreter_agrees(case):
    values = case.expected(case.arguments)[0]
    weights = np.random.default_rng(1).normal(size=values.shape)
    extended = case.function.extended_graph(*case.arguments)
    found = interpret(extended, case.arguments, [weights])
    np.testing.assert_allclose(found.outputs[0], values, rtol=1e-9)
    assert found.fired_under_tag == 1
    floats = [
        gradient
        for gradient, array in zip(found.gradients, case.arguments, strict=True)
        if array.dtype == np.float64
    ]
    expected = gradients(case.function, case.arguments, weights)
    for one, other in zip(floats, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"recompute": True},
        pytest.param({"parallel_tokens": 3}, marks=pytest.mark.slow),
    ],
    ids=str,
)
@each(_FIND_GRADIENTS, many=["knapsack"])
def test_options(case, options):
    values = case.expected(case.arguments)[0]
    weights = np.random.default_rng(1).normal(size=values.shape)
    found = with_options(case.function, **options)
    np.testing.assert_allclose(found(*case.arguments), values, rtol=1e-9)
    expected = gradients(case.function, case.arguments, weights)
    for one, other in zip(gradients(found, case.arguments, weights), expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


@pytest.mark.many
def test_a_run_of_one_level_in_a_graph():
    """TensorFlow's optimizer took the rows before the first level for those of all."""

    @kerasrec.recursive(memo=True, parallel_tokens=2)
    def f(x, n):
        return kerasrec.cond(n < 1, lambda: at(x, n), lambda: f(x, n - 1))

    @tf.function
    def gradient(x, n):
        with tf.GradientTape() as tape:
            tape.watch(x)
            found = f(x, n)
        return tf.convert_to_tensor(tape.gradient(found, x))

    x = tf.constant([[1.0, 2.0]])
    assert gradient(x, tf.constant([0])).numpy().tolist() == [[1.0, 0.0]]
    assert gradient(x, tf.constant([2])).numpy().tolist() == [[1.0, 0.0]]


@pytest.mark.many
def test_many_calls_are_few():
    assert fib(np.int64(90)).numpy() == 2880067194370816120
    trace = fib.run_trace(np.int64(90))
    assert trace.calls == {"fib": 91}
    # Of the two calls of each of 89, all but 90 were made before.
    assert trace.num_shared == 2 * 89 - 90
    assert "88 more calls reused the result of an equal one" in str(trace)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "variable"),
    [("inside", RULES), pytest.param("hidden Markov", TRANSITIONS, marks=pytest.mark.many)],
)
def test_gradients_of_variables(case, variable):
    (case,) = [item for item in CASES if item.name == case]
    values = case.expected(case.arguments)[0]
    weights = np.random.default_rng(1).normal(size=values.shape)
    *_, found = gradients(case.function, case.arguments, weights, [variable])
    before = variable.numpy()
    try:
        for index in np.ndindex(before.shape):
            losses = []
            for step in (1e-6, -1e-6):
                moved = before.copy()
                moved[index] += step
                variable.assign(moved)
                losses.append(np.sum(case.expected(case.arguments)[0] * weights))
            assert found[index] == pytest.approx((losses[0] - losses[1]) / 2e-6, abs=1e-5)
    finally:
        variable.assign(before)


@pytest.mark.slow
def test_second_derivative():
    """The Hessian of a soft edit distance in one of its costs, against differences of gradients."""
    case = next(case for case in CASES if case.name == "edit distance")
    a, b, costs, i, j = map(tf.constant, case.arguments)
    direction = tf.constant(np.random.default_rng(2).normal(size=costs.shape))
    with tf.GradientTape() as outer:
        outer.watch(costs)
        with tf.GradientTape() as inner:
            inner.watch(costs)
            total = tf.reduce_sum(distance(a, b, costs, i, j))
        slope = tf.reduce_sum(inner.gradient(total, costs) * direction)
    found = outer.gradient(slope, costs)
    weights = np.ones(2)
    (up,) = gradients(distance, (a, b, costs + 1e-5 * direction, i, j), weights)
    (down,) = gradients(distance, (a, b, costs - 1e-5 * direction, i, j), weights)
    np.testing.assert_allclose(found, (up - down) / 2e-5, atol=1e-6)


@pytest.mark.slow
def test_calls_of_a_whole_batch():
    @kerasrec.recursive(memo="batch")
    def f(n):
        tf.debugging.assert_less(n, 50)
        return kerasrec.cond(n < 2, lambda: n, lambda: f(n - 1) + f(n - 2))

    roots = np.int32([5, 6, 7, 5])
    assert f(roots).numpy().tolist() == [5, 8, 13, 5]
    assert f.run_trace(roots).num_calls == 8
    assert interpret(f.tagged_graph(roots), [roots]).outputs[0].tolist() == [5, 8, 13, 5]


@pytest.mark.slow
def test_gradients_of_a_whole_batch():
    table = tf.Variable([2.0, 3.0])

    @kerasrec.recursive(memo="batch")
    def f(n):
        return kerasrec.cond(n < 2, lambda: tf.gather(table, n), lambda: f(n - 1) * f(n - 2))

    def plain(n):
        return table[n] if n < 2 else plain(n - 1) * plain(n - 2)

    with tf.GradientTape(persistent=True) as tape:
        found = tf.reduce_sum(f([4, 5, 4]) * [1.0, 2.0, 3.0])
        expected = plain(4) + 2.0 * plain(5) + 3.0 * plain(4)
    assert found.numpy() == expected.numpy()
    one, other = (tf.convert_to_tensor(tape.gradient(item, table)) for item in (found, expected))
    np.testing.assert_allclose(one, other)


@pytest.mark.many
def test_gradients_that_read_what_all_calls_have_in_common():
    """The gradient of `tf.nn.silu` reads tensors of its function's trace."""

    @kerasrec.recursive(memo=True)
    def f(x, n):
        def inside():
            return f(x, n - 1) + tf.nn.silu(at(x, n % 2)) * f(x, n - 2)

        return kerasrec.cond(n < 1, lambda: tf.reduce_sum(tf.nn.silu(x), axis=1), inside)

    def plain(x, n):
        if n < 1:
            return tf.reduce_sum(tf.nn.silu(x))
        return plain(x, n - 1) + tf.nn.silu(x[n % 2]) * plain(x, n - 2)

    x, n = tf.constant([[0.5, 1.0], [-0.3, 2.0]], tf.float64), [4, 3]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        found = tf.reduce_sum(f(x, n))
        expected = plain(x[0], 4) + plain(x[1], 3)
    np.testing.assert_allclose(tape.gradient(found, x), tape.gradient(expected, x))


def test_what_differs_by_root_is_refused_for_a_batch():
    @kerasrec.recursive(memo="batch")
    def f(x, n):
        return kerasrec.cond(n < 1, lambda: x, lambda: f(x, n - 1))

    with pytest.raises(kerasrec.TraceError, match=r"memo='batch'.*takes 'x' \(f32\[\]\)"):
        f(1.0, 3)
    with pytest.raises(kerasrec.TraceError, match="memo is 'all'"):
        kerasrec.recursive(memo="all")(lambda n: n)


@pytest.mark.slow
def test_no_tokens():
    assert fib(np.zeros([0], np.int32)).shape == [0]


@pytest.mark.many
def test_strings_and_bools_tell_calls_apart():
    @kerasrec.recursive(memo=True)
    def length(text, is_long, n):
        def longer():
            more = tf.where(is_long, "ab", "a")
            return length(tf.strings.join([text, more]), ~is_long, n - 1) + length(
                text, is_long, n - 1
            )

        return kerasrec.cond(n < 1, lambda: tf.strings.length(text), longer)

    def plain(text, is_long, n):
        if n < 1:
            return len(text)
        more = text + ("ab" if is_long else "a")
        return plain(more, not is_long, n - 1) + plain(text, is_long, n - 1)

    found = length(["", "xy"], [True, False], [3, 4])
    assert found.numpy().tolist() == [plain("", True, 3), plain("xy", False, 4)]


@pytest.mark.slow
def test_mutual_recursion():
    @kerasrec.recursive(memo=True)
    def even(x, n):
        return kerasrec.cond(n == 0, lambda: at(x, n), lambda: odd(n - 1, x) + odd(n - 2, x))

    @kerasrec.recursive(memo=True)
    def odd(n, x):
        return kerasrec.cond(n < 1, lambda: 2.0 * at(x, tf.zeros_like(n)), lambda: even(x, n - 1))

    def plain_even(x, n):
        return x[0] if n == 0 else plain_odd(n - 1, x) + plain_odd(n - 2, x)

    def plain_odd(n, x):
        return 2 * x[0] if n < 1 else plain_even(x, n - 1)

    x = np.float32([[1.5], [2.0]])
    expected = [plain_even(x[0], 9), plain_even(x[1], 4)]
    assert even(x, [9, 4]).numpy().tolist() == expected
    found = interpret(even.extended_graph(x, [9, 4]), [x, np.int32([9, 4])], [np.float32([1, 1])])
    assert found.outputs[0].tolist() == expected
    # It is linear in x.
    np.testing.assert_allclose(found.gradients[0][:, 0], expected / x[:, 0])


@pytest.mark.slow
def test_what_is_collected_is_there_once():
    @kerasrec.recursive(memo=True)
    def f(n):
        kerasrec.collect("n", n)
        return kerasrec.cond(n < 2, lambda: n, lambda: f(n - 1) + f(n - 2))

    _, collected = f.with_collected(6)
    assert sorted(collected["n"].numpy().tolist()) == list(range(7))


@pytest.mark.slow
def test_dropped_results_of_equal_calls():
    """One caller reads both results of a call, another one of them."""

    @kerasrec.recursive(memo=True)
    def pair(x, n):
        def below():
            one, other = pair(x, n - 1)
            _, third = pair(x, n - 2)
            return tf.sin(one * other), other + third * one

        return kerasrec.cond(n < 1, lambda: (at(x, tf.zeros_like(n)), at(x, -n)), below)

    def plain(x, n):
        if n < 1:
            return x[0], x[-n]
        (one, other), (_, third) = plain(x, n - 1), plain(x, n - 2)
        return tf.sin(one * other), other + third * one

    x = tf.constant([[0.7, 1.2]], tf.float64)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        found = pair(x, [5])
        expected = plain(x[0], 5)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one[0], other, rtol=1e-12)
        np.testing.assert_allclose(
            tf.convert_to_tensor(tape.gradient(one, x)), tape.gradient(other, x), rtol=1e-12
        )


@pytest.mark.slow
def test_export(tmp_path):
    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 4, 4], tf.float64)])
        def serve(self, costs):
            corner = tf.fill(tf.shape(costs)[:1], 3)
            (case,) = [case for case in CASES if case.name == "grid paths"]
            return case.function(costs, corner, corner)

    model, costs = Model(), np.random.default_rng(3).uniform(size=[3, 4, 4])
    tf.saved_model.save(model, str(tmp_path))
    found = tf.saved_model.load(str(tmp_path)).serve(costs)
    np.testing.assert_allclose(found, model.serve(costs))


@pytest.mark.many
def test_a_call_that_needs_itself():
    @kerasrec.recursive(memo=True)
    def cycle(n, k):
        return kerasrec.cond(n < 0, lambda: k, lambda: cycle((n + 1) % 3, k) + cycle(n - 1, k))

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"cycle\(n=\d, k=7\) needs cycle"):
        cycle([1, 2], [7, 7])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\(n=\d, k=7\) needs cycle"):
        interpret(cycle.tagged_graph(1, 7), [np.int32([1]), np.int32([7])])


@pytest.mark.slow
def test_calls_without_end():
    @kerasrec.recursive(memo=True, max_depth=50)
    def endless(n):
        return kerasrec.cond(n < 0, lambda: n, lambda: endless(n + 1))

    message = r"max_depth=50[^$]*: endless\(n=51\)\."
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        endless(1)


def test_calls_that_make_one_call_are_not_looked_up():
    """No two calls of a root are equal then, whichever functions they call."""

    @kerasrec.recursive(memo=True, max_depth=40)
    def f(x, n):
        return kerasrec.cond(n < 1, lambda: at(x, n), lambda: g(x, n - 1) * at(x, n))

    @kerasrec.recursive(memo=True)
    def g(x, n):
        step = tf.where(n == 4, -1, 1)  # Here g(4) needs itself.
        return kerasrec.cond(n < 2, lambda: tf.ones([]), lambda: 1.0 + f(x, n - step))

    def plain(x, n):
        if n < 1:
            return x[n]
        return x[n] * (1.0 + plain(x, n - 2) if n > 2 else 1.0)

    x, n = tf.constant(np.random.default_rng(0).normal(size=[2, 6]), tf.float32), [3, 2]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        found, expected = f(x, n), tf.stack([plain(x[row], n[row]) for row in range(2)])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    slopes = [tf.convert_to_tensor(tape.gradient(value, x)) for value in (found, expected)]
    np.testing.assert_allclose(*slopes, rtol=1e-6)
    assert "no calls can be equal" in str(f.execution_plan(x, n))
    assert f.run_trace(x, n).calls == {"f": 3, "g": 3}
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"max_depth=40[^$]*: f\(n=5\)\."):
        f(x, [1, 5])


def test_a_float_that_varies_is_refused():
    @kerasrec.recursive(memo=True)
    def f(x, n):
        return kerasrec.cond(n < 1, lambda: x, lambda: f(2.0 * x, n - 1))

    with pytest.raises(kerasrec.TraceError, match=r"another 'x' \(f32\[\]\).*memo=True"):
        f(1.0, 3)


@pytest.mark.many
def test_what_is_passed_on_unchanged_is_known_to_be():
    @kerasrec.recursive(memo=True)
    def f(x, n):
        same = kerasrec.cond(n > 2, lambda: tf.identity(x), lambda: x)
        return kerasrec.cond(n < 1, lambda: x, lambda: f(tf.identity(same), n - 1))

    assert f([1.5, 2.5], [4, 0]).numpy().tolist() == [1.5, 2.5]


def test_axes_of_tables_may_be_open():
    @kerasrec.recursive(memo=True)
    def f(x, n):
        row = tf.cumsum(x, axis=1)  # A body may also read a whole row.

        def below():
            chosen = kerasrec.cond(n > 2, lambda: row, lambda: x)
            return f(x, n - 1) * at(chosen, n) + f(x, n // 2) * tf.reduce_max(x, axis=1)

        return kerasrec.cond(n < 1, lambda: at(row, n), below)

    def plain(x, n):
        row = tf.cumsum(x)
        if n < 1:
            return row[n]
        chosen = row if n > 2 else x
        return plain(x, n - 1) * chosen[n] + plain(x, n // 2) * tf.reduce_max(x)

    @tf.function(input_signature=[tf.TensorSpec([None, None]), tf.TensorSpec([None], tf.int32)])
    def gradient(x, n):
        with tf.GradientTape() as tape:
            tape.watch(x)
            found = f(x, n)
        return found, tf.convert_to_tensor(tape.gradient(found, x))

    for length in (3, 5):
        x = tf.constant(np.random.default_rng(length).normal(size=[2, length]), tf.float32)
        n = [length - 1, 1]
        with tf.GradientTape() as tape:
            tape.watch(x)
            expected = tf.stack([plain(x[row], n[row]) for row in range(2)])
        found, slopes = gradient(x, tf.constant(n))
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        np.testing.assert_allclose(slopes, tape.gradient(expected, x), rtol=1e-5, atol=1e-6)


def test_a_result_of_open_shape_is_refused():
    @kerasrec.recursive(memo=True)
    def f(x, n):
        return kerasrec.cond(n < 1, lambda: x, lambda: f(x, n - 1) + 1.0)

    @tf.function(input_signature=[tf.TensorSpec([None, None])])
    def call(x):
        return f(x, 2)

    with pytest.raises(
        kerasrec.SignatureError, match=r"Output 0 of f has an open shape, f32\[\?\]"
    ):
        call(tf.zeros([1, 3]))


@pytest.mark.many
def test_a_keras_model_with_batches_of_different_lengths():
    class Total(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.supports_jit = False
            self.moves = self.add_weight(shape=[3, 3], initializer="normal")

        @kerasrec.recursive(memo=True)
        def forward(self, scores, n):
            def step():
                before = self.forward(scores, n - 1)[:, :, tf.newaxis] + self.moves
                return tf.reduce_logsumexp(before, axis=1) + at(scores, n)

            return kerasrec.cond(n < 1, lambda: at(scores, n), step)

        def call(self, scores):
            lengths = tf.fill(tf.shape(scores)[:1], tf.shape(scores)[1])
            return self.forward(scores, lengths - 1)

    scores = keras.Input([None, 3])
    model = keras.Model(scores, Total()(scores))
    model.compile("sgd", "mse")
    assert model.output_shape == (None, 3)
    dataset = tf.data.Dataset.from_generator(
        lambda: ((np.ones([2, length, 3]), np.ones([2, 3])) for length in (4, 2, 6)),
        output_signature=(tf.TensorSpec([None, None, 3]), tf.TensorSpec([None, 3])),
    )
    model.fit(dataset.repeat(2), steps_per_epoch=6, verbose=0)
    moves = model.layers[-1].moves.numpy()
    expected = scores = np.float32([0.5, -1.0, 2.0])
    for _ in range(4):
        expected = np.logaddexp.reduce(expected[:, np.newaxis] + moves) + scores
    found = model.predict(np.tile(scores, [2, 5, 1]), verbose=0)
    np.testing.assert_allclose(found, [expected] * 2, rtol=1e-5)


@pytest.mark.parametrize(
    "draw",
    [
        lambda n: tf.random.uniform(tf.shape(n), 1, 3, tf.int32),
        lambda n: tf.random.stateless_uniform(tf.shape(n), [1, 2], 1, 3, tf.int32),
        lambda n: tf.ensure_shape(tf.numpy_function(lambda n: n, [n], tf.int32), [None]),
    ],
    ids=["random", "stateless", "numpy_function"],
)
def test_draws_that_decide_are_refused(draw):
    @kerasrec.recursive(memo=True)
    def key(n):
        return kerasrec.cond(n < 1, lambda: n, lambda: key(n - draw(n)))

    @kerasrec.recursive(memo=True)
    def choice(n):
        return kerasrec.cond(draw(n) + n < 2, lambda: n, lambda: choice(n - 1))

    for function in (key, choice):
        with pytest.raises(kerasrec.TraceError, match="decides which calls there are"):
            function([3, 4])


@pytest.mark.parametrize("op", ["RandomUniformInt", "StatelessRandomUniformIntV2"])
def test_draws_in_a_conditional_that_decides_are_refused(op):
    is_drawn = tf.Variable(True)

    def draw(n):
        if op == "RandomUniformInt":
            return tf.random.uniform(tf.shape(n), 1, 3, tf.int32)
        return tf.random.stateless_uniform(tf.shape(n), [1, 2], 1, 3, tf.int32)

    @kerasrec.recursive(memo=True)
    def f(n):
        step = tf.cond(is_drawn, lambda: draw(n), lambda: tf.ones_like(n))
        return kerasrec.cond(n < 1, lambda: n, lambda: f(n - step))

    with pytest.raises(
        kerasrec.TraceError, match=rf"{op} at .*test_memo.py:\d+ decides which calls there are"
    ):
        f([3, 4])


def test_conditionals_and_loops_of_tensorflow_may_decide():
    choice, x = tf.Variable(0), tf.Variable([0.5, 1.5, 2.0], dtype=tf.float64)

    def less(n, count):
        return tf.while_loop(lambda i, _: i < count, lambda i, n: (i + 1, n - 1), (0, n))[1]

    @kerasrec.recursive(memo=True)
    def f(n):
        is_leaf = tf.switch_case(choice + 0, [lambda: n < 2, lambda: n < 3])
        second = tf.cond(choice < 1, lambda: n - 2, lambda: n - 3)
        return kerasrec.cond(
            is_leaf, lambda: tf.gather(x, n), lambda: f(less(n, 1)) * f(second) + 1.0
        )

    def plain(n, least):
        return x[n] if n < least else plain(n - 1, least) * plain(n - least, least) + 1.0

    for number in range(2):
        choice.assign(number)
        with tf.GradientTape(persistent=True) as tape:
            found = f([2, 7, 7])
            expected = tf.stack([plain(n, number + 2) for n in (2, 7, 7)])
        np.testing.assert_allclose(found, expected)
        slopes = [tf.convert_to_tensor(tape.gradient(value, x)) for value in (found, expected)]
        np.testing.assert_allclose(*slopes)


@pytest.mark.slow
def test_a_draw_that_decides_nothing_is_made_once():
    @kerasrec.recursive(memo=True)
    def f(n):
        drawn = tf.random.uniform(tf.shape(n))
        return kerasrec.cond(n < 2, lambda: drawn, lambda: f(n - 1) - f(n - 1) + 0.0 * drawn)

    assert f([2, 5]).numpy().tolist() == [0.0, 0.0]


def test_a_function_without_the_option_calls_none_with_it():
    @kerasrec.recursive
    def outer(n):
        return fib(n) + 1

    with pytest.raises(kerasrec.TraceError, match=r"outer calls fib .* give outer memo=True"):
        outer(3)


def test_the_scalar_engine_is_refused():
    @kerasrec.recursive(memo=True, engine="scalar")
    def f(n):
        return kerasrec.cond(n < 2, lambda: n, lambda: f(n - 1) + f(n - 2))

    with pytest.raises(kerasrec.TraceError, match="memo=True"):
        f(3)


@pytest.mark.many
def test_the_plan_says_so():
    assert "memo=True makes equal calls one call" in str(fib.execution_plan(3))
    assert dataclasses.asdict(fib.tagged_graph(3).memo) == {"across_roots": False}
    assert not fib.tagged_graph(3).left_out
