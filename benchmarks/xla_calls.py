"""The time of a call of a program that XLA compiles, and of a level of its loop, next to JAX.

    python -m benchmarks.xla_calls

prints a table in microseconds. The program is a loop of a TreeLSTM's inner cell over levels of 25
tree nodes. The times of a call and a level follow from loops of 1 and of 50 levels, in the fastest
tenth of their calls. TensorFlow and JAX run in one process, in turns.
"""

import time

import numpy as np
import tensorflow as tf

from benchmarks import report

NODES, LEVELS = 25, (1, 50)
TURNS, CALLS = 5, 60
COLUMNS = {
    "": lambda row: row["program"],
    **{
        f"{units} units: {part}": lambda row, key=(units, part): report.short(row[key])
        for units in (50, 150)
        for part in ("call", "level")
    },
}


def cell(nodes, kernel, sigmoid, tanh, concatenate):
    """States of inner nodes, [c, h] of each, from those of [left, right] children."""
    units = kernel.shape[0] // 2
    rows = nodes @ kernel
    gates = sigmoid(rows[:, : 4 * units])
    into, left, right, out = (gates[:, at * units : (at + 1) * units] for at in range(4))
    c = into * tanh(rows[:, 4 * units :]) + left * nodes[:, :units] + right * nodes[:, units:]
    return concatenate([c, out * tanh(c)], 1)


def programs_of_tensorflow(start, kernel, levels):
    """By name, functions without arguments."""
    start, kernel = tf.constant(start), tf.Variable(kernel)

    def loop(nodes):
        weights = tf.convert_to_tensor(kernel)

        def step(at, x):
            return at + 1, cell(x, weights, tf.sigmoid, tf.tanh, tf.concat)

        return tf.while_loop(lambda at, _: at < levels, step, [0, nodes])[1]

    function = tf.function(loop, jit_compile=True)
    concrete = function.get_concrete_function(start)
    return {
        "`tf.function(jit_compile=True)`": lambda: function(start).numpy(),
        "its concrete function": lambda: concrete(start).numpy(),
    }


def programs_of_jax(start, kernel, levels):
    """The same; none without JAX."""
    try:
        import jax
    except ImportError:
        return {}
    start, kernel = jax.numpy.asarray(start), jax.numpy.asarray(kernel)

    @jax.jit
    def loop(nodes, weights):
        numpy = jax.numpy

        def step(_, x):
            return cell(x, weights, jax.nn.sigmoid, numpy.tanh, numpy.concatenate)

        return jax.lax.fori_loop(0, levels, step, nodes)

    return {"`jax.jit`": lambda: np.asarray(loop(start, kernel))}


def rows():
    """For each program and number of units, microseconds of a call and of a level."""
    random, found = np.random.default_rng(0), {}
    for units in (50, 150):
        start = random.normal(size=[NODES, 2 * units]).astype(np.float32)
        kernel = random.normal(size=[2 * units, 5 * units], scale=0.1).astype(np.float32)
        programs = {}
        for levels in LEVELS:
            for make in (programs_of_tensorflow, programs_of_jax):
                of_levels = make(start, kernel, levels)
                programs |= {(name, levels): call for name, call in of_levels.items()}
            results = [call() for (_, number), call in programs.items() if number == levels]
            for result in results[1:]:
                np.testing.assert_allclose(result, results[0], rtol=1e-3, atol=1e-4)
        times = [{key: microseconds(call) for key, call in programs.items()} for _ in range(TURNS)]
        least = {key: min(turn[key] for turn in times) for key in programs}
        for name in dict.fromkeys(name for name, _ in programs):
            few, many = (least[name, levels] for levels in LEVELS)
            level = (many - few) / (LEVELS[1] - LEVELS[0])
            row = found.setdefault(name, {"program": name})
            row |= {(units, "call"): few - LEVELS[0] * level, (units, "level"): level}
    return list(found.values())


def microseconds(call):
    """The time of a call that 10% of some calls stay below."""
    found = []
    for _ in range(CALLS):
        start = time.perf_counter()
        call()
        found.append(1e6 * (time.perf_counter() - start))
    return np.percentile(found, 10)


def main():
    print(f"{report.line(report.machine())}\n")
    report.print_table(COLUMNS, rows())


if __name__ == "__main__":
    main()
