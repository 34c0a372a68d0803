"""Ops and dtypes of bodies that XLA compiles: the same as in waves, or refused."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from tests.engine.helpers import HALF_TOLERANCE
from tests.frames.helpers import never_by_waves
from tests.fuzz.compare import gap
from tests.parameters import few_of

KERNEL = tf.Variable([[0.5, -0.3, 0.2], [0.2, 0.4, -0.7], [0.1, 0.8, 0.3]])
ACTIVATIONS = (
    tf.nn.silu,
    tf.nn.leaky_relu,
    lambda x: tf.nn.leaky_relu(x, 2.0),
    tf.nn.gelu,
    tf.nn.log_softmax,
    lambda x: tf.roll(x, 1, axis=1),
)


def by_each_engine(make, *arguments):
    """Values and gradients of a function of an engine, by "compiled" and "waves"."""
    found = []
    for engine in ("compiled", "waves"):
        with never_by_waves(), tf.GradientTape() as tape:
            tape.watch(arguments[0])
            y = make(engine)(*arguments)
        found.append([y, *tape.gradient(y, [arguments[0], KERNEL])])
    return found


@pytest.mark.slow
def test_activations_on_special_numbers():
    def make(engine):
        @kerasrec.recursive(engine=engine)
        def activated(x, n):
            def inner(activation):
                return lambda: activation(activated(x, 0 * n)) + 0.0 * KERNEL[0]

            return kerasrec.switch(n, [lambda: x, *map(inner, ACTIVATIONS)])

        return activated

    rows = [[np.inf, -np.inf, np.nan], [0.0, -1e30, 1e30], [0.5, -3.0, 80.0]]
    x = tf.constant(rows * (len(ACTIVATIONS) + 1))
    n = np.repeat(np.arange(len(ACTIVATIONS) + 1), len(rows))
    for mine, theirs in zip(*by_each_engine(make, x, n), strict=True):
        assert np.max(gap(mine.numpy(), theirs.numpy())) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("op", few_of([tf.math.xlogy, tf.math.xdivy, tf.math.xlog1py]))
def test_gradients_of_ops_that_compute_the_axes_that_they_broadcast(op):
    def make(engine):
        @kerasrec.recursive(engine=engine)
        def computed(x, n):
            return kerasrec.cond(n < 1, lambda: op(x, KERNEL[1] ** 2), lambda: computed(x, n - 1))

        return computed

    x = tf.constant([[0.5, 1.0, 2.0], [3.0, 0.0, 0.7]])
    for mine, theirs in zip(*by_each_engine(make, x, [1, 2]), strict=True):
        np.testing.assert_allclose(
            tf.convert_to_tensor(mine), tf.convert_to_tensor(theirs), rtol=1e-5
        )


@pytest.mark.slow
def test_places_of_the_largest_and_smallest_number_skip_nan():
    def make(engine):
        @kerasrec.recursive(engine=engine)
        def places(x, n):
            def here():
                return tf.argmax(x, axis=1), tf.argmin(x, axis=1)

            return kerasrec.cond(n < 1, here, lambda: places(x, n - 1))

        return places

    most = np.finfo(np.float64).max
    numbers = [np.nan, np.inf, -np.inf, 0.5, most, -most]
    rows = np.array(list(itertools.product(numbers, repeat=3)))
    with never_by_waves():
        compiled = make("compiled")(rows, np.ones(len(rows), np.int32))
    np.testing.assert_array_equal(compiled, make("waves")(rows, np.ones(len(rows), np.int32)))


@pytest.mark.slow
@pytest.mark.parametrize("in_function", [False, True])
def test_losses_on_special_numbers(in_function):
    """Also in a `tf.function`, whose ops are compiled one by one."""

    def loss_of(x, n):
        return tf.nn.sparse_softmax_cross_entropy_with_logits(tf.abs(n) % 3, x)

    loss_of = tf.function(loss_of) if in_function else loss_of

    def make(engine):
        @kerasrec.recursive(engine=engine)
        def loss(x, n):
            def deeper():
                return loss(tf.tanh(x @ KERNEL), n - 1) + loss_of(x, n)

            return kerasrec.cond(n < 1, lambda: loss_of(x, n), deeper)

        return loss

    rows = [[np.inf, 0.0, 1.0], [-np.inf, 0.0, 1.0], [np.nan, 1.0, 2.0], [0.0, -1e30, 1e30]]
    x = tf.constant([*rows, *rows, [0.5, -3.0, 80.0], [1.0, 2.0, 3.0]])
    for mine, theirs in zip(*by_each_engine(make, x, [0] * 4 + [1, 2, 3, 4, 5, 2]), strict=True):
        assert np.max(gap(mine.numpy(), theirs.numpy())) < 1e-5


@pytest.mark.slow
def test_a_label_that_is_no_class_is_an_error():
    @kerasrec.recursive(engine="compiled")
    def loss(x, n):
        def at_the_end():
            return tf.nn.sparse_softmax_cross_entropy_with_logits(n, x)

        return kerasrec.cond(n < 1, at_the_end, lambda: loss(x, n - 1))

    assert loss([[1.0, 2.0]], 3) > 0
    with pytest.raises(tf.errors.InvalidArgumentError, match="label value of -2"):
        loss([[1.0, 2.0]], -2)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", few_of([tf.int8, tf.uint8, tf.int32, tf.uint32, tf.int64]))
def test_shifts_by_any_number_of_bits(dtype):
    """Also by more bits than there are, or by fewer than none."""

    def make(engine):
        @kerasrec.recursive(engine=engine)
        def shifted(x, bits, n):
            def deeper():
                return tf.bitwise.left_shift(shifted(x, bits, n - 1), bits)

            return kerasrec.cond(n < 1, lambda: tf.bitwise.right_shift(x, bits), deeper)

        return shifted

    numbers = tf.constant([0, 1, 3, 100, 127, -1, -7, -128], tf.int64)
    some = tf.constant([0, 1, 6, 7, 31, 70, -2], tf.int64)
    x, bits = (tf.reshape(each, [-1]) for each in tf.meshgrid(numbers, some))
    given = tf.cast(x, dtype), tf.cast(bits, dtype), tf.range(tf.size(x)) % 3
    with never_by_waves():
        compiled = make("compiled")(*given)
    np.testing.assert_array_equal(compiled, make("waves")(*given))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", few_of([tf.float16, tf.bfloat16], many=[tf.float16]))
def test_half_precision(dtype):
    """With weights of float32, as in mixed precision; four roundings from waves and float32."""

    def make(engine, dtype=dtype):
        @kerasrec.recursive(engine=engine)
        def folded(x, n):
            def inner():
                return tf.tanh(folded(x, n - 1) @ tf.cast(KERNEL, dtype)) + x / 3

            return kerasrec.cond(n < 1, lambda: x, inner)

        return folded

    rows = np.random.default_rng(0).normal(size=[7, 3])
    n = np.arange(7) % 4
    compiled, waves = by_each_engine(make, tf.constant(rows, dtype), n)
    exact, _ = by_each_engine(
        lambda engine: make(engine, tf.float32), tf.constant(rows, "float32"), n
    )
    for mine, theirs, true in zip(compiled, waves, exact, strict=True):
        assert mine.dtype == theirs.dtype
        assert np.max(gap(mine.numpy(), theirs.numpy())) < HALF_TOLERANCE[dtype.name]
        assert np.max(gap(mine.numpy(), true.numpy())) < HALF_TOLERANCE[dtype.name]


OF_CHILDREN = {
    "product": lambda rows: rows @ KERNEL,
    "product of transposed": lambda rows: tf.matmul(rows, KERNEL, transpose_b=True),
    "einsum": lambda rows: tf.einsum("tki,ij->tkj", rows, KERNEL),
    "einsum that moves": lambda rows: tf.einsum("ij,tkj->tik", KERNEL, rows),
    "product of rank 4": lambda rows: tf.reduce_sum(
        tf.tanh(tf.stack([rows, 2.0 * rows], 1) @ KERNEL), 1
    ),
    "einsum with an ellipsis": lambda rows: tf.einsum("...i,ij->...j", rows, KERNEL),
    "tensordot": lambda rows: tf.tensordot(rows, KERNEL, 1),
    "tensordot that turns": lambda rows: tf.tensordot(rows, KERNEL, [[2], [1]]),
    "attention": lambda rows: tf.nn.softmax(tf.einsum("tki,tli->tkl", rows @ KERNEL, rows)) @ rows,
}


@pytest.mark.parametrize("name", few_of(OF_CHILDREN, "einsum", many=["attention"]))
def test_products_of_all_children(name):
    """Rows of a block without a call are infinite, and must not count in gradients of weights."""

    def make(engine):
        @kerasrec.recursive(engine=engine)
        def combined(x, n):
            def inner():
                below = tf.stack([combined(x, n - 1), combined(x, n - 2)], axis=1)
                return tf.reduce_sum(tf.tanh(OF_CHILDREN[name](1.0 / below)), [1, 2])[:, None] + x

            return kerasrec.cond(n < 1, lambda: x + 0.5, inner)

        return combined

    x = tf.constant([[0.7, -2.0, 0.5], [0.3, 0.1, 0.9], [1.0, 2.0, -3.0]])
    for mine, theirs in zip(*by_each_engine(make, x, [3, 1, 0]), strict=True):
        largest = np.max(np.abs(theirs))
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-5 * largest)
        assert largest > 0


@pytest.mark.slow
def test_attention_of_keras():
    attention = keras.layers.MultiHeadAttention(2, 3)
    attention.build((None, 2, 4), (None, 2, 4))

    @kerasrec.recursive
    def attending(x, n):
        def inner():
            below = tf.stack([attending(x, n - 1), attending(x, n - 2)], axis=1)
            return tf.tanh(tf.reduce_sum(attention(below, below), 1))

        return kerasrec.cond(n < 1, lambda: x, inner)

    x, found = tf.linspace([0.1] * 4, [0.9] * 4, 3), []
    for engine in ("compiled", "waves"):
        function = kerasrec.recursive(attending.python_function, engine=engine)
        with never_by_waves(), tf.GradientTape() as tape:
            y = function(x, [3, 1, 0])
        found.append([y, *tape.gradient(y, attention.trainable_variables)])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: x * tf.random.truncated_normal(tf.shape(x)),
        lambda x: x * tf.random.stateless_truncated_normal(tf.shape(x), [1, 2]),
    ],
    ids=["stateful", "stateless"],
)
def test_what_is_drawn_for_the_tokens_of_a_wave_is_not_compiled(draw):
    @kerasrec.recursive(engine="compiled")
    def drawn(x, n):
        return kerasrec.cond(n < 1, lambda: x, lambda: draw(drawn(x, n - 1)))

    with pytest.raises(kerasrec.TraceError, match=r"computes \w*TruncatedNormal\w* at test_ops.py"):
        drawn([[1.0, 2.0, 3.0]], 2)


@pytest.mark.slow
@pytest.mark.parametrize("recompute", few_of([False, True], many=[True]))
def test_what_is_drawn_for_all_tokens_is_the_same(recompute):
    def make(engine):
        @kerasrec.recursive(engine=engine, recompute=recompute)
        def drawn(x, n):
            noise = tf.random.stateless_normal([3, 3], [1, 2])
            return kerasrec.cond(n < 1, lambda: x, lambda: drawn(x, n - 1) @ (KERNEL * noise))

        return drawn

    x = tf.constant([[1.0, -2.0, 0.5], [0.3, 0.1, 0.7]])
    for mine, theirs in zip(*by_each_engine(make, x, [3, 1]), strict=True):
        assert np.max(gap(mine.numpy(), theirs.numpy())) < 1e-6
