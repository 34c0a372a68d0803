"""The reader of word vectors.

Source of the text format: Pennington et al. 2014, GloVe, https://nlp.stanford.edu/projects/glove/.
"""

import gzip
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kerasrec._src.datasets.readers.npz import read_arrays
from kerasrec._src.datasets.readers.problems import (
    DECIMAL,
    MalformedFileError,
    add_problem,
    bounded_lines,
    report,
    text_of,
)
from kerasrec._src.datasets.validation import expect_word
from kerasrec._src.short_repr import short_repr

# In bytes: room for a vector of 50,000 numbers.
LONGEST_LINE = 2**20
NUMBER = re.compile(DECIMAL.pattern.encode())
CHARACTERS_OF_NUMBERS = b"0123456789+-.eE"
COUNT = re.compile(rb"[0-9]{1,18}")
PACKED_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)
_Read = tuple[list[str], np.ndarray, list[str]]  # words, vectors, and problems


class WordVectors(NamedTuple):
    """Words and a vector for each.

    Attributes:
        words: The words, a list of `str`.
        vectors: The vectors, float32 `[words, dim]`.
    """

    words: list[str]
    vectors: np.ndarray

    def __repr__(self) -> str:
        return short_repr(self, self._asdict())


def read_vectors(
    path: str | os.PathLike[str],
    words: Iterable[str] | None = None,
    strict: bool = True,
    max_unpacked_bytes: int | None = None,
) -> WordVectors:
    """Reads word vectors from NumPy's `.npz`, or from text in the formats of GloVe and word2vec.

    Args:
        path: A `.npz` file with the arrays `words` (text, `[words]`) and `vectors` (floats of any
            width, `[words, dim]`); or a `.txt` or `.vec` file, or one of these packed as `.gz`,
            with a word and `dim` numbers on each line, separated by spaces (a word may contain
            spaces itself), with or without word2vec's first line `words dim`. Without it, `dim` is
            the count of numbers after the first word without a space. Numbers are finite decimal
            numbers in ASCII, such as `-0.25`, `.5` and `1e-3`.
        words: If given, only these words and their lower-case forms are kept: pass
            `vocabulary.words` to read a large file in little memory. On other lines only the number
            of numbers is checked.
        strict: Whether malformed lines raise an error; otherwise they are left out, and a
            `MalformedFileWarning` lists them with the reasons.
        max_unpacked_bytes: The largest size of the arrays of a `.npz` file, or of the text packed
            as `.gz`, so that a small file from an untrusted source cannot fill the memory. By
            default 32 times the file's size, or 16 MiB if that is more.

    Returns:
        A `WordVectors`, in the order of the file; if a word occurs twice, the first counts.

    Raises:
        FileNotFoundError: If there is no file at `path`.
        MalformedFileError: If `strict`, and a line is not UTF-8, or is not a word and `dim`
            numbers; if there are more or fewer lines than in the first, or packed data ends
            early. It is a `ValueError`; its `problems` name every such line (or row of a
            `.npz` file), with file and reason. Even without `strict`, if an array is missing or
            does not fit, nothing can be read at all, or the file unpacks to more than
            `max_unpacked_bytes`.
        ValueError: If the file has another extension, or contains none of the words asked for.
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
    limit = _limit(path) if max_unpacked_bytes is None else max_unpacked_bytes
    kept, vectors, problems = readers[kind](path, wanted, limit)
    report(problems, "a word and the same number of finite numbers on each line", strict)
    if not kept and wanted is None:
        raise MalformedFileError(f"No word vectors read from '{path}': no line is a word vector.")
    if not kept:
        raise ValueError(
            f"No word vectors read from '{path}': it has no lines, or none of the "
            "words asked for. Check the language and the upper or lower case of words."
        )
    return WordVectors(kept, vectors)


def _limit(path: Path) -> int:
    """Returns how many bytes a file may unpack to. Usual factors: 3 for text, 1 for arrays."""
    return max(2**24, 32 * path.stat().st_size)


def _read_npz(path: Path, wanted: set[str] | None, limit: int) -> _Read:
    words, vectors = read_arrays(path, limit)
    rows: dict[str, int] = {}
    problems: list[str] = []
    with np.errstate(all="ignore"):
        vectors = vectors.astype(np.float32)
    is_finite = np.isfinite(vectors).all(axis=1)
    for row, word in enumerate(words):
        try:
            expect_word("the word", word)
            if wanted is None or word in wanted:
                if not is_finite[row]:
                    raise ValueError(f"a number of the word '{word}' is not finite")
                rows.setdefault(word, row)
        except ValueError as error:
            add_problem(problems, path, f" row {row}", error)
    return list(rows), vectors[list(rows.values())], problems


def _read_text(path: Path, wanted: set[str] | None, limit: int) -> _Read:
    words: dict[str, None] = {}
    numbers = bytearray()  # float32; an array for each word would take far more memory
    problems: list[str] = []
    number = 0
    promised, dim = _sizes(path, limit)
    try:
        for number, parts in _lines(path, limit):
            if number == 1 and promised is not None:
                continue
            try:
                word = _word(parts, dim)
                if word not in words and (wanted is None or word in wanted):
                    numbers += _vector(word, parts[-dim:]).tobytes()
                    words[word] = None
            except ValueError as error:
                add_problem(problems, path, number, error)
    except PACKED_ERRORS as error:
        add_problem(problems, path, number + 1, f"the packed data breaks off here: {error}")
    if promised is not None and promised != number - 1:
        add_problem(
            problems,
            path,
            1,
            f"{promised} words announced, but {number - 1} lines follow; is the file cut off?",
        )
    vectors = np.frombuffer(numbers, np.float32).reshape(len(words), dim if words else 0)
    return list(words), vectors, problems


def _lines(path: Path, limit: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yields the number of each line and its parts."""
    is_packed = path.suffix == ".gz"
    size = 0
    # As bytes: GloVe 840B contains words with other line breaks in them.
    with gzip.open(path) if is_packed else path.open("rb") as file:
        for number, line in bounded_lines(file, path, LONGEST_LINE):
            size += len(line)
            if is_packed and size > limit:
                raise MalformedFileError(
                    f"'{path}' unpacks to more than max_unpacked_bytes={limit}; pass a larger "
                    "limit if you trust the source of the file."
                )
            yield number, line.rstrip(b" \r\n").split(b" ")


