"""Bracketings of sentences as tables of phrases, and the F1 of one for another."""

from collections.abc import Sequence

import numpy as np
from nltk import Tree


def brackets(tree: Tree, size: int) -> np.ndarray:
    """The phrases: bool `[size + 1, size + 1]`, true at first word, last word + 1."""
    found = np.zeros([size + 1, size + 1], bool)

    def fill(node: Tree | str, start: int) -> int:
        if isinstance(node, str):
            return start + 1
        end = start
        for child in node:
            end = fill(child, end)
        found[start, end] = True
        return end

    fill(tree, 0)
    return found


def right_branching(words: Sequence[str]) -> Tree:
    """Each word is to the left of all that follow; a last full stop is split off first."""
    if words[-1] == "." and len(words) > 1:
        return Tree("", [right_branching(words[:-1]), words[-1]])
    first, *rest = words
    return Tree("", [first, right_branching(rest)] if rest else [first])


def agreement(found: np.ndarray, known: np.ndarray, lengths: np.ndarray) -> float:
    """Unlabeled F1 of phrases, of more than one word and less than the sentence, in percent.

    Args:
        found: bool `[sentences, words + 1, words + 1]`, phrases of binary trees.
        known: the same for other binary trees, so precision and recall equal F1.
        lengths: `[sentences]`, of their words.
    """
    counted = np.tri(known.shape[1], k=-2, dtype=bool).T & np.ones_like(known)
    counted[np.arange(len(lengths)), 0, lengths] = False
    common = np.sum(found & known & counted)
    return float(100 * 2 * common / (np.sum(found & counted) + np.sum(known & counted)))
