"""The sentence pairs of SICK (Marelli et al. 2014), as dependency trees in a file a kind of column.

The form is that of Tai et al. 2015: `a.toks` and `b.toks` have a sentence a line, `a.parents` and
`b.parents` the heads of its words, counted from 1, and `sim.txt` a score from 1 to 5.
"""

from pathlib import Path

import numpy as np
import tensorflow as tf

from kerasrec.datasets import (
    DependencyTree,
    Vocabulary,
    encode_dependencies,
    tree_pair_batches,
)

SCORES = np.arange(1, 6, dtype=np.float32)
Pairs = tuple[list[DependencyTree], list[DependencyTree], np.ndarray]


def read(directory: Path, split: str) -> Pairs:
    """Reads the first and the second sentences of a split, and the scores, float32 `[pairs]`."""

    def lines(name: str) -> list[list[str]]:
        text = (directory / split / name).read_text(encoding="utf-8")
        return [line.split() for line in text.splitlines()]

    def trees(side: str) -> list[DependencyTree]:
        pairs = zip(lines(f"{side}.toks"), lines(f"{side}.parents"), strict=True)
        return [DependencyTree(words, [int(head) - 1 for head in heads]) for words, heads in pairs]

    return trees("a"), trees("b"), np.array(lines("sim.txt"), np.float32)[:, 0]


def batches(pairs: Pairs, vocabulary: Vocabulary, seed: int | None = None) -> tf.data.Dataset:
    """Batches of 25 pairs, with the distributions over scores of Tai et al. 2015, section 4.2.

    These are of at most two scores, the ones beside the given one, and have it as their mean.

    Args:
        pairs: Of a split.
        vocabulary: Gives words their tokens.
        seed: To shuffle with; None keeps the order.
    """
    sides = [[encode_dependencies(tree, vocabulary) for tree in side] for side in pairs[:2]]
    distributions = np.maximum(0, 1 - np.abs(pairs[2][:, None] - SCORES))
    return tree_pair_batches(*sides, distributions, 25, shuffle=seed is not None, seed=seed)
