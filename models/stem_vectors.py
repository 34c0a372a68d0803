"""Word vectors for words that have none, but share their stem with words that do."""

from collections import defaultdict

import numpy as np
from nltk.stem import PorterStemmer

from kerasrec.datasets import Vocabulary, WordVectors


def with_stems(vectors: WordVectors, vocabulary: Vocabulary, length: float = 4.0) -> WordVectors:
    """Adds the mean vector of a stem for words that lack one: `slicing` has that of `slice`.

    Args:
        vectors: They are centered, and made as long as each other: a word's frequency, which has no
            part in its meaning, is mostly in these.
        vocabulary: Words that are to have a vector.
        length: Of each vector.
    """
    rows = vectors.vectors - vectors.vectors.mean(axis=0)
    rows *= length / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)
    stem = PorterStemmer().stem
    of_stem = defaultdict(list)
    for word, row in zip(vectors.words, rows, strict=True):
        of_stem[stem(word)].append(row)
    lacking = sorted(set(vocabulary.words[2:]).difference(vectors.words))
    found = [word for word in lacking if stem(word) in of_stem]
    print(
        f"of {len(vocabulary) - 2:,} words {len(found):,} have the vector of their stem, and "
        f"{len(lacking) - len(found):,} none"
    )
    more = [np.mean(of_stem[stem(word)], axis=0) for word in found]
    return WordVectors([*vectors.words, *found], np.array([*rows, *more], np.float32))
