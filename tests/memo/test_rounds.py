"""Equal calls are one call where results decide which calls are made, against plain Python."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.graph.interpreter import interpret
from tests.memo.cases import at
from tests.memo.helpers import differences, gradients, with_options
from tests.memo.rounds import ROUNDS, hofstadter_g, hofstadter_q, plain_hofstadter_q, tak


def each(cases, *quick, many=()):
    """Parametrizes a test with cases; those that are not named are slow."""
    marks = dict.fromkeys(many, pytest.mark.many) | dict.fromkeys(quick, ())
    return pytest.mark.parametrize(
        "case",
        [
            pytest.param(case, id=case.name, marks=marks.get(case.name, pytest.mark.slow))
            for case in cases
        ],
    )


_OF_FLOATS = [case for case in ROUNDS if case.arguments[0].dtype == np.float64]


def _weights(values):
    return np.random.default_rng(1).normal(size=values.shape)


@each(ROUNDS, "tak")
def test_values_and_calls(case):
    expected, calls = case.expected(case.arguments)
    np.testing.assert_allclose(case.function(*case.arguments), expected, rtol=1e-9)
    made = case.function.run_trace(*case.arguments).calls
    assert sum(count for name, count in made.items() if name != "loop") == calls
    alike = tuple(np.repeat(array[:1], 2, axis=0) for array in case.arguments)
    np.testing.assert_allclose(case.function(*alike), np.repeat(expected[:1], 2), rtol=1e-9)


@each(_OF_FLOATS, "weight", many=["chart_by_loop"])
def test_gradients(case):
    expected = case.expected(case.arguments)[0]
    (found,) = gradients(case.function, case.arguments, _weights(expected))
    np.testing.assert_allclose(found, differences(case, _weights(expected), 0), atol=1e-5)


@each(ROUNDS, many=["hofstadter_g", "weight"])
def test_the_interpreter_agrees(case):
    expected = case.expected(case.arguments)[0]
    if case not in _OF_FLOATS:
        found = interpret(case.function.tagged_graph(*case.arguments), case.arguments)
    else:
        extended = case.function.extended_graph(*case.arguments)
        found = interpret(extended, case.arguments, [_weights(expected)])
        (gradient,) = gradients(case.function, case.arguments, _weights(expected))
        np.testing.assert_allclose(found.gradients[0], gradient, atol=1e-9)
    np.testing.assert_allclose(found.outputs[0], expected, rtol=1e-9)
    assert found.fired_under_tag == 1


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"recompute": True}, {"parallel_tokens": 2}], ids=str)
@each(_OF_FLOATS, many=["float_decides"])
def test_options(case, options):
    expected = case.expected(case.arguments)[0]
    function = with_options(case.function, **options)
    np.testing.assert_allclose(function(*case.arguments), expected, rtol=1e-9)
    found = gradients(function, case.arguments, _weights(expected))
    usual = gradients(case.function, case.arguments, _weights(expected))
    np.testing.assert_allclose(found, usual, atol=1e-9)


@each([case for case in _OF_FLOATS if case.name in ("weight", "chart_by_loop")], many=["weight"])
def test_second_derivative(case):
    """The Hessian in a direction, against differences of gradients."""
    x, *rest = map(tf.constant, case.arguments)
    direction = tf.constant(np.random.default_rng(2).normal(size=x.shape))
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            total = tf.reduce_sum(case.function(x, *rest))
        slope = tf.reduce_sum(inner.gradient(total, x) * direction)
    found = outer.gradient(slope, x)
    (up,), (down,) = (
        gradients(case.function, (x + sign * 1e-5 * direction, *rest), np.ones(3))
        for sign in (1, -1)
    )
    np.testing.assert_allclose(found, (up - down) / 2e-5, atol=1e-6)


@pytest.mark.many
def test_calls_are_few():
    """Without `memo`, 30 would make 9,229,053 calls, and 60 more than 10 ** 13."""
    find = plain_hofstadter_q()
    trace = hofstadter_q.run_trace(60)
    assert hofstadter_q(60).numpy() == find(60)
    assert trace.num_calls == find.cache_info().misses == 60
    assert trace.num_shared == find.cache_info().hits


@pytest.mark.many
def test_calls_of_a_whole_batch():
    table = tf.Variable([2.0, 3.0, 0.5], dtype=tf.float64)

    @kerasrec.recursive(memo="batch")
    def pair(n):
        """Hofstadter's G sequence, and a product of floats."""

        def inside():
            before, _ = pair(n - 1)
            below, x = pair(before)
            return n - below, tf.sin(x) + tf.gather(table, n % 3)

        return kerasrec.cond(n < 1, lambda: (n, tf.gather(table, n)), inside)

    def plain(n):
        if n < 1:
            return n, table[n]
        below, x = plain(plain(n - 1)[0])
        return n - below, tf.sin(x) + table[n % 3]

    roots = np.int32([6, 9, 6])
    with tf.GradientTape(persistent=True) as tape:
        found = pair(roots)
        expected = [plain(int(n)) for n in roots]
        losses = [
            tf.reduce_sum(values * tf.constant([1.0, 2.0, 3.0], tf.float64))
            for values in (found[1], tf.stack([x for _, x in expected]))
        ]
    assert found[0].numpy().tolist() == [n for n, _ in expected]
    slopes = [tf.convert_to_tensor(tape.gradient(loss, table)) for loss in losses]
    np.testing.assert_allclose(*slopes)
    assert pair.run_trace(roots).num_calls == 10


