"""Loops inside of recursive functions: recursive calls in a loop, and a learned number of steps.

`kerasrec.while_loop` continues for each token as long as the condition holds for that token. The
first loop calls the function that contains it, which `tf.while_loop` cannot do. The second loop
halts when a learned unit decides (Graves 2016, "Adaptive Computation Time for Recurrent Neural
Networks", section 2). It refines a square root in steps of a length that is also learned, and each
step adds to the loss.
"""

import keras
import tensorflow as tf

import kerasrec


@kerasrec.recursive
def trees(n):
    """The number of binary trees with n inner nodes, summed over the size of the left subtree."""

    def add(left, total):
        return left + 1, total + trees(left) * trees(n - 1 - left)

    def sum_over_left():
        return kerasrec.while_loop(lambda left, _: left < n, add, (0, 0))[1]

    return kerasrec.cond(n < 1, lambda: 1, sum_over_left)


print("trees of 0 to 8 inner nodes:", trees(tf.range(9)).numpy())

length, bias, slope = (keras.Variable(value) for value in (0.2, -1.0, 0.5))
ALMOST = 0.99  # A token halts when the chances of its steps add up to this.


@kerasrec.recursive
def root(x):
    def refine(y, halted, mean, last, steps):
        y -= length * (y * y - x)
        chance = tf.sigmoid(bias - slope * tf.abs(y * y - x))
        share = tf.where(halted + chance < ALMOST, chance, 1.0 - halted)
        return y, halted + share, mean + share * y, share, steps + 1

    start = (1.0, 0.0, 0.0, 0.0, 0)
    _, _, mean, last, steps = kerasrec.while_loop(
        lambda y, halted, *_: halted < ALMOST, refine, start, maximum_iterations=100
    )
    return mean, last, steps


x = tf.linspace(0.25, 4.0, 64)
variables = [length, bias, slope]
optimizer = keras.optimizers.Adam(0.05)


@tf.function
def train():
    with tf.GradientTape() as tape:
        mean, last, steps = root(x)
        error = tf.reduce_mean(tf.abs(mean - tf.sqrt(x)))
        ponder = tf.reduce_mean(tf.cast(steps, tf.float32) + last)
        loss = error + 0.003 * ponder
    optimizer.apply(tape.gradient(loss, [item.value for item in variables]), variables)
    return error


errors = [float(train()) for _ in range(300)]
_, _, steps = root(x)
print(f"error of the square root: {errors[0]:.3f} before training, {errors[-1]:.3f} after")
print("steps for x = 0.25 to 4:", steps.numpy()[::7])
print("\nThe loop in the tagged graph, with ENTER, NEXT and EXIT:\n")
print(trees.tagged_graph(1))
