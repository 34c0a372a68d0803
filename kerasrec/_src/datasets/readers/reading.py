"""Reads all files of a reader: which they are, progress, and one report of malformed parts."""

import glob
import os
import re
import reprlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import keras

from kerasrec._src.datasets.readers.problems import (
    MalformedFileError,
    Problem,
    add_problem,
    numbered_lines,
    report,
)

AnyTree = TypeVar("AnyTree")
NumberedLines = Iterator[tuple[int, bytes]]
LOOKED_AT = 10  # files of a directory, to see which reader they are for
STEP = 2**18  # bytes between two looks at the clock
# The form of the first line in other formats, and their readers.
LOOKS = {
    "read_listops": rb"[0-9]+\t.*\[[A-Z]+ |Source\tTarget",
    "read_conllu": rb"# *(sent_id|text|newdoc|global\.columns)\b|[0-9]+(-[0-9]+)?\t([^\t]*\t){8}",
    "read_newick": rb"(\[[^\]]*\] *)?\(+'?[^ (),:]+'?[,:]",
    "read_sst": rb"\( *[0-9]+ +[^ )]",
    "read_brackets": rb"\( *(\( *)?[A-Z]",
}


@dataclass(frozen=True)
class Format(Generic[AnyTree]):
    """The expectations of a reader, and how it reads.

    Attributes:
        reader: The reader's name.
        endings: The endings of its files' names.
        thing: The content of a file, such as `"tree"`.
        expected: The same for messages, with an example.
        read: Makes trees of the lines of a file, and problems of malformed parts.
    """

    reader: str
    endings: Sequence[str]
    thing: str
    expected: str
    read: Callable[[Path, NumberedLines], Iterator[AnyTree | Problem]]


class Bar:
    """Keras' progress bar over bytes, or none.

    Args:
        files: The files to read.
        verbose: 0 for none.
    """

    def __init__(self, files: Sequence[Path], verbose: int) -> None:
        self._read = self._shown = 0
        total = sum(file.stat().st_size for file in files if file.is_file())
        self._bar = (
            keras.utils.Progbar(total, verbose=verbose, unit_name="byte")
            if verbose and total
            else None
        )

    def over(self, file: Path) -> NumberedLines:
        """The numbered lines of a file, while the bar moves."""
        before = self._read
        for number, line in numbered_lines(file):
            yield number, line
            self._read += len(line) + 1
            if self._bar is not None and self._read >= self._shown + STEP:
                self._shown = self._read
                self._bar.update(min(self._read, self._bar.target - 1))
        self._read = before + file.stat().st_size

    def close(self) -> None:
        """Moves the bar to its end."""
        if self._bar is not None:
            self._bar.update(self._bar.target, finalize=True)


def read_files(
    path: str | os.PathLike[str], form: Format[AnyTree], strict: bool, verbose: int
) -> list[AnyTree]:
    """Reads a file, a directory of files, or those that match a pattern, for a reader.

    Args:
        path: A path, as for `files_of`.
        form: The expected format.
        strict: Whether malformed trees are an error; otherwise they are left out.
        verbose: 1 for a progress bar.

    Returns:
        The trees of all files, in alphabetical order of their names.

    Raises:
        FileNotFoundError: If there is no such file.
        MalformedFileError: If `strict`, and any file is malformed.
    """
    problems: list[str] = []
    trees = read_what_can_be_read(path, form, problems, verbose)
    report(problems, form.expected + other_reader(path, form, problems), strict, stacklevel=4)
    return trees


def read_what_can_be_read(
    path: str | os.PathLike[str], form: Format[AnyTree], problems: list[str], verbose: int = 0
) -> list[AnyTree]:
    """Reads the well-formed parts, as `read_files` does, and adds to the problems."""
    files = _files_of(path, form)
    bar = Bar(files, verbose)
    trees: list[AnyTree] = []
    for file in files:
        num_before = len(trees) + len(problems)
        try:
            for result in form.read(file, bar.over(file)):
                if isinstance(result, Problem):
                    add_problem(problems, file, result.place, result)
                else:
                    trees.append(result)
        except MalformedFileError as error:  # It has so many problems that nothing is read.
            hint = other_reader(path, form, problems)
            message = f"{error}\n{hint.strip()}" if hint else str(error)
            raise MalformedFileError(message, error.problems) from None
        if len(trees) + len(problems) == num_before:
            add_problem(problems, file, 1, f"the file holds no {form.thing}")
    bar.close()
    return trees


def other_reader(path: str | os.PathLike[str], form: Format[Any], problems: Sequence[str]) -> str:
    """Names the other reader that the first malformed file is for; empty if there is none."""
    files = files_of(path, form.endings)
    file = next((file for file in files if problems and problems[0].startswith(f"{file}:")), None)
    if file is None:
        return ""
    looks = _readers_of(file)
    if not looks or form.reader in looks:
        return ""
    return f" ('{file}' looks like a file for {looks[0]})"


def _readers_of(file: Path, may_be_any: bool = False) -> list[str]:
    """The readers that a file's first line fits.

    Args:
        file: A file with lines of text.
        may_be_any: Whether it may be another file, which no reader reads.
    """
    try:
        line = next((line.strip() for _, line in numbered_lines(file) if line.strip()), b"")
    except (MalformedFileError, OSError):
        if may_be_any:
            return []
        raise
    return [reader for reader, look in LOOKS.items() if re.match(look, line[:1000])]


def _files_of(path: str | os.PathLike[str], form: Format[Any]) -> list[Path]:
    """Calls `files_of`; an error about a directory of other files names their reader."""
    try:
        return files_of(path, form.endings)
    except FileNotFoundError as error:
        others = sorted(file for file in Path(path).rglob("*") if file.is_file())
        looks = {file: _readers_of(file, True) for file in others[:LOOKED_AT]}
        file = next((file for file in looks if looks[file]), None)
        if file is None:
            raise
        reader = form.reader if form.reader in looks[file] else looks[file][0]
        raise FileNotFoundError(f"{error} '{file}' looks like a file for {reader}.") from None


def expect_files(folder: Path, names: Sequence[str], reader: str, of_a_file: str = "") -> None:
    """Raises FileNotFoundError unless a directory holds all files that a reader is to read.

    Args:
        folder: The path that was passed.
        names: The names of the files, or of directories in their place.
        reader: The reader's name.
        of_a_file: How to read a path that is one file: a sentence, or nothing.

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
    inside = sorted(
        path for path in folder.iterdir() if path.is_dir() and not _missing(path, names)
    )
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
        ValueError: If `path` is the text of a file.
    """
    if "\n" in str(path):
        raise ValueError(
            f"The path is {reprlib.repr(str(path))}, a text of several lines; expected the name of "
            "a file. Texts are read by parse_conllu, parse_newick, parse_sst (trees of the "
            "Stanford Sentiment Treebank) and nltk.Tree.fromstring (other brackets)."
        )
    path = Path(path)
    if path.is_dir():
        files = sorted(
            file for file in path.rglob("*") if file.is_file() and file.suffix in endings
        )
        if not files:
            raise FileNotFoundError(
                f"No file in the directory '{path}' ends in {', '.join(endings)}. Pass a file, or "
                f"a pattern such as '{path / '*.xyz'}'."
            )
        return files
    if path.exists() or not glob.has_magic(str(path)):
        return [path]  # Opening a missing file raises an error.
    files = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
    files = [file for file in files if file.is_file()]
    if not files:
        raise FileNotFoundError(f"No file matches '{path}'. Pass a file, a directory or a pattern.")
    return files
