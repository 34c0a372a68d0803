"""Chances of edits, learned from pairs of strings by expectation maximization.

Source: Ristad and Yianilos 1998, "Learning string-edit distance", section 2.
"""

import numpy as np
import tensorflow as tf

from edit_channel import Pairs
from edit_distance import expected_edits


def chances_of(counts: np.ndarray) -> np.ndarray:
    """Shares of counts, as if each edit had been made a tenth of a time more."""
    return (counts + 0.1) / np.sum(counts + 0.1)


def logarithms(chances: np.ndarray) -> tf.Tensor:
    """Scores of edits, float32."""
    return tf.constant(np.log(chances), tf.float32)


def learn(pairs: Pairs, letters: int, steps: int) -> np.ndarray:
    """Chances `[letters + 1, letters + 1]`, which are all alike before the first step."""
    chances = chances_of(np.zeros([letters + 1, letters + 1]))
    for _ in range(steps):
        found = expected_edits(tf.reduce_logsumexp, logarithms(chances), pairs)
        chances = chances_of(found.numpy())
    return chances
