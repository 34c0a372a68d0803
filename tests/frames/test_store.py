"""How wide the blocks of each place are, and for how many frames there is room."""

import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.frames.rows_xla.layout import MaskedLayout
from kerasrec._src.frames.rows_xla.sizes import Sizes
from kerasrec._src.frames.rows_xla.store import MaskedStore

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
    layout = MaskedLayout(function.execution_plan(*arguments).schedule)
    sizes = Sizes(*map(tf.constant, (1024, 16, 64, 1)))
    store = MaskedStore(layout, sizes, None, {}, {})
    found = {
        place: int(store.sizes_for(component).width)
        for component in layout.components
        for _, place in component
    }
    assert found == widths


def test_places_that_few_frames_reach_have_less_room():
    """Each inner node of a binary tree calls two, so at most half of all frames are inner nodes."""
    layout = MaskedLayout(binary.execution_plan([0]).schedule)
    sizes = Sizes(*map(tf.constant, (1001, 16, 64, 1)))
    store = MaskedStore(layout, sizes, None, {}, {})
    assert layout.shares == {("binary", 0): 1, ("binary", 1): 2}
    rows = {
        key: int(tf.shape(buffer)[0])
        for key, buffer in store.empty(layout.buffer_specs(1)).items()
        if key[0] == "value"
    }
    assert set(rows.values()) == {501 + 64 + 1}
    counts, tails = [tf.constant(1001)], dict.fromkeys(layout.shares, tf.constant(501))
    assert not store.has_no_room(counts, tails)
    assert store.has_no_room(counts, {**tails, ("binary", 1): tf.constant(502)})
    assert store.has_no_room([tf.constant(1002)], tails)


@pytest.mark.many
def test_places_that_frames_reach_in_several_ways():
    """Only calls that all of them make count, and only those of one body."""

    @kerasrec.recursive(engine="compiled")
    def other(n):
        return kerasrec.cond(n < 1, lambda: n, lambda: one_or_three(n - 1))

    @kerasrec.recursive(engine="compiled")
    def one_or_three(n):
        three = lambda: one_or_three(n - 1) + one_or_three(n - 2) + other(n - 3)  # noqa: E731
        return kerasrec.switch(
            tf.minimum(n, 2), [lambda: n, lambda: 2 + one_or_three(n - 1), three]
        )

    layout = MaskedLayout(one_or_three.execution_plan([3]).schedule)
    assert {layout.calls_before("one_or_three", place) for place in (0, 1)} == {1}
