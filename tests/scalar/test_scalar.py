"""The engine that runs plain numbers one token at a time, and the choice of an engine."""

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.emit.limits import Limits
from kerasrec._src.scalar.sweeps import ScalarForward
from tests import programs
from tests.parameters import few_of


def chosen(function, *args):
    return function.execution_plan(*args).engine


@pytest.mark.many
def test_the_default_takes_it_for_plain_numbers():
    assert chosen(programs.ackermann, 2, 2) == "scalar"
    assert chosen(programs.fib, 5) == "scalar"
    assert chosen(programs.call_in_argument, np.float64(0.5), 2) == "scalar"
    assert chosen(programs.tree_rnn, 0) == "waves"
    assert chosen(programs.labels_all, 0) == "waves"


def test_the_plan_says_which_engine_and_why():
    first = programs.ackermann.execution_plan(2, 2).summary
    assert first == "engine: scalar, one token at a time, compiled by XLA"
    first = programs.matrices.execution_plan(np.zeros([1, 2, 2]), 2).summary
    assert first == (
        "engine: waves, because matrices has an argument of type f64[2,2], which is not a plain "
        "number"
    )


def test_an_engine_that_is_not_there():
    with pytest.raises(kerasrec.TraceError, match="engine is 'fast'; it must be one of auto, wave"):
        kerasrec.recursive(engine="fast")(lambda n: n)


@pytest.mark.many
@pytest.mark.parametrize("num_tokens", [0, 1, 127, 128, 129, 500])
def test_any_number_of_tokens(num_tokens):
    m, n = np.arange(num_tokens, dtype=np.int32) % 3, np.arange(num_tokens, dtype=np.int32) % 4
    expected = [
        programs.plain_ackermann(*pair) for pair in zip(m.tolist(), n.tolist(), strict=True)
    ]
    np.testing.assert_array_equal(programs.ackermann(m, n), np.array(expected, np.int32))


@pytest.mark.slow
def test_a_stack_that_grows_in_the_middle_of_a_block():
    @kerasrec.recursive(engine="scalar")
    def count(n):
        return kerasrec.cond(n == 0, lambda: 0, lambda: 1 + count(n - 1))

    depths = np.array([3, 100_000, 0, 4095, 4096, 4097, 7], np.int32)
    np.testing.assert_array_equal(count(depths), depths)


@pytest.mark.slow
def test_a_gradient_whose_log_grows_in_the_middle_of_a_block():
    @kerasrec.recursive(engine="scalar")
    def shrink(x, n):
        return kerasrec.cond(n == 0, lambda: x, lambda: 0.9999 * shrink(x, n - 1))

    x = tf.ones([5], tf.float64)
    depths = np.array([3, 100_000, 0, 16_383, 7], np.int32)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = shrink(x, depths)
    np.testing.assert_allclose(tape.gradient(y, x), 0.9999**depths, rtol=1e-9)


@pytest.mark.slow
def test_a_log_that_does_not_fit():
    @kerasrec.recursive(engine="scalar", max_memory=1_000_000)
    def shrink(x, n):
        return kerasrec.cond(n == 0, lambda: x, lambda: 0.5 * shrink(x, n - 1))

    x = tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = shrink(x, 100_000)
    with pytest.raises(tf.errors.InvalidArgumentError, match="shrink: the gradient of one token"):
        tape.gradient(y, x)


@pytest.mark.slow
def test_a_call_whose_result_has_no_gradient_is_left_behind():
    """An int comes back from the first call; its frames lie in the log all the same."""

    @kerasrec.recursive(engine="scalar")
    def length(x, n):
        return kerasrec.cond(n == 0, lambda: 0, lambda: 1 + length(x * 0.5, n - 1))

    @kerasrec.recursive(engine="scalar")
    def f(x, n):
        def inner():
            size = tf.cast(length(x, n), tf.float64)
            return f(x * size, n - 1) * f(tf.sin(x), n - 2) + x

        return kerasrec.cond(n <= 0, lambda: x, inner)

    def plain(x, n):
        return x if n <= 0 else plain(x * n, n - 1) * plain(tf.sin(x), n - 2) + x

    x = tf.constant([0.3, 0.7, -0.2], tf.float64)
    n = [4, 0, 3]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x, n)
        expected = tf.stack([plain(x[row], n[row]) for row in range(3)])
    np.testing.assert_allclose(y, expected, rtol=1e-12)
    np.testing.assert_allclose(tape.gradient(y, x), tape.gradient(expected, x), rtol=1e-12)


@pytest.mark.parametrize("engine", ["waves", "scalar"])
@pytest.mark.slow
def test_a_chain_as_deep_as_the_limit_and_one_deeper(engine):
    @kerasrec.recursive(engine=engine, max_depth=100)
    def count(n):
        return kerasrec.cond(n == 0, lambda: 0, lambda: 1 + count(n - 1))

    assert count(99) == 99
    with pytest.raises(tf.errors.InvalidArgumentError, match="count: recursion is deeper than"):
        count(100)


