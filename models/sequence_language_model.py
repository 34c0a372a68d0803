"""A language model of sentences as sequences: the plain LSTM that a model of trees is compared to.

    python models/sequence_language_model.py --data path/to/ud_english_ewt --seeds 1 2 3

It predicts each word from the words before it, with the vocabulary, the sizes and the training of
`top_down_language_model.py`; `language_model.py` has the shared parts. Where a tree has decisions
about its growth, a sequence has one after each word: whether it ends.
"""

import argparse
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import language_model
from kerasrec.datasets import DependencyTree, EncodedTree, Vocabulary

END = 0  # the token of padding, which comes after the last word


@keras.saving.register_keras_serializable("models")
class SequenceTerms(keras.layers.Layer):
    """Log-likelihoods of the words of sentences, and of going on or ending after each.

    The logits after a word are those of one softmax over all next words and the end. Its
    probability of the next word is split in two: whether there is one, and which one it is.

    Call arguments:
        logits: `[batch, words, num_tokens]`, after each word.
        tokens: int32 `[batch, words]`; 0 at padding.

    Returns:
        float32 `[batch, words, 2]`: the term of the word, 0 for the first, which is given; that of
        the word after it.
    """

    def call(self, logits: Any, tokens: Any) -> Any:
        logits = tf.cast(logits, tf.float32)
        end, words = logits[..., END], tf.reduce_logsumexp(logits[..., END + 1 :], axis=-1)
        following = tf.pad(tokens[:, 1:], [[0, 0], [0, 1]])
        which = tf.gather(logits, following, batch_dims=2) - words
        goes_on = following != END
        zero = tf.zeros_like(words)
        of_words = tf.pad(tf.where(goes_on, which, zero)[:, :-1], [[0, 0], [1, 0]])
        of_growth = tf.math.log_sigmoid(tf.where(goes_on, words - end, end - words))
        return tf.stack([of_words, tf.where(tokens > 0, of_growth, zero)], axis=-1)


def encode(tree: DependencyTree, vocabulary: Vocabulary) -> EncodedTree:
    """A sentence as a chain: each word is the one child of the word before it."""
    tokens = vocabulary.encode(tree.words)
    children = np.append(np.arange(1, len(tokens)), -1).astype(np.int32)
    return EncodedTree(tokens, children[:, np.newaxis], tokens.copy())


def build_model(vocabulary: Vocabulary, options: argparse.Namespace) -> keras.Model:
    """Builds words -> vectors -> LSTM -> logits of the next word -> terms."""
    tokens = keras.Input([None], dtype="int32", name="tokens")
    children = keras.Input([None, 1], dtype="int32", name="children")  # unused here
    x = keras.layers.Embedding(len(vocabulary), options.embedding, name="embedding")(tokens)
    x = keras.layers.Dropout(options.dropout)(x)
    x = keras.layers.LSTM(options.units, return_sequences=True, name="lstm")(x)
    x = keras.layers.Dropout(options.dropout)(x)
    logits = keras.layers.Dense(len(vocabulary), name="words")(x)
    return keras.Model([tokens, children], SequenceTerms(dtype="float32")(logits, tokens))


def main(argv: Sequence[str] | None = None) -> language_model.Results:
    """Runs the recipe and returns its figures."""
    description = "Train an LSTM language model, to compare a model of trees to."
    options = language_model.parse_options(argv, description, "sequence_language_model")
    return language_model.run(encode, build_model, options)


if __name__ == "__main__":
    main()
