"""A weighted grammar of hidden symbols, with sums over all binary trees of a sentence.

Its symbols are hidden as in Petrov and Klein 2008, "Discriminative log-linear grammars with latent
variables": only brackets are known. One program for sums and for maxima is Goodman 1999, "Semiring
parsing".
"""

import keras
import tensorflow as tf

import kerasrec
from expected_counts import NEVER, Plus, at, counts


@keras.saving.register_keras_serializable("models")
class WeightedGrammar(keras.Model):
    """The log-likelihood of bracketings, given sentences.

    Called with tokens int32 `[batch, words]`, where 0 is padding, and brackets bool
    `[batch, words + 1, words + 1]`, true at `i, j` if words `i` to `j - 1` are a phrase of the
    binary tree (phrases of one word may be left out). Returns float32 `[batch]`, and adds its
    negative mean as a loss.

    Args:
        num_tokens: of the vocabulary, with that of padding.
        symbols: of the grammar; the first is that of sentences.
    """

    def __init__(self, num_tokens: int, symbols: int):
        super().__init__()
        self.supports_jit = False
        self.num_tokens, self.symbols = num_tokens, symbols
        self.words = keras.layers.Embedding(num_tokens, symbols)
        self.rules = self.add_weight(shape=[symbols] * 3, initializer="random_normal", name="rules")

    def build(self, input_shape: object) -> None:
        self.words.build()

    @kerasrec.recursive(memo=True)
    def inside(self, plus, words, spans, i, j):
        """The sum over all trees of words i to j - 1, for each symbol of their root.

        Args:
            plus: adds over axes: `tf.reduce_logsumexp`, or `tf.reduce_max` for the best tree.
            words: float32 `[tokens, words, symbols]`, scores.
            spans: float32 `[tokens, words + 1, words + 1]`, score of a phrase in its tree.
            i: int32 `[tokens]`, the first word.
            j: int32 `[tokens]`, the word after the last.

        Returns:
            float32 `[tokens, symbols]`.
        """

        def combine():
            left, right = kerasrec.map_fn(
                lambda k: (
                    self.inside(plus, words, spans, i, k),
                    self.inside(plus, words, spans, k, j),
                ),
                tf.ragged.range(i + 1, j),
            )
            left, right = left.to_tensor(NEVER), right.to_tensor(NEVER)
            pairs = plus(left[..., tf.newaxis] + right[:, :, tf.newaxis], 1)
            span = at(at(spans, i), j)[:, tf.newaxis]
            return plus(self.rules + pairs[:, tf.newaxis], [2, 3]) + span

        return kerasrec.cond(j - i < 2, lambda: at(words, i), combine)

    def total(self, plus: Plus, tokens: tf.Tensor, spans: tf.Tensor):
        """The sum over all trees of each sentence, float32 `[batch]`; arguments as `inside`."""
        lengths = tf.math.count_nonzero(tokens, axis=1, dtype=tf.int32)
        return self.inside(plus, self.words(tokens), spans, tf.zeros_like(lengths), lengths)[:, 0]

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        tokens, brackets = inputs
        spans = tf.where(brackets, 0.0, NEVER)
        known = self.total(tf.reduce_logsumexp, tokens, spans)
        found = known - self.total(tf.reduce_logsumexp, tokens, tf.zeros_like(spans))
        self.add_loss(-tf.reduce_mean(found))
        return found

    @tf.function
    def chart(self, plus: Plus, tokens: tf.Tensor) -> tf.Tensor:
        """The weight of each phrase, by one gradient: `[batch, words + 1, words + 1]`.

        These are the chances of phrases if `plus` is `tf.reduce_logsumexp`, and for `tf.reduce_max`
        the phrases of the best tree, which have a 1.
        """
        num_sentences, num_words = tf.unstack(tf.shape(tokens))
        spans = tf.zeros([num_sentences, num_words + 1, num_words + 1])
        return counts(lambda spans: self.total(plus, tokens, spans), spans)

    def get_config(self) -> dict[str, int]:
        return {"num_tokens": self.num_tokens, "symbols": self.symbols}


def best_phrases(grammar: WeightedGrammar, tokens: tf.Tensor) -> tf.Tensor:
    """The phrases of the best tree of each sentence, bool `[batch, words + 1, words + 1]`."""
    return grammar.chart(tf.reduce_max, tokens) > 0.5
