"""Derivatives of derivatives, against nested tapes around plain eager recursion."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.graph.interpreter import interpret
from kerasrec._src.transform.extend import extend
from tests.engine.helpers import (
    assert_same_second,
    cotangents_of,
    is_float,
    result_of,
    run_plain,
    second_gradients,
    traced,
    weights,
)
from tests.parameters import few_of
from tests.programs import each


def by_engine(program, **options):
    run = traced(program, **options)
    return second_gradients(program, lambda inputs: run(*map(tf.constant, inputs)))


def is_differentiable(program):
    return program.has_gradient and not program.is_deep


@pytest.mark.many
@each(is_differentiable, few=["tree_rnn", "many_ways"], many=[])
def test_equal_to_nested_tapes_of_plain_recursion(program):
    found = second_gradients(program, lambda inputs: result_of(program, inputs))
    assert_same_second(program, found)


@each(is_differentiable, few=[], many=[])
def test_in_queues(program):
    assert_same_second(program, by_engine(program, engine="waves", by_queues=True))


@each(is_differentiable, few=[], many=[])
def test_with_what_the_forward_run_computed_recomputed(program):
    assert_same_second(program, by_engine(program, engine="waves", recompute=True))


@pytest.mark.slow
@each(
    lambda program: is_differentiable(program) and not program.sources,
    few=[],
    many=["power", "sum_of_halved", "call_in_argument"],
)
def test_the_interpreter_runs_the_graph_that_was_extended_twice(program):
    plain = run_plain(program)
    given = cotangents_of(plain)
    first, tables = given[: len(plain.outputs)], given[len(plain.outputs) :]
    places = iter(range(len(program.flat_inputs)))
    of_gradients = [
        weights(next(places), item.shape, item.dtype) if is_float(item) else None
        for item in program.flat_inputs
    ]
    none = [np.zeros_like(item) if is_float(item) else None for item in plain.outputs]
    graph = extend(program.function.extended_graph(*program.inputs))
    sums = {(1, name): table for name, table in zip(plain.tables, tables, strict=True)}
    found = interpret(graph, program.flat_inputs, first, of_gradients, none, sums=sums)
    gradients = [
        np.zeros_like(item) if gradient is None else gradient
        for gradient, item in zip(found.sweeps[3], program.flat_inputs, strict=True)
        if is_float(item)
    ]
    assert_same_second(program, gradients)
    assert found.fired_under_tag == 1


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["waves", "scalar"])
def test_third_derivative_of_power(engine):
    @kerasrec.recursive(engine=engine)
    def power(x, n):
        return kerasrec.cond(n == 0, lambda: tf.ones_like(x), lambda: x * power(x, n - 1))

    x = tf.constant([1.5, 0.5], tf.float64)
    with tf.GradientTape() as third:
        third.watch(x)
        with tf.GradientTape() as second:
            second.watch(x)
            with tf.GradientTape() as first:
                first.watch(x)
                y = power(x, [5, 4])
            slope = first.gradient(y, x)
        curvature = second.gradient(slope, x)
    np.testing.assert_allclose(slope, [5 * 1.5**4, 4 * 0.5**3])
    np.testing.assert_allclose(curvature, [20 * 1.5**3, 12 * 0.5**2])
    np.testing.assert_allclose(third.gradient(curvature, x), [60 * 1.5**2, 24 * 0.5])


@pytest.fixture(params=few_of(["waves", "scalar"], many=[]))
def cubes(request):
    @kerasrec.recursive(engine=request.param)
    def power(x, n):
        return kerasrec.cond(n == 0, lambda: tf.ones_like(x), lambda: x * power(x, n - 1))

    return lambda x: power(x, [3, 3])


def test_hessians_jacobians_and_forward_mode(cubes):
    """Other ways in which TensorFlow asks for derivatives."""
    x = tf.constant([1.5, 0.5], tf.float64)
    slopes = 3.0 * x**2

    @tf.function
    def hessians(x):
        return tf.hessians(cubes(x), x)[0]

    np.testing.assert_allclose(hessians(x), np.diag(6.0 * x))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = cubes(x)
    found = tape.jacobian(y, x, experimental_use_pfor=False)
    np.testing.assert_allclose(found, np.diag(slopes))
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as forward:
        y = cubes(x)
    np.testing.assert_allclose(forward.jvp(y), slopes)


@pytest.mark.slow
def test_from_several_threads(cubes):
    """Whoever asks first extends the graph again, once for all."""
    x = tf.constant([1.5, 0.5], tf.float64)
    cubes(x)
    start = threading.Barrier(3)

    def curvature(_):
        start.wait()
        with tf.GradientTape() as second:
            second.watch(x)
            with tf.GradientTape() as first:
                first.watch(x)
                y = cubes(x)
            slope = first.gradient(y, x)
        return second.gradient(slope, x)

    with ThreadPoolExecutor(3) as pool:
        for found in pool.map(curvature, range(3)):
            np.testing.assert_allclose(found, 6.0 * x)


@pytest.mark.slow
def test_inside_a_function():
    """tf.gradients of tf.gradients, where no tape tells beforehand what will be asked for."""

    @kerasrec.recursive
    def power(x, n):
        return kerasrec.cond(n == 0, lambda: tf.ones_like(x), lambda: x * power(x, n - 1))

    @tf.function
    def derivatives(x):
        y = power(x, tf.constant([5]))
        (slope,) = tf.gradients(y, x)
        return slope, *tf.gradients(slope, x)

    slope, curvature = derivatives(tf.constant([1.5], tf.float64))
    np.testing.assert_allclose(slope, [5 * 1.5**4])
    np.testing.assert_allclose(curvature, [20 * 1.5**3])


@pytest.mark.slow
@pytest.mark.parametrize("n", [1_000, 100_000])
def test_depth(n):
    @kerasrec.recursive(engine="waves")
    def power(x, n):
        return kerasrec.cond(n == 0, lambda: tf.ones_like(x), lambda: x * power(x, n - 1))

    x = tf.constant(1 + 1 / n, tf.float64)
    with tf.GradientTape() as second:
        second.watch(x)
        with tf.GradientTape() as first:
            first.watch(x)
            y = power(x, n)
        slope = first.gradient(y, x)
    np.testing.assert_allclose(slope, n * x ** (n - 1))
    np.testing.assert_allclose(second.gradient(slope, x), n * (n - 1) * x ** (n - 2))


TABLE = tf.Variable(np.linspace(0.5, 1.5, 6).reshape(3, 2))


@kerasrec.recursive
def cubes_of_rows(n):
    """Rows 0 and 1 are read twice for n = 4, with different gradients."""
    row = tf.gather(tf.convert_to_tensor(TABLE), n % 3)
    factor = tf.cast(n, tf.float64)[:, tf.newaxis]
    return kerasrec.cond(n == 0, lambda: row**3, lambda: factor * row**3 + cubes_of_rows(n - 1))


def second_gradient_of_rows(of_slope):
    @tf.function
    def run():
        y = cubes_of_rows(tf.constant([4]))
        (slope,) = tf.gradients(y, TABLE.handle)
        assert isinstance(slope, tf.IndexedSlices)
        return tf.convert_to_tensor(tf.gradients(of_slope(slope), TABLE.handle)[0])

    return run()


@pytest.mark.slow
def test_of_a_sparse_gradient():
    found = second_gradient_of_rows(lambda slope: tf.convert_to_tensor(slope) ** 2)
    factors = np.array([[1 + 3], [1 + 4], [2]])
    np.testing.assert_allclose(found, 4 * (3 * factors) ** 2 * TABLE.numpy() ** 3)


@pytest.mark.slow
def test_nan_is_no_reason_to_complain():
    found = second_gradient_of_rows(lambda slope: tf.convert_to_tensor(slope) * np.nan)
    assert np.isnan(found).all()


@pytest.mark.slow
def test_of_the_rows_of_a_sparse_gradient():
    """Each row occurs once, so its square is that of the sum."""
    found = second_gradient_of_rows(lambda slope: slope.values**2)
    factors = np.array([[1 + 3], [1 + 4], [2]])
    np.testing.assert_allclose(found, 4 * (3 * factors) ** 2 * TABLE.numpy() ** 3)


@pytest.mark.slow
def test_of_padded_rows_times_weights():
    """Waves of other widths cannot be put together, in no sweep."""
    kernel = tf.Variable([[0.3, -0.2, 0.5]], dtype=tf.float64)

    @kerasrec.recursive
    def f(n):
        def inner():
            rows = kerasrec.map_fn(f, tf.ragged.range(n)).to_tensor()
            return tf.reduce_sum(tf.matmul(rows[:, :, tf.newaxis], kernel[tf.newaxis]), [1, 2])

        return kerasrec.cond(n < 1, lambda: kernel[0, 0] * kernel[0, 1], inner)

    def plain(n):
        if n < 1:
            return kernel[0, 0] * kernel[0, 1]
        return tf.add_n([plain(k) for k in range(n)]) * tf.reduce_sum(kernel)

    def second(run):
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                found = run()
            first = tf.convert_to_tensor(inner.gradient(found, kernel))
        return outer.gradient(first, kernel)

    found = second(lambda: tf.reduce_sum(f([4, 1, 3])))
    expected = second(lambda: tf.add_n([plain(n) for n in (4, 1, 3)]))
    np.testing.assert_allclose(tf.convert_to_tensor(found), expected)
