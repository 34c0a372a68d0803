"""A first tree of aligned sequences, from the distance of each two of them."""

from collections.abc import Sequence

import numpy as np

from kerasrec.datasets import NewickTree, parse_newick
from phylogeny.alignments import Alignment


def distances(alignment: Alignment) -> np.ndarray:
    """float64 `[taxa, taxa]`: expected changes per site by the formula of Jukes and Cantor 1969.

    For two taxa, only columns with both states known count.
    """
    columns, counts = alignment.columns, alignment.counts[:, np.newaxis]
    states = np.where((columns & (columns - 1)) == 0, columns, 0)
    both = differ = 0.0
    for state in (1, 2, 4, 8):
        here, known = (states == state).astype(float), (states > 0).astype(float)
        differ = differ + (here * counts).T @ (known - here)
        both = both + (here * counts).T @ known
    share = np.minimum(differ / np.maximum(both, 1.0), 0.74)
    return -0.75 * np.log1p(-4 / 3 * share)


def neighbor_joining(distances: np.ndarray, taxa: Sequence[str]) -> NewickTree:
    """The tree of Saitou and Nei 1987 of distances `[taxa, taxa]`, by the formula of Studier and
    Keppler 1988. Lengths below 0 become 0.

    Raises:
        ValueError: For fewer than three taxa, a name twice, or more or fewer distances.
    """
    if len(taxa) < 3 or np.shape(distances) != (len(taxa), len(taxa)):
        raise ValueError(
            f"Distances of shape {list(np.shape(distances))} and {len(taxa):,} taxa; expected "
            "[taxa, taxa] of three taxa or more. Pass distances(alignment) and alignment.taxa."
        )
    distances, quoted = distances.copy(), [name.replace("'", "''") for name in taxa]
    texts = [f"'{name}'" for name in quoted]
    while len(texts) > 3:
        size, sums = len(texts), distances.sum(0)
        criterion = (size - 2) * distances - sums[:, np.newaxis] - sums
        np.fill_diagonal(criterion, np.inf)
        i, j = sorted(np.unravel_index(np.argmin(criterion), criterion.shape))
        of_i = (distances[i, j] + (sums[i] - sums[j]) / (size - 2)) / 2
        joined = f"({texts[i]}:{max(of_i, 0.0)},{texts[j]}:{max(distances[i, j] - of_i, 0.0)})"
        row = (distances[i] + distances[j] - distances[i, j]) / 2
        distances[i], distances[:, i], distances[i, i] = row, row, 0.0
        distances = np.delete(np.delete(distances, j, 0), j, 1)
        texts[i] = joined
        del texts[j]
    (a, b, c) = distances[0, 1], distances[0, 2], distances[1, 2]
    ends = [(a + b - c) / 2, (a + c - b) / 2, (b + c - a) / 2]
    parts = [f"{text}:{max(end, 0.0)}" for text, end in zip(texts, ends, strict=True)]
    return parse_newick(f"({','.join(parts)});")
