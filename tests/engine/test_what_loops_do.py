"""Loops over waves keep and compute only what something reads."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import kerasrec

HELD = {
    "a function": lambda: tf.function(lambda x: tf.tanh(x) * x, autograph=False),
    "a loop": lambda: (
        lambda x: tf.while_loop(lambda i, _: i < 2, lambda i, y: (i + 1, tf.tanh(y)), (0, x))[1]
    ),
}
SHAPE = "only the first wave: the others return unread"


@pytest.mark.parametrize("what", HELD)
def test_values_for_a_gradient_are_kept_only_if_there_is_one(what):
    """TensorFlow prunes a loop only if it is stateless, and a call in it may make it stateful."""
    held = HELD[what]()

    @kerasrec.recursive(engine="waves")
    def power(x, n):
        return kerasrec.cond(n == 0, lambda: x, lambda: held(x) * power(0.5 * x, n - 1))

    whole = tf.function(power).get_concrete_function(
        tf.TensorSpec([None], tf.float32), tf.TensorSpec([None], tf.int32)
    )
    library = whole.graph.as_graph_def().library.function
    ops = {node.op for function in library for node in function.node_def}
    assert "StatelessWhile" in ops and "While" not in ops


def visit(children, sizes, engine="waves", **options):
    """Sums up what is at the nodes of trees, by the number of a tree, on the way down."""

    @kerasrec.recursive(engine=engine, **options)
    def visit(node, tree, x):
        kerasrec.collect("sum", tf.sin(x), tree, sizes)
        below = tf.gather(children, node)
        for slot, factor in enumerate((0.5, 2.0)):
            child = below[:, slot]
            kerasrec.cond(
                child >= 0,
                lambda child=child, factor=factor: visit(child, tree, factor * x),
                lambda: x,
            )
        return tf.cos(x)

    return visit


CHILDREN = [[1, 2], [-1, 3], [-1, -1], [4, 5], [-1, -1], [-1, -1]]


def plain(node, x):
    """The sum of a tree by plain recursion."""
    total = tf.sin(x)
    for child, factor in zip(CHILDREN[node], (0.5, 2.0), strict=True):
        if child >= 0:
            total += plain(child, factor * x)
    return total


@pytest.mark.parametrize("options", [{}, {"recompute": True}], ids=["keeps", "recomputes"])
def test_waves_that_return_unread_are_left_out(options):
    roots, xs = [0, 3, 2], [0.3, -0.7, 1.1]
    function = visit(CHILDREN, 3, **options)
    assert SHAPE in str(function.execution_plan(roots, [0, 1, 2], xs))
    x, y = tf.constant(xs), tf.constant(xs)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        result, collected = function.with_collected(tf.constant(roots), tf.range(3), x)
        found = tf.reduce_sum(collected["sum"] ** 2 + result)
        sums = tf.stack([plain(root, y[row]) for row, root in enumerate(roots)])
        expected = tf.reduce_sum(sums**2 + tf.cos(y))
    np.testing.assert_allclose(result, np.cos(xs), rtol=1e-6)
    np.testing.assert_allclose(collected["sum"], sums, rtol=1e-5)
    np.testing.assert_allclose(tape.gradient(found, x), tape.gradient(expected, y), rtol=1e-5)


def test_no_roots_return_no_rows():
    none = tf.zeros([0], tf.int32)
    result, collected = visit(CHILDREN, 2).with_collected(none, none, tf.zeros([0]))
    assert result.shape == [0] and collected["sum"].numpy().tolist() == [0.0, 0.0]


def test_equal_calls_return_level_by_level():
    @kerasrec.recursive(memo=True)
    def visit(n):
        kerasrec.collect("seen", n)
        kerasrec.cond(n > 1, lambda: visit(n - 1) + visit(n - 2), lambda: n)
        return n

    assert SHAPE not in str(visit.execution_plan(7))
    results, collected = visit.with_collected([7, 3])
    assert results.numpy().tolist() == [7, 3]
    assert sorted(set(collected["seen"].numpy().tolist())) == list(range(8))


def test_an_effect_after_a_call_runs_in_all_waves():
    seen = []

    @kerasrec.recursive(engine="waves")
    def count(n):
        kerasrec.cond(n > 0, lambda: count(n - 1), lambda: n)
        tf.py_function(lambda n: seen.extend(n.numpy().tolist()), [n], [])
        return 2 * n

    assert count(3) == 6
    assert sorted(seen) == [0, 1, 2, 3]
