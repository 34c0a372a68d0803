"""The derivative of an op is built once for all ops that are alike."""

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.transform.derivative import definition_of, derivative


def times(*factors):
    """Compiles a program with a product for each factor."""

    @kerasrec.recursive(engine="waves")
    def product(x, n):
        def call():
            found = product(x, n - 1)
            for factor in factors:
                found = found * tf.constant(factor)
            return found

        return kerasrec.cond(n == 0, lambda: x, call)

    return product


@pytest.mark.many
def test_ops_that_are_alike_share_one():
    times(2.0).extended_graph(1.0, 2)
    built = derivative.cache_info().misses
    times(2.0, 2.0).extended_graph(1.0, 2)
    assert derivative.cache_info().misses == built


@pytest.mark.many
def test_debugging_tools_do_not_see_how_one_is_built():
    """They put ops between an op and its readers, which were missing in later programs."""
    tf.debugging.enable_check_numerics()
    try:
        watched = times(0.125).extended_graph(1.0, 2)
    finally:
        tf.debugging.disable_check_numerics()
    assert "CheckNumerics" in str(watched) and "Debug" not in str(watched)
    assert "CheckNumerics" not in str(times(0.125).extended_graph(1.0, 2))


@pytest.mark.slow
def test_a_constant_that_a_derivative_reads_is_part_of_it():
    assert times(2.0)(1.0, 3) == 8.0
    for factor in (3.0, 5.0):
        x = tf.constant([1.0, 2.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = times(factor)(x, [1, 2])
        assert tape.gradient(y, x).numpy().tolist() == [factor, factor**2]


@pytest.mark.many
@pytest.mark.parametrize(
    "make",
    [
        tf.custom_gradient(lambda x: (x + 0.0, lambda dy: 7.0 * dy)),
        tf.function(lambda x: x * x),
        lambda x: x + np.arange(2000, dtype=np.float32),
    ],
    ids=["its own gradient", "a function", "a large constant"],
)
def test_what_a_definition_does_not_say(make):
    with tf.Graph().as_default() as graph:
        make(tf.compat.v1.placeholder(tf.float32, []))
        assert None in map(definition_of, graph.get_operations())
