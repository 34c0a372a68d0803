"""Peak memory of wide recursion, with and without a bound on the tokens that run at once.

    python -m benchmarks.bounded

Each line is a new process. It calls fib in waves with a small number, so that everything is
compiled, then with the measured number, and prints by how much its peak resident memory grew.
Without a bound, all calls of one depth are in memory at once. With one, memory is at most the bound
times the depth.
"""

import argparse
import time

from benchmarks.memory import in_new_process, peak_memory
from benchmarks.report import print_table, short

COLUMNS = {
    "": lambda row: f"fib({row['n']})",
    "tokens at once": lambda row: f"{row['bound']:,}" if row["bound"] else "all",
    "MB": lambda row: short(row["MB"]),
    "s": lambda row: short(row["s"]),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, nargs="+", default=[26, 28, 30], help="fib of these")
    parser.add_argument("--bounds", type=int, nargs="+", default=[100_000, 10_000, 1_000])
    arguments = parser.parse_args()
    pairs = ((n, bound) for n in arguments.n for bound in (0, *arguments.bounds))
    print_table(COLUMNS, (in_new_process("bounded", *pair) for pair in pairs))


def measure(n, bound):
    """Growth of this process's peak memory by fib(n), and the seconds it took.

    Args:
        n: the number.
        bound: how many tokens may run at once; 0 for all.
    """
    import kerasrec

    @kerasrec.recursive(engine="waves", parallel_tokens=bound or None)
    def fib(n):
        return kerasrec.cond(n < 2, lambda: n, lambda: fib(n - 1) + fib(n - 2))

    fib(5)
    before, start = peak_memory(), time.perf_counter()
    found = int(fib(n))
    seconds = time.perf_counter() - start
    if found != plain_fib(n):
        raise ValueError(f"fib({n}) is {plain_fib(n)}, not {found}.")
    return {"n": n, "bound": bound, "MB": peak_memory() - before, "s": seconds}


def plain_fib(n):
    """The same, from the bottom."""
    last, this = 1, 0
    for _ in range(n):
        last, this = this, last + this
    return this


if __name__ == "__main__":
    main()
