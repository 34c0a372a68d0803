"""Aligned sequences of DNA: a reader of FASTA, and the columns that differ."""

import os
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

STATES = "ACGT"
# The states that each character may stand for (IUPAC).
CODES = {
    **dict(zip(STATES, STATES, strict=True)),
    **{"U": "T", "R": "AG", "Y": "CT", "M": "AC", "K": "GT", "S": "CG", "W": "AT"},
    **{"B": "CGT", "D": "AGT", "H": "ACT", "V": "ACG"},
}
# Unknown ones and gaps, which say nothing.
UNKNOWN = "NX?-.~"
LETTERS = {form for letter in [*CODES, *UNKNOWN] for form in (letter, letter.lower())}
MOST_SHOWN = 10


class Alignment(NamedTuple):
    """Columns of an alignment, each once.

    Attributes:
        taxa: names.
        columns: int32 `[columns, taxa]`; bit 0 is set if the state may be A, then C, G and T.
        counts: float64 `[columns]`, how often a column is there.
    """

    taxa: list[str]
    columns: np.ndarray
    counts: np.ndarray

    @property
    def frequencies(self) -> np.ndarray:
        """float64 `[4]`: the share of each state; a character that may be several counts for each
        in equal parts, and one that may be all for none."""
        may_be = (self.columns[..., np.newaxis] >> np.arange(4)) & 1
        number = may_be.sum(-1, keepdims=True)
        shares = np.where(number < 4, may_be / number, 0.0).sum(1)
        return self.counts @ shares / np.sum(self.counts @ shares)


def read_fasta(path: str | os.PathLike[str]) -> dict[str, str]:
    """Sequences of DNA or RNA by name: what stands behind `>`, up to a blank.

    Text is UTF-8, with or without a byte order mark, with the line ends of any system. Blanks
    between letters are left out.

    Raises:
        ValueError: If letters are not codes for nucleotides, as those of proteins; a sequence has
            no name, no letters, or the name of another; there is none; or bytes are not UTF-8. The
            message names the line.
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
            elif letters and not parts:
                raise ValueError(f"{place}: expected '>' and a name before letters")
            elif letters:
                parts[name].append(letters)
                for letter in sorted(set(letters) - LETTERS):
                    others.setdefault(letter, f"line {number}")
    _expect_no_others(others, str(path))
    empty = [name for name, lines in parts.items() if not lines]
    if empty or not parts:
        raise ValueError(f"{path}: no letters {f'of {empty[0]!r}' if empty else 'at all'}")
    return {name: "".join(lines) for name, lines in parts.items()}


def align(sequences: dict[str, str], taxa: Sequence[str] | None = None) -> Alignment:
    """The alignment of sequences that are aligned, in the order of `taxa`.

    Warns if more letters stand for several nucleotides than for one, as in proteins.

    Raises:
        ValueError: If `sequences` and `taxa` differ in names; sequences differ in length; a letter
            is not a code for nucleotides; or a name is not text.
    """
    taxa = list(sequences) if taxa is None else list(taxa)
    if set(taxa) != set(sequences):
        others = sorted(set(taxa) ^ set(sequences))
        raise ValueError(f"Tree and alignment have different taxa: {', '.join(others[:5])}")
    lengths = {name: len(sequences[name]) for name in taxa}
    if len(set(lengths.values())) != 1:
        raise ValueError(f"Aligned sequences have one length; these have {lengths}")
    others = {}
    for name in taxa:
        if not _is_text(name):
            raise ValueError(f"The name {name!r} contains an unpaired surrogate. Pass it as text.")
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
    alone, several = ((number == 1).sum(1) @ counts, ((number % 4) > 1).sum(1) @ counts)
    if several > alone:
        found = set("".join(sequences.values()).upper()) & set("RYMKSWBDHV")
        warnings.warn(
            f"{several} letters ({', '.join(sorted(found))}) stand for several nucleotides, and "
            f"only {alone} for one. Is this an alignment of proteins? Pass one of DNA or RNA.",
            stacklevel=2,
        )
    return Alignment(taxa, columns.astype(np.int32), counts.astype(np.float64))


def _is_text(text: str) -> bool:
    """Whether no surrogate is unpaired."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _expect_no_others(others: dict[str, str], source: str) -> None:
    """Raises ValueError if there are letters, each with its place, that are not in `LETTERS`."""
    if others:
        shown = [f"{letter!r} ({place})" for letter, place in list(others.items())[:MOST_SHOWN]]
        shown += [f"{len(others) - MOST_SHOWN} more"] if len(others) > MOST_SHOWN else []
        raise ValueError(
            f"{source} has letters that do not stand for nucleotides: {', '.join(shown)}. Pass an "
            "alignment of DNA or RNA: A, C, G, T or U, IUPAC's codes for several of them, and N, X "
            "or ? for an unknown one, and -, . or ~ for a gap. Proteins are not supported."
        )