@pytest.mark.many
def test_a_call_that_needs_itself():
    @kerasrec.recursive(memo=True)
    def cycle(text, n):
        def inside():
            return odd(text, cycle(text, (n + 1) % 3))

        return kerasrec.cond(n < 0, lambda: tf.strings.length(text), inside)

    @kerasrec.recursive(memo=True)
    def odd(text, n):
        return kerasrec.cond(n < 0, lambda: n, lambda: cycle(text, n - 1))

    assert cycle(["a", "bc"], [-1, -2]).numpy().tolist() == [1, 2]
    message = r"cycle\(text=b, n=\d\) needs cycle\(text=b, n=\d\) needs cycle\(text=b"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        cycle(["a", "b"], [-1, 2])


@pytest.mark.slow
def test_a_loop_of_vectors_that_needs_itself():
    @kerasrec.recursive(memo=True)
    def f(x, n):
        def step(k, y):
            return k + 1, y * f(x, (n + 1) % 3)

        _, y = kerasrec.while_loop(lambda k, _: k < n + 1, step, (n, x))
        return y

    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"f\(n=\d\) needs loop\(k=\d, .* needs f\(n=\d\) "
    ):
        f([[1.0, 2.0]], [0])


@pytest.mark.slow
def test_calls_without_end():
    @kerasrec.recursive(memo=True, max_depth=50)
    def endless(n):
        return kerasrec.cond(n < 0, lambda: n, lambda: endless(endless(n + 1)))

    with pytest.raises(tf.errors.InvalidArgumentError, match="max_depth=50"):
        endless(1)


@pytest.mark.slow
def test_export_and_tables(tmp_path):
    @kerasrec.recursive(memo=True)
    def f(x, n):
        below, _ = kerasrec.cond(n < 1, lambda: (n, x), lambda: f(x, n - 1))
        kerasrec.collect("n", n)
        return kerasrec.cond(
            n < 1, lambda: (n, x), lambda: (n - f(x, below)[0], f(x, below)[1] * 1.5)
        )

    class Model(tf.Module):
        @tf.function(
            input_signature=[tf.TensorSpec([None], tf.float64), tf.TensorSpec([None], tf.int32)]
        )
        def serve(self, x, n):
            return f(x, n)

    x, n = np.float64([0.5, 2.0]), np.int32([6, 11])
    tf.saved_model.save(Model(), str(tmp_path))
    loaded, (found, collected) = (
        tf.saved_model.load(str(tmp_path)).serve(x, n),
        f.with_collected(x, n),
    )
    assert found[0].numpy().tolist() == hofstadter_g(n).numpy().tolist()
    for one, other in zip(loaded, found, strict=True):
        np.testing.assert_allclose(one, other)
    assert sorted(collected["n"].numpy().tolist()) == sorted([*range(7), *range(12)])


@pytest.mark.slow
def test_draws_may_decide():
    """Nothing runs twice, so a draw may decide: each number is passed or not, but only once."""

    @kerasrec.recursive(memo=True)
    def f(n):
        step = tf.random.uniform(tf.shape(n), 1, 3, tf.int32)
        return kerasrec.cond(n < 1, lambda: n, lambda: f(0 * f(n - step) + n - step) - f(n - step))

    assert f([3, 40]).numpy().tolist() == [0, 0]


@pytest.mark.slow
def test_in_half_precision():
    """The cotangents of a call with many callers are summed in float32."""

    @kerasrec.recursive(memo=True)
    def f(x, n):
        def inside():
            below = kerasrec.map_fn(lambda k: f(x, 0 * k), tf.ragged.range(hofstadter_g(n)))
            return tf.reduce_sum(below, axis=1)

        return kerasrec.cond(n < 1, lambda: at(x, n), inside)

    (found,) = gradients(f, (np.float16([[0.5]]), np.int32([5000])), np.float16([1.0]))
    assert found.tolist() == [[hofstadter_g(5000).numpy()]]


def test_what_cannot_be_compiled_says_so():
    function = with_options(tak, engine="compiled")
    with pytest.raises(kerasrec.TraceError, match="its calls are known only as it runs"):
        function(6, 4, 2)
    assert "in queues, since memo=True" in str(tak.execution_plan(6, 4, 2))
