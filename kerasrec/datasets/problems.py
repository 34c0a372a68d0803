"""What is done about files with malformed parts: one error, or one warning, that names them all."""

import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

LISTED = 10


class MalformedFileError(ValueError):
    """A file, or one of several, is malformed.

    Attributes:
        problems: All of them: text, `file:line: reason` each. The message has the first ten.
    """

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.problems = list(problems)


class MalformedFileWarning(UserWarning):
    """What was malformed in a file has been left out.

    Attributes:
        problems: All of it: text, `file:line: reason` each. The message has the first ten.
    """

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.problems = list(problems)


def numbered_lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, bytes]]:
    """Reads lines as bytes, so that one that is no UTF-8 spoils no other.

    Args:
        path: A text file.

    Yields:
        The number of the line, from 1, and the line without its end and without a byte order mark.

    Raises:
        FileNotFoundError: If there is no file at `path`.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"No treebank file at '{path}'. Pass the path of a text file.")
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            yield number, line.rstrip(b"\r\n")


def text_of(line: bytes) -> str:
    """Decodes a line.

    Args:
        line: As `numbered_lines` yields it.

    Returns:
        Its text.

    Raises:
        ValueError: If it is no UTF-8.
    """
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"byte {error.start + 1} of the line (0x{line[error.start]:02x}) is no UTF-8; save "
            "the file as UTF-8"
        ) from error


def report(problems: Sequence[str], expected: str, strict: bool) -> None:
    """Raises or warns where there are problems; to be called by what the user calls.

    Args:
        problems: Text, `file:line: reason` each.
        expected: What files should hold.
        strict: Whether problems are an error; otherwise they have been left out, and are a warning.

    Raises:
        MalformedFileError: If `strict`, and there are problems.
    """
    if not problems:
        return
    listed = "\n".join(problems[:LISTED])
    if len(problems) > LISTED:
        listed += f"\n... and {len(problems) - LISTED} more; the attribute problems has all of them"
    if strict:
        raise MalformedFileError(
            f"{len(problems)} malformed line(s); expected {expected}. Mend them, or pass "
            f"strict=False to leave them out:\n{listed}",
            problems,
        )
    warnings.warn(
        MalformedFileWarning(
            f"{len(problems)} malformed line(s), left out with any tree that they are part of; "
            f"expected {expected}:\n{listed}",
            problems,
        ),
        stacklevel=3,
    )
