"""Values from inner calls, without threading them through returns.

`kerasrec.collect` keeps a value of each call in a table of the run, here in the row of its tree
node; `with_tables` returns the tables beside the result. Gradients flow through them, so a loss can
look at every tree node.
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
# A value counts once for each tree node above it and once for its own.
print("gradient of their sum =", tf.convert_to_tensor(tape.gradient(loss, values)).numpy())
