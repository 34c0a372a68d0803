"""Reads an alignment and its tree."""

from pathlib import Path

from kerasrec.datasets import NewickTree, read_newick
from phylogeny.alignments import Alignment, align, read_fasta
from phylogeny.unrooted_trees import unrooted


def load(folder: Path, name: str) -> tuple[Alignment, NewickTree | None]:
    """The alignment `name.fasta`, and the unrooted tree of `name.newick` or `name.nwk`, if any."""
    sequences = read_fasta(folder / f"{name}.fasta")
    for path in (folder / f"{name}.newick", folder / f"{name}.nwk"):
        if path.exists():
            tree = unrooted(read_newick(path)[0])
            return align(sequences, tree.taxa), tree
    return align(sequences), None
