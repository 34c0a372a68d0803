"""Training through a deep recursion, with kerasrec and with plain recursion in Python.

The test of Vasilakopoulos (2024), section 6.2: the exponent function, x to the power of n by
recursion, is minimized by 100 steps of gradient descent, for growing n.
"""

import functools
import statistics
import sys
import time

import numpy as np
import tensorflow as tf

import kerasrec
from benchmarks import report
from benchmarks.growth import count_ops

NUM_STEPS = 100
TOLERANCE = 1e-4
DEPTHS = [10, 20, 50, 100, 200, 500, 1000]
QUICK_DEPTHS = [10, 20]
# If a turn takes more seconds than this, there is only one.
LONG = 10


@kerasrec.recursive
def power(x, n):
    return kerasrec.cond(n == 0, lambda: 1.0, lambda: x * power(x, n - 1))


def plain_power(x, n):
    return tf.constant(1.0) if n == 0 else x * plain_power(x, n - 1)


def gradient_step(function, x, n, learning_rate):
    """A step of gradient descent on the variable x; returns the loss before it."""
    with tf.GradientTape() as tape:
        loss = function(x, n)
    x.assign_sub(learning_rate * tape.gradient(loss, x))
    return loss


def in_graph(function):
    return tf.function(functools.partial(gradient_step, function), autograph=False)


# For each, the step, and its argument for n. A Python number traces the step again, unrolled.
STEPS = {
    "kerasrec": (in_graph(power), tf.constant),
    "unrolled": (in_graph(plain_power), int),
    "eager": (functools.partial(gradient_step, plain_power), int),
}


def depth_test(is_quick, repeats):
    """Prints a table of the depths; returns its rows."""
    columns = {"depth": lambda row: row["depth"]}
    for name in STEPS:
        columns[f"{name}, {NUM_STEPS} steps, s"] = lambda row, name=name: report.short(row[name])
    for name in ("kerasrec", "unrolled"):
        columns[f"{name}, tracing, s"] = lambda row, name=name: report.short(row[f"{name} tracing"])
        columns[f"{name}, ops"] = lambda row, name=name: f"{row[f'{name} ops']:,}"
    return report.print_table(columns, measure(is_quick, repeats))


def measure(is_quick, repeats):
    """Yields a row for each depth."""
    # For plain recursion in Python.
    sys.setrecursionlimit(10 * max(DEPTHS))
    for depth in QUICK_DEPTHS if is_quick else DEPTHS:
        yield _measure(depth, repeats)


def plot(rows, path):
    """Draws seconds with tracing against the depth."""
    # Here, since nothing else needs matplotlib.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for name in STEPS:
        seconds = [row[name] + row.get(f"{name} tracing", 0) for row in rows]
        axes.loglog([row["depth"] for row in rows], seconds, marker="o", label=name)
    axes.set_xlabel("depth")
    axes.set_ylabel(f"seconds for {NUM_STEPS} steps, with tracing")
    axes.legend()
    figure.savefig(path, dpi=150)


def _measure(depth, repeats):
    """Median seconds of each; all take turns, and take one step in the first."""
    x = tf.Variable(1.0)
    # At every depth, the first step makes the loss, which is 1 at first, 10% smaller.
    learning_rate = tf.constant(0.1 / depth**2)
    row = {"depth": depth}
    losses, seconds = {}, {name: [] for name in STEPS}
    for turn in range(1 + repeats):
        for name, (step, number) in STEPS.items():
            x.assign(1.0)
            arguments = x, number(depth), learning_rate
            start = time.perf_counter()
            losses[name] = [step(*arguments).numpy() for _ in range(NUM_STEPS if turn else 1)]
            seconds[name].append(time.perf_counter() - start)
        if turn and sum(times[-1] for times in seconds.values()) > LONG:
            break
    for name, (step, number) in STEPS.items():
        first, *others = seconds[name]
        row[name] = statistics.median(others)
        _check(name, depth, losses)
        if name != "eager":
            row[f"{name} tracing"] = max(0, first - row[name] / NUM_STEPS)
            concrete = step.get_concrete_function(x, number(depth), learning_rate)
            row[f"{name} ops"] = count_ops(concrete)
    return row


def _check(name, depth, losses):
    error = np.max(np.abs(np.array(losses[name]) / losses["eager"] - 1))
    if not error < TOLERANCE:
        raise ValueError(
            f"At depth {depth}, losses of {name} differ from those of eager code by up to "
            f"{error:.1e} of them; {TOLERANCE:.0e} is allowed."
        )
