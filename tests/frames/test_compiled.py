"""Programs that XLA compiles in blocks: the same results as plain Python, and never in waves."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src import host
from kerasrec._src.frames.rows_xla import sizes
from kerasrec._src.frames.rows_xla.ops import obstacles
from kerasrec._src.frames.rows_xla.sizes import bucket, padded
from tests.engine.helpers import assert_same, run_lowered, run_one, run_plain, with_tokens
from tests.frames import helpers
from tests.parameters import few_of
from tests.programs import each


@pytest.fixture
def compilable(program):
    """A program that can be compiled; found out here, since it traces what is collected."""
    found = obstacles(program.function.extended_graph(*program.inputs))
    if found:
        pytest.skip(found[0])
    return program


@pytest.fixture
def never_by_waves():
    with helpers.never_by_waves():
        yield


@pytest.mark.slow
@each(few=["tree_rnn"], many=[])
def test_every_program(compilable, never_by_waves):
    assert_same(run_lowered(compilable, engine="compiled"), run_plain(compilable))


@pytest.mark.slow
@each(few=[], many=["gated_tree"])
def test_what_is_not_kept_is_computed_again(compilable, never_by_waves):
    found = run_lowered(compilable, engine="compiled", recompute=True)
    assert_same(found, run_plain(compilable))


@pytest.mark.slow
@each(few=["child_sum"], many=["gated_tree"])
def test_as_on_a_gpu(compilable, never_by_waves, a_gpu):
    """Blocks are so wide that nearly all of their rows are dead, and buffers are packed."""
    assert_same(run_lowered(compilable, engine="compiled"), run_plain(compilable))


@pytest.mark.many
@pytest.mark.parametrize(
    "capacity, on_cpu, on_gpu", [(1024, 8, 256), (2048, 16, 256), (16384, 128, 1024)]
)
def test_blocks_are_wider_on_a_gpu(capacity, on_cpu, on_gpu, monkeypatch):
    found = []
    for has_gpu in (False, True):
        monkeypatch.setattr(host, "has_gpu", lambda has_gpu=has_gpu: has_gpu)
        of_blocks = sizes.sizes_for(tf.constant(capacity))
        found.append([of_blocks[name] for name in ("capacity", "width", "widest")])
    widths = [(capacity, width, 4 * width) for width in (on_cpu, on_gpu)]
    np.testing.assert_array_equal(found, widths)


@each(few=[], many=[])
def test_one_token(compilable, never_by_waves):
    assert_same(run_one(compilable, engine="compiled"), run_plain(with_tokens(compilable, 1)))


@pytest.mark.slow
def test_a_run_without_room_begins_again(never_by_waves):
    @kerasrec.recursive(engine="compiled")
    def fib(n):
        return kerasrec.cond(n < 2, lambda: n, lambda: fib(n - 1) + fib(n - 2))

    assert fib.run_trace(16).num_calls == 3193  # for 64 frames there is room at first
    np.testing.assert_array_equal(fib([16, 3]), [987, 2])


@kerasrec.recursive(engine="compiled")
def looked_up(n, table):
    """Reads a row of a table for each call, and divides."""
    return kerasrec.cond(
        n <= 0,
        lambda: tf.gather(TABLE, n + table),
        lambda: tf.gather(TABLE, n // table) * looked_up(n - 1, table),
    )


TABLE = tf.constant([1, 2, 3, 4])


def halving(engine):
    """Leaves in branches of branches multiply by a weight, and so does what is around them."""

    @kerasrec.recursive(engine=engine)
    def halved(n, x):
        def leaf():
            y = x @ WEIGHT
            kerasrec.collect("leaves", y)
            return kerasrec.cond(n == 0, lambda: y @ WEIGHT, lambda: tf.sin(y @ WEIGHT))

        return kerasrec.cond(n < 2, leaf, lambda: halved(n // 2, 3.0 * x) - x)

    return halved


WEIGHT = tf.Variable([[0.5, -0.3], [0.2, 0.4]])


@pytest.mark.slow
def test_what_stands_around_branches_that_go_apart_is_for_all_of_them(never_by_waves):
    n, x = [1, 0, 4, 0, 7], tf.constant([[1.0, 2.0], [0.5, -1.0], [3.0, 0.1], [0.7, 0.2], [0, 1]])
    found = []
    for engine in ("compiled", "waves"):
        with tf.GradientTape() as tape:
            y, collected = halving(engine).with_collected(n, x)
        rows = np.array(sorted(collected["leaves"].numpy().tolist()))
        found.append([y, rows, tape.gradient(y, WEIGHT)])
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5)


@pytest.mark.slow
def test_branches_that_go_apart_know_how_many_they_are(never_by_waves):
    """Where nothing else asks how many frames stand at a place."""

    @kerasrec.recursive(engine="compiled")
    def down(n, x):
        return kerasrec.switch(
            tf.minimum(n, 2),
            [lambda: x @ WEIGHT, lambda: 3.0 * down(n - 1, x), lambda: 2.0 * down(n - 2, x)],
        )

    x = tf.constant([[1.0, 2.0], [0.5, -1.0]])
    np.testing.assert_allclose(down([4, 1], x), [[4.0], [3.0]] * (x @ WEIGHT), rtol=1e-6)


@pytest.mark.slow
def test_the_gradient_of_a_table_that_one_branch_writes_to(never_by_waves):
    """Of all that the branch does, only the table's part of the gradient needs its tokens."""

    def collecting(engine):
        @kerasrec.recursive(engine=engine)
        def f(n, x):
            def collects():
                kerasrec.collect("written", tf.exp(x), n % 4, 4)
                return x

            def ends():
                return kerasrec.switch(n + 1, [lambda: x, collects, lambda: x])

            return kerasrec.cond(n <= 0, ends, lambda: f(n - 1, 0.3 * x))

        return f

    found = []
    for engine in ("compiled", "waves"):
        x = tf.constant([1.0, 2.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y, collected = collecting(engine).with_collected([1, 2], x)
            loss = tf.reduce_sum(y) + tf.reduce_sum(collected["written"] ** 2)
        found.append([y, collected["written"], tape.gradient(loss, x)])
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6)


@pytest.mark.slow
def test_what_xla_passes_over_in_silence_is_an_error_as_by_waves():
    np.testing.assert_array_equal(looked_up([2, 0], [2, 3]), [2 * 1 * 3, 4])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices.* is not in \[0, 4\)"):
        looked_up([0, 0], [4, 3])
    with pytest.raises(tf.errors.InvalidArgumentError, match="division by zero"):
        looked_up([1, 0], [0, 3])


@pytest.mark.slow
def test_a_recursion_without_end_is_an_error_as_by_waves():
    @kerasrec.recursive(engine="compiled", max_depth=50)
    def down(n):
        return kerasrec.cond(n == 0, lambda: n, lambda: down(n - 1))

    np.testing.assert_array_equal(down([3, 49]), [0, 0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="deeper than max_depth=50"):
        down([3, 50])


@pytest.mark.slow
def test_an_index_outside_a_collected_table_is_an_error_as_by_waves():
    @kerasrec.recursive(engine="compiled")
    def seen(n):
        kerasrec.collect("seen", n, n, 4)
        return kerasrec.cond(n == 0, lambda: n, lambda: seen(n - 1))

    np.testing.assert_array_equal(seen.with_collected([3, 1])[1]["seen"], [0, 2, 2, 3])
    with pytest.raises(tf.errors.InvalidArgumentError, match="an index of `seen` is outside its"):
        seen.with_collected([4, 1])


@pytest.mark.slow
def test_two_sizes_of_one_table_are_an_error_as_by_waves():
    def seen_with(size):
        @kerasrec.recursive(engine="compiled")
        def seen(n):
            kerasrec.collect("seen", n, n, 8)
            kerasrec.collect("seen", n, n, size)
            return kerasrec.cond(n == 0, lambda: n, lambda: seen(n - 1))

        size = tf.Variable(size)  # It is known only when the program runs.
        return seen.with_collected([3])[1]["seen"]

    np.testing.assert_array_equal(seen_with(8), [0, 2, 4, 6, 0, 0, 0, 0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="two sizes for"):
        seen_with(9)


@pytest.mark.slow
@pytest.mark.parametrize("inner", few_of([tf.exp, tf.sqrt], many=[tf.exp]))
def test_what_overflows_between_two_ops_does_so_by_xla(inner):
    outer = {tf.exp: tf.math.log, tf.sqrt: tf.square}[inner]

    @kerasrec.recursive(engine="compiled")
    def there_and_back(n, x):
        return kerasrec.cond(
            n == 0, lambda: tf.nn.relu(x), lambda: outer(inner(there_and_back(n - 1, x)))
        )

    x = np.float32([1000.0, 3.0, np.nan])
    expected = outer(inner(tf.nn.relu(x)))
    np.testing.assert_allclose(there_and_back(1, x), expected, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("recompute", [False, True])
def test_a_second_derivative(never_by_waves, recompute):
    @kerasrec.recursive(engine="compiled", recompute=recompute)
    def power(x, n):
        return kerasrec.cond(n == 0, lambda: 1.0, lambda: x * power(x, n - 1))

    x = tf.constant([2.0, 3.0, 5.0])
    with tf.GradientTape() as second:
        second.watch(x)
        with tf.GradientTape() as first:
            first.watch(x)
            y = power(x, [2, 3, 4])
        gradient = first.gradient(y, x)
    np.testing.assert_allclose(gradient, [4, 27, 500], rtol=1e-6)
    np.testing.assert_allclose(second.gradient(gradient, x), [2, 18, 300], rtol=1e-6)
    assert power.num_xla_sizes == 2  # One for the second derivative.


@pytest.mark.slow
def test_gradients_of_what_is_repeated_along_the_entries_of_a_token(never_by_waves):
    def gradient_by(engine):
        @kerasrec.recursive(engine=engine)
        def bilinear(x, n):
            def deeper():
                outer = bilinear(x, n - 1)[:, :, tf.newaxis] * x[:, tf.newaxis]
                return tf.linalg.matvec(outer, tf.sin(x))

            return kerasrec.cond(n == 0, lambda: x, deeper)

        x = tf.constant([[1.0, 0.5], [-0.3, 2.0], [0.7, -0.2]])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = bilinear(x, [2, 0, 3])
        return y, tape.gradient(y, x)

    pairs = zip(gradient_by("compiled"), gradient_by("waves"), strict=True)
    for mine, theirs in pairs:
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)


def test_gradients_of_what_is_repeated_along_the_tokens(never_by_waves):
    def gradients_by(engine):
        kernel = tf.Variable([[[1.0, 0.5], [-0.3, 2.0]]])

        @kerasrec.recursive(engine=engine)
        def power(x, n):
            def deeper():
                return (kernel @ power(x, n - 1)[:, :, tf.newaxis])[:, :, 0]

            return kerasrec.cond(n == 0, lambda: x, deeper)

        x = tf.constant([[1.0, 2.0], [3.0, -1.0], [0.5, 0.2]])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.sin(power(x, [1, 3, 0]))
        return y, *tape.gradient(y, [x, kernel])

    for mine, theirs in zip(gradients_by("compiled"), gradients_by("waves"), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)


def test_what_cannot_be_compiled_is_an_error_that_says_what():
    @kerasrec.recursive(engine="compiled")
    def shown(n):
        tf.print(n)
        return kerasrec.cond(n == 0, lambda: n, lambda: shown(n - 1))

    with pytest.raises(
        kerasrec.TraceError, match=r"engine='compiled' cannot run .* shows something"
    ):
        shown(3)

    @kerasrec.recursive(engine="compiled", parallel_tokens=8)
    def bounded(n):
        return kerasrec.cond(n == 0, lambda: n, lambda: bounded(n - 1))

    with pytest.raises(kerasrec.TraceError, match="parallel_tokens is a bound on waves"):
        bounded(3)


def test_the_plan_is_that_of_blocks():
    plan = looked_up.execution_plan([1], [2])
    assert plan.summary == "engine: compiled, in blocks, compiled by XLA"
    assert "queues, in turn where frames are ready" in str(plan)


def test_sizes_are_powers_of_two():
    assert [int(bucket(tf.constant(number))) for number in (0, 1, 2, 3, 64, 65)] == [
        *(1, 1, 2, 4, 64, 128)
    ]
    np.testing.assert_array_equal(padded(tf.constant([[1], [2]]), tf.constant(3)), [[1], [2], [0]])


@pytest.mark.slow
def test_a_zero_in_a_vector_that_all_tokens_divide_by_is_an_error_as_by_waves():
    def halved_by(divisors):
        @kerasrec.recursive(engine="compiled")
        def halved(n, x):
            return kerasrec.cond(n == 0, lambda: x, lambda: halved(n - 1, x // divisors))

        return halved([2], [[8, 27]])[0]

    np.testing.assert_array_equal(halved_by(tf.constant([2, 3])), [2, 3])
    with pytest.raises(tf.errors.InvalidArgumentError, match="division by zero"):
        halved_by(tf.constant([2, 0]))


@pytest.mark.parametrize("compute", [tf.nn.bias_add, tf.multiply])
def test_a_sum_over_rows_that_tokens_are_cut_into(compute, never_by_waves):
    def gradients_by(engine):
        weight = tf.Variable([1.0, 2.0])

        @kerasrec.recursive(engine=engine)
        def cut(n, x):
            def halves():
                rows = tf.tanh(tf.reshape(x, [-1, 2]))
                return tf.reshape(compute(rows, weight), [-1, 2, 2])

            return kerasrec.cond(n == 0, halves, lambda: cut(n - 1, 2.0 * x))

        x = tf.reshape(tf.linspace(-1.0, 1.0, 12), [3, 2, 2])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.square(cut([0, 2, 1], x))
        return y, *tape.gradient(y, [x, weight])

    for mine, theirs in zip(gradients_by("compiled"), gradients_by("waves"), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)


def test_an_op_that_might_combine_tokens_is_not_compiled():
    @kerasrec.recursive(engine="compiled")
    def cut(n, x):
        def halves():
            return tf.reshape(tf.ensure_shape(tf.reshape(x, [-1, 2]), [None, 2]), [-1, 2, 2])

        return kerasrec.cond(n == 0, halves, lambda: cut(n - 1, 2.0 * x))

    with pytest.raises(kerasrec.TraceError, match="EnsureShape, which might combine tokens"):
        cut([0], tf.zeros([1, 2, 2]))


@pytest.mark.slow
def test_rows_without_numbers():
    @kerasrec.recursive(engine="compiled")
    def doubled(x, n):
        return kerasrec.cond(n < 1, lambda: x, lambda: doubled(x * 2.0, n - 1) + x)

    x = tf.zeros([3, 0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        found = doubled(x, [0, 2, 1])
    assert found.shape == (3, 0)
    assert tape.gradient(found, x).shape == (3, 0)


def calls_of(function, engine):
    """A recursive function that applies a `tf.function` to its result."""

    @kerasrec.recursive(engine=engine)
    def f(n, x):
        return kerasrec.cond(n < 1, lambda: tf.sin(x), lambda: function(f(n - 1, x)))

    return f


@pytest.mark.slow
@pytest.mark.parametrize("num_tapes", [1, 2])
def test_a_tf_function_is_compiled_whatever_tapes_there_are(num_tapes):
    kernel = tf.Variable([[0.5, 0.1], [-0.2, 0.4]])
    product = tf.function(lambda x, k: tf.tanh(x @ k), autograph=False)
    n, x = tf.constant([2, 1]), tf.constant([[0.1, 0.2], [0.3, -0.4]])
    found = []
    for engine in ("compiled", "waves"):
        f = calls_of(lambda y: product(y, tf.convert_to_tensor(kernel)), engine)
        with contextlib.ExitStack() as tapes:
            for _ in range(num_tapes):
                tapes.enter_context(tf.GradientTape())
            found.append(tf.function(f)(n, x))
    np.testing.assert_allclose(*found, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("is_differentiated", [False, True])
def test_a_tf_function_with_a_loop_is_left_as_it_was(is_differentiated):
    def looped(x):
        step = lambda i, y: (i + 1, tf.sin(y))  # noqa: E731
        return tf.while_loop(lambda i, _: i < 3, step, [0, x])[1]

    def slope(function, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x)

    function, x = tf.function(looped, autograph=False), tf.constant([[0.1, 0.2]])
    if is_differentiated:
        slope(function, x)
    with pytest.raises(kerasrec.TraceError, match="computes PartitionedCall"):
        slope(lambda x: calls_of(function, "compiled")([2], x), x)
    by_waves = calls_of(function, "waves")
    by_hand = slope(lambda x: looped(looped(tf.sin(x))), x)
    np.testing.assert_allclose(slope(lambda x: by_waves([2], x), x), by_hand, rtol=1e-6)
    np.testing.assert_allclose(slope(function, x), slope(looped, x), rtol=1e-6)


@pytest.mark.slow
def test_a_tf_function_that_asserts_may_have_been_differentiated():
    @tf.function(autograph=False)
    def checked(x):
        tf.debugging.assert_less(x, 9.0)
        step = lambda i, y: (i + 1, tf.sin(y))  # noqa: E731
        return tf.while_loop(lambda i, _: i < 3, step, [0, x])[1]

    x = tf.constant([[0.1, 0.2]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        once = checked(x)
    tape.gradient(once, x)
    np.testing.assert_allclose(calls_of(checked, "waves")([1], x), checked(tf.sin(x)), rtol=1e-6)


def test_a_tf_function_on_a_device_is_not_compiled():
    product = tf.function(lambda x: x @ tf.eye(2), autograph=False)

    def placed(y):
        with tf.device("/CPU:1"):
            return product(y)

    with pytest.raises(kerasrec.TraceError, match="is to run MatMul on /device:CPU:1"):
        calls_of(placed, "compiled")([2], [[0.1, 0.2]])
