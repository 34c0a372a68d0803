"""Dependency trees for recipes: a CoNLL-U file of a split, or heads in binary trees."""

from pathlib import Path

from nltk import Tree

from kerasrec.datasets import DependencyTree, read_conllu


def read_split(directory: Path, split: str) -> list[DependencyTree]:
    """Reads the one CoNLL-U file of a split, as `en_ewt-ud-train.conllu` is."""
    found = sorted(directory.glob(f"*{split}.conllu"))
    if len(found) != 1:
        raise ValueError(
            f"'{directory}' has {len(found)} files named *{split}.conllu; expected one."
        )
    return read_conllu(found[0])


def is_left_head(node: Tree) -> bool:
    """Returns whether a comma or full stop sets the right child off; otherwise it has the head.

    This holds in the built-in treebank (`data/README.md`).
    """
    return node[1].leaves()[0] in (",", ".")
