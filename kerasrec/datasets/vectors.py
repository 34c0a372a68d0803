"""The reader of word vectors.

Source of the text format: Pennington et al. 2014, GloVe, https://nlp.stanford.edu/projects/glove/.
"""

import gzip
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kerasrec.datasets.problems import report, text_of

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
PACKED_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)
_Read = tuple[list[str], np.ndarray, list[str]]  # words, vectors, and problems


class WordVectors(NamedTuple):
    """Words and a vector for each.

    Attributes:
        words: The words, a list of `str`.
        vectors: float32 `[words, dim]`.
    """

    words: list[str]
    vectors: np.ndarray


def read_vectors(
    path: str | os.PathLike[str], words: Iterable[str] | None = None, strict: bool = True
) -> WordVectors:
    """Reads word vectors from numpy's `.npz`, or from text as GloVe's and word2vec's.

    Args:
        path: A `.npz` file with the arrays `words` (text, `[words]`) and `vectors` (floats of any
            width, `[words, dim]`); or a `.txt` or `.vec` file, or one of these packed as `.gz`,
            with a word and `dim` numbers a line, separated by spaces (a word may hold spaces
            itself), with or without word2vec's first line `words dim`. Without it, `dim` is how
            many numbers follow the first word that holds no space.
        words: If given, only these words are kept, and what they are in lower case: pass
            `vocabulary.words` to read a large file in little memory. Of other lines only the
            number of numbers is checked.
        strict: Whether malformed lines raise an error; otherwise they are left out, and a
            `MalformedFileWarning` says which and why.

    Returns:
        `WordVectors`, in the order of the file; where a word is there twice, the first counts.

    Raises:
        FileNotFoundError: If there is no file at `path`.
        MalformedFileError: If `strict`, and a line is no UTF-8, has no word, another number of
            numbers than `dim`, or one that is not finite; if there are more or fewer lines than the
            first says, or packed data ends early. It is a `ValueError` whose `problems` name every
            such line (row, of a `.npz` file), with file and reason.
        ValueError: If the extension is another, an array is missing or does not fit, or no word is
            left.
    """
    path = Path(path)
    kind = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    readers = {".npz": _read_npz} | dict.fromkeys(
        [".txt", ".vec", ".txt.gz", ".vec.gz"], _read_text
    )
    if kind not in readers:
        raise ValueError(
            f"Word vectors '{path}' end in '{kind}'; expected '.npz' (numpy arrays 'words' "
            "and 'vectors'), or '.txt' / '.vec' (the text format of GloVe and word2vec), which may "
            "be packed as '.gz'. Unpack or rename the file."
        )
    if not path.is_file():
        raise FileNotFoundError(f"No word vectors at '{path}'.")
    wanted = None if words is None else {form for word in words for form in (word, word.lower())}
    found, vectors, problems = readers[kind](path, wanted)
    report(problems, "a word and the same number of finite numbers on each line", strict)
    if not found:
        raise ValueError(
            f"No word vectors read from '{path}': it has no lines, or none of the "
            "words asked for. Check the language and the upper or lower case of words."
        )
    return WordVectors(found, vectors)


def _read_npz(path: Path, wanted: set[str] | None) -> _Read:
    words, vectors = _arrays(path)
    if words.ndim != 1 or vectors.ndim != 2 or len(words) != len(vectors):
        raise ValueError(
            f"'{path}' has words {list(words.shape)} and vectors {list(vectors.shape)}; expected "
            "words [words] and vectors [words, dim]."
        )
    if words.dtype.kind != "U" or vectors.dtype.kind not in "fiu":
        raise ValueError(
            f"'{path}' has words of type {words.dtype} and vectors of type {vectors.dtype}; "
            "expected text and numbers."
        )
    rows: dict[str, int] = {}
    problems = []
    with np.errstate(over="ignore"):
        vectors = vectors.astype(np.float32)
    is_finite = np.isfinite(vectors).all(axis=1)
    for row, word in enumerate(words.tolist()):
        if not word:
            problems.append(f"{path}: row {row}: the word is empty")
        elif wanted is None or word in wanted:
            if is_finite[row]:
                rows.setdefault(word, row)
            else:
                problems.append(f"{path}: row {row}: a number of the word '{word}' is not finite")
    return list(rows), vectors[list(rows.values())], problems


def _arrays(path: Path) -> tuple[np.ndarray, np.ndarray]:
    save = "Save it with numpy.savez(path, words=..., vectors=...), words as text, not as objects."
    try:
        # np.load would take other formats by another extension, too.
        with zipfile.ZipFile(path), np.load(path) as arrays:
            missing = [key for key in ("words", "vectors") if key not in arrays]
            if missing:
                raise ValueError(
                    f"it has no array {' and no array '.join(map(repr, missing))}, only "
                    f"{arrays.files}"
                )
            return arrays["words"], arrays["vectors"]
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"'{path}' cannot be read: {error}. {save}") from error


def _read_text(path: Path, wanted: set[str] | None) -> _Read:
    vectors: dict[str, np.ndarray] = {}
    problems: list[str] = []
    number = 0
    promised, dim = _sizes(path)
    try:
        for number, parts in _lines(path):
            if number == 1 and promised is not None:
                continue
            try:
                word = _word(parts, dim)
                if word not in vectors and (wanted is None or word in wanted):
                    vectors[word] = _vector(word, parts[-dim:])
            except ValueError as error:
                problems.append(f"{path}:{number}: {error}")
    except PACKED_ERRORS as error:
        problems.append(f"{path}:{number + 1}: the packed data breaks off here: {error}")
    if promised is not None and promised != number - 1:
        problems.append(
            f"{path}:1: {promised} words announced, but {number - 1} lines follow; is it cut off?"
        )
    return list(vectors), np.array(list(vectors.values()), np.float32), problems


def _lines(path: Path) -> Iterator[tuple[int, list[bytes]]]:
    """Yields the number of each line and its parts."""
    # As bytes: GloVe 840B holds words with other line breaks in them.
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if number == 1:
                line = line.removeprefix(BYTE_ORDER_MARK)
            yield number, line.rstrip(b" \r\n").split(b" ")


def _sizes(path: Path) -> tuple[int | None, int]:
    """Returns how many words the first line announces, if it does, and `dim`; 0 if no line says."""
    try:
        for number, parts in _lines(path):
            if number == 1 and len(parts) == 2 and all(part.isdigit() for part in parts):
                return int(parts[0]), int(parts[1])
            # A first line that is something else shall not condemn all others.
            if len(parts) > 1 and parts[0] and all(map(_is_number, parts[1:])):
                return None, len(parts) - 1
    except PACKED_ERRORS:
        pass  # Whoever reads the lines says so.
    return None, 0


def _word(parts: list[bytes], dim: int) -> str:
    word = text_of(b" ".join(parts[:-dim]))
    too_many = len(parts) > dim + 1 and _is_number(parts[-dim - 1])
    if not dim or not word or too_many:
        raise ValueError(
            f"expected a word and {dim or 'some'} numbers separated by spaces, found {len(parts)} "
            f"parts: '{text_of(b' '.join(parts))[:40]}'"
        )
    return word


def _vector(word: str, parts: list[bytes]) -> np.ndarray:
    expected = f"expected {len(parts)} numbers after the word '{word}'"
    try:
        with np.errstate(over="ignore"):
            vector = np.array(parts, np.float32)
    except ValueError as error:
        raise ValueError(f"{expected}: {error}") from error
    finite = np.isfinite(vector)
    if not finite.all():
        raise ValueError(
            f"{expected}: '{text_of(parts[finite.argmin()])}' is not finite in float32"
        )
    return vector


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
