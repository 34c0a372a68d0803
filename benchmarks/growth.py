"""The sizes of graphs, and the time to compile them, do not grow with the recursion."""

import time

import tensorflow as tf

import kerasrec
from benchmarks import report
from benchmarks.functions import count_calls, define

CALLS = {
    "fib": [(1,), (10,), (20,), (25,)],
    "ack": [(1, 1), (2, 2), (3, 2)],
    "tak": [(2, 1, 0), (10, 5, 0), (18, 12, 6)],
    "primes": [(2,), (50,), (3000,)],
}
QUICK_CALLS = {name: calls[:2] for name, calls in CALLS.items()}


def growth(names, is_quick):
    """Prints a table of calls of growing size; returns its rows."""
    calls = QUICK_CALLS if is_quick else CALLS
    columns = {
        "": lambda row: row["call"],
        "calls": lambda row: f"{row['calls']:,}",
        "nodes of the extended graph": lambda row: row["nodes"],
        "ops": lambda row: f"{row['ops']:,}",
        "compiling, s": lambda row: report.short(row["compiling"]),
    }
    rows = (_measure(name, arguments) for name in names for arguments in calls[name])
    return report.print_table(columns, rows)


def _measure(name, arguments):
    """Compiles a function that was never called for a call of this size."""
    function = define(kerasrec.recursive, kerasrec.cond)[name]
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        function(*arguments).numpy()
        seconds.append(time.perf_counter() - start)
    return {
        "call": f"{name}({', '.join(map(str, arguments))})",
        "calls": count_calls(name, *arguments),
        "nodes": len(function.extended_graph(*arguments).nodes),
        "ops": count_ops(tf.function(function).get_concrete_function(*map(tf.constant, arguments))),
        "compiling": seconds[0] - seconds[1],
    }


def count_ops(concrete):
    """Ops of a concrete function and of all that it calls."""
    definition = concrete.graph.as_graph_def()
    library = definition.library.function
    return len(definition.node) + sum(len(function.node_def) for function in library)
