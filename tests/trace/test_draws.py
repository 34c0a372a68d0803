"""Random numbers belong to calls: they depend neither on the engine nor on other calls."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.trace.draws import drawn
from tests.parameters import few_of

pytestmark = pytest.mark.usefixtures("optimized")

SEED = [1, 2]


def sum_of(draw, **options):
    """A function with `n` calls inside of each other, each of which adds what it draws."""

    @kerasrec.recursive(max_xla_calls=8, **options)
    def summed(x, n):
        return kerasrec.cond(n < 1, lambda: x, lambda: summed(x, n - 1) + draw(x))

    return summed


DRAWS = {
    "uniform": lambda x: tf.random.stateless_uniform(tf.shape(x), SEED),
    "normal": lambda x: tf.random.stateless_normal(tf.shape(x), SEED),
    "integers": lambda x: tf.cast(
        tf.random.stateless_uniform(tf.shape(x), SEED, -3, 9, tf.int32), x.dtype
    ),
    "dropout": lambda x: tf.nn.experimental.stateless_dropout(x, 0.5, SEED),
    "function": tf.function(lambda x: tf.random.stateless_uniform(tf.shape(x), SEED)),
}


@pytest.mark.parametrize("name", few_of(DRAWS, many=["uniform", "function"]))
def test_all_engines_draw_the_same(name):
    draw, x, n = DRAWS[name], tf.ones([3, 4]), tf.constant([1, 3, 2])
    first = sum_of(draw, engine="waves")(x, n)
    assert len(np.unique(first)) > 2
    within = sum_of(draw)
    for other in (
        sum_of(draw, engine="waves", parallel_tokens=2)(x, n),
        sum_of(draw, engine="compiled")(x, n),
        tf.function(lambda: within(x, n), jit_compile=True)(),
    ):
        np.testing.assert_allclose(other, first, rtol=1e-6, atol=1e-6)


@pytest.mark.many
def test_plain_numbers_are_drawn_as_in_waves():
    x, n = tf.ones([3]), [1, 3, 2]
    one_by_one, waves = sum_of(DRAWS["uniform"]), sum_of(DRAWS["uniform"], engine="waves")
    assert one_by_one.execution_plan(x, n).engine == "scalar"
    np.testing.assert_allclose(one_by_one(x, n), waves(x, n), rtol=1e-6)


@pytest.mark.many
def test_what_a_token_draws_does_not_depend_on_others():
    summed = sum_of(DRAWS["normal"])
    many = summed(tf.ones([4, 2]), [2, 1, 3, 2])
    np.testing.assert_array_equal(summed(tf.ones([2, 2]), [2, 1]), many[:2])


@pytest.mark.slow
def test_the_gradient_reads_what_was_drawn_in_compiled_programs():
    @kerasrec.recursive(engine="compiled")
    def levels(x, n):
        return kerasrec.cond(n < 1, lambda: x, lambda: tf.nn.dropout(levels(x, n - 1), 0.3))

    x = tf.fill([4, 25], 2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = levels(x, 2)
    np.testing.assert_allclose(tape.gradient(y, x) * x, y, rtol=1e-6)
    assert 0.25 < np.mean(y != 0.0) < 0.75


def splitmix(state, count):
    """The first words of SplitMix64, in integers of Python."""
    for _ in range(count):
        state = word = (state + 0x9E3779B97F4A7C15) % 2**64
        word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
        yield word ^ (word >> 31)


@pytest.mark.many
@pytest.mark.parametrize("dtype, bits", [(tf.float32, 24), (tf.float64, 53), (tf.bfloat16, 8)])
def test_numbers_are_those_of_splitmix64(dtype, bits):
    seed, keys = 1234567, [0, -5, 2**62]
    with tf.Graph().as_default():
        operation = tf.random.uniform([tf.compat.v1.placeholder(tf.int32, []), 3], dtype=dtype).op
        numbers = drawn(operation, tf.constant(seed, tf.uint64), tf.constant(keys, tf.int64))
        found = tf.compat.v1.Session().run(tf.cast(numbers, tf.float64))
    expected = [[(word >> (64 - bits)) / 2**bits for word in splitmix(seed + k, 3)] for k in keys]
    np.testing.assert_array_equal(found, expected)
    if dtype == tf.float64:
        # Published for this seed, as 6457827717110365317, 3203168211198807973, ...
        np.testing.assert_allclose(
            found[0] * 2**64, [6457827717110365317, 3203168211198807973, 9817491932198370423]
        )


def drawn_on_the_way(draw, depth=4):
    """The draws of the calls of 4,000 chains, [chains, depth, 2]."""

    @kerasrec.recursive
    def chain(x, n):
        def go_on():
            own = draw([tf.shape(x)[0], 2])
            return tf.concat([tf.cast(own, tf.float32)[:, None], chain(x, n - 1)[:, :-1]], 1)

        return kerasrec.cond(n < 1, lambda: x, go_on)

    return chain(tf.zeros([4000, depth, 2]), depth).numpy().astype("float64")


DISTRIBUTIONS = {
    "random.uniform": (tf.random.uniform, 0.5, 1 / 12, (0.0, 1.0)),
    "random.normal": (tf.random.normal, 0.0, 1.0, (-6.0, 6.0)),
    "integers": (lambda shape: tf.random.uniform(shape, -2, 3, tf.int64), 0.0, 2.0, (-2.0, 2.1)),
    "half": (lambda shape: tf.random.normal(shape, dtype=tf.float16), 0.0, 1.0, (-6.0, 6.0)),
    "keras": (lambda shape: keras.random.uniform(shape, seed=SEEDS), 0.5, 1 / 12, (0.0, 1.0)),
}
SEEDS = keras.random.SeedGenerator(3)


@pytest.mark.parametrize("name", few_of(DISTRIBUTIONS, "random.normal"))
def test_distributions(name):
    """Means and variances are within five standard errors, and no two places go together."""
    tf.random.set_seed(1)
    draw, mean, variance, (low, high) = DISTRIBUTIONS[name]
    numbers = drawn_on_the_way(draw).reshape(4000, -1)
    assert np.all((low <= numbers) & (numbers < high))
    error = 5 / np.sqrt(numbers.size)
    assert abs(np.mean(numbers) - mean) < error * np.sqrt(variance)
    assert abs(np.mean((numbers - mean) ** 2) - variance) < error * np.sqrt(2) * variance
    together = np.corrcoef(numbers.T) - np.eye(numbers.shape[1])
    assert np.max(np.abs(together)) < 5 / np.sqrt(len(numbers))
    # Nor do neighboring roots.
    neighbors = np.corrcoef(numbers[1:, 0], numbers[:-1, 0])[0, 1]
    assert abs(neighbors) < 5 / np.sqrt(len(numbers))


@pytest.mark.many
def test_integers_are_equally_frequent():
    tf.random.set_seed(1)
    numbers = drawn_on_the_way(lambda shape: tf.random.uniform(shape, -2, 5, tf.int32))
    counts = np.bincount(numbers.astype(int).ravel() + 2, minlength=7)
    expected = numbers.size / 7
    assert len(counts) == 7
    assert np.sum((counts - expected) ** 2 / expected) < 27.9  # The quantile at 0.9999.


@pytest.mark.many
@pytest.mark.parametrize("jit", few_of([False, True], many=[False]))
def test_each_use_of_a_keras_seed_is_another_seed(jit):
    dropout = keras.layers.Dropout(0.5, seed=1)

    @kerasrec.recursive
    def twice(x):
        return tf.stack([dropout(x, training=True), dropout(x, training=True)], 1)

    state = dropout.seed_generator.state
    before = state.numpy()
    one, other = tf.unstack(tf.function(twice, jit_compile=jit)(tf.ones([2, 50])), axis=1)
    assert np.any(one != other)
    assert state.numpy()[1] - before[1] == 2


@pytest.mark.many
def test_several_rows_for_each_token():
    """Such rows are drawn by TensorFlow."""

    def rows(x):
        return tf.random.stateless_uniform([3 * tf.shape(x)[0], 4], SEED)

    summed = sum_of(lambda x: tf.reduce_sum(tf.reshape(rows(x), [-1, 3, 4]), 1))
    assert len(np.unique(summed(tf.ones([2, 4]), [1, 2]))) == 8


MOST = tf.Variable(1000)
OTHERS = {
    "TruncatedNormal": lambda x: tf.random.truncated_normal(tf.shape(x)),
    "RandomUniformInt": lambda x: tf.cast(
        tf.random.uniform(tf.shape(x), 0, MOST, tf.int32), x.dtype
    ),
}


@pytest.mark.many
@pytest.mark.parametrize("op", OTHERS)
def test_other_draws_are_ops_of_tensorflow(op):
    """Another distribution; and bounds that are not known while tracing."""
    summed = sum_of(OTHERS[op])
    x = tf.ones([3, 4])
    assert op in {node.op for node in summed.tagged_graph(x, 2).bodies["summed"].sweeps[0].nodes}
    assert len(np.unique(summed(x, 3))) > 3
