"""Calls of fib, ack, tak and primes: kerasrec and TensorFlow's own recursion, in turns."""

import itertools
import statistics
import time

import numpy as np

import kerasrec
from benchmarks import report
from benchmarks.baselines.expanding import Died, Expanding
from benchmarks.functions import define, expected

# Kostopoulou et al., Table 1.
CALLS = {
    "fib": [(n,) for n in range(24, 34)],
    "ack": [(3, n) for n in range(3, 9)],
    "tak": [(24, 16, 8), (25, 16, 8), (26, 16, 8), (27, 16, 8), (27, 17, 8)],
    "primes": [(n,) for n in range(7500, 10001, 500)],
}
QUICK_CALLS = {"fib": [(12,), (20,)], "ack": [(2, 3)], "tak": [(12, 8, 4)], "primes": [(20,)]}

# Many calls at once: these arguments, repeated up to this number.
NUM_CALLS = 1000
BATCHES = {
    "fib": [range(20)],
    "ack": [range(4), range(5)],
    "tak": [range(10), range(10), range(10)],
    "primes": [range(250)],
}
QUICK_BATCHES = {
    "fib": [range(10)],
    "ack": [range(2), range(5)],
    "tak": [range(5), range(5), range(5)],
    "primes": [range(10)],
}

# kerasrec is faster, so each turn times it this often.
CALLS_A_TURN = 3
# If the baseline takes more seconds than this, it has one turn.
LONG = 10


def single_calls(names, is_quick, repeats):
    """Prints a table of one call at a time; returns its rows."""
    calls = QUICK_CALLS if is_quick else CALLS
    rows = (
        (name, f"{name}({', '.join(map(str, arguments))})", arguments)
        for name in names
        for arguments in calls[name]
    )
    columns = {"": _call, "result": lambda row: row["result"], **_TIMES}
    return report.print_table(columns, compare(rows, repeats))


def many_calls(names, is_quick, repeats):
    """Prints a table of calls with many different arguments at once; returns its rows."""
    batches = QUICK_BATCHES if is_quick else BATCHES
    rows = ((name, *_batch(name, batches[name])) for name in names)
    return report.print_table({"": _call, **_TIMES}, compare(rows, repeats))


def _batch(name, ranges):
    """A title, and all combinations of the values in the ranges, a list for each argument."""
    combinations = list(itertools.product(*ranges))
    times = NUM_CALLS // len(combinations)
    title = f"{name}({', '.join(f'0..{values[-1]}' for values in ranges)})"
    if times > 1:
        title += f", {times} times"
    return title, [times * list(column) for column in zip(*combinations, strict=True)]


def compare(calls, repeats):
    """Yields a row for each (name, title, arguments)."""
    functions = define(kerasrec.recursive, kerasrec.cond)
    baseline = Expanding()
    try:
        for name, title, arguments in calls:
            yield _compare(functions[name], baseline, name, title, arguments, repeats)
    finally:
        baseline.close()


def _compare(function, baseline, name, title, arguments, repeats):
    """Median seconds of both for a call, and the median ratio of times of one turn."""
    is_batch = isinstance(arguments, list)
    if is_batch:
        correct = [expected(name, *one) for one in zip(*arguments, strict=True)]
    else:
        correct = expected(name, *arguments)
    tensors = [np.array(argument, np.int32) for argument in arguments]
    # The first call compiles, unless one before it has.
    _check(title, "kerasrec", function(*tensors).numpy().tolist(), correct)
    ours, theirs, ratios = [], [], []
    for _ in range(repeats):
        ours.append(_seconds(function, tensors))
        try:
            result, seconds = baseline.run(name, *arguments)
        except Died:
            break
        _check(title, "TensorFlow's own recursion", result, correct)
        theirs.append(seconds)
        ratios.append(seconds / ours[-1])
        if seconds > LONG:
            break
    return {
        "call": title,
        "result": None if is_batch else correct,
        "kerasrec": statistics.median(ours),
        "expanding": statistics.median(theirs) if theirs else None,
        "speed-up": statistics.median(ratios) if ratios else None,
    }


def _seconds(function, tensors):
    """The median of a few calls."""
    seconds = []
    for _ in range(CALLS_A_TURN):
        start = time.perf_counter()
        function(*tensors).numpy()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def _check(title, who, result, correct):
    if result != correct:
        raise ValueError(f"{who} returns {result} for {title}; expected {correct}.")


def _call(row):
    return row["call"]


def _number(value):
    return "died" if value is None else report.short(value)


_TIMES = {
    "expanding, s": lambda row: _number(row["expanding"]),
    "kerasrec, s": lambda row: _number(row["kerasrec"]),
    "speed-up": lambda row: _number(row["speed-up"]),
}
