"""Functions as arguments: lazy values, searches that stop early, and folds.

A value is computed before it is passed to a function, if the function reads it for any token. A
function that is passed runs only where it is called, and only for the tokens that call it. With
this you can compute a value on demand (`kerasrec.lazy`), stop a search early (`kerasrec.any_of`),
and write functions such as `map` and `fold`.
"""

import tensorflow as tf

import kerasrec


@kerasrec.recursive
def fib(n):
    return kerasrec.cond(n < 2, lambda: n, lambda: fib(n - 1) + fib(n - 2))


@kerasrec.recursive
def pick(is_small, n, x):
    return kerasrec.cond(is_small, lambda: n, lambda: x() if callable(x) else x)


@kerasrec.recursive
def eager(n):
    return pick(n < 11, n, fib(n))


@kerasrec.recursive
def on_demand(n):
    return pick(n < 11, n, kerasrec.lazy(lambda: fib(n)))


print("n, or fib(n) from 11 on:", on_demand([5, 10, 11, 12]).numpy())
print("calls for n = 10, eager:", eager.run_trace(10).num_calls)
print("calls for n = 10, on demand:", on_demand.run_trace(10).num_calls)


@kerasrec.recursive
def wins(search, a, b, c):
    """Whether the player to move wins at Nim with three heaps: some move makes the other lose."""

    def leaves_a_loss(k):
        """Move k leaves k of the first heap, or less of the second, or of the third."""
        of_a, of_b = k < a, (k >= a) & (k < a + b)
        left_of_c = tf.where(of_a | of_b, c, k - a - b)
        return ~wins(search, tf.where(of_a, k, a), tf.where(of_b, k - a, b), left_of_c)

    return search(a + b + c, leaves_a_loss)


def search_all(count, predicate):
    """As `kerasrec.any_of`, but it continues after it has found one."""

    def step(k, found):
        return k + 1, found | predicate(k)

    return kerasrec.while_loop(lambda k, _: k < count, step, (0, False))[1]


heaps = tf.unstack(tf.constant([[1, 2, 3], [1, 1, 2], [0, 2, 2]]), axis=1)
print("wins at Nim:", wins(kerasrec.any_of, *heaps).numpy())
print("calls with pruning:", wins.run_trace(kerasrec.any_of, 1, 2, 3).num_calls)
print("calls without:", wins.run_trace(search_all, 1, 2, 3).num_calls)

children = tf.ragged.constant([[1, 2, 3], [4, 5], [], [], [], []], dtype=tf.int32)
values = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])


@kerasrec.recursive
def fold(function, node):
    """`function` of a node's value and of the results for its children."""
    return function(tf.gather(values, node), fold(function, tf.gather(children, node)))


def total(value, below):
    return value + tf.reduce_sum(below, axis=1)


print("sums of trees:", fold(total, [0, 1]).numpy())
largest = fold(lambda value, below: tf.maximum(value, tf.reduce_max(below, axis=1)), [0, 1])
print("largest values:", largest.numpy())
