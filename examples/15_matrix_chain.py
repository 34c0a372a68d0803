"""Dynamic programming: the best order to multiply matrices, the chance of each order, and samples.

With `memo=True`, equal calls of a root token are computed once. The argument `choose` combines the
costs of all splits: a minimum gives the best order, and a soft minimum gives the chances of orders
(Goodman 1999, "Semiring parsing"). The gradient shows which splits were chosen (Eisner 2016,
"Inside-outside and forward-backward algorithms are just backprop").
"""

import numpy as np
import tensorflow as tf

import kerasrec

SIZES = [30.0, 35.0, 15.0, 5.0, 10.0, 20.0, 25.0]  # Matrix i is SIZES[i] by SIZES[i + 1].
TEMPERATURE = 4000.0


def at(table, *places):
    for place in places:
        table = tf.gather(table, place, batch_dims=1)
    return table


@kerasrec.recursive(memo=True)
def cost(choose, sizes, extra, i, j):
    """Multiplications for the product of matrices i to j - 1, plus `extra` for each split."""

    def split(k):
        products = at(sizes, i) * at(sizes, k) * at(sizes, j) + at(extra, i, k, j)
        return cost(choose, sizes, extra, i, k) + cost(choose, sizes, extra, k, j) + products

    def of_splits():
        costs = kerasrec.map_fn(split, tf.ragged.range(i + 1, j))
        return choose(costs.to_tensor(1e9, shape=[None, len(SIZES)]))

    return kerasrec.cond(j - i < 2, lambda: 0.0, of_splits)


def best(costs):
    return tf.reduce_min(costs, axis=1)


def soft(costs):
    return -TEMPERATURE * tf.reduce_logsumexp(-costs / TEMPERATURE, axis=1)


def drawn(costs):
    """The value of `soft`, but the gradient of one split, drawn by its chance."""
    place = tf.random.categorical(-costs / TEMPERATURE, 1)
    one = tf.gather(costs, place[:, 0], batch_dims=1)
    return one + tf.stop_gradient(soft(costs) - one)


def run(choose, times=1):
    """The cost, and how often the product of i to j - 1 is split at k, at i, k, j."""
    sizes, extra = tf.constant([SIZES] * times), tf.zeros([times] + [len(SIZES)] * 3)
    with tf.GradientTape() as tape:
        tape.watch(extra)
        total = cost(choose, sizes, extra, [0] * times, [6] * times)
    return total.numpy(), tf.convert_to_tensor(tape.gradient(total, extra)).numpy()


def order(splits, i, j):
    if j - i < 2:
        return "ABCDEF"[i]
    k = int(np.argmax(splits[i, :, j]))
    return f"({order(splits, i, k)} {order(splits, k, j)})"


total, splits = run(best)
print("fewest multiplications:", int(total[0]), "in the order", order(splits[0], 0, 6))

_, chances = run(soft)
print("chance of the last product to be at k:", np.round(chances[0, 0, 1:6, 6], 3))
_, samples = run(drawn, times=2000)
print("share of 2000 samples:                ", np.round(samples.mean(0)[0, 1:6, 6], 3))
for sample in samples[:3]:
    print("an order that was drawn:", order(sample, 0, 6))
