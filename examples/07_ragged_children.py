"""Any number of children: one call over ragged rows.

`children[node]` is a row with all children of the node. A call with such rows makes one call for
each entry, and returns rows again. A leaf has an empty row, so the recursion ends without a
conditional. `kerasrec.map_fn` applies any function to each entry of a row. Here it weights the
state of each child by a separate gate, as a child-sum Tree-LSTM does (Tai et al. 2015).
"""

import tensorflow as tf

import kerasrec

#            0
#      /   /   \   \
#     1   2     3   4
#     |        / \
#     5       6   7
children = tf.ragged.constant([[1, 2, 3, 4], [5], [], [6, 7], [], [], [], []], dtype=tf.int32)
values = tf.Variable([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])


@kerasrec.recursive
def tree_sum(node):
    below = tree_sum(tf.gather(children, node))
    return tf.gather(values, node) + tf.reduce_sum(below, axis=1)


@kerasrec.recursive
def gated(node):
    x = tf.gather(values, node)
    below = gated(tf.gather(children, node))
    kept = kerasrec.map_fn(lambda h_k: tf.sigmoid(x - h_k) * h_k, below)
    return x + tf.reduce_sum(kept, axis=1)


with tf.GradientTape() as tape:
    total = tree_sum(0)

print("sum of the tree =", float(total))
print("gradient of the values =", tf.convert_to_tensor(tape.gradient(total, values)).numpy())
print("sums below the children of 0, 1 and 2 =", tree_sum(children[:3]).to_list())
print("with a gate for each child =", round(float(gated(0)), 4))
print("\nThe function, as it was traced:\n")
print(tree_sum.function_graphs(0))
