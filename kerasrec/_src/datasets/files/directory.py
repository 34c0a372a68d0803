"""A directory of record files, which is written once: its files, and the index that describes them.

Sizes are checked here, before TensorFlow reads a file: TensorFlow's record reader ends the process
if a record claims more bytes than there is memory.
"""

import contextlib
import hashlib
import json
import mmap
import struct
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import tensorflow as tf

from kerasrec._src.datasets.readers.problems import MalformedFileError

INDEX = "index.json"
LARGEST_INDEX = 2**24  # bytes: room for a million files
LENGTH = struct.Struct("<Q")  # before a record: its length, and four bytes of checksum
AROUND_A_RECORD = 16  # bytes: twelve before it, and four of checksum after it


@dataclass(frozen=True)
class Index:
    """The content of an index: plain data, which is checked when one is made.

    Attributes:
        examples: A word for the examples.
        writer: The function that writes such directories.
        is_flat: Whether no field has lists or objects in lists.
        file_sizes: The size of each file in bytes.
    """

    examples: ClassVar[str]
    writer: ClassVar[str]
    is_flat: ClassVar[bool] = False
    file_sizes: list[int]

    @property
    def num_examples(self) -> int:
        """The number of examples in all files together."""
        raise NotImplementedError


AnyIndex = TypeVar("AnyIndex", bound=Index)


def files_of(directory: Path, num_files: int, examples: str) -> list[Path]:
    """Returns the paths of the files of a directory.

    Args:
        directory: The directory.
        num_files: The number of files.
        examples: A word for the records, with which the names begin.
    """
    return [
        directory / f"{examples}-{number:05}-of-{num_files:05}.tfrecord"
        for number in range(num_files)
    ]


class Writer:
    """Writes the files of a directory, then its index."""

    def __init__(self, directory: Path, num_files: int, examples: str) -> None:
        self._directory = directory
        self._files = files_of(directory, num_files, examples)
        self._writers = [tf.io.TFRecordWriter(str(file)) for file in self._files]

    def write(self, group: Sequence[bytes]) -> None:
        """Writes a record to each file."""
        for writer, record in zip(self._writers, group, strict=True):
            writer.write(record)

    def close(self) -> list[int]:
        """Ends the files; returns their sizes in bytes."""
        for writer in self._writers:
            writer.close()
        return [file.stat().st_size for file in self._files]

    def write_index(self, index: Index) -> None:
        """Writes `index.json`, which ends with a checksum of the rest."""
        content = json.loads(json.dumps(asdict(index)))
        text = json.dumps(content | {"checksum": _checksum(content)})
        (self._directory / INDEX).write_text(text, encoding="utf-8")


@contextlib.contextmanager
def new_files(
    directory: str | PathLike[str], num_files: int, kind: type[Index]
) -> Iterator[Writer]:
    """Makes a directory, which gets its name at the end, if nothing was raised.

    Args:
        directory: The directory to make.
        num_files: The number of files in it.
        kind: The class of its index.

    Raises:
        FileExistsError: If `directory` exists.
        ValueError: If `num_files` is less than 1.
    """
    if num_files < 1:
        raise ValueError(f"num_files is {num_files}; expected 1 or more.")
    directory = Path(directory)
    if directory.exists():
        raise FileExistsError(
            f"'{directory}' exists. Its files are written once: remove it first, or choose another "
            "directory."
        )
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=directory.name, dir=directory.parent) as place:
        unfinished = Path(place) / "unfinished"
        unfinished.mkdir()
        yield Writer(unfinished, num_files, kind.examples)
        unfinished.rename(directory)


def read_index(directory: str | PathLike[str], kind: type[AnyIndex]) -> AnyIndex:
    """Reads `index.json`.

    Args:
        directory: The directory of the files.
        kind: The class of the index; raises `ValueError` if fields contradict each other.

    Raises:
        FileNotFoundError: If there is no such file.
        MalformedFileError: If the file is damaged, or contradicts itself.
    """
    path = Path(directory) / INDEX
    if not path.exists():
        raise FileNotFoundError(
            f"Cannot find '{path}'; expected a directory that {kind.writer} wrote."
        )
    with path.open("rb") as file:
        content = file.read(LARGEST_INDEX + 1)
    try:
        if len(content) > LARGEST_INDEX:
            raise ValueError(f"it has more than {LARGEST_INDEX:,} bytes")
        # If a program has raised Python's recursion limit, deep nesting ends the process.
        if kind.is_flat and (content.count(b"{") > 1 or content.count(b"[") > 1):
            raise ValueError("it is nested")
        index = json.loads(content)
        expected = [*(field.name for field in fields(kind)), "checksum"]
        if not isinstance(index, dict) or sorted(index) != sorted(expected):
            names = list(index)[:10] if isinstance(index, dict) else type(index).__name__
            raise ValueError(f"expected {expected}, found {names}")
        if index.pop("checksum") != _checksum(index):
            raise ValueError("its checksum does not match")
        return kind(**index)
    except ValueError as error:
        raise MalformedFileError(
            f"'{path}' is not an index that {kind.writer} of this version wrote: "
            f"{str(error).rstrip('.')}. Copy the directory again, or write it again."
        ) from error


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def check_file(path: Path, size: int, num_records: int) -> None:
    """Checks that a file has the size and the number of records given in the index.

    The content of records is checked when they are read.

    Args:
        path: The file.
        size: The size in bytes.
        num_records: The number of records.

    Raises:
        FileNotFoundError: If there is no such file.
        MalformedFileError: If the size or the number of records differs.
    """
    with path.open("rb") as file:
        actual = file.seek(0, 2)
        problem = "" if actual == size else f"has {actual:,} bytes; expected {size:,}"
        if not problem:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                problem = _problem_of_records(content, num_records)
    if problem:
        raise MalformedFileError(
            f"'{path}' {problem}, according to '{INDEX}'. Copy or write the directory again."
        )


def _problem_of_records(content: mmap.mmap, num_records: int) -> str:
    place = count = 0
    while place + AROUND_A_RECORD <= len(content):
        place += AROUND_A_RECORD + LENGTH.unpack_from(content, place)[0]
        count += 1
    if place != len(content):
        return f"breaks off in record {count - 1}; expected {num_records} whole records"
    return "" if count == num_records else f"has {count} records; expected {num_records}"
