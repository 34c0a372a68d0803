"""A small parser: the probability that a word of a sentence is the head of another.

An LSTM reads the sentence in both directions, and every word chooses its head among the others, or
itself if it is the root: Kiperwasser and Goldberg 2016, with the bilinear scores of Dozat and
Manning 2017.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import keras
import numpy as np
import tensorflow as tf

from kerasrec.datasets import DependencyTree, Vocabulary, WordVectors, embedding_matrix

# The Penn Treebank, and the Stanford Sentiment Treebank with it, has special tokens for these.
WRITTEN = {"-LRB-": "(", "-RRB-": ")", "``": '"', "''": '"'}
SUFFIX = 3
SHAPES = 17
NUM_FEATURES = 4


def written(words: Iterable[str]) -> list[str]:
    """Writes words of the Penn Treebank as other treebanks and word vectors do."""
    return [WRITTEN.get(word, word) for word in words]


class WordFeatures:
    """Turns words into numbers: the word, its ending, its shape, and its row of word vectors.

    Args:
        trees: Words seen twice in these get a separate embedding.
        vectors: Word vectors, which are not trained; of words that are `written` as there.
    """

    def __init__(self, trees: Sequence[DependencyTree], vectors: WordVectors) -> None:
        counts = Counter(word.lower() for tree in trees for word in tree.words)
        words = [word for word, count in counts.items() if count >= 2]
        self.words = Vocabulary(words)
        self.suffixes = Vocabulary(dict.fromkeys(word[-SUFFIX:] for word in words))
        reserved = self.words.words[:2]  # GloVe's files may hold a vector of <unk>
        self.rows = Vocabulary(
            [word for word in vectors.words if word not in reserved], lowercase=False
        )
        # They are scaled to the spread of a new embedding; the units of files vary.
        self.matrix = embedding_matrix(self.rows, vectors, seed=0)
        self.matrix *= 0.5 / self.matrix.std()

    def __call__(self, words: Sequence[str]) -> np.ndarray:
        """Returns int32 `[words, 4]`; no number is 0, which is for padding."""
        words = written(words)
        lower = [word.lower() for word in words]
        rows = [word if word in self.rows else word.lower() for word in words]
        return np.stack(
            [
                self.words.encode(lower),
                self.suffixes.encode(word[-SUFFIX:] for word in lower),
                [_shape(word) for word in words],
                self.rows.encode(rows),
            ],
            axis=-1,
        ).astype(np.int32)


def _shape(word: str) -> int:
    return (
        1
        + word[0].isupper()
        + 2 * any(character.isdigit() for character in word)
        + 4 * ("-" in word)
        + 8 * (not any(character.isalnum() for character in word))
    )


class ArcScorer(keras.Model):
    """Scores every word as the head of every other.

    Called with int32 `[batch, words, 4]`, as `WordFeatures` returns, padded with 0; returns float32
    `[batch, words, words]`, at `[:, i, j]` the score of word `j` as the head of word `i`, and at
    `[:, i, i]` that of word `i` as the root. The softmax over the last axis is a probability.

    Args:
        features: With the words and vectors.
        units: Of the LSTM, in each direction, and of the factors of scores.
        dropout: The share of values dropped between layers; half of it for whole words.
    """

    def __init__(self, features: WordFeatures, units: int = 150, dropout: float = 0.33) -> None:
        super().__init__()
        self.word_dropout = dropout / 2
        self.seed_generator = keras.random.SeedGenerator()
        matrix = features.matrix
        self.embeddings = [
            keras.layers.Embedding(len(features.words), 100),
            keras.layers.Embedding(len(features.suffixes), 50),
            keras.layers.Embedding(SHAPES, 10),
            keras.layers.Embedding(*matrix.shape, weights=[matrix], trainable=False),
        ]
        self.dropout = keras.layers.Dropout(dropout)
        self.read = keras.layers.Bidirectional(keras.layers.LSTM(units, return_sequences=True))
        self.as_dependent = keras.layers.Dense(units, "relu")
        self.as_head = keras.layers.Dense(units, "relu")
        self.bilinear = keras.layers.Dense(units)
        self.head_bias = keras.layers.Dense(1, use_bias=False)

    def call(self, features, training=False):
        there = features[..., 0] > 0
        parts = keras.ops.unstack(features, NUM_FEATURES, axis=-1)
        if training:  # so that words not in the vocabulary are not a surprise
            draws = keras.random.uniform(keras.ops.shape(there), seed=self.seed_generator)
            parts[0] = keras.ops.where(
                draws < self.word_dropout, keras.ops.sign(parts[0]), parts[0]
            )
        x = [embed(part) for embed, part in zip(self.embeddings, parts, strict=True)]
        x = self.dropout(keras.ops.concatenate(x, axis=-1), training=training)
        x = self.dropout(self.read(x, mask=there, training=training), training=training)
        dependents = self.dropout(self.as_dependent(x), training=training)
        heads = self.dropout(self.as_head(x), training=training)
        scores = self.bilinear(dependents) @ keras.ops.swapaxes(heads, 1, 2)
        scores += keras.ops.swapaxes(self.head_bias(heads), 1, 2)
        return keras.ops.where(there[:, None, :], scores, -1e9)

    def log_probabilities(self, features: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Scores sentences.

        Args:
            features: For each sentence, int32 `[words, 4]`.

        Returns:
            For each sentence, float32 `[words, words]`: the logarithm of the probability that word
            `j` is the head of word `i`, or the root if both are the same.
        """
        result: list[np.ndarray] = [np.empty(0)] * len(features)
        no_heads = [np.empty(0)] * len(features)
        for sentences, padded, _ in padded_batches(features, no_heads, batch_size=64):
            scores = keras.ops.log_softmax(self.predict_on_batch(padded))
            for sentence, matrix in zip(sentences, np.asarray(scores), strict=True):
                size = len(features[sentence])
                result[sentence] = matrix[:size, :size]
        return result


