"""The first value of an embedding layer's weights, from word vectors."""

import numpy as np

from kerasrec.datasets.vectors import WordVectors
from kerasrec.datasets.vocabulary import Vocabulary


def embedding_matrix(
    vocabulary: Vocabulary, vectors: WordVectors, seed: int, scale: float = 0.05
) -> np.ndarray:
    """Gathers a vector for every entry of a vocabulary.

    A word without a vector of its own takes that of its lower-case form; failing that, and for the
    unknown word, numbers are drawn uniformly from `-scale` to `scale`. Padding is zeros.

    Args:
        vocabulary: Its entries become the rows.
        vectors: What `read_vectors` gives.
        seed: Of the random rows.
        scale: Bound of the random rows.

    Returns:
        float32 `[len(vocabulary), dim]`: weights for
        `keras.layers.Embedding(len(vocabulary), dim, weights=[matrix])`.
    """
    random = np.random.default_rng(seed)
    shape = (len(vocabulary), vectors.vectors.shape[1])
    matrix = random.uniform(-scale, scale, shape).astype(np.float32)
    matrix[0] = 0.0
    rows = _rows(vocabulary, vectors)
    matrix[rows >= 0] = vectors.vectors[rows[rows >= 0]]
    return matrix


def coverage(vocabulary: Vocabulary, vectors: WordVectors) -> float:
    """Returns the share of a vocabulary's words (without padding and unknown) with a vector.

    Args:
        vocabulary: Whose words.
        vectors: What `read_vectors` gives.

    Returns:
        A number from 0 to 1; 0 for a vocabulary without words.
    """
    rows = _rows(vocabulary, vectors)[2:]
    return float((rows >= 0).mean()) if len(rows) else 0.0


def _rows(vocabulary: Vocabulary, vectors: WordVectors) -> np.ndarray:
    row_of = {word: row for row, word in enumerate(vectors.words)}
    rows = [row_of.get(word, row_of.get(word.lower(), -1)) for word in vocabulary.words]
    return np.array([-1, -1, *rows[2:]])