@pytest.mark.slow
def test_the_error_tells_the_call_path():
    @kerasrec.recursive
    def lost(n):
        return kerasrec.cond(n < 0, lambda: 0, lambda: lost(lost(n + 1) + 1))

    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        lost(0)
    assert "max_depth=200000" in str(error.value)
    assert f"newest first: {'0 ' * 15}0, where" in str(error.value)
    assert "0 is the call of lost in lost (test_scalar.py:" in str(error.value)


@pytest.mark.many
@pytest.mark.parametrize("engine", few_of(["scalar", "compiled"], "scalar", many=[]))
def test_an_empty_table_in_a_branch_that_no_token_takes(engine):
    table = tf.zeros([0], tf.float64)

    @kerasrec.recursive(engine=engine)
    def f(n, x):
        def rest():
            return kerasrec.cond(n < 9, lambda: f(n - 1, x * x), lambda: tf.gather(table, n))

        return kerasrec.cond(n < 1, lambda: x, rest)

    x = tf.constant([2.0, 3.0], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        found = f([1, 2], x)
    assert found.numpy().tolist() == [2.0**2, 3.0**4]
    assert tape.gradient(found, x).numpy().tolist() == [2 * 2.0, 4 * 3.0**3]


@pytest.mark.many
def test_a_table_that_all_tokens_share():
    next_of = tf.constant([3, 0, 1, 2])

    @kerasrec.recursive(engine="scalar")
    def steps_to_zero(n):
        return kerasrec.cond(n == 0, lambda: 0, lambda: 1 + steps_to_zero(tf.gather(next_of, n)))

    np.testing.assert_array_equal(steps_to_zero([0, 1, 2, 3]), [0, 1, 2, 3])


class TestFaults:
    """Ops that fail in TensorFlow fail here, though XLA would go on; dead branches do not fail."""

    @pytest.mark.many
    @pytest.mark.parametrize("engine", ["waves", "scalar"])
    def test_division_by_zero(self, engine):
        @kerasrec.recursive(engine=engine)
        def divide(a, b):
            return kerasrec.cond(a < 0, lambda: divide(-a, b), lambda: a // b)

        np.testing.assert_array_equal(divide([6, -6], [3, 2]), [2, 3])
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?i)division by zero"):
            divide([6, -6], [3, 0])

    @pytest.mark.many
    @pytest.mark.parametrize("engine", ["waves", "scalar"])
    def test_a_branch_that_is_not_chosen(self, engine):
        @kerasrec.recursive(engine=engine)
        def gcd(a, b):
            return kerasrec.cond(b == 0, lambda: a, lambda: gcd(b, a % b))

        np.testing.assert_array_equal(gcd([12, 7, 0], [18, 0, 5]), [6, 7, 5])

    @pytest.mark.parametrize("engine", ["waves", "scalar"])
    @pytest.mark.many
    def test_an_index_outside_a_table(self, engine):
        table = tf.constant([1, 2, 7])

        @kerasrec.recursive(engine=engine)
        def times(n, index):
            return kerasrec.cond(
                n == 0, lambda: 0, lambda: tf.gather(table, index) + times(n - 1, index)
            )

        assert times(2, 2) == 14
        message = r"times: an index is outside \[0, 3\), the rows of the table|is not in \[0, 3\)"
        for index in (3, -1):
            # By waves TensorFlow's own kernel runs, which on a GPU gives 0 there.
            with tf.device("CPU:0"), pytest.raises(tf.errors.InvalidArgumentError, match=message):
                times(2, index)

    @pytest.mark.slow
    def test_the_message_has_the_line(self):
        @kerasrec.recursive(engine="scalar")
        def divide(a, b):
            return kerasrec.cond(a < 0, lambda: divide(-a, b), lambda: a // b)

        message = r"^divide: integer division by zero at test_scalar.py:\d+\.\n"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            divide(1, 0)


def test_constants_in_a_graph():
    """TensorFlow must not run the recursion on its stack while it optimizes the graph."""

    @kerasrec.recursive(engine="scalar")
    def power(x, n):
        return kerasrec.cond(n == 0, lambda: tf.ones_like(x), lambda: x * power(x, n - 1))

    @tf.function
    def run():
        x = tf.constant(0.999)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = power(x, tf.constant(3_000))
        return y, tape.gradient(y, x)

    np.testing.assert_allclose(run(), [0.999**3_000, 3_000 * 0.999**2_999], rtol=1e-4)


def test_xla_fuses_the_numbers_of_a_wide_frame_into_its_write():
    @kerasrec.recursive
    def tak(x, y, z):
        return kerasrec.cond(
            y < x, lambda: tak(tak(x - 1, y, z), tak(y - 1, z, x), tak(z - 1, x, y)), lambda: z
        )

    sweep = ScalarForward(tak.tagged_graph(0, 0, 0), {}, Limits("tak", 100, 100, 1 << 20))
    given = [tf.zeros([2], tf.int32)] * 3
    compiled = tf.function(sweep.run, jit_compile=True, autograph=False)
    text = compiled.experimental_get_compiler_ir(tf.constant(64), 0, 2, given)("optimized_hlo")
    apart = [part for part in text.split("\n\n") if not part.startswith("%fused")]
    assert "dynamic-update-slice" in text
    assert not [line for part in apart for line in part.splitlines() if " concatenate(" in line]
