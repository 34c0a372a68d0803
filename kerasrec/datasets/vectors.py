"""The reader of word vectors.

Source of the text format: Pennington et al. 2014, GloVe, https://nlp.stanford.edu/projects/glove/.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np


class WordVectors(NamedTuple):
    """Words and a vector for each.

    Attributes:
        words: The words, a list of `str`.
        vectors: float32 `[words, dim]`.
    """

    words: list[str]
    vectors: np.ndarray


def read_vectors(path: str | os.PathLike[str], words: Iterable[str] | None = None) -> WordVectors:
    """Reads word vectors from numpy's `.npz` or from a text file as GloVe's.

    Args:
        path: A `.npz` file with the arrays `words` (text, `[words]`) and `vectors` (floats of any
            width, `[words, dim]`); or a `.txt` or `.vec` file with a word and `dim` numbers a
            line, separated by spaces (a word may hold spaces itself), with or without word2vec's
            first line `words dim`.
        words: If given, only these words are kept, and what they are in lower case: pass
            `vocabulary.words` to read a large file in little memory.

    Returns:
        `WordVectors`, in the order of the file; where a word is there twice, the first counts.

    Raises:
        FileNotFoundError: If there is no file at `path`.
        ValueError: If the extension is another, an array is missing or does not fit, a line has
            another number of numbers than the first (named with file and line), or no word is
            left.
    """
    path = Path(path)
    readers = {".npz": _read_npz, ".txt": _read_text, ".vec": _read_text}
    if path.suffix not in readers:
        raise ValueError(
            f"Word vectors '{path}' end in '{path.suffix}'; expected '.npz' (numpy arrays 'words' "
            "and 'vectors') or '.txt' / '.vec' (GloVe's text format). Unpack or rename the file."
        )
    if not path.is_file():
        raise FileNotFoundError(f"No word vectors at '{path}'.")
    wanted = None if words is None else {form for word in words for form in (word, word.lower())}
    found, vectors = readers[path.suffix](path, wanted)
    if not found:
        raise ValueError(
            f"No word vectors read from '{path}': it has no lines, or none of the "
            "words asked for. Check the language and the upper or lower case of words."
        )
    return WordVectors(found, vectors)


def _read_npz(path: Path, wanted: set[str] | None) -> tuple[list[str], np.ndarray]:
    with np.load(path) as arrays:
        missing = [key for key in ("words", "vectors") if key not in arrays]
        if missing:
            raise ValueError(
                f"'{path}' has no array {' and no array '.join(map(repr, missing))}, only "
                f"{arrays.files}. Save it with numpy.savez(path, words=..., vectors=...)."
            )
        words, vectors = arrays["words"], arrays["vectors"]
    if words.ndim != 1 or vectors.ndim != 2 or len(words) != len(vectors):
        raise ValueError(
            f"'{path}' has words {list(words.shape)} and vectors {list(vectors.shape)}; expected "
            "words [words] and vectors [words, dim]."
        )
    rows: dict[str, int] = {}
    for row, word in enumerate(words.tolist()):
        if wanted is None or word in wanted:
            rows.setdefault(word, row)
    return list(rows), vectors[list(rows.values())].astype(np.float32)


def _read_text(path: Path, wanted: set[str] | None) -> tuple[list[str], np.ndarray]:
    vectors: dict[str, np.ndarray] = {}
    dim = 0
    # newline="\n": GloVe 840B holds words with other line breaks in them.
    with path.open(encoding="utf-8", newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            parts = line.rstrip(" \r\n").split(" ")
            if number == 1:
                if len(parts) == 2 and all(part.isdigit() for part in parts):
                    dim = int(parts[1])
                    continue
                dim = len(parts) - 1
            word = " ".join(parts[:-dim]) if dim else ""
            if not word or (_is_number(parts[-dim - 1]) and len(parts) > dim + 1):
                raise ValueError(
                    f"{path}:{number}: expected a word and {dim or 'some'} numbers separated by "
                    f"spaces, as on the first line; found {len(parts)} parts: "
                    f"'{line.strip()[:40]}'."
                )
            if word in vectors or (wanted is not None and word not in wanted):
                continue
            try:
                vectors[word] = np.array(parts[-dim:], np.float32)
            except ValueError as error:
                raise ValueError(
                    f"{path}:{number}: expected {dim} numbers after the word '{word}': {error}."
                ) from error
    return list(vectors), np.array(list(vectors.values()), np.float32)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
