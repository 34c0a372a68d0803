"""Values from inner calls, without returning them through all callers.

`kerasrec.collect` keeps a value of each call in a row, here that of the call's tree node.
`with_collected` returns all rows together with the result. Gradients flow through them, so a loss
can read every tree node.
"""

import tensorflow as tf

import kerasrec

# The tree of 04_tree_sum.py.
values = tf.Variable([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
children = tf.constant([[1, 2], [3, 4], [-1, 5], [-1, -1], [-1, -1], [-1, -1]])


@kerasrec.recursive
def tree_sum(node):
    def inner():
        left, right = tf.unstack(tf.gather(children, node), axis=1)
        total = tf.gather(values, node) + tree_sum(left) + tree_sum(right)
        kerasrec.collect("sums", total, node, size=6)
        return total

    return kerasrec.cond(node < 0, lambda: tf.zeros_like(node, tf.float32), inner)


with tf.GradientTape() as tape:
    total, collected = tree_sum.with_collected(0)
    loss = tf.reduce_sum(collected["sums"])

print("sum of the tree =", float(total))
print("sum below each tree node =", collected["sums"].numpy())
# A node's value counts in its sum and in the sum of each node above it.
print("gradient of their sum =", tf.convert_to_tensor(tape.gradient(loss, values)).numpy())
