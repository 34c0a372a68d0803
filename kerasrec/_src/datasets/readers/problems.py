"""Parts of readers of text: lines, numbers, and one report that names all malformed lines."""

import functools
import itertools
import math
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

LISTED = 10
# A file with more problems is in another format. Each problem takes a hundred bytes or more.
MOST_PROBLEMS = 100_000
# In characters: a line of a malformed file may be as long as the file.
LONGEST_REASON = 500
# In bytes: room for a tree of a million words.
LONGEST_LINE = 2**24


class MalformedFileError(ValueError):
    """An error for a malformed file, or several; the class that all readers of files raise.

    A file that does not exist, or may not be read, raises an `OSError`, as usual. Records of tree
    files are read by TensorFlow while a model trains; for a malformed record it raises its own
    errors, see `docs/untrusted-files.md`.

    Attributes:
        problems: All problems, `file:line: reason` each. The message lists the first ten. Empty if
            the message describes the only problem.
    """

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.problems = list(problems)


class MalformedFileWarning(UserWarning):
    """A warning that malformed parts of a file have been left out.

    Attributes:
        problems: All malformed parts as text, `file:line: reason` each. The message lists the first
            ten.
    """

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.problems = list(problems)


class Problem(ValueError):
    """A mistake at a place of a file, or of a text.

    Args:
        place: The number of the line, from 1, or another place.
        reason: Text, or an error with this text.
    """

    def __init__(self, place: int, reason: object) -> None:
        super().__init__(str(reason))
        self.place = place


class _Lines(Protocol):
    def readline(self, size: int, /) -> bytes: ...


def numbered_lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, bytes]]:
    """Reads lines as bytes, so that a line that is not UTF-8 does not affect the others.

    Args:
        path: A text file.

    Yields:
        The number of the line, from 1, and the line without its end (LF, CR LF, or only CR) and
        without a byte order mark.

    Raises:
        FileNotFoundError: If there is no file at `path`.
        MalformedFileError: If a line is longer than `LONGEST_LINE`.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"No treebank file at '{path}'. Pass the path of a text file.")
    with path.open("rb") as file:
        # Text that was converted twice has CR CR LF.
        lines = (re.sub(rb"\r+\n", b"\n", line) for _, line in bounded_lines(file, path))
        yield from enumerate(itertools.chain.from_iterable(map(bytes.splitlines, lines)), 1)


def bounded_lines(
    file: _Lines, path: Path, longest: int = LONGEST_LINE
) -> Iterator[tuple[int, bytes]]:
    """Reads lines of bounded length, so that a single line cannot fill the memory.

    Args:
        file: The file, read from its start.
        path: The file's name, for messages.
        longest: The largest number of bytes of a line.

    Yields:
        The number of the line, from 1, and the line, with its line break and without a byte order
        mark.

    Raises:
        MalformedFileError: If a line is longer. Nothing after it is read.
    """
    for number, line in enumerate(iter(functools.partial(file.readline, longest + 1), b""), 1):
        if len(line) > longest:
            problem = f"{path}:{number}: the line is longer than {longest:,} bytes"
            raise MalformedFileError(
                f"{problem}; expected a text file with line breaks. Nothing of it is read.",
                [problem],
            )
        yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


def add_problem(
    problems: list[str], path: str | os.PathLike[str], place: int | str, reason: object
) -> None:
    """Adds `file:place: reason` to the problems of a file, and gives up if there are too many.

    Args:
        problems: The problems so far.
        path: The file.
        place: The number of the line, from 1, or text for the place of the problem.
        reason: Text, or an error with this text.

    Raises:
        MalformedFileError: If the file has `MOST_PROBLEMS` already.
    """
    if len(problems) >= MOST_PROBLEMS:
        raise MalformedFileError(
            f"'{path}' has more than {MOST_PROBLEMS:,} malformed lines, so it is in another "
            "format. Nothing of it is read. The first:\n" + "\n".join(problems[:LISTED]),
            problems,
        )
    text = str(reason)
    if len(text) > LONGEST_REASON:
        text = f"{text[:LONGEST_REASON]} ..."
    problems.append(f"{path}:{place}: {text}")


def text_of(line: bytes) -> str:
    """Decodes a line.

    Args:
        line: A line from `numbered_lines`.

    Returns:
        The line's text.

    Raises:
        ValueError: If it is not UTF-8.
    """
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"byte {error.start + 1} of the line (0x{line[error.start]:02x}) is not UTF-8; save "
            "the file as UTF-8"
        ) from error


def report(problems: Sequence[str], expected: str, strict: bool, stacklevel: int = 3) -> None:
    """Raises or warns if there are problems; only functions that users call may call it.

    Args:
        problems: The problems as text, `file:line: reason` each.
        expected: The expected content of files.
        strict: Whether problems are an error; otherwise they have been left out, and are a warning.
        stacklevel: The number of levels above at which a warning is shown; 3 is the caller of the
            caller.

    Raises:
        MalformedFileError: If `strict`, and there are problems.
    """
    if not problems:
        return
    listed = first_of(problems)
    if strict:
        raise MalformedFileError(
            f"{len(problems)} malformed line(s); expected {expected}. Fix them, or pass "
            f"strict=False to leave them out:\n{listed}",
            problems,
        )
    warnings.warn(
        MalformedFileWarning(
            f"{len(problems)} malformed line(s), left out with any tree that they are part of; "
            f"expected {expected}:\n{listed}",
            problems,
        ),
        stacklevel=stacklevel,
    )


def first_of(problems: Sequence[str]) -> str:
    """The first problems, a line each, and how many more there are."""
    listed = "\n".join(problems[:LISTED])
    if len(problems) > LISTED:
        listed += f"\n... and {len(problems) - LISTED} more; the attribute problems has all of them"
    return listed


DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def decimal_of(text: str) -> float | None:
    """A finite decimal number as float; None for any other text.

    Args:
        text: The number as it is written, without blanks.
    """
    number = float(text) if DECIMAL.fullmatch(text) else math.inf
    return number if math.isfinite(number) else None
