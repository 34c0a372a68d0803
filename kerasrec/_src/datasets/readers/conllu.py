"""The reader of dependency treebanks in CoNLL-U, the format of Universal Dependencies.

`nltk.parse.dependencygraph` is not used, because it detects neither cycles nor wrong ids, accepts
any number of columns, and reports no line numbers.

Source of the format: https://universaldependencies.org/format.html.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kerasrec._src.datasets.readers.problems import (
    MalformedFileError,
    Problem,
    add_problem,
    first_of,
    text_of,
)
from kerasrec._src.datasets.readers.reading import Format, NumberedLines, read_files
from kerasrec._src.datasets.trees.dependency import (
    OPTIONAL_COLUMNS,
    DependencyTree,
    problem_of_heads,
)
from kerasrec._src.text import CONLLU_COLUMNS, UNKNOWN_VALUE

BYTE_ORDER_MARK = "\ufeff"
NumberedLine = tuple[int, bytes]


class _Word(NamedTuple):
    number: int  # of its line
    columns: dict[str, str]


class _MultiwordToken(NamedTuple):
    number: int  # of its line
    first: int
    last: int


def read_conllu(
    path: str | os.PathLike[str], strict: bool = True, *, verbose: int = 0
) -> list[DependencyTree]:
    """Reads a file of dependency trees in CoNLL-U.

    Words are those of the syntax: *don't* is *do* and *n't*, so the line of a multiword token
    (`1-2`) is skipped, as is the line of an empty node (`8.1`). `_`, which stands for an unknown
    value of a column, becomes `""`; if all of a sentence are unknown, the list is empty. The lemma
    `_` of the word `_` is known.

    Args:
        path: A UTF-8 text file: a line of ten columns, separated by tabs, for each word; comments
            (`# sent_id = ...`) before the words; a blank line after each sentence. A directory
            stands for the files `*.conllu` in it and in its directories; a pattern such as
            `"ud/*/*-dev.conllu"` stands for the files that match.
        strict: Whether malformed sentences raise an error; otherwise they are left out, and a
            `MalformedFileWarning` lists them with the reasons.
        verbose: 1 for a progress bar, 0 for none.

    Returns:
        A `DependencyTree` for each sentence; a sentence without a `sent_id` is called `file:line`.

    Raises:
        FileNotFoundError: If there is no file at `path`.
        MalformedFileError: If `strict`, and a line does not have ten columns, has an unexpected id
            or a head that is not a word of the sentence; multiword tokens overlap, or end after the
            last word; a sentence has no root, several roots, or a cycle; no blank line follows the
            last sentence, so that it may be cut off; there is no sentence; or bytes are not UTF-8.
            It is a `ValueError`; its `problems` name every malformed line with file, line
            number and reason.
    """
    return read_files(path, FORMAT, strict, verbose)


def parse_conllu(text: str) -> list[DependencyTree]:
    r"""Reads dependency trees from a text in CoNLL-U, such as a parser's output.

    Args:
        text: Sentences as in a file of `read_conllu`. The last one needs no blank line after it.

    Returns:
        A `DependencyTree` for each sentence; one without a `sent_id` is called `text:line`.

    Raises:
        MalformedFileError: As for `read_conllu`; its `problems` name lines of the text.

    Example:

    >>> columns = [["1", "it", "it", "PRON", "PRP", "_", "2", "nsubj", "_", "_"],
    ...            ["2", "works", "work", "VERB", "VBZ", "_", "0", "root", "_", "_"]]
    >>> (tree,) = parse_conllu("\n".join(map("\t".join, columns)))
    >>> tree.words, tree.heads, tree.lemmas
    (('it', 'works'), (1, -1), ('it', 'work'))
    """
    if not isinstance(text, str):
        raise ValueError(
            f"text has the type {type(text).__name__}; expected a str with sentences in CoNLL-U. "
            "Read a file with read_conllu."
        )
    whole = f"{text.removeprefix(BYTE_ORDER_MARK)}\n\n".encode("utf-8", "surrogatepass")
    lines = enumerate(whole.splitlines(), 1)
    trees: list[DependencyTree] = []
    problems: list[str] = []
    for result in _read(Path("text"), lines):
        if isinstance(result, Problem):
            add_problem(problems, "text", result.place, result)
        else:
            trees.append(result)
    if not trees and not problems:
        add_problem(problems, "text", 1, "the text holds no sentence")
    if problems:
        raise MalformedFileError(
            f"{len(problems)} malformed line(s); expected {FORMAT.expected}:\n{first_of(problems)}",
            problems,
        )
    return trees


def _read(path: Path, lines: NumberedLines) -> Iterator[DependencyTree | Problem]:
    for sentence in _sentences(lines):
        yield from _read_sentence(sentence, f"{path}:{sentence[0][0]}")


FORMAT = Format(
    "read_conllu",
    [".conllu"],
    "sentence",
    "sentences in CoNLL-U, a line of ten columns for each word",
    _read,
)


def _sentences(numbered: NumberedLines) -> Iterator[list[NumberedLine]]:
    """Yields each sentence's lines and the blank line that closes it."""
    sentence: list[NumberedLine] = []
    for number, line in numbered:
        if sentence or line.strip():
            sentence.append((number, line))
        if sentence and not line.strip():
            yield sentence
            sentence = []
    if sentence:
        yield sentence


