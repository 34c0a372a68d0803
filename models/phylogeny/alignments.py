"""Aligned sequences of DNA: a reader of FASTA, and the columns that differ."""

import os
import reprlib
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from phylogeny.taxa import expect_taxa, listed

STATES = "ACGT"
# The states that each character may be (IUPAC).
CODES = {
    **dict(zip(STATES, STATES, strict=True)),
    **{"U": "T", "R": "AG", "Y": "CT", "M": "AC", "K": "GT", "S": "CG", "W": "AT"},
    **{"B": "CGT", "D": "AGT", "H": "ACT", "V": "ACG"},
}
# Unknown ones and gaps, which have no information.
UNKNOWN = "NX?-.~"
LETTERS = {form for letter in [*CODES, *UNKNOWN] for form in (letter, letter.lower())}
MOST_SHOWN = 10


class Alignment(NamedTuple):
    """Columns of an alignment, each once.

    Attributes:
        taxa: names.
        columns: int32 `[columns, taxa]`; bit 0 is set if the state may be A, then C, G and T.
        counts: float64 `[columns]`, how often each column occurs.
    """

    taxa: list[str]
    columns: np.ndarray
    counts: np.ndarray

    def __repr__(self) -> str:
        columns, counts = list(np.shape(self.columns)), list(np.shape(self.counts))
        return (
            f"Alignment(taxa=[{listed(self.taxa)}], columns=<int32 {columns}>, "
            f"counts=<float64 {counts}>)"
        )

    @property
    def frequencies(self) -> np.ndarray:
        """float64 `[4]`: the share of each state; a character that may be several counts for each
        in equal parts, and one that may be all for none."""
        may_be = (self.columns[..., np.newaxis] >> np.arange(4)) & 1
        number = may_be.sum(-1, keepdims=True)
        shares = np.where(number < 4, may_be / number, 0.0).sum(1)
        return self.counts @ shares / np.sum(self.counts @ shares)


def read_fasta(path: str | os.PathLike[str]) -> dict[str, str]:
    """Sequences of DNA or RNA by name: the text after `>`, up to a blank.

    Text is UTF-8, with or without a byte order mark, with the line ends of any system. Blanks
    between letters are left out, and so are lines that begin with `;`: comments (Pearson and Lipman
    1988).

    Raises:
        ValueError: If letters are not codes for nucleotides, as in proteins; a sequence has no
            name, no letters, or the name of another; the file has no sequence; or bytes are not
            UTF-8. The message names the line.
    """
    parts: dict[str, list[str]] = {}
    others: dict[str, str] = {}
    name = ""
    # Bytes that are not UTF-8, such as half a surrogate, become half surrogates.
    with open(path, encoding="utf-8-sig", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, 1):
            place, letters = f"{path}, line {number}", "".join(line.split())
            if not _is_text(line):
                raise ValueError(f"{place}: bytes that are not UTF-8. Save the file as UTF-8.")
            if line.startswith(">"):
                name = (line[1:].split() or [""])[0]
                if not name:
                    raise ValueError(f"{place}: expected a name after '>'")
                if name in parts:
                    raise ValueError(f"{place}: a second sequence named {name!r}")
                parts[name] = []
            elif line.startswith(";"):
                continue
            elif letters and not parts:
                raise ValueError(
                    f"{place}: expected '>' and a name before letters; a line that begins with "
                    "';' is a comment"
                )
            elif letters:
                parts[name].append(letters)
                for letter in sorted(set(letters) - LETTERS):
                    others.setdefault(letter, f"line {number}")
    _expect_no_others(others, str(path))
    empty = [name for name, lines in parts.items() if not lines]
    if empty or not parts:
        raise ValueError(f"{path}: no letters {f'of {empty[0]!r}' if empty else 'at all'}")
    return {name: "".join(lines) for name, lines in parts.items()}


