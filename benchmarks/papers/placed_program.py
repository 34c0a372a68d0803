"""Recursive functions whose graph is on two devices: what `benchmarks.papers.placed` times.

    python -m benchmarks.papers.placed_program WHERE REPEATS

prints, as JSON, what each call returns and the median of its seconds.
"""

import json
import statistics
import sys
import time

import tensorflow as tf

import kerasrec
from benchmarks import devices

CALLS = {"factorial": (5, 10), "fib": (5, 10, 20)}


def main(where, repeats):
    functions = define(*places(where))
    found = {}
    for name, arguments in CALLS.items():
        for n in arguments:
            seconds = []
            # The first call compiles.
            for _ in range(1 + repeats):
                start = time.perf_counter()
                result = functions[name](tf.constant(n)).numpy()
                seconds.append(time.perf_counter() - start)
            found[f"{name}({n})"] = int(result), statistics.median(seconds[1:])
    print(json.dumps(found))


def places(where):
    """Two names; None leaves the place to TensorFlow."""
    if where == "two workers":
        return devices.of_workers()
    return devices.of_this_process() if where == "two devices" else (None, None)


def define(first, second):
    """factorial as Kostopoulou (2018), annex A, places it, and fib in the same way."""

    def on(device, function):
        with tf.device(device):
            return function()

    @kerasrec.recursive(engine="waves")
    def factorial(n):
        def more():
            rest = factorial(on(second, lambda: n - 1))
            return on(second, lambda: n * rest)

        is_last = on(second, lambda: n <= 1)
        return kerasrec.cond(is_last, lambda: on(first, lambda: tf.ones_like(n)), more)

    @kerasrec.recursive(engine="waves")
    def fib(n):
        def more():
            rest = fib(on(second, lambda: n - 1)), fib(on(second, lambda: n - 2))
            return on(second, lambda: rest[0] + rest[1])

        is_last = on(second, lambda: n <= 1)
        return kerasrec.cond(is_last, lambda: on(first, lambda: tf.ones_like(n)), more)

    return {"factorial": factorial, "fib": fib}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
