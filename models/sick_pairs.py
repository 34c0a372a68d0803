"""Sentence pairs, as of SICK (Marelli et al. 2014), as batches with a distribution over scores."""

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from kerasrec.datasets import (
    DependencyTree,
    Vocabulary,
    encode_dependencies,
    read_sick,
    tree_pair_batches,
)

SCORE_RANGE = (1.0, 5.0)  # of SICK
Pairs = tuple[list[DependencyTree], list[DependencyTree], np.ndarray]


def scores_of(score_range: Sequence[float]) -> np.ndarray:
    """The scores that have a probability, float32 `[scores]`: from the lowest in steps of 1."""
    lowest, highest = score_range
    return lowest + np.arange(np.ceil(highest - lowest) + 1, dtype=np.float32)


SCORES = scores_of(SCORE_RANGE)


def read(directory: Path, split: str, score_range: Sequence[float] = SCORE_RANGE) -> Pairs:
    """Reads the first and the second sentences of a split, and the scores, float32 `[pairs]`."""
    pairs = read_sick(directory / split, score_range=tuple(score_range))
    first, second, scores = zip(*pairs, strict=True)
    return list(first), list(second), np.array(scores, np.float32)


def distributions(given: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The distributions over scores of Tai et al. 2015, section 4.2, float32 `[pairs, scores]`.

    These have at most two scores, the neighbors of the given one, which is their mean.
    """
    return np.maximum(0, 1 - np.abs(given[:, None] - scores))


def batches(
    pairs: Pairs, vocabulary: Vocabulary, seed: int | None = None, scores: np.ndarray = SCORES
) -> tf.data.Dataset:
    """Batches of 25 pairs, with the distributions of their scores.

    Args:
        pairs: Of a split.
        vocabulary: Gives words their tokens.
        seed: To shuffle with; None keeps the order.
        scores: That have a probability, as from `scores_of`.
    """
    sides = [[encode_dependencies(tree, vocabulary) for tree in side] for side in pairs[:2]]
    labels = distributions(pairs[2], scores)
    return tree_pair_batches(*sides, labels, 25, shuffle=seed is not None, seed=seed)


def by_known_words(
    pairs: Pairs, vocabulary: Vocabulary, words: Collection[str]
) -> dict[str, np.ndarray]:
    """Which pairs have none but some words, and which have others: bool `[pairs]` each."""
    is_known = np.isin(vocabulary.words, list(words))
    sides = zip(pairs[0], pairs[1], strict=True)
    known = [is_known[vocabulary.encode([*a.words, *b.words])].all() for a, b in sides]
    return {"all words have vectors": np.array(known), "other pairs": ~np.array(known)}
