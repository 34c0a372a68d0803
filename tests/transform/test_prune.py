"""Values that nobody reads are not computed: calls are counted, and values and gradients stay the
same.

Of `tests/programs.py`, `reads_the_first`, `reads_the_table` and `ignores` go through all stages.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.trace.program import trace
from kerasrec._src.trace.signature import signature_of
from kerasrec._src.transform.prune import prune
from tests.programs import FEW, MORE, each, fib, power

ENGINES = ("waves", "compiled", "scalar")


def calls(function, *args):
    return function.run_trace(*args).calls


def traced(function, *args):
    """The graphs of a function before they are pruned."""
    types = [node.types[0] for node in function.function_graphs(*args).functions["f"].parameters]
    graphs, _ = trace(function, signature_of(function, args, types))
    return graphs


# Calls.


@pytest.mark.parametrize("engine", ENGINES)
def test_a_call_whose_result_is_not_read_is_not_made(engine):
    """fib(15) makes 1,973 calls."""

    @kerasrec.recursive(engine=engine)
    def f(n):
        fib(n)
        return n + 1

    assert list(f.function_graphs(15).functions) == ["f"]
    assert calls(f, 15) == {"f": 1}
    np.testing.assert_array_equal(f([15, 3]), [16, 4])


def test_as_it_was_traced_there_is_a_call():
    """The pass leaves it out, not the tracer."""

    @kerasrec.recursive
    def f(n):
        fib(n)
        return n + 1

    graphs = traced(f, np.int32(3))
    assert list(graphs.functions) == ["f", "fib"]
    assert list(prune(graphs).functions) == ["f"]
    assert list(graphs.functions) == ["f", "fib"]


@pytest.mark.many
@pytest.mark.parametrize("engine", ENGINES)
def test_an_argument_that_nobody_reads_is_not_computed(engine):
    """Not even round a recursion, which only passes it on to itself; the root's neither."""

    @kerasrec.recursive(engine=engine)
    def f(n, total, x):
        return kerasrec.cond(n == 0, lambda: x, lambda: x * f(n - 1, total + fib(n), x))

    x, total = tf.constant([2.0, 3.0]), tf.constant([1.0, 1.0])
    assert calls(f, 10, 0, 2.0) == {"f": 11}
    with tf.GradientTape() as tape:
        tape.watch([x, total])
        y = f([2, 1], tf.cast(total, tf.int32), x)
    np.testing.assert_allclose(y, [8, 9])
    np.testing.assert_allclose(tape.gradient(y, x), [12, 6])
    assert "f(n: i32[], x: f32[]) -> f32[]" in str(f.function_graphs(1, 1, 2.0))


