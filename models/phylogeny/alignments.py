"""Aligned sequences of DNA: a reader of FASTA, and the columns that differ."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

STATES = "ACGT"
# What each character may stand for (IUPAC); any other, a gap too, says nothing.
CODES = {
    **dict(zip(STATES, STATES, strict=True)),
    **{"U": "T", "R": "AG", "Y": "CT", "M": "AC", "K": "GT", "S": "CG", "W": "AT"},
    **{"B": "CGT", "D": "AGT", "H": "ACT", "V": "ACG"},
}


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
    """Sequences by name: what stands behind `>`, up to a blank."""
    parts: dict[str, list[str]] = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith(">"):
            name = (line[1:].split() or [""])[0]
            if name in parts:
                raise ValueError(f"{path}, line {number}: a second sequence named {name!r}")
            parts[name] = []
        elif line.strip() and not parts:
            raise ValueError(f"{path}, line {number}: expected '>' and a name before letters")
        elif line.strip():
            parts[name].append(line.strip())
    return {name: "".join(lines) for name, lines in parts.items()}


def align(sequences: dict[str, str], taxa: Sequence[str] | None = None) -> Alignment:
    """The alignment of sequences that are aligned, in the order of `taxa`."""
    taxa = list(sequences) if taxa is None else list(taxa)
    if set(taxa) != set(sequences):
        others = sorted(set(taxa) ^ set(sequences))
        raise ValueError(f"Tree and alignment have different taxa: {', '.join(others[:5])}")
    lengths = {name: len(sequences[name]) for name in taxa}
    if len(set(lengths.values())) != 1:
        raise ValueError(f"Aligned sequences have one length; these have {lengths}")
    bits = np.full(128, 15, np.uint8)
    for letter, states in CODES.items():
        bits[[ord(letter), ord(letter.lower())]] = sum(1 << STATES.index(one) for one in states)
    rows = [bits[np.frombuffer(sequences[name].encode("ascii"), np.uint8)] for name in taxa]
    columns, counts = np.unique(np.stack(rows, 1), axis=0, return_counts=True)
    return Alignment(taxa, columns.astype(np.int32), counts.astype(np.float64))
