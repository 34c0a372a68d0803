"""Chances of edits, learned from pairs of strings by expectation maximization, and how good.

Source: Ristad and Yianilos 1998, "Learning string-edit distance", section 2.
"""

import numpy as np
import tensorflow as tf

from comparison import Run
from edit_channel import Pairs
from edit_distance import expected_edits, total


def chances_of(counts: np.ndarray) -> np.ndarray:
    """Shares of counts, after 0.1 is added to each."""
    return (counts + 0.1) / np.sum(counts + 0.1)


def logarithms(chances: np.ndarray) -> tf.Tensor:
    """Scores of edits, float32."""
    return tf.constant(np.log(chances), tf.float32)


def learn(pairs: Pairs, letters: int, steps: int) -> np.ndarray:
    """Chances `[letters + 1, letters + 1]`, which are equal before the first step."""
    chances = chances_of(np.zeros([letters + 1, letters + 1]))
    for _ in range(steps):
        found = expected_edits(tf.reduce_logsumexp, logarithms(chances), pairs)
        chances = chances_of(found.numpy())
    return chances


def compare(channel: np.ndarray, found: dict[str, np.ndarray], test: Pairs) -> Run:
    """The distance of chances of edits from those of the channel.

    Args:
        channel: `[letters + 1, letters + 1]`, its chances.
        found: others, by name.
        test: pairs that the channel wrote.
    """

    def bits(chances: np.ndarray) -> float:
        """The mean number of bits for a pair."""
        nats = -total(tf.reduce_logsumexp, logarithms(chances), test)
        return float(np.mean(nats) / np.log(2))

    fewest = bits(channel)
    run = {"the channel": {"wrong edits, %": 0.0, "bits above the channel's": 0.0}}
    for name, chances in found.items():
        wrong = float(50 * np.abs(chances - channel).sum())
        run[name] = {"wrong edits, %": wrong, "bits above the channel's": bits(chances) - fewest}
    return run
