"""A treebank of three files, ready to train on."""

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf
from nltk import Tree

from kerasrec.datasets.batching import tree_batches
from kerasrec.datasets.encoding import EncodedTree, encode_tree
from kerasrec.datasets.treebank import read_treebank
from kerasrec.datasets.vocabulary import Vocabulary

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class Treebank:
    """Three lists of labelled binary trees and a vocabulary.

    Attributes:
        train: `nltk.Tree` objects to train on.
        dev: Those to choose settings by.
        test: Those to report on.
        vocabulary: Gives words their tokens.
        num_classes: Labels are integers from 0 to `num_classes - 1`.
    """

    train: list[Tree]
    dev: list[Tree]
    test: list[Tree]
    vocabulary: Vocabulary
    num_classes: int = 5

    @functools.cached_property
    def _encoded(self) -> dict[str, list[EncodedTree]]:
        return {}

    def encoded(self, split: str) -> list[EncodedTree]:
        """Returns a split's trees as arrays, in the order of the file.

        Args:
            split: `"train"`, `"dev"` or `"test"`.

        Raises:
            ValueError: If there is no such split.
        """
        if split not in SPLITS:
            raise ValueError(f"No split {split!r}; expected one of {', '.join(SPLITS)}.")
        if split not in self._encoded:
            trees = getattr(self, split)
            self._encoded[split] = [encode_tree(tree, self.vocabulary) for tree in trees]
        return self._encoded[split]

    def batches(
        self,
        split: str,
        batch_size: int,
        shuffle: bool = False,
        seed: int | None = None,
        bucket_by_size: bool = True,
        drop_remainder: bool = False,
    ) -> tf.data.Dataset:
        """Batches a split: `tree_batches` of `encoded(split)`.

        Args:
            split: `"train"`, `"dev"` or `"test"`.
            batch_size: Trees a batch.
            shuffle: Whether trees come in another order each epoch.
            seed: Makes the shuffling the same in each run.
            bucket_by_size: Whether trees of alike size come together.
            drop_remainder: Whether a last batch with fewer trees is left out.

        Returns:
            A `tf.data.Dataset` of `((tokens, children), labels)`, all int32: `[batch, nodes]`,
            `[batch, nodes, 2]` and `[batch, nodes]`.
        """
        return tree_batches(
            self.encoded(split), batch_size, shuffle, seed, bucket_by_size, drop_remainder
        )


def load_treebank(
    directory: str | os.PathLike[str],
    lowercase: bool = True,
    min_count: int = 1,
    vocabulary_splits: Sequence[str] = ("train",),
    num_classes: int = 5,
) -> Treebank:
    """Reads `train.txt`, `dev.txt` and `test.txt` of a directory and gathers their vocabulary.

    Args:
        directory: Where the three files lie, in the format of `read_treebank`.
        lowercase: Whether words are lowercased.
        min_count: Words seen less often in `vocabulary_splits` are unknown.
        vocabulary_splits: Whose words the vocabulary holds. Words of dev and test have a use only
            where they come with pretrained vectors: then pass `("train", "dev", "test")`.
        num_classes: Labels are integers from 0 to `num_classes - 1`.

    Returns:
        A `Treebank`.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If a file is malformed, or `vocabulary_splits` names no split.
    """
    unknown = [split for split in vocabulary_splits if split not in SPLITS]
    if unknown or not vocabulary_splits:
        raise ValueError(
            f"vocabulary_splits is {vocabulary_splits!r}; expected some of {', '.join(SPLITS)}."
        )
    trees = {
        split: read_treebank(Path(directory) / f"{split}.txt", num_classes) for split in SPLITS
    }
    vocabulary = Vocabulary.from_trees(
        (tree for split in vocabulary_splits for tree in trees[split]), lowercase, min_count
    )
    return Treebank(**trees, vocabulary=vocabulary, num_classes=num_classes)
