"""Random labeled binary trees and dependency trees, and the built-in treebank's place."""

import warnings
from collections.abc import Callable, Collection
from pathlib import Path

from hypothesis import settings, strategies
from nltk import Tree

from kerasrec.datasets import DependencyTree

TREEBANK = Path(__file__).resolve().parents[2] / "data" / "treebank"

# A busy machine is not a failure, and drawing trees takes a while.
few = settings(deadline=None, max_examples=30)

labels = strategies.integers(0, 4)
words = strategies.text(
    strategies.characters(blacklist_categories=["Cs"], blacklist_characters="\n"), min_size=1
)
leaves = strategies.builds(lambda label, word: Tree(label, [word]), labels, words)
trees = strategies.recursive(
    leaves,
    lambda below: strategies.builds(lambda *node: Tree(node[0], node[1:]), labels, below, below),
)

# As read from brackets: text labels, any number of children, chains.
symbols = strategies.text("ABé-\u00a0", min_size=1, max_size=3)
wide_trees = strategies.recursive(
    strategies.builds(lambda label, word: Tree(label, [word]), symbols, symbols),
    lambda below: strategies.builds(Tree, symbols, strategies.lists(below, min_size=1, max_size=5)),
)


def check_cuts(read: Callable, path: Path, text: str, ends: Collection[int]) -> None:
    """Checks what a reader makes of a file cut off anywhere: whole trees, and no silence.

    Args:
        read: The reader.
        path: Where to write.
        text: A good file.
        ends: The numbers of bytes after which a tree is complete.
    """
    content = text.encode()
    path.write_bytes(content)
    trees = read(path)
    assert len(trees) == len(ends)
    for cut in range(len(content)):
        path.write_bytes(content[:cut])
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            found = read(path, strict=False)
        complete = [end for end in ends if end <= cut]
        assert found == trees[: len(complete)], cut
        is_whole = bool(complete) and not content[complete[-1] : cut].strip()
        assert bool(seen) != is_whole, cut


def sentence(heads: list[int]) -> DependencyTree:
    """The words w0, w1, ... under these heads."""
    return DependencyTree([f"w{word}" for word in range(len(heads))], heads)


@strategies.composite
def any_heads(draw) -> list[int]:
    """Heads of a tree, projective or not: each word hangs on one drawn before it."""
    words = draw(strategies.permutations(range(draw(strategies.integers(1, 12)))))
    heads = [-1] * len(words)
    for place, word in enumerate(words[1:], start=1):
        heads[word] = words[draw(strategies.integers(0, place - 1))]
    return heads


@strategies.composite
def projective_heads(draw) -> list[int]:
    """Heads of a projective tree: every span gets a root, and splits next to it into spans."""
    heads = [-1] * draw(strategies.integers(1, 12))
    waiting = [(0, len(heads), -1)]
    while waiting:
        start, end, head = waiting.pop()
        if start == end:
            continue
        root = draw(strategies.integers(start, end - 1))
        heads[root] = head
        for first, last in ((start, root), (root + 1, end)):
            cut = draw(strategies.integers(first, last))
            waiting += [(first, cut, root), (cut, last, root)]
    return heads


def chain(height: int) -> Tree:
    """A tree whose right children go down `height` steps, made without recursion."""
    tree = Tree(2, ["end"])
    for _ in range(height):
        tree = Tree(3, [Tree(1, ["word"]), tree])
    return tree


# Trees whose first words may be words, by hand: in scripts without case, in capitals, numbers.
MAY_BE_WORDS = [
    "( 他 ( 在 家 ) ( 吃 饭 ) )",
    "(هو (في البيت) (يأكل الخبز))",
    "(वह (घर में) (है है))",
    "(NP (他 她) (VP b))",
    "(NP (ÉTÉ a) (VP b))",
    "(I (OK .) (A B))",
    "(IN (THE HOUSE) (TO BED))",
    "(X-RAY film)",
    "(10 (20 x) (30 y))",
    "(3 (20 x) (4 y))",
    "(. (OK x) (, y))",
]
# Labeled trees of the Penn Treebank, OntoNotes and the English Web Treebank, and their words.
SURELY_LABELED = {
    "( (FRAG (. .)))": ["."],
    "( (FRAG (: --)))": ["--"],
    "( (X (NFP ***)))": ["***"],
    "( (X (ADD a@b.c)))": ["a@b.c"],
    "( (NP (-NONE- *)))": ["*"],
    "( (-LRB- -LRB-))": ["-LRB-"],
    "( (FRAG ($ $)))": ["$"],
    "( (FRAG (`` ``)))": ["``"],
    "( (FRAG ('' '')))": ["''"],
    "( (FRAG (, ,)))": [","],
    "( (FRAG (# #)))": ["#"],
    "( (NML (XX x)))": ["x"],
    "( (NP-SBJ-1=2 (AFX pre)))": ["pre"],
    "( (NP|<DT-NN> (GW with)))": ["with"],
    "( (LST (LS 1)))": ["1"],
    "( (INTJ (UH uh)))": ["uh"],
    "( (IP (NP (NR x)) (VP (VV y))))": ["x", "y"],
    "(S (CARD x) ($, ,))": ["x", ","],
    "(3 (2 a) (4 b))": ["a", "b"],
}
