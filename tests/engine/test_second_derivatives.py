"""Derivatives of derivatives, against nested tapes around plain eager recursion."""

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec.graph.interpreter import interpret
from kerasrec.transform.extend import extend
from tests.engine.helpers import (
    assert_same_second,
    cotangents_of,
    is_float,
    lowered,
    result_of,
    run_plain,
    second_gradients,
    weights,
)
from tests.parameters import few_of
from tests.programs import each


def by_engine(program, **options):
    made = lowered(program, **options)

    @tf.function(autograph=False)
    def run(*flat):
        outcome = made.run(flat)
        return tuple(outcome.outputs), outcome.tables

    return second_gradients(program, lambda inputs: run(*map(tf.constant, inputs)))


def is_differentiable(program):
    return program.has_gradient and not program.is_deep


@each(is_differentiable, few=True)
def test_equal_to_nested_tapes_of_plain_recursion(program):
    found = second_gradients(program, lambda inputs: result_of(program, inputs))
    assert_same_second(program, found)


@pytest.mark.many
@each(is_differentiable, few=True)
def test_on_the_stack(program):
    assert_same_second(program, by_engine(program, engine="waves", is_linear=False))


@pytest.mark.many
@each(lambda program: is_differentiable(program) and not program.sources, few=True)
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


@pytest.mark.parametrize("engine", few_of(["waves", "scalar"], "waves"))
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


@pytest.mark.many
def test_depth_of_ten_thousand():
    @kerasrec.recursive(engine="waves")
    def power(x, n):
        return kerasrec.cond(n == 0, lambda: tf.ones_like(x), lambda: x * power(x, n - 1))

    n = 10_000
    x = tf.constant(1 + 1 / n, tf.float64)
    with tf.GradientTape() as second:
        second.watch(x)
        with tf.GradientTape() as first:
            first.watch(x)
            y = power(x, n)
        slope = first.gradient(y, x)
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


def test_of_a_sparse_gradient():
    found = second_gradient_of_rows(lambda slope: tf.convert_to_tensor(slope) ** 2)
    factors = np.array([[1 + 3], [1 + 4], [2]])
    np.testing.assert_allclose(found, 4 * (3 * factors) ** 2 * TABLE.numpy() ** 3)


def test_rows_of_a_sparse_gradient_apart_are_an_error():
    with pytest.raises(tf.errors.InvalidArgumentError, match="needs its rows summed"):
        second_gradient_of_rows(lambda slope: slope.values**2)
