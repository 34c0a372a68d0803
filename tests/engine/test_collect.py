"""Tables without an index: a row for each token that comes, in no particular order."""

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.emit.limits import Limits
from kerasrec._src.engine.executable import Executable
from kerasrec._src.engine.program import Program
from kerasrec._src.graph.interpreter import interpret
from kerasrec._src.options import Options
from kerasrec._src.transform.extend import extend


@kerasrec.recursive
def collatz(n, x):
    """Collects on both sides of a choice, and in one branch only."""
    kerasrec.collect("seen", tf.stack([n, n % 2], axis=1))
    kerasrec.cond(n % 3 == 0, lambda: _note(n), lambda: n)
    return kerasrec.cond(
        n <= 1,
        lambda: x,
        lambda: kerasrec.cond(
            n % 2 == 0,
            lambda: collatz(n // 2, tf.sin(x)),
            lambda: collatz(3 * n + 1, x) + collatz(n - 1, x),
        ),
    )


def _note(n):
    kerasrec.collect("threes", tf.strings.as_string(n))
    return n


def plain(n):
    """The numbers that a call comes by."""
    if n <= 1:
        return [n]
    return [n, *plain(n // 2)] if n % 2 == 0 else [n, *plain(3 * n + 1), *plain(n - 1)]


STARTS = [7, 1, 12, 3]
EXPECTED = sorted(number for start in STARTS for number in plain(start))


def check(collected):
    seen = sorted(np.asarray(collected["seen"]).tolist())
    assert seen == [[number, number % 2] for number in EXPECTED]
    threes = sorted(int(text) for text in np.asarray(collected["threes"]))
    assert threes == [number for number in EXPECTED if number % 3 == 0]


def arguments():
    return tf.constant(STARTS), tf.constant([0.1, 0.2, 0.3, 0.4])


@pytest.mark.slow
def test_called():
    check(collatz.with_collected(*arguments())[1])


@pytest.mark.many
@pytest.mark.parametrize(
    "options, by_queues",
    [({"engine": "waves"}, False), ({"engine": "waves"}, True), ({"parallel_tokens": 3}, False)],
    ids=["waves", "queues", "bounded"],
)
def test_by_every_engine(options, by_queues):
    graph = collatz.tagged_graph(*arguments())
    limits = Limits("collatz", 1000, 1000, 1 << 40)
    program = Executable(Program(extend(graph), limits, Options(**options), by_queues=by_queues))
    check(tf.function(lambda *given: program.run(*given)[1], autograph=False)(*arguments()))


@pytest.mark.many
def test_by_the_interpreter():
    graph = collatz.tagged_graph(*arguments())
    check(interpret(graph, [item.numpy() for item in arguments()]).tables)


def test_the_graph_prints():
    text = str(collatz.tagged_graph(*arguments()))
    assert "COLLECT seen(%" in text
    assert "COLLECT seen" in collatz.function_graphs(*arguments()).to_dot()


@kerasrec.recursive
def power(x, n):
    kerasrec.collect("seen", x * x)
    return kerasrec.cond(n == 0, lambda: 1.0, lambda: x * power(x, n - 1))


@pytest.mark.slow
def test_rows_without_an_index_have_no_gradient():
    x = tf.constant(3.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, collected = power.with_collected(x, 2)
    np.testing.assert_array_equal(collected["seen"], [9.0] * 3)
    assert not tape.gradient(
        collected["seen"], x
    )  # None, or zero where a tf.function stands between
    assert float(tape.gradient(y, x)) == 6.0


def test_a_gradient_that_asks_what_is_read_goes_past_a_table_of_integers():
    @kerasrec.recursive
    def f(x, n):
        kerasrec.collect("seen", n)
        return 2.0 * x, tf.where(n > 0, 0.5, x)

    x = tf.constant(1.5)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x, 0)[1]
    assert (float(y), float(tape.gradient(y, x))) == (1.5, 1.0)


@pytest.mark.slow
def test_a_gradient_goes_past_it():
    x = arguments()[1]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y, collected = collatz.with_collected(arguments()[0], x)
    check(collected)
    found = tape.gradient(y, x)
    step = 1e-3
    slope = collatz(STARTS, x + step) - collatz(STARTS, x - step)
    np.testing.assert_allclose(found, slope / (2 * step), rtol=1e-3)