@pytest.mark.many
@pytest.mark.parametrize("engine", ENGINES)
def test_a_result_that_nobody_reads_is_not_computed(engine):
    @kerasrec.recursive(engine=engine)
    def pair(x, n):
        def inner():
            low, high = pair(x * 0.5, n - 1)
            return low + x, high * power(x, n)

        return kerasrec.cond(n == 0, lambda: (x, x), inner)

    @kerasrec.recursive(engine=engine)
    def f(x, n):
        return pair(x, n)[0]

    assert calls(f, 2.0, 5) == {"f": 1, "pair": 6}
    assert calls(pair, 2.0, 5)["power"] == sum(range(2, 7))
    x = tf.constant([2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x, [1, 2])
    np.testing.assert_allclose(y, [3, 5.25])
    np.testing.assert_allclose(tape.gradient(y, x), [1.5, 1.75])


@pytest.mark.many
def test_the_gradient_of_an_argument_that_nobody_reads_is_none():
    """As it is for a `tf.function`."""

    @kerasrec.recursive
    def f(x, y, n):
        return kerasrec.cond(n == 0, lambda: x, lambda: x * f(x, y * x, n - 1))

    for x, y in [(tf.constant(2.0), tf.constant(3.0)), (tf.constant([2.0]), tf.constant([3.0]))]:
        with tf.GradientTape(persistent=True) as outer:
            outer.watch([x, y])
            with tf.GradientTape() as tape:
                tape.watch([x, y])
                z = f(x, y, 2)
            of_x, of_y = tape.gradient(z, [x, y])
        np.testing.assert_allclose(tf.reshape(of_x, []), 12)
        np.testing.assert_allclose(tf.reshape(outer.gradient(of_x, x), []), 12)
        assert of_y is None
        assert outer.gradient(of_x, y) is None


@pytest.mark.many
def test_a_branch_that_is_read_stays_for_its_tokens():
    @kerasrec.recursive
    def f(n):
        value = fib(n)
        return kerasrec.cond(n > 5, lambda: value, lambda: n)

    assert calls(f, 3)["fib"] == 5
    np.testing.assert_array_equal(f([3, 10]), [3, 55])


@pytest.mark.many
def test_a_function_that_reads_none_of_its_arguments():
    """The first one stays: it determines which tokens there are."""

    @kerasrec.recursive
    def three(a, b):
        return 3

    @kerasrec.recursive
    def f(n, m):
        return n + three(m, fib(m)) + three(n, fib(n))

    np.testing.assert_array_equal(f([1, 2], [5, 6]), [7, 8])
    assert calls(f, 1, 5) == {"f": 1, "three": 2}


@pytest.mark.many
def test_rows_loops_functions_and_what_is_closed_over():
    @kerasrec.recursive
    def f(n):
        scale = n * 2

        @kerasrec.recursive
        def inner(m, unread):
            return m * scale

        table = kerasrec.functions([fib, lambda k: k + 1])
        rows = tf.RaggedTensor.from_row_lengths(tf.repeat(n, n), n)
        inner(fib(n), fib(n))  # Not read.
        fib(rows)
        kerasrec.map_fn(fib, rows)
        table[tf.zeros_like(n)](n)
        kerasrec.any_of(n, lambda k: fib(k) > 3)
        total, _ = kerasrec.while_loop(
            lambda total, other: total < 9, lambda total, other: (total + 2, fib(other)), (n, n)
        )
        return total + inner(n, fib(n))

    assert calls(f, 3) == {"f": 1, "loop_1": 4, "inner": 1}
    np.testing.assert_array_equal(f([3, 4]), [9 + 18, 10 + 32])


@pytest.mark.many
def test_with_memo():
    @kerasrec.recursive(memo=True)
    def f(n, values, unread):
        power(1.0, n)
        return kerasrec.cond(
            n < 2,
            lambda: tf.reduce_sum(values, axis=1),
            lambda: f(n - 1, values, unread) + f(n - 2, values, unread),
        )

    values, unread = tf.constant([[1.0, 2.0]]), tf.constant([[5.0, 5.0]])
    with tf.GradientTape() as tape:
        tape.watch(values)
        y = f([10], values, unread)
    np.testing.assert_allclose(y, [89 * 3])
    np.testing.assert_allclose(tape.gradient(y, values), [[89, 89]])
    assert calls(f, [10], values, unread) == {"f": 11}
    assert f.tagged_graph([10], values, unread).left_out == {1, 2}


# Effects.


@pytest.mark.many
def test_effects_keep_a_call_and_no_more_than_they_read(capfd):
    """The results of `shown` are not read, so its calls of fib are not made."""

    @kerasrec.recursive
    def shown(n, unread):
        tf.print("shown", n)
        return kerasrec.cond(n == 0, lambda: n, lambda: fib(n) + shown(n - 1, fib(n)))

    @kerasrec.recursive
    def f(n):
        shown(n, n)
        return n

    assert f(2) == 2
    assert capfd.readouterr().err.split("\n") == ["shown [2]", "shown [1]", "shown [0]", ""]
    assert calls(f, 2) == {"f": 1, "shown": 3}


@pytest.mark.many
def test_an_assertion_keeps_a_call_and_names_the_token():
    """Labels are those of the program as it was written, so the error names the right calls."""

    @kerasrec.recursive
    def checked(n):
        tf.debugging.assert_greater(n, -2)
        return kerasrec.cond(n == 0, lambda: n, lambda: fib(n) + checked(n - 1))

    @kerasrec.recursive
    def f(n):
        fib(n)
        checked(n)
        return n

    assert f(2) == 2
    assert calls(f, 2) == {"f": 1, "checked": 3}
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        f([2, -1])
    message = error.value.message
    assert "for root token 1" in message
    labels = [site.label for site in f.tagged_graph(2).inner_sites]
    assert f"{labels[0]} is the call of checked in f" in message
    assert f"newest first: {labels[1]} {labels[0]} where" in message


@pytest.mark.many
def test_a_python_function_stays_whether_its_result_is_read_or_not():
    seen = []

    def see(n):
        seen.extend(n.numpy().tolist())
        return n

    @kerasrec.recursive
    def inner(n):
        m = tf.ensure_shape(tf.py_function(see, [n], tf.int32), [None])
        return kerasrec.cond(n == 0, lambda: m, lambda: m + inner(n - 1))

    @kerasrec.recursive
    def f(n):
        inner(n)
        return n

    assert f(2) == 2
    assert sorted(seen) == [0, 1, 2]


@pytest.mark.many
@pytest.mark.parametrize("engine", ["waves", "compiled"])
def test_tables_and_their_gradients_stay(engine):
    @kerasrec.recursive(engine=engine)
    def kept(x, n):
        kerasrec.collect("kept", x * x, n, 4)
        return kerasrec.cond(n == 0, lambda: (x, power(x, n)), lambda: kept(x + 1.0, n - 1))

    @kerasrec.recursive(engine=engine)
    def f(x, n):
        kept(x, n)
        return x

    x = tf.constant([2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        _, collected = f.with_collected(x, [2])
        total = tf.reduce_sum(collected["kept"])
    np.testing.assert_allclose(collected["kept"], [16, 9, 4, 0])
    np.testing.assert_allclose(tape.gradient(total, x), [4 + 6 + 8])


@pytest.mark.many
def test_a_seed_takes_its_next_state_even_if_the_draw_is_not_read():
    dropout = keras.layers.Dropout(0.5, seed=3)

    @kerasrec.recursive
    def drops(x, n):
        return kerasrec.cond(n == 0, lambda: x, lambda: dropout(drops(x, n - 1), training=True))

    @kerasrec.recursive
    def f(x, n):
        drops(x, n)
        return x

    state = dropout.seed_generator.state
    before = np.array(state)
    f(tf.ones([2, 3]), 2)
    assert not np.array_equal(before, np.array(state))
    assert calls(f, tf.ones([2, 3]), 2) == {"f": 2}


# Programs that do not end.


@pytest.mark.many
def test_what_never_ends_ends_if_nobody_reads_it():
    """Unless it has effects: then it is run, and stopped like any other endless recursion."""

    @kerasrec.recursive
    def endless(n):
        return kerasrec.cond(n < 0, lambda: n, lambda: 1 + endless(n + 1))

    @kerasrec.recursive
    def f(n):
        endless(n)
        return n

    assert f(3) == 3

    @kerasrec.recursive(max_depth=50)
    def checks(n):
        tf.debugging.assert_less(n, 1000)
        return kerasrec.cond(n < 0, lambda: n, lambda: 1 + checks(n + 1))

    @kerasrec.recursive(max_depth=50)
    def g(n):
        checks(n)
        return n

    with pytest.raises(tf.errors.InvalidArgumentError, match="deeper than max_depth=50"):
        g(3)


# The pass.


@each(few=FEW, many=MORE)
def test_a_second_time_nothing_is_left_out(program):
    graphs = program.function.function_graphs(*program.inputs)
    again = prune(graphs)
    assert all(again.functions[name] is function for name, function in graphs.functions.items())


def test_a_graph_of_which_all_is_read_stays_as_it_is():
    graphs = power.function_graphs(2.0, 3)
    assert prune(graphs).functions["power"] is graphs.functions["power"]
