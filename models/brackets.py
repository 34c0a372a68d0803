"""Bracketings of sentences as tables of phrases, and how much of one is in another."""

from collections.abc import Sequence

import numpy as np
from nltk import Tree


def brackets(tree: Tree, size: int) -> np.ndarray:
    """Which words are a phrase: bool `[size + 1, size + 1]`, true at first word, last word + 1."""
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
    """Each word stands to the left of all that follows; a last full stop stands apart."""
    if words[-1] == "." and len(words) > 1:
        return Tree("", [right_branching(words[:-1]), words[-1]])
    first, *rest = words
    return Tree("", [first, right_branching(rest)] if rest else [first])


def agreement(found: np.ndarray, known: np.ndarray, lengths: np.ndarray) -> float:
    """Unlabeled F1 of phrases, of more than one word and less than the sentence, in percent.

    Args:
        found: bool `[sentences, words + 1, words + 1]`, phrases of binary trees.
        known: the same for other binary trees; so precision and recall are F1, too.
        lengths: `[sentences]`, of their words.
    """
    counted = np.tri(known.shape[1], k=-2, dtype=bool).T & np.ones_like(known)
    counted[np.arange(len(lengths)), 0, lengths] = False
    common = np.sum(found & known & counted)
    return float(100 * 2 * common / (np.sum(found & counted) + np.sum(known & counted)))
