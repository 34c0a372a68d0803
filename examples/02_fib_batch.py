"""Many calls in one run: all tokens that are ready go through the graph together.

`fib` is compiled once, for any number of tokens. Four Fibonacci numbers take as many steps as the
largest of them.
"""

import kerasrec


@kerasrec.recursive
def fib(n):
    return kerasrec.cond(n < 2, lambda: n, lambda: fib(n - 1) + fib(n - 2))


print("fib(10) =", int(fib(10)))
print("fib([6, 7, 8, 7]) =", fib([6, 7, 8, 7]).numpy())
print("fib of 0 to 19 =", fib(list(range(20))).numpy())
print("traced", fib.num_traces, "time")
