"""Recursion compared with loops by hand: `tf.while_loop`, with a stack where one is needed.

    python -m benchmarks.loops

prints a table, in about a minute. Every ratio is of times taken in the same run, in turns. The
loops are those of docs/coming-from/while-loop.md.
"""

import argparse
import json
import statistics
import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf

import kerasrec
from benchmarks import report
from benchmarks.functions import expected
from benchmarks.trees import tree_of_splits

# Calls that may wait on the stack: more than any of those below needs.
STACK = 4096
CALLS = [(3, 3), (3, 4), (3, 5)]
DEPTHS = [10, 100, 1000]
WORDS = [8, 64, 512, 4096]
QUICK = {"calls": [(2, 3)], "depths": [10], "words": [4]}

# Seconds for which each is called repeatedly in a turn.
TURN = 0.2
TOLERANCE = 1e-4


class Case(NamedTuple):
    """One computation, written both ways.

    Attributes:
        title: its name.
        loop, recursion: functions of tensors, which return a tensor.
        arguments: of both.
        correct: the correct result.
    """

    title: str
    loop: object
    recursion: object
    arguments: list
    correct: object


def ack_loop(m, n):
    """The calls that wait for a result are on the stack, by their first argument."""
    stack = tf.TensorArray(tf.int32, STACK, clear_after_read=False, element_shape=[])

    def step(n, top, stack):
        m = stack.read(top)
        # m = 0 returns n + 1; n = 0 goes on as ack(m - 1, 1); else ack(m, n - 1) comes first.
        stack = stack.write(top, m - 1).write(top + 1, m)
        top += tf.where(m == 0, -1, tf.where(n == 0, 0, 1))
        return tf.where(m == 0, n + 1, tf.where(n == 0, 1, n - 1)), top, stack

    n, _, _ = tf.while_loop(lambda n, top, _: top >= 0, step, (n, 0, stack.write(0, m)))
    return n


@kerasrec.recursive
def ack(m, n):
    return kerasrec.cond(
        m == 0,
        lambda: n + 1,
        lambda: kerasrec.cond(n == 0, lambda: ack(m - 1, 1), lambda: ack(m - 1, ack(m, n - 1))),
    )


def power_loop(x, n):
    """Needs no stack. XLA needs the maximum number of steps for the gradient."""
    _, product = tf.while_loop(
        lambda k, _: k < n,
        lambda k, product: (k + 1, x * product),
        (0, 1.0),
        maximum_iterations=max(DEPTHS),
    )
    return product


@kerasrec.recursive
def power(x, n):
    return kerasrec.cond(n == 0, lambda: 1.0, lambda: x * power(x, n - 1))


def walk_loop(values, children):
    """The sum of the squares of a tree's values; tree nodes that are yet to visit are on a stack.

    Args:
        values: float `[nodes]`.
        children: int32 `[nodes, 2]`, -1 at leaves.
    """
    num_nodes = len(children)
    stack = tf.TensorArray(tf.int32, num_nodes + 1, clear_after_read=False, element_shape=[])

    def step(total, top, stack):
        node = stack.read(top)
        below = tf.gather(children, node)
        stack = stack.write(top, below[0]).write(top + 1, below[1])
        top += tf.where(below[0] < 0, -1, 1)
        return total + tf.square(tf.gather(values, node)), top, stack

    total, _, _ = tf.while_loop(
        lambda total, top, _: top >= 0,
        step,
        (0.0, 0, stack.write(0, 0)),
        maximum_iterations=num_nodes,
    )
    return total


def make_walk(values, children):
    """The same by recursion, a function of nothing."""

    @kerasrec.recursive
    def walk(node):
        left, right = tf.unstack(tf.gather(children, node), axis=1)
        square = tf.square(tf.gather(values, node))
        return kerasrec.cond(left < 0, lambda: square, lambda: square + walk(left) + walk(right))

    return lambda: walk(0)


