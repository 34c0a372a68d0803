"""A linear-chain conditional random field, with sums over all sequences of tags.

Source: Lafferty, McCallum and Pereira 2001, "Conditional random fields".
"""

from typing import Any

import keras
import tensorflow as tf

import kerasrec
from expected_counts import Plus, at, counts


@keras.saving.register_keras_serializable("models")
class LinearChain(keras.layers.Layer):
    """Scores of neighboring tags, on top of those of tags.

    Called with scores `[batch, words, tags]`, which it returns as they are; `loss` and `decode`
    are what adds the chain to them.

    Args:
        tags: how many there are.
    """

    def __init__(self, tags: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.supports_jit = False
        self.tags = tags
        self.transitions = self.add_weight(shape=[tags, tags], initializer="zeros", name="next")

    def call(self, scores: tf.Tensor) -> tf.Tensor:
        return scores

    @kerasrec.recursive(memo=True)
    def forward(self, plus, scores, i):
        """The sum over all tags of the words before word i, for each of its tags.

        Args:
            plus: adds over axes: `tf.reduce_logsumexp`, or `tf.reduce_max` for the best tags.
            scores: float32 `[tokens, words, tags]`.
            i: int32 `[tokens]`.

        Returns:
            float32 `[tokens, tags]`.
        """

        def step():
            before = self.forward(plus, scores, i - 1)
            return plus(before[:, :, tf.newaxis] + self.transitions, 1) + at(scores, i)

        return kerasrec.cond(i < 1, lambda: at(scores, i), step)

    def total(self, plus: Plus, scores: tf.Tensor, lengths: tf.Tensor):
        """The sum over all sequences of tags, float32 `[batch]`."""
        return plus(self.forward(plus, scores, lengths - 1), 1)

    def loss(self, tags: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
        """The negative log-likelihood of tags, float32 `[batch]`.

        Args:
            tags: int32 `[batch, words]`; -1, which comes last, is padding.
            scores: float32 `[batch, words, tags]`.
        """
        is_word = tf.cast(tags >= 0, scores.dtype)
        tags = tf.cast(tf.maximum(tags, 0), tf.int32)  # Keras makes floats of them.
        pairs = tf.gather_nd(self.transitions, tf.stack([tags[:, :-1], tags[:, 1:]], 2))
        known = tf.reduce_sum(is_word * tf.gather(scores, tags, batch_dims=2), 1)
        known += tf.reduce_sum(is_word[:, 1:] * pairs, 1)
        lengths = tf.cast(tf.reduce_sum(is_word, 1), tf.int32)
        return self.total(tf.reduce_logsumexp, scores, lengths) - known

    @tf.function
    def decode(self, scores: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """The best tags, int32 `[batch, words]`; behind the last word they mean nothing."""
        best = counts(lambda scores: self.total(tf.reduce_max, scores, lengths), scores)
        return tf.argmax(best, -1, tf.int32)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "tags": self.tags}


def best_tags(model: keras.Sequential, words: tf.Tensor) -> tf.Tensor:
    """The best tags of sentences by a model whose last layer is a chain, int32 `[batch, words]`.

    Args:
        model: from words to scores of tags.
        words: int32 `[batch, words]`, padded with 0.
    """
    lengths = tf.math.count_nonzero(words, axis=1, dtype=tf.int32)
    return model.layers[-1].decode(model(words), lengths)