def align(sequences: Mapping[str, str], taxa: Sequence[str] | None = None) -> Alignment:
    """The alignment of sequences that are aligned, in the order of `taxa`.

    Warns if more letters mean several nucleotides than one, as in proteins.

    Raises:
        ValueError: If `sequences` is not text by name; `taxa` are not its names, each once;
            sequences differ in length; a letter is not a code for nucleotides; all are unknown; or
            a name has an unpaired surrogate.
    """
    _expect_sequences(sequences)
    taxa = list(sequences) if taxa is None else list(taxa)
    expect_taxa(taxa, list(sequences), "alignment")
    _expect_one_length(sequences)
    others: dict[str, str] = {}
    for name in taxa:
        for letter in sorted(set(sequences[name]) - LETTERS):
            place = sequences[name].index(letter) + 1
            others.setdefault(letter, f"column {place} of {name!r}")
    _expect_no_others(others, "The alignment")
    bits = np.full(128, 15, np.uint8)
    for letter, states in CODES.items():
        bits[[ord(letter), ord(letter.lower())]] = sum(1 << STATES.index(one) for one in states)
    rows = [bits[np.frombuffer(sequences[name].encode("ascii"), np.uint8)] for name in taxa]
    columns, counts = np.unique(np.stack(rows, 1), axis=0, return_counts=True)
    number = ((columns[..., np.newaxis] >> np.arange(4)) & 1).sum(-1)
    if (number == 4).all():
        raise ValueError(
            "No letter of the alignment is known: it is empty, or has only gaps and codes such as "
            "N and ?. Pass sequences with A, C, G, T or U."
        )
    alone, several = ((number == 1).sum(1) @ counts, ((number % 4) > 1).sum(1) @ counts)
    if several > alone:
        found = set("".join(sequences.values()).upper()) & set("RYMKSWBDHV")
        warnings.warn(
            f"{several} letters ({', '.join(sorted(found))}) stand for several nucleotides, and "
            f"only {alone} for one. Is this an alignment of proteins? Pass one of DNA or RNA.",
            stacklevel=2,
        )
    return Alignment(taxa, columns.astype(np.int32), counts.astype(np.float64))


def _expect_sequences(sequences: Mapping[str, str]) -> None:
    if not isinstance(sequences, Mapping) or not sequences:
        raise ValueError(
            f"sequences is {reprlib.repr(sequences)}; expected a dict of letters by name. Pass one "
            "such as {'hen': 'ACGT', 'rat': 'AC-T'}, or read a file with read_fasta."
        )
    for name, letters in sequences.items():
        if not isinstance(name, str):
            raise ValueError(
                f"The name {reprlib.repr(name)} has the type {type(name).__name__}; expected a "
                "str. Pass str(name)."
            )
        if not _is_text(name):
            raise ValueError(f"The name {name!r} contains an unpaired surrogate. Pass it as text.")
        if not isinstance(letters, str):
            raise ValueError(
                f"The sequence of {reprlib.repr(name)} is {reprlib.repr(letters)} (type "
                f"{type(letters).__name__}); expected a str such as 'AC-T'. Pass bytes as "
                "letters.decode(), and a list as ''.join(letters)."
            )


def _expect_one_length(sequences: Mapping[str, str]) -> None:
    numbers = Counter(map(len, sequences.values()))
    if len(numbers) > 1:
        found = []
        for length, number in numbers.most_common(3):
            example = next(name for name, letters in sequences.items() if len(letters) == length)
            found.append(f"{number:,} of {length:,} letters (such as {reprlib.repr(example)})")
        found += [f"others of {len(numbers) - 3:,} more lengths"] if len(numbers) > 3 else []
        raise ValueError(
            f"Aligned sequences have one length; there are {', '.join(found)}. Align them first, "
            "or fill up the ends of shorter ones with '-'."
        )


def _is_text(text: str) -> bool:
    """Whether no surrogate is unpaired."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _expect_no_others(others: dict[str, str], source: str) -> None:
    """Raises ValueError for letters, each with its place, that are not in `LETTERS`."""
    if others:
        shown = [f"{letter!r} ({place})" for letter, place in list(others.items())[:MOST_SHOWN]]
        shown += [f"{len(others) - MOST_SHOWN} more"] if len(others) > MOST_SHOWN else []
        raise ValueError(
            f"{source} has letters that do not stand for nucleotides: {', '.join(shown)}. Pass an "
            "alignment of DNA or RNA: A, C, G, T or U, IUPAC's codes for several of them, and N, X "
            "or ? for an unknown one, and -, . or ~ for a gap. Proteins are not supported."
        )
