"""Random ops fire once: the gradient reads their outputs, and every call draws again."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec import TraceError, cond, map_fn, recursive
from tests.parameters import few_of

pytestmark = pytest.mark.usefixtures("optimized")


@recursive
def levels(x, n):
    return cond(n < 1, lambda: x, lambda: tf.nn.dropout(levels(x, n - 1), 0.3))


@recursive
def stack(x, n):
    return cond(n < 1, lambda: tf.nn.dropout(x, 0.3), lambda: stack(stack(x, n - 1), n - 1))


each_engine = pytest.mark.parametrize("function", [levels, stack])


@each_engine
@pytest.mark.slow
def test_gradient_has_the_mask_of_the_value(function):
    x = tf.fill([100], 2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x, 2)
    # y is linear in x, so its slope shows which elements were kept.
    np.testing.assert_allclose(tape.gradient(y, x) * x, y, rtol=1e-6)
    kept = np.mean(y != 0.0)
    num_draws = 2 if function is levels else 4
    assert abs(kept - 0.7**num_draws) < 0.2


@pytest.mark.many
@each_engine
def test_each_run_draws_anew(function):
    x = tf.ones([100])
    assert np.any(function(x, 2) != function(x, 2))


@pytest.mark.slow
def test_each_call_draws_anew():
    @recursive
    def draws(x, n):
        return cond(
            n < 1,
            lambda: x[:, tf.newaxis] * [0.0, 0.0],
            lambda: tf.stack([tf.random.uniform(tf.shape(x)), draws(x, n - 1)[:, 0]], axis=1),
        )

    two = draws(tf.ones([50]), 2).numpy()
    assert len(np.unique(two)) == 100


CHILDREN = tf.ragged.constant([[1, 2], [3], [], []], dtype=tf.int32)


@pytest.mark.slow
def test_each_entry_of_rows_draws_once():
    @recursive
    def entries(x, node):
        children = tf.gather(CHILDREN, node)
        below = map_fn(lambda child: tf.nn.dropout(entries(x, child), 0.3), children)
        return x + tf.reduce_sum(below, axis=1)

    x = tf.fill([100], 2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = entries(x, 0)
    np.testing.assert_allclose(tape.gradient(y, x) * x, y, rtol=1e-6)
    assert len(np.unique(y)) > 3


@pytest.mark.many
def test_entries_of_rows_draw_as_tokens():
    @recursive
    def entries(x, node):
        below = entries(x, tf.gather(CHILDREN, node))
        return x + tf.reduce_sum(tf.ragged.map_flat_values(tf.nn.dropout, below, 0.3), axis=1)

    with pytest.raises(TraceError, match=r"test_random_ops.py:\d+ draws .*inside kerasrec.map_fn"):
        entries(tf.ones([2]), 0)


GENERATOR = tf.random.Generator.from_seed(1)
SEED = keras.random.SeedGenerator(3)


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: tf.random.stateless_uniform(tf.shape(x), [1, 2]),
        lambda x: GENERATOR.uniform(tf.shape(x)),
        lambda x: keras.random.uniform(tf.shape(x), seed=SEED),
    ],
    ids=["stateless", "Generator", "SeedGenerator"],
)
@pytest.mark.many
def test_the_gradient_reads_what_was_drawn(draw):
    @recursive
    def f(x, n):
        return cond(n < 1, lambda: x, lambda: draw(x) * f(x, n - 1))

    x = tf.ones([100])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x, 2)
    assert len(np.unique(y)) == 100
    np.testing.assert_allclose(tape.gradient(y, x), y, rtol=1e-6)


def test_a_draw_for_all_tokens_together():
    """It would be drawn again wherever it is read."""

    @recursive
    def f(x, n):
        return cond(n < 1, lambda: x, lambda: f(x, n - 1) * tf.random.uniform([2, tf.size(x)])[0])

    with pytest.raises(TraceError, match=r"RandomUniform at test_random_ops\.py.*token axis first"):
        f(tf.ones([5]), 2)


def slope_of_square(function):
    """Returns an input, the square of a function's result for it, its slope, and a tape."""
    x = tf.fill([4], 2.0)
    with tf.GradientTape() as second:
        second.watch(x)
        with tf.GradientTape() as first:
            first.watch(x)
            y = function(x, 2) ** 2
        slope = first.gradient(y, x)
    return x, y, slope, second