def _read_sentence(
    lines: Sequence[NumberedLine], sent_id: str
) -> Sequence[DependencyTree | Problem]:
    """Returns a sentence's tree, if it is one, or its problems."""
    words: list[_Word] = []
    metadata: dict[str, str] = {}
    token: _MultiwordToken | None = None
    problems: list[Problem] = []
    expected_id = 1
    for number, line in lines:
        try:
            text = text_of(line)
            if not text.strip():
                continue
            if text.startswith("#") and expected_id == 1:
                name, _, value = text[1:].partition("=")
                metadata[name.strip()] = value.strip()
                continue
            word_id = text.partition("\t")[0]
            word_expected, expected_id = expected_id, _id_after(word_id, expected_id)
            read = _read_line(number, text, word_expected, token.last if token else 0)
            if isinstance(read, _Word):
                words.append(read)
            elif read:
                token = read
        except ValueError as error:
            problems.append(Problem(number, error))
    # Of tokens that do not overlap, only the last can end too late.
    if token and token.last >= expected_id:
        reason = (
            f"id '{token.first}-{token.last}' of a multiword token; the sentence has "
            f"{expected_id - 1} word(s)"
        )
        problems.append(Problem(token.number, reason))
    last_number, last_line = lines[-1]
    if last_line.strip():
        reason = "no blank line after the last sentence; it may be cut off"
        problems.append(Problem(last_number, reason))
    if not words and not problems:
        problems.append(Problem(lines[0][0], "comments without a sentence"))
    if problems:
        return problems
    columns = {name: [word.columns[name] for word in words] for name in CONLLU_COLUMNS}
    forms, heads = columns["words"], [int(head) - 1 for head in columns["heads"]]
    problem = problem_of_heads(forms, heads, first=1)
    if problem:
        return [Problem(words[problem[0]].number, problem[1])]
    optional = {name: _known(columns[name], forms, name) for name in OPTIONAL_COLUMNS}
    sent_id = metadata.get("sent_id", sent_id)
    return [DependencyTree(forms, heads, sent_id=sent_id, metadata=metadata, **optional)]


def _known(column: Sequence[str], forms: Sequence[str], name: str) -> list[str]:
    """The values of a column; a word `_` may have itself as its lemma."""
    values = [
        "" if value == UNKNOWN_VALUE and (name, form) != ("lemmas", UNKNOWN_VALUE) else value
        for value, form in zip(column, forms, strict=True)
    ]
    return values if any(values) else []


def _id_after(word_id: str, expected: int) -> int:
    """Returns the next word's id, even after a wrong one, so that one mistake is one problem."""
    if re.fullmatch("[0-9]+", word_id):
        return int(word_id) + 1
    return expected if re.fullmatch(r"[0-9]+[-.][0-9]+", word_id) else expected + 1


def _read_line(
    number: int, text: str, expected_id: int, covered: int
) -> _Word | _MultiwordToken | None:
    """Reads one line; for an empty node it returns `None`.

    Args:
        number: The line's number.
        text: The line.
        expected_id: The id of the next word.
        covered: The last word of the last multiword token, 0 for none.
    """
    parts = text.split("\t")
    if len(parts) != len(CONLLU_COLUMNS):
        raise ValueError(
            f"{len(parts)} column(s) where {len(CONLLU_COLUMNS)}, separated by tabs, are expected"
        )
    columns = dict(zip(CONLLU_COLUMNS, parts, strict=True))
    word_id, head = columns["id"], columns["heads"]
    if not columns["words"]:
        raise ValueError("column 2, the word, is empty")
    token = re.fullmatch("([0-9]+)-([0-9]+)", word_id)
    empty = re.fullmatch(r"([0-9]+)\.[0-9]+", word_id)
    if token:
        first, last = int(token[1]), int(token[2])
        if first != expected_id or last <= first:
            raise ValueError(
                f"id '{word_id}' of a multiword token; expected it before its first word, here "
                f"'{expected_id}-' and a later word"
            )
        if first <= covered:
            raise ValueError(
                f"id '{word_id}' of a multiword token; word {first} is part of one that ends with "
                f"word {covered} already"
            )
        return _MultiwordToken(number, first, last)
    if empty:
        if int(empty[1]) != expected_id - 1:
            raise ValueError(f"id '{word_id}' of an empty node; expected '{expected_id - 1}.1'")
        return None
    if word_id != str(expected_id):
        raise ValueError(f"id '{word_id}'; expected {expected_id}, the words counted from 1")
    if not re.fullmatch("[0-9]+", head):
        raise ValueError(f"head '{head}' (column 7); expected the id of a word, or 0 for the root")
    return _Word(number, columns)
