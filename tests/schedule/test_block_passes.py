"""The passes over schedules that XLA compiles in blocks."""

import numpy as np
import tensorflow as tf

import kerasrec
from kerasrec._src.graph.values import Value
from kerasrec._src.schedule.build import build_blocks
from kerasrec._src.schedule.instructions import Fire, Reduce, Save
from kerasrec._src.schedule.passes import (
    BLOCK_PASSES,
    branches_apart,
    move_again,
    optimize,
    products_later,
)
from kerasrec._src.schedule.sections import AllTokens, Queues

CHILDREN = tf.constant([[1, 2], [-1, -1], [-1, -1]])
WORDS = tf.constant(np.eye(3, 2, dtype=np.float32))
KERNEL = tf.Variable(np.eye(2, dtype=np.float32))


@kerasrec.recursive(engine="compiled")
def tree(node):
    """Leaves multiply, and inner nodes do."""
    left, right = tf.unstack(tf.gather(CHILDREN, node), axis=1)

    def inner():
        below = tf.concat([tree(left), tree(right)], axis=1)
        return tf.tanh(below @ tf.concat([KERNEL, KERNEL], 0))

    return kerasrec.cond(left < 0, lambda: tf.tanh(tf.gather(WORDS, node) @ KERNEL), inner)


def schedule_of(function, *arguments, passes=BLOCK_PASSES):
    return optimize(build_blocks(function.extended_graph(*arguments)), passes)


def tree_after(*passes):
    return schedule_of(tree, 0, passes=passes)


def places_of_products(section):
    """The places whose segments multiply."""
    return {
        segment.place
        for segment in section.segments
        for one in segment.placed
        if isinstance(one, Fire) and one.node.op == "MatMul"
    }


def queues(schedule):
    return [section for section in schedule.sections if isinstance(section, Queues)]


def bytes_kept(schedule):
    saves = [one.item for _, _, one in schedule.instructions() if isinstance(one, Save)]
    return sum(item.type.num_bytes for item in saves if isinstance(item, Value))


def test_a_branch_that_multiplies_gets_a_place_of_its_own():
    before, after = queues(tree_after())[0], queues(tree_after(branches_apart))[0]
    assert places_of_products(before) == {0, 1}
    assert places_of_products(after) == {1, 2}
    assert before.order == [("tree", 0), ("tree", 1)]
    # Leaves wait for no call, so they come before what waits for them.
    assert after.order == [("tree", 0), ("tree", 2), ("tree", 1)]


def test_a_product_that_nothing_waits_for_is_computed_where_its_branch_goes_on():
    @kerasrec.recursive(engine="compiled")
    def up(node, x):
        left, right = tf.unstack(tf.gather(CHILDREN, node), axis=1)

        def inner():
            passed = x @ KERNEL  # The calls wait for it.
            return tf.gather(WORDS, node) @ KERNEL + up(left, passed) + up(right, x)

        return kerasrec.cond(left < 0, lambda: x, inner)

    given = [0], tf.zeros([1, 2])
    before = queues(schedule_of(up, *given, passes=[]))[0]
    after = queues(schedule_of(up, *given, passes=[products_later]))[0]
    assert places_of_products(before) == {0}
    assert places_of_products(after) == {0, 1}


def test_a_branch_that_does_not_multiply_stays():
    @kerasrec.recursive(engine="compiled")
    def fib(n):
        return kerasrec.cond(n < 2, lambda: n, lambda: fib(n - 1) + fib(n - 2))

    assert queues(schedule_of(fib, 5))[0].order == [("fib", 0), ("fib", 1)]


def test_a_branch_that_feeds_its_origin_takes_turns_with_it():
    kernel = tf.constant(np.eye(2, dtype=np.float32))

    @kerasrec.recursive(engine="compiled")
    def walk(n, h):
        return kerasrec.cond(n == 0, lambda: h @ kernel, lambda: 0.5 * walk(n - 1, walk(n - 1, h)))

    (component,) = queues(schedule_of(walk, [2], np.float32([[1, 2]])))[0].components
    assert set(component) == {("walk", place) for place in range(4)}


def test_what_is_hoisted_runs_for_the_frames_of_its_branch():
    sections = [one for one in tree_after(*BLOCK_PASSES).sections if isinstance(one, AllTokens)]
    places = [
        segment.place
        for section in sections
        for segment in section.segments
        if any(isinstance(one, Reduce) for one in segment.instructions)
    ]
    assert set(places) == {1, 2}


def test_what_only_moves_numbers_is_not_kept():
    assert bytes_kept(tree_after(move_again)) < bytes_kept(tree_after())
