"""Random labelled binary trees, and the embedded treebank's place."""

from pathlib import Path

from hypothesis import strategies
from nltk import Tree

TREEBANK = Path(__file__).resolve().parents[2] / "data" / "treebank"

labels = strategies.integers(0, 4)
words = strategies.text(
    strategies.characters(blacklist_categories=["Cs"], blacklist_characters="\n"), min_size=1
)
leaves = strategies.builds(lambda label, word: Tree(label, [word]), labels, words)
trees = strategies.recursive(
    leaves,
    lambda below: strategies.builds(lambda *node: Tree(node[0], node[1:]), labels, below, below),
)


def chain(height: int) -> Tree:
    """A tree whose right children go down `height` steps, made without recursion."""
    tree = Tree(2, ["end"])
    for _ in range(height):
        tree = Tree(3, [Tree(1, ["word"]), tree])
    return tree
