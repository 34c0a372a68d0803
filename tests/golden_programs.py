"""The papers' own examples. Golden prints name lines of this file: add at its end only."""

import kerasrec


@kerasrec.recursive
def fact(n):
    """Kostopoulou et al., section 2.4."""
    return kerasrec.cond(n == 1, lambda: n, lambda: n * fact(n - 1))


@kerasrec.recursive
def fib(n):
    """Vasilakopoulos 2024, section 3.3."""
    return kerasrec.cond(n <= 1, lambda: 1, lambda: fib(n - 1) + fib(n - 2))


@kerasrec.recursive
def main(m, n):
    """The same: `Fib(4) + Fib(7)` for m = 4 and n = 7."""
    return fib(m) + fib(n)


@kerasrec.recursive
def exp(x, n):
    """Vasilakopoulos 2024, section 4.3."""
    return kerasrec.cond(n == 0, lambda: 1.0, lambda: x * exp(x, n - 1))


@kerasrec.recursive
def is_even(n):
    """Mutual recursion, several outputs, a branch inside a branch, a table."""
    kerasrec.collect("seen", n, n, 10)
    return kerasrec.cond(
        n == 0,
        lambda: {"even": True, "odd": False},
        lambda: kerasrec.switch(n - 1, [lambda: is_odd(n - 1), lambda: is_odd(n - 1)]),
    )


@kerasrec.recursive
def is_odd(n):
    found = is_even(n)
    return {"even": found["odd"], "odd": found["even"]}


@kerasrec.recursive
def walked(n, x):
    """Several rounds: what one call returns goes into the next, and the last call is a tail call.

    A table and its gradient are read where only some frames are.
    """

    def inner():
        before = walked(n // 2, 0.5 * x)
        kerasrec.collect("states", before, n, 10)
        return walked(n - 1 - n // 2, before)

    return kerasrec.cond(n == 0, lambda: x * x, inner)
