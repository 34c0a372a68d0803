"""The files for which a path stands: itself, those of a directory, or a pattern's matches."""

import glob
import os
from collections.abc import Sequence
from pathlib import Path


def expect_files(folder: Path, names: Sequence[str], reader: str, of_a_file: str = "") -> None:
    """Raises FileNotFoundError unless a directory holds all files that a reader is to read.

    Args:
        folder: The path that was passed.
        names: The names of the files, or of directories in their place.
        reader: The reader's name.
        of_a_file: What to do with a path that is one file: a sentence, or nothing.

    Raises:
        FileNotFoundError: If one is missing. The message names a directory inside that holds all.
    """
    missing = _missing(folder, names)
    if not missing:
        return
    takes = f"{reader} takes the directory that holds {', '.join(names[:-1])} and {names[-1]}."
    if folder.is_file():
        raise FileNotFoundError(f"'{folder}' is a file; {takes} {of_a_file}".rstrip())
    if not folder.is_dir():
        raise FileNotFoundError(f"No directory '{folder}'; {takes}")
    inside = sorted(one for one in folder.iterdir() if one.is_dir() and not _missing(one, names))
    hint = f" Try '{inside[0]}'." if inside else ""
    raise FileNotFoundError(f"No {missing[0]} in the directory '{folder}'; {takes}{hint}")


def _missing(folder: Path, names: Sequence[str]) -> list[str]:
    return [name for name in names if not (folder / name).exists()]


def files_of(path: str | os.PathLike[str], endings: Sequence[str]) -> list[Path]:
    """Finds the files that a reader is to read, in alphabetical order.

    Args:
        path: A file; a directory, which stands for the files in it, and in its directories, that
            have the usual endings of this reader's files; or a pattern such as `"trees/*/*.txt"`,
            in which `**` stands for any directories.
        endings: The endings of the files' names.

    Returns:
        One file or more.

    Raises:
        FileNotFoundError: If there are none.
    """
    path = Path(path)
    if path.is_dir():
        found = sorted(
            file for file in path.rglob("*") if file.is_file() and file.suffix in endings
        )
        if not found:
            raise FileNotFoundError(
                f"No file in the directory '{path}' ends in {', '.join(endings)}. Pass a file, or "
                f"a pattern such as '{path / '*.xyz'}'."
            )
        return found
    if path.exists() or not glob.has_magic(str(path)):
        return [path]  # If there is none, that is said when it is opened.
    found = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
    found = [file for file in found if file.is_file()]
    if not found:
        raise FileNotFoundError(f"No file matches '{path}'. Pass a file, a directory or a pattern.")
    return found
