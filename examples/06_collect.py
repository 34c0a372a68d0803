"""Values from inner calls, without returning them through all callers.

`kerasrec.collect` keeps a value of each call in a table, here in the row of the call's tree node.
`with_tables` returns the tables together with the result. Gradients flow through the tables, so a
loss can read every tree node.
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
    total, tables = tree_sum.with_tables(0)
    loss = tf.reduce_sum(tables["sums"])

print("sum of the tree =", float(total))
print("sum below each tree node =", tables["sums"].numpy())
# A node's value is part of its own sum and of the sum of each node above it.
print("gradient of their sum =", tf.convert_to_tensor(tape.gradient(loss, values)).numpy())
