"""A tree stored in tables outside of the function, which reads them.

Each tree node has a value and two children (-1 = none). Tokens carry only the number of a tree
node. All tokens share the tables, and gradients flow into them.
"""

import tensorflow as tf

import kerasrec

#          0
#        /   \
#       1     2
#      / \     \
#     3   4     5
values = tf.Variable([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
children = tf.constant([[1, 2], [3, 4], [-1, 5], [-1, -1], [-1, -1], [-1, -1]])


@kerasrec.recursive
def tree_sum(node):
    def inner():
        left, right = tf.unstack(tf.gather(children, node), axis=1)
        return tf.gather(values, node) + tree_sum(left) + tree_sum(right)

    return kerasrec.cond(node < 0, lambda: tf.zeros_like(node, tf.float32), inner)


with tf.GradientTape() as tape:
    total = tree_sum(0)

print("sum of the tree =", float(total))
print("gradient of the values =", tf.convert_to_tensor(tape.gradient(total, values)).numpy())
print("sums of all subtrees =", tree_sum(list(range(6))).numpy())
