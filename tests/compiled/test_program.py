"""How wide the blocks of each place are."""

import pytest
import tensorflow as tf

import kerasrec
from kerasrec.compiled.program import Program
from kerasrec.compiled.rows import Sizes
from kerasrec.queues.layout import Layout

CHILDREN = tf.constant([[1, 2], [-1, -1], [-1, -1]])
ROWS = tf.ragged.constant([[1, 2], [], []], dtype=tf.int32)
WEIGHT = tf.Variable([[0.5, -0.3], [0.2, 0.4]])


@kerasrec.recursive(engine="compiled")
def binary(node):
    left, right = tf.unstack(tf.gather(CHILDREN, node), axis=1)
    inner = lambda: tf.tanh((binary(left) + binary(right)) @ WEIGHT)  # noqa: E731
    return kerasrec.cond(left < 0, lambda: tf.gather(WEIGHT, node % 2), inner)


@kerasrec.recursive(engine="compiled")
def of_rows(node):
    below = kerasrec.map_fn(of_rows, tf.gather(ROWS, node))
    return tf.tanh(tf.reduce_sum(below, axis=1) @ WEIGHT)


@kerasrec.recursive(engine="compiled")
def down(n, x):
    return kerasrec.cond(n < 1, lambda: x, lambda: down(n - 1, tf.sin(x)))


@pytest.mark.parametrize(
    ("function", "arguments", "widths"),
    [
        (binary, [[0]], {0: 64, 1: 16}),  # Place 0 only finds out which node calls which.
        (of_rows, [[0]], {0: 16, 1: 16}),  # Each entry is compared with each frame.
        (down, [[3], [1.0]], {0: 16}),
    ],
)
def test_blocks_are_wide_where_dead_rows_cost_little(function, arguments, widths):
    layout = Layout(function.execution_plan(*arguments).schedule)
    sizes = Sizes(*map(tf.constant, (1024, 16, 64)))
    program = Program(layout, sizes, None, None, {}, {})
    found = {
        place: int(program.sizes_for(component).width)
        for component in program.components
        for _, place in component
    }
    assert found == widths
