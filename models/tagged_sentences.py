"""Sentences and their parts of speech as arrays."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dependency_treebank import read_split
from kerasrec.datasets import DependencyTree, Vocabulary


class Tagged(NamedTuple):
    """Sentences and their tags, int32 `[sentences, words]`.

    Attributes:
        words: padded with 0.
        known: tags, padded with -1.
    """

    words: np.ndarray
    known: np.ndarray

    def share_right(self, found: np.ndarray) -> float:
        """How many tags are right, in percent."""
        return float(100 * np.mean((found == self.known)[self.known >= 0]))


class Corpus(NamedTuple):
    """Sentences to learn from and to test on, the words of the former, and the tags of both."""

    train: Tagged
    test: Tagged
    vocabulary: Vocabulary
    tags: list[str]


def read(directory: Path, longest: int) -> Corpus:
    """Reads a directory of CoNLL-U files.

    Args:
        directory: with a file of the split train, and one of test.
        longest: the number of words of a sentence to learn from.
    """
    train, test = (read_split(directory, split) for split in ("train", "test"))
    train = [tree for tree in train if len(tree.words) <= longest]
    vocabulary = Vocabulary.from_trees(train, lowercase=False, min_count=2)
    tags = sorted({tag for tree in [*train, *test] for tag in tree.upos})
    splits = (encode(trees, vocabulary, tags) for trees in (train, test))
    return Corpus(*splits, vocabulary, tags)


def encode(trees: Sequence[DependencyTree], vocabulary: Vocabulary, tags: Sequence[str]) -> Tagged:
    """Sentences as numbers of words and of tags."""
    shape = len(trees), max(len(tree.words) for tree in trees)
    words, known = np.zeros(shape, np.int32), np.full(shape, -1, np.int32)
    for row, tree in enumerate(trees):
        words[row, : len(tree.words)] = vocabulary.encode(tree.words)
        known[row, : len(tree.words)] = [tags.index(tag) for tag in tree.upos]
    return Tagged(words, known)
