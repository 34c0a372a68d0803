"""The gradient of a recursive function is a recursive function, in the same graph.

In the extended graph, a call of `power` and the call of its gradient share one label, and so one
tag. The gradient reads the values that the forward call computed under this tag, so nothing is
computed twice. An extended graph is itself a program, and has a gradient as well.
"""

import tensorflow as tf

import kerasrec


@kerasrec.recursive
def power(x, n):
    return kerasrec.cond(n < 1, lambda: tf.ones_like(x), lambda: x * power(x, n - 1))


x = tf.constant([1.0, 2.0, 3.0])
with tf.GradientTape() as outer:
    outer.watch(x)
    with tf.GradientTape() as inner:
        inner.watch(x)
        y = power(x, [4, 3, 2])
    slope = inner.gradient(y, x)
curvature = outer.gradient(slope, x)

print("x^n             =", y.numpy())
print("n x^(n-1)       =", slope.numpy())
print("n (n-1) x^(n-2) =", curvature.numpy())
print("\nThe extended graph:\n")
print(power.extended_graph(2.0, 3))
