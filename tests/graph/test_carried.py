"""Keys of tokens: no two are equal, whatever the calls that lead to them."""

import numpy as np
import tensorflow as tf

from kerasrec._src.graph.carried import FIRST_KEY, key_inside, key_of_entry, key_of_made


def test_keys_differ():
    keys = [key_inside(0, tf.range(20, dtype=tf.int64))]
    for _ in range(6):
        calls = [key_inside(label, keys[-1]) for label in range(3)]
        entries = [key_of_entry(tf.fill([len(keys[-1])], place), keys[-1]) for place in range(2)]
        keys.append(tf.concat([*calls, *entries], 0))
    every = tf.concat(keys, 0)
    made = tf.concat([key_of_made(number, every) for number in range(3)], 0).numpy()
    assert len(made) == 3 * 20 * sum(5**depth for depth in range(7))
    assert len(np.unique(made)) == len(made)
    assert made.min() >= FIRST_KEY
