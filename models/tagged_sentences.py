"""Sentences and their parts of speech as arrays."""

from collections.abc import Sequence

import numpy as np

from kerasrec.datasets import DependencyTree, Vocabulary


def encode(
    trees: Sequence[DependencyTree], vocabulary: Vocabulary, tags: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Words, padded with 0, and tags, padded with -1: int32 `[sentences, words]` each."""
    shape = len(trees), max(len(tree.words) for tree in trees)
    words, known = np.zeros(shape, np.int32), np.full(shape, -1, np.int32)
    for row, tree in enumerate(trees):
        words[row, : len(tree.words)] = vocabulary.encode(tree.words)
        known[row, : len(tree.words)] = [tags.index(tag) for tag in tree.upos]
    return words, known
