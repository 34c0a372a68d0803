"""The two arrays of a `.npz` file of word vectors, checked before they are unpacked."""

import errno
import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from kerasrec._src.datasets.readers.problems import MalformedFileError

NAMES = ("words", "vectors")
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # those of NumPy
IS_ENCRYPTED = 1  # a bit of a zip entry's flags
SAVE = "Save it with numpy.savez(path, words=..., vectors=...), words as text, not as objects."


class _Header(NamedTuple):
    """The header of an array in an archive.

    Attributes:
        entry: The entry of the archive.
        shape: The shape in the header.
        dtype: The dtype in the header.
        size: The number of bytes of the header.
    """

    entry: zipfile.ZipInfo
    shape: tuple[int, ...]
    dtype: np.dtype
    size: int


def read_arrays(path: Path, limit: int) -> tuple[list[str], np.ndarray]:
    """Reads the arrays `words` and `vectors`; neither is unpacked before both have been checked.

    Args:
        path: The file.
        limit: The number of bytes that both may take together.

    Returns:
        The words, and the numbers, `[words, dim]` of any type.

    Raises:
        OSError: If the file may not be read.
        MalformedFileError: If it is not a `.npz` file with these arrays, or if they do not fit each
            other, are of other types, or take more than `limit`.
    """
    with path.open("rb") as file:
        # zipfile and NumPy do not document their errors for malformed archives and arrays. They
        # have been seen to raise NotImplementedError, struct.error and zlib.error, among others.
        try:
            return _read(file, limit)
        except Exception as error:
            if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
                raise  # An error of the disk; EINVAL is a seek to before the start of the file.
            raise MalformedFileError(
                f"'{path}' cannot be read: {str(error).rstrip('.') or type(error).__name__}. {SAVE}"
            ) from error


def _read(file: IO[bytes], limit: int) -> tuple[list[str], np.ndarray]:
    with zipfile.ZipFile(file) as archive:
        entries = {entry.filename: entry for entry in archive.infolist()}
        missing = [name for name in NAMES if f"{name}.npy" not in entries]
        if missing:
            names = [name.removesuffix(".npy") for name in list(entries)[:10]]
            raise ValueError(
                f"it has no array {' and no array '.join(map(repr, missing))}, only {names}"
            )
        chosen = [entries[f"{name}.npy"] for name in NAMES]
        _check_entries(chosen, limit)
        words, vectors = (_header(archive, entry) for entry in chosen)
        _check_headers(words, vectors)
        return _array(archive, words).tolist(), _array(archive, vectors)


def _check_entries(entries: Sequence[zipfile.ZipInfo], limit: int) -> None:
    for entry in entries:
        if entry.compress_type not in METHODS or entry.flag_bits & IS_ENCRYPTED:
            raise ValueError(f"{entry.filename} is packed in a way that NumPy does not use")
    size = sum(entry.file_size for entry in entries)
    if size > limit:
        raise ValueError(
            f"its arrays take {size:,} bytes, more than max_unpacked_bytes={limit}; pass a larger "
            "limit if you trust the source of the file"
        )


def _header(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> _Header:
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, _, dtype = np.lib.format.read_array_header_2_0(file)
        else:
            raise ValueError(f"{entry.filename} has version {version}; expected (1, 0) or (2, 0)")
        return _Header(entry, shape, dtype, file.tell())


def _check_headers(words: _Header, vectors: _Header) -> None:
    if len(words.shape) != 1 or len(vectors.shape) != 2 or words.shape[0] != vectors.shape[0]:
        raise ValueError(
            f"it has words {list(words.shape)} and vectors {list(vectors.shape)}; expected words "
            "[words] and vectors [words, dim]"
        )
    if words.dtype.kind != "U" or vectors.dtype.kind not in "fiu":
        raise ValueError(
            f"it has words of type {words.dtype} and vectors of type {vectors.dtype}; expected "
            "text and numbers"
        )
    # An array whose entries take no bytes could claim any number of them.
    if not words.dtype.itemsize or not vectors.shape[1]:
        raise ValueError("all its words are empty, or its vectors have no numbers")
    for header in (words, vectors):
        size = header.size + math.prod(header.shape) * header.dtype.itemsize
        if min(header.shape) < 0 or size != header.entry.file_size:
            raise ValueError(
                f"{header.entry.filename} has {header.entry.file_size:,} bytes; expected {size:,} "
                f"for {header.dtype} {list(header.shape)}"
            )


def _array(archive: zipfile.ZipFile, header: _Header) -> np.ndarray:
    with archive.open(header.entry) as file:
        return np.lib.format.read_array(file, allow_pickle=False)
