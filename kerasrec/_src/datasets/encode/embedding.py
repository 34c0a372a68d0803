"""The initial weights of an embedding layer, from word vectors."""

from typing import Any, Literal

import keras
import numpy as np

from kerasrec._src.datasets.encode.vocabulary import Vocabulary
from kerasrec._src.datasets.readers.vectors import WordVectors
from kerasrec._src.datasets.validation import expect


def embedding_matrix(
    vocabulary: Vocabulary,
    vectors: WordVectors,
    seed: int | None = None,
    scale: float = 0.05,
    unknown: Literal["random", "mean", "zeros"] = "random",
) -> np.ndarray:
    """Gathers a vector for every entry of a vocabulary.

    A word without a vector takes the vector of its lower-case form. If that has none either, and
    for the unknown word, `unknown` chooses the row. The row of padding is zeros.

    Args:
        vocabulary: The vocabulary; its entries become the rows.
        vectors: The word vectors from `read_vectors`.
        seed: The seed of the random rows; without a seed they differ each time.
        scale: The bound of the random rows.
        unknown: The row of a word without a vector: `"random"` for numbers drawn uniformly from
            `-scale` to `scale`; `"mean"` for the mean of all vectors; `"zeros"` for zeros.

    Returns:
        The matrix, float32 `[len(vocabulary), dim]`: weights for
        `keras.layers.Embedding(len(vocabulary), dim, weights=[matrix])`, which `make_embedding`
        makes.

    Raises:
        ValueError: If `vocabulary`, `vectors` or `unknown` is something else.
    """
    rows = _rows(vocabulary, vectors)
    shape = (len(vocabulary), vectors.vectors.shape[1])
    if unknown == "random":
        matrix = np.random.default_rng(seed).uniform(-scale, scale, shape).astype(np.float32)
    elif unknown == "mean":
        matrix = np.tile(vectors.vectors.mean(axis=0), (len(vocabulary), 1))
    elif unknown == "zeros":
        matrix = np.zeros(shape, np.float32)
    else:
        raise ValueError(f"unknown is {unknown!r}; expected 'random', 'mean' or 'zeros'.")
    matrix[0] = 0.0
    matrix[rows >= 0] = vectors.vectors[rows[rows >= 0]]
    return matrix


def make_embedding(
    vocabulary: Vocabulary,
    vectors: WordVectors,
    seed: int | None = None,
    unknown: Literal["random", "mean", "zeros"] = "random",
    **options: Any,
) -> keras.layers.Embedding:
    """Makes an embedding layer that begins with word vectors.

    Its vectors are trained like all other weights. With `trainable=False` they do not change, and
    with `kerasrec.training.OptimizerPerLayer` they get another learning rate or update rule. The
    layer makes no Keras mask: inner tree nodes also have the token 0, and tree layers recognize
    padding by its children.

    Args:
        vocabulary: The vocabulary that gave words their tokens.
        vectors: The word vectors from `read_vectors`.
        seed: As for `embedding_matrix`.
        unknown: As for `embedding_matrix`.
        **options: The options of `keras.layers.Embedding`, such as `trainable` and `name`.

    Returns:
        A `keras.layers.Embedding` from int `[batch, nodes]` to float `[batch, nodes, dim]`.

    Raises:
        ValueError: As for `embedding_matrix`, or if `mask_zero` is requested.
    """
    if options.get("mask_zero"):
        raise ValueError(
            "mask_zero=True would mask the inner tree nodes, which have the token 0. Leave it out: "
            "tree layers recognize padding by its children."
        )
    matrix = embedding_matrix(vocabulary, vectors, seed, unknown=unknown)
    return keras.layers.Embedding(*matrix.shape, weights=[matrix], **options)


def coverage(vocabulary: Vocabulary, vectors: WordVectors) -> float:
    """Returns the share of a vocabulary's words (without padding and unknown) with a vector.

    Args:
        vocabulary: The vocabulary.
        vectors: The word vectors from `read_vectors`.

    Returns:
        A number from 0 to 1; 0 for a vocabulary without words.

    Raises:
        ValueError: If `vocabulary` or `vectors` is something else.
    """
    rows = _rows(vocabulary, vectors)[2:]
    return float((rows >= 0).mean()) if len(rows) else 0.0


def _rows(vocabulary: Vocabulary, vectors: WordVectors) -> np.ndarray:
    expect("vocabulary", vocabulary, Vocabulary, "Vocabulary.from_trees makes one of trees.")
    expect("vectors", vectors, WordVectors, "read_vectors reads them from a file.")
    row_of = {word: row for row, word in enumerate(vectors.words)}
    rows = [row_of.get(word, row_of.get(word.lower(), -1)) for word in vocabulary.words]
    return np.array([-1, -1, *rows[2:]])
