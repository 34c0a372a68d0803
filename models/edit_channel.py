"""A channel that writes pairs of strings, an edit at a time, as if one were a misspelling.

Source: Ristad and Yianilos 1998, "Learning string-edit distance", section 2.
"""

from typing import NamedTuple

import numpy as np


class Pairs(NamedTuple):
    """Pairs of strings.

    Attributes:
        x: int32 `[pairs, characters]`, with 0 behind the last.
        y: the same for the other string of each pair.
        x_lengths: int32 `[pairs]`.
        y_lengths: int32 `[pairs]`.
    """

    x: np.ndarray
    y: np.ndarray
    x_lengths: np.ndarray
    y_lengths: np.ndarray


def draw_channel(letters: int, noise: float, seed: int) -> np.ndarray:
    """Draws how likely each edit is, float64 `[letters + 1, letters + 1]`.

    The entry at `a, b` is the chance that a and b are written. The last place means no letter: the
    last column has letters left out, the last row those put in, and its last entry the end.

    Args:
        letters: their number.
        noise: the share of edits that do not write a letter as it is, the end aside. Half of them
            write another letter, and few of all others, a quarter leave a letter out, and a quarter
            put one in.
        seed: of the channel.
    """
    random = np.random.default_rng(seed)
    chances = np.zeros([letters + 1, letters + 1])
    others = np.where(np.eye(letters), 0, random.gamma(0.2, size=[letters, letters]))
    kept, left_out, put_in = random.dirichlet([2.0] * letters, size=3)
    chances[:-1, :-1] = noise / 2 * others / others.sum() + (1 - noise) * np.diag(kept)
    chances[:-1, -1], chances[-1, :-1] = noise / 4 * left_out, noise / 4 * put_in
    chances *= 0.9
    chances[-1, -1] = 0.1
    return chances


def draw_pairs(chances: np.ndarray, number: int, seed: int) -> tuple[Pairs, np.ndarray]:
    """Draws pairs of strings, which may be empty, and how often each edit was made."""
    random = np.random.default_rng(seed)
    nothing = len(chances) - 1
    counts, pairs = np.zeros_like(chances), []
    for _ in range(number):
        edits: list[tuple[int, int]] = []
        while (nothing, nothing) not in edits:
            edits.append(divmod(random.choice(chances.size, p=chances.ravel()), len(chances)))
        np.add.at(counts, tuple(np.transpose(edits)), 1)
        pairs.append([[edit[side] for edit in edits if edit[side] < nothing] for side in (0, 1)])
    columns = []
    for side in zip(*pairs, strict=True):
        characters = np.zeros([number, max(map(len, side))], np.int32)
        for row, string in zip(characters, side, strict=True):
            row[: len(string)] = string
        columns.append((characters, np.array([len(string) for string in side], np.int32)))
    (x, x_lengths), (y, y_lengths) = columns
    return Pairs(x, y, x_lengths, y_lengths), counts
