"""Bracketed sentences of a treebank as arrays."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from nltk import Tree

from brackets import agreement, brackets, right_branching
from kerasrec.datasets import Vocabulary


class Sentences(NamedTuple):
    """Sentences and their phrases.

    Attributes:
        words: of each sentence.
        tokens: int32 `[sentences, words]`, padded with 0.
        known: bool `[sentences, words + 1, words + 1]`, true at the first word of a phrase and the
            word after its last.
    """

    words: list[list[str]]
    tokens: np.ndarray
    known: np.ndarray

    def agreement(self, found: np.ndarray) -> float:
        """F1 of phrases, in percent, of a table as `known`."""
        return agreement(found, self.known, np.array(list(map(len, self.words))))

    def right_branching(self) -> np.ndarray:
        """The phrases if each word is to the left of all that follow, as `known`."""
        size = self.tokens.shape[1]
        return np.stack([brackets(right_branching(words), size) for words in self.words])


def encode(trees: Sequence[Tree], vocabulary: Vocabulary, size: int, number: int) -> Sentences:
    """The first sentences of 3 to `size` words.

    Args:
        trees: binary.
        vocabulary: of the words.
        size: of the longest sentence.
        number: of sentences, at most.
    """
    chosen = [tree for tree in trees if 2 < len(tree.leaves()) <= size][:number]
    words = [tree.leaves() for tree in chosen]
    tokens = np.zeros([len(chosen), size], np.int32)
    for row, sentence in zip(tokens, words, strict=True):
        row[: len(sentence)] = vocabulary.encode(sentence)
    return Sentences(words, tokens, np.stack([brackets(tree, size) for tree in chosen]))
