"""A directory that appears only when all of it is written."""

import contextlib
import tempfile
from collections.abc import Iterator
from os import PathLike
from pathlib import Path


@contextlib.contextmanager
def new_directory(directory: str | PathLike[str]) -> Iterator[Path]:
    """Yields a directory to write to, which gets its name at the end, if nothing was raised.

    Raises:
        FileExistsError: If `directory` exists.
    """
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
        yield unfinished
        unfinished.rename(directory)