def _sizes(path: Path, limit: int) -> tuple[int | None, int]:
    """Returns the number of words, if the first line has it, and `dim`; 0 if no line has it."""
    try:
        for number, parts in _lines(path, limit):
            if number == 1 and len(parts) == 2 and all(map(COUNT.fullmatch, parts)):
                return int(parts[0]), int(parts[1])
            # A malformed first line must not make all others malformed.
            if len(parts) > 1 and parts[0] and all(map(_looks_like_a_number, parts[1:])):
                return None, len(parts) - 1
    except PACKED_ERRORS:
        pass  # The reader of the lines reports it.
    return None, 0


def _word(parts: list[bytes], dim: int) -> str:
    word = text_of(b" ".join(parts[:-dim]))
    too_many = len(parts) > dim + 1 and _looks_like_a_number(parts[-dim - 1])
    if not dim or not word or too_many:
        raise ValueError(
            f"expected a word and {dim or 'some'} numbers separated by spaces, found {len(parts)} "
            f"parts: '{text_of(b' '.join(parts))[:40]}'"
        )
    return word


def _vector(word: str, parts: list[bytes]) -> np.ndarray:
    expected = f"expected {len(parts)} numbers after the word '{word}'"
    try:
        # With only these characters, Python accepts no spelling that `NUMBER` does not.
        if b"".join(parts).translate(None, CHARACTERS_OF_NUMBERS):
            raise ValueError
        with np.errstate(over="ignore"):
            vector = np.array(parts, np.float32)
    except ValueError:
        wrong = next(part for part in parts if not NUMBER.fullmatch(part))
        raise ValueError(
            f"{expected}: '{text_of(wrong)}' is not a finite decimal number such as -0.25 or 1e-3"
        ) from None
    finite = np.isfinite(vector)
    if not finite.all():
        raise ValueError(
            f"{expected}: '{text_of(parts[finite.argmin()])}' is not finite in float32"
        )
    return vector


def _looks_like_a_number(text: bytes) -> bool:
    """Whether text is a number, even in refused spellings, which must not pass for words."""
    try:
        float(text)
    except ValueError:
        return False
    return True