@pytest.mark.many
def test_a_second_derivative_does_not_draw_anew():
    x, y, slope, second = slope_of_square(levels)
    # y = (a x)^2, where a depends on the draws.
    np.testing.assert_allclose(slope * x, 2.0 * y, rtol=1e-6)
    np.testing.assert_allclose(second.gradient(slope, x) * x, slope, rtol=1e-6)


SEED_OF_BOTH = [3, 4]


@tf.custom_gradient
def scaled(x):
    def draw():
        return tf.random.stateless_uniform(tf.shape(x), SEED_OF_BOTH)

    return x * draw(), lambda upstream: upstream * draw()


@pytest.mark.parametrize(
    "op",
    few_of(
        [scaled, tf.recompute_grad(lambda x: x * tf.random.stateless_uniform(tf.shape(x), [5, 6]))],
        scaled,
        many=[],
    ),
)
@pytest.mark.parametrize("options", few_of([{}, {"recompute": True}, {"parallel_tokens": 2}], {}))
def test_a_custom_gradient_may_draw_again(op, options):
    @recursive(engine="waves", **options)
    def f(x, n):
        return cond(n < 1, lambda: x, lambda: op(f(x, n - 1)))

    x = tf.fill([3], 2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x, [1, 3, 2])
    np.testing.assert_allclose(tape.gradient(y, x) * x, y, rtol=1e-5)
    assert len(np.unique(y)) == 3


def test_a_custom_gradient_that_draws_again_in_a_function_is_refused():
    draw = tf.function(lambda seed, x: tf.random.stateless_uniform(tf.shape(x), seed))
    seed = tf.constant(SEED_OF_BOTH)

    @tf.custom_gradient
    def scaled(x):
        return x * draw(seed, x), lambda upstream: upstream * draw(seed, x)

    @recursive
    def f(x, n):
        return cond(n < 1, lambda: x, lambda: scaled(f(x, n - 1)))

    x = tf.fill([3], 2.0)
    with (
        tf.GradientTape() as tape,
        pytest.raises(TraceError, match="gradient draws random numbers again, by "),
    ):
        tape.watch(x)
        tape.gradient(f(x, 2), x)


def test_a_second_derivative_refuses_to_draw_anew():
    @recursive
    def f(x, n):
        return cond(
            n < 1, lambda: x, lambda: tf.random.truncated_normal([tf.size(x)]) * f(x, n - 1)
        )

    x, _, slope, second = slope_of_square(f)
    with pytest.raises(tf.errors.InvalidArgumentError, match="f has no second derivative"):
        second.gradient(slope, x)


def in_a_loop(x):
    def turn(i, found):
        return i + 1, found * tf.random.stateless_uniform(tf.shape(x), [1, 2])

    return tf.while_loop(lambda i, _: i < 2, turn, (0, tf.ones_like(x)))[1]


def in_a_branch(x):
    def draw():
        return tf.random.stateless_uniform(tf.shape(x), [1, 2])

    return tf.cond(GENERATOR.state[0] != 0, draw, lambda: tf.ones_like(x))


def by_the_seed_of_a_token(x):
    def draw(number):
        return number * tf.random.stateless_uniform([], [1, tf.cast(number, tf.int32)])

    return tf.map_fn(draw, x)


@pytest.mark.many
def test_a_bounded_run_does_not_draw_anew_for_its_gradient():
    """Some draws depend on which tokens run together."""

    def slope(draw):
        @recursive(engine="waves", parallel_tokens=1)
        def bounded(x, n):
            return cond(n < 1, lambda: x * draw(x), lambda: bounded(x, n - 1))

        x = tf.fill([4], 2.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = bounded(x, 2)
        return tape.gradient(y, x) * x - y

    seed = [1, 2]
    assert not np.any(slope(lambda x: tf.random.stateless_uniform([], seed)))
    assert np.max(np.abs(slope(lambda x: tf.random.stateless_uniform(tf.shape(x), seed)))) < 1e-6
    assert np.max(np.abs(slope(lambda x: tf.nn.dropout(tf.ones_like(x), 0.3)))) < 1e-6
    assert not np.any(slope(lambda x: by_the_seed_of_a_token(tf.stop_gradient(x))))
    with pytest.raises(TraceError, match="bounded has no gradient with parallel_tokens"):
        slope(lambda x: tf.random.truncated_normal(tf.shape(x)))
    for held in (in_a_loop, in_a_branch):
        with pytest.raises(TraceError, match="draws for each of the tokens that run"):
            slope(held)
    with pytest.raises(
        TraceError, match=r"test_random_ops\.py:\d+ draws for each of the tokens that run"
    ):
        slope(lambda x: tf.random.stateless_truncated_normal(tf.shape(x), seed))
