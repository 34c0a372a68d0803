"""The chance of a pair of strings: a soft edit distance, a sum over all ways to edit.

Source: Ristad and Yianilos 1998, "Learning string-edit distance", sections 2 and 3.
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

import kerasrec
from edit_channel import Pairs
from expected_counts import NEVER, Plus, at, counts


@kerasrec.recursive(memo=True)
def score(plus, edits, x, y, i, j):
    """The sum over all ways to write the first i characters of x and the first j of y.

    Args:
        plus: adds over an axis: `tf.reduce_logsumexp`, or `tf.reduce_max` for the best way.
        edits: float32 `[tokens, letters + 1, letters + 1]`, scores; the last place is nothing.
        x: int32 `[tokens, characters]`.
        y: int32 `[tokens, characters]`.
        i: int32 `[tokens]`.
        j: int32 `[tokens]`.

    Returns:
        float32 `[tokens]`.
    """

    def edit():
        one, other = at(x, tf.maximum(i - 1, 0)), at(y, tf.maximum(j - 1, 0))
        nothing = tf.fill(tf.shape(i), edits.shape[-1] - 1)
        ways = [
            score(plus, edits, x, y, i - 1, j - 1) + at(at(edits, one), other),
            score(plus, edits, x, y, i - 1, j) + at(at(edits, one), nothing),
            score(plus, edits, x, y, i, j - 1) + at(at(edits, nothing), other),
        ]
        return plus(tf.stack(ways, 1), 1)

    is_outside = (i < 0) | (j < 0)
    is_start = (i == 0) & (j == 0)
    return kerasrec.cond(is_outside | is_start, lambda: tf.where(is_outside, NEVER, 0.0), edit)


def total(plus: Plus, edits: tf.Tensor, pairs: Pairs) -> tf.Tensor:
    """The sum over all ways to write each pair, with the end, float32 `[pairs]`.

    Args:
        plus: as for `score`.
        edits: float32 `[letters + 1, letters + 1]`.
        pairs: of strings.
    """
    tables = tf.repeat(edits[tf.newaxis], tf.shape(pairs.x)[0], axis=0)
    return score(plus, tables, *pairs) + edits[-1, -1]


def expected_edits(plus: Plus, edits: tf.Tensor, pairs: Pairs) -> tf.Tensor:
    """How often each edit is made in all pairs, of the shape of `edits`."""
    return counts(lambda edits: total(plus, edits, pairs), edits)


@keras.saving.register_keras_serializable("models")
class SoftEditDistance(keras.Model):
    """The distance of strings: minus the logarithm of the chance of a pair.

    Called with `[x, y, x_lengths, y_lengths]` as `Pairs` has them; returns float32 `[pairs]`.

    Args:
        letters: of the alphabet.
    """

    def __init__(self, letters: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.letters = letters
        self.edits = self.add_weight(shape=[letters + 1] * 2, name="edits")

    def build(self, input_shape: object) -> None:
        """There is nothing left to make."""

    def call(self, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
        return -total(tf.reduce_logsumexp, tf.convert_to_tensor(self.edits), Pairs(*inputs))

    def get_config(self) -> dict[str, int]:
        return {"letters": self.letters}