def gradient_of(function, x):
    """A function of the same arguments, which returns the gradient of its result for x."""

    def gradient(*arguments):
        with tf.GradientTape() as tape:
            tape.watch(x)
            result = function(*arguments)
        return tf.convert_to_tensor(tape.gradient(result, x))

    return gradient


def cases(calls, depths, words):
    """Yields them, each with new functions, so that each is traced again."""
    for m, n in calls:
        arguments = [tf.constant(m), tf.constant(n)]
        yield Case(f"ack({m}, {n})", ack_loop, ack, arguments, expected("ack", m, n))
    for depth in depths:
        x = tf.Variable(1.0)
        loop, recursion = (
            gradient_of(lambda n, function=function, x=x: function(x, n), x)
            for function in (power_loop, power)
        )
        title = f"gradient of power(x, {depth})"
        yield Case(title, loop, recursion, [tf.constant(depth)], float(depth))
    for num_words in words:
        children, values = _tree(num_words)
        loop = gradient_of(lambda x=values, of=children: walk_loop(x, of), values)
        recursion = gradient_of(make_walk(values, children), values)
        title = f"gradient of a walk over {len(children):,} tree nodes"
        yield Case(title, loop, recursion, [], 2 * values.numpy())


def _tree(num_words):
    """Children of a random tree, and a value for each tree node."""
    rng = np.random.default_rng(0)
    tree = tree_of_splits(num_words, lambda words: int(rng.integers(1, words)), rng)
    values = rng.standard_normal(len(tree.children), np.float32)
    return tf.constant(tree.children), tf.Variable(values)


def measure(case, repeats):
    """Median seconds of all three for a case, and median ratios of times of one turn."""
    functions = {
        "loop": tf.function(case.loop, autograph=False),
        "XLA": tf.function(case.loop, autograph=False, jit_compile=True),
        "kerasrec": tf.function(case.recursion, autograph=False),
    }
    for name, function in functions.items():
        # The first call compiles.
        check(case.title, name, function(*case.arguments).numpy(), case.correct)
    turns = [
        {name: _seconds(function, case.arguments) for name, function in functions.items()}
        for _ in range(repeats)
    ]
    row = {name: statistics.median(turn[name] for turn in turns) for name in functions}
    for name in ("loop", "XLA"):
        ratios = [turn[name] / turn["kerasrec"] for turn in turns]
        row[f"over {name}"] = statistics.median(ratios)
    return {"case": case.title, **row}


def check(title, name, found, correct):
    """Raises ValueError unless a result is correct."""
    if not np.allclose(found, correct, rtol=TOLERANCE, atol=TOLERANCE):
        raise ValueError(f"{name} returns {found} for {title}; expected {correct}.")


def _seconds(function, arguments):
    """The median of the calls of a turn, one at least."""
    seconds = []
    while sum(seconds) < TURN:
        start = time.perf_counter()
        function(*arguments).numpy()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


COLUMNS = {
    "": lambda row: row["case"],
    "while_loop, s": lambda row: report.short(row["loop"]),
    "while_loop by XLA, s": lambda row: report.short(row["XLA"]),
    "kerasrec, s": lambda row: report.short(row["kerasrec"]),
    "over while_loop": lambda row: report.short(row["over loop"]),
    "over XLA": lambda row: report.short(row["over XLA"]),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=5, help="timed turns of each")
    parser.add_argument("--quick", action="store_true", help="only small ones, to try it out")
    parser.add_argument("--json", metavar="FILE", help="also write the table to this file")
    arguments = parser.parse_args()
    description = {"repeats": arguments.repeats, **report.machine()}
    print(f"{report.line(description)}\n")
    sizes = QUICK if arguments.quick else {"calls": CALLS, "depths": DEPTHS, "words": WORDS}
    rows = (measure(case, arguments.repeats) for case in cases(**sizes))
    found = {**description, "rows": report.print_table(COLUMNS, rows)}
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
