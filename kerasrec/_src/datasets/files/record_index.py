"""`index.json`, which describes a directory of record files."""

import hashlib
import json
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from kerasrec._src.datasets.readers.problems import MalformedFileError

INDEX = "index.json"
LARGEST_INDEX = 2**24  # bytes: room for a million files

Index = TypeVar("Index")


def write_json(directory: Path, content: dict[str, Any]) -> None:
    """Writes `index.json`, which ends with a checksum of the rest."""
    text = json.dumps(content | {"checksum": checksum(content)})
    (directory / INDEX).write_text(text, encoding="utf-8")


def checksum(content: dict[str, Any]) -> str:
    """A checksum of everything else in an index."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_json(
    directory: str | PathLike[str], writer: str, check: Callable[[bytes], Index]
) -> Index:
    """Reads `index.json`.

    Args:
        directory: The directory of the files.
        writer: The function that writes such directories, for errors.
        check: Turns the file into its content; raises `ValueError` if the file is damaged.

    Raises:
        FileNotFoundError: If there is no such file.
        MalformedFileError: If the file is damaged, or contradicts itself.
    """
    path = Path(directory) / INDEX
    if not path.exists():
        raise FileNotFoundError(f"There is no '{path}'; expected a directory that {writer} wrote.")
    with path.open("rb") as file:
        content = file.read(LARGEST_INDEX + 1)
    try:
        if len(content) > LARGEST_INDEX:
            raise ValueError(f"it has more than {LARGEST_INDEX:,} bytes")
        return check(content)
    except ValueError as error:
        raise MalformedFileError(
            f"'{path}' is not an index that {writer} of this version wrote: "
            f"{str(error).rstrip('.')}. Copy the directory again, or write it again."
        ) from error