def padded_batches(
    features: Sequence[np.ndarray], heads: Sequence[np.ndarray], batch_size: int
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Groups sentences of similar length.

    Returns:
        For each batch: the numbers of its sentences, int `[batch]`; their features, int32
        `[batch, words, 4]` with 0 as padding; their heads, int32 `[batch, words]` with -1.
    """
    order = np.argsort([len(rows) for rows in features], kind="stable")
    batches = []
    for start in range(0, len(order), batch_size):
        sentences = order[start : start + batch_size]
        shape = len(sentences), len(features[sentences[-1]])
        padded = np.zeros([*shape, NUM_FEATURES], np.int32), np.full(shape, -1, np.int32)
        for row, sentence in enumerate(sentences):
            for array, values in zip(padded, (features[sentence], heads[sentence]), strict=True):
                array[row, : len(values)] = values
        batches.append((sentences, *padded))
    return batches


def train_arc_scorer(
    trees: Sequence[DependencyTree],
    features: WordFeatures,
    epochs: int,
    batch_size: int = 32,
    learning_rate: float = 0.002,
) -> ArcScorer:
    """Trains on dependency trees: each word is to choose its head, the root itself.

    Args:
        trees: To train on; they need not be projective.
        features: As `WordFeatures(trees, vectors)` returns them.
        epochs: How often each tree is seen.
        batch_size: Sentences per batch.
        learning_rate: Of Adam at the start; it falls to nothing.
    """
    heads = [
        np.array([i if head < 0 else head for i, head in enumerate(tree.heads)]) for tree in trees
    ]
    batches = padded_batches([features(tree.words) for tree in trees], heads, batch_size)
    shapes = (
        tf.TensorSpec([None, None, NUM_FEATURES], tf.int32),
        tf.TensorSpec([None, None], tf.int32),
    )
    data = tf.data.Dataset.from_generator(
        lambda: ((padded, heads) for _, padded, heads in batches), output_signature=shapes
    )
    data = data.apply(tf.data.experimental.assert_cardinality(len(batches))).shuffle(len(batches))
    rate = keras.optimizers.schedules.CosineDecay(learning_rate, epochs * len(batches))
    model = ArcScorer(features)
    model.compile(
        keras.optimizers.Adam(rate, clipnorm=5.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1),
    )
    model.fit(data, epochs=epochs, shuffle=False, verbose=2)
    return model
