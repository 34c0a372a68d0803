"""The functions of the benchmark of recursion are right, for all who run them."""

import multiprocessing
import os
import signal

import numpy as np
import pytest

import kerasrec
from benchmarks.baselines.expanding import Died, Expanding
from benchmarks.functions import count_calls, define, expected
from kerasrec._src.graph.interpreter import interpret

SMALL = {
    "fib": [(0,), (1,), (2,), (7,)],
    "ack": [(0, 3), (1, 0), (1, 2), (2, 2)],
    "tak": [(0, 1, 2), (3, 2, 1), (6, 3, 0)],
    "primes": [(0,), (1,), (2,), (6,)],
    "listed": [(0,), (1,), (2,), (15,)],
}

each_function = pytest.mark.parametrize("name", SMALL)


@pytest.fixture(scope="module")
def baseline():
    baseline = Expanding()
    yield baseline
    baseline.close()


@pytest.mark.parametrize(
    ("call", "published"),
    [
        (("fib", 24), 75025),
        (("fib", 33), 5702887),
        (("ack", 3, 8), 2045),
        (("tak", 24, 16, 8), 9),
        (("tak", 25, 16, 8), 16),
        (("tak", 27, 17, 8), 9),
        (("primes", 9999), 104729),
        (("listed", 7500), 42209),
        (("listed", 10000), 57077),
    ],
)
def test_expected_is_what_is_known(call, published):
    """All but primes: Kostopoulou (2018), section 6; the 10,000th prime is well known."""
    assert expected(*call) == published


@each_function
def test_plain_python(name):
    function = define(lambda function: function, lambda test, yes, no: yes() if test else no())
    for arguments in SMALL[name]:
        assert function[name](*arguments) == expected(name, *arguments)


@pytest.mark.slow
@each_function
def test_tagged_graph_fires_a_token_a_call(name):
    function = define(kerasrec.recursive, kerasrec.cond)[name]
    arguments = np.array(SMALL[name], np.int32)
    graph = function.tagged_graph(*arguments.T)
    found = interpret(graph, list(arguments.T))
    assert found.outputs[0].tolist() == [expected(name, *row) for row in SMALL[name]]
    calls = sum(count_calls(name, *row) for row in SMALL[name])
    for place in ("parameters", "outputs"):
        fired = (found.fired[getattr(body, place)[0]] for body in graph.bodies.values())
        assert sum(fired) == calls


@pytest.mark.slow
@each_function
def test_tensorflows_own_recursion(name, baseline):
    for arguments in SMALL[name]:
        result, seconds = baseline.run(name, *arguments)
        assert result == expected(name, *arguments)
        assert seconds > 0
    columns = [list(column) for column in zip(*SMALL[name], strict=True)]
    result, _ = baseline.run(name, *columns)
    assert result == [expected(name, *arguments) for arguments in SMALL[name]]


@pytest.mark.slow
def test_death_of_the_baseline_is_survived(baseline):
    baseline.run("fib", 3)
    (process,) = multiprocessing.active_children()
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(Died, match="died in fib"):
        baseline.run("fib", 3)
    assert baseline.run("fib", 3)[0] == 3
