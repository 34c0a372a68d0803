"""A function that calls itself, and the static graph that it becomes.

`kerasrec.cond` chooses a branch for each token. The graph has one body, however deep the recursion
gets: CALL_0 enters the body again with a longer tag, and RETURN_0 returns from it.
"""

import tensorflow as tf

import kerasrec


@kerasrec.recursive
def factorial(n):
    return kerasrec.cond(n < 2, lambda: tf.ones_like(n), lambda: n * factorial(n - 1))


print("factorial(10) =", int(factorial(10)))
print("\nThe function, as it was traced:\n")
print(factorial.function_graphs(10))
print("\nThe tagged graph of the program:\n")
print(factorial.tagged_graph(10))
