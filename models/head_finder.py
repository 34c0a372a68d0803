"""Dependency trees for a treebank of binary trees, such as the Stanford Sentiment Treebank.

    python models/head_finder.py --dependencies path/to/conllu --treebank path/to/trees \
        --vectors path/to/vectors.npz --output runs/dependency_trees

Binary trees show which words belong together, but not which word the others depend on. One bit is
missing at each tree node: which of its two children has the head. `arc_scorer.py` learns from a
dependency treebank how likely one word is the head of another; here, the bits are chosen that make
the whole tree most likely. Every tree node then has a head word, and every word gets the label of
the largest tree node that it heads.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
from nltk import Tree

from arc_scorer import WordFeatures, train_arc_scorer, written
from dependency_treebank import read_split
from kerasrec.datasets import (
    DependencyTree,
    dependencies_from_constituents,
    read_sst,
    read_vectors,
)

SPLITS = ("train", "dev", "test")
# In the Penn Treebank these take the words on their left first, as in ((the film) (by him)).
NOMINAL = ("NOUN", "PROPN", "PRON")


class Constituent(NamedTuple):
    """Scores of a tree node before its head word is chosen, for each word as the head.

    Attributes:
        words: The places in the sentence that it spans, int `[words]`.
        scores: The best log probability of all arcs within, float `[words]`.
        partners: For each word the other child's head word that gives it, counted from that
            child's first word, int `[words]`.
    """

    words: np.ndarray
    scores: np.ndarray
    partners: np.ndarray


def most_likely_heads(tree: Tree, arcs: np.ndarray) -> Callable[[Tree], bool]:
    """Chooses the head children that make a tree's dependencies most likely.

    Args:
        tree: Its nodes hold one word or two trees.
        arcs: float32 `[words, words]`, as `ArcScorer.log_probabilities` has them.

    Returns:
        A function that returns for each inner tree node whether its left child has the head, for
        `dependencies_from_constituents`.
    """
    below: dict[int, Constituent] = {}
    is_left: dict[int, bool] = {}

    def climb(node: Tree, first: int) -> Constituent:
        if len(node) == 1:
            found = Constituent(np.array([first]), np.zeros(1), np.zeros(1, int))
        else:
            left = climb(node[0], first)
            right = climb(node[1], left.words[-1] + 1)
            # At [l, r]: the score with head words l and r below, and l, or r, the head of both.
            both = left.scores[:, None] + right.scores
            left_heads = both + arcs[np.ix_(right.words, left.words)].T
            right_heads = both + arcs[np.ix_(left.words, right.words)]
            found = Constituent(
                np.concatenate([left.words, right.words]),
                np.concatenate([left_heads.max(1), right_heads.max(0)]),
                np.concatenate([left_heads.argmax(1), right_heads.argmax(0)]),
            )
        below[id(node)] = found
        return found

    def descend(node: Tree, head: int) -> None:
        if len(node) == 2:
            size = len(below[id(node[0])].words)
            partner = below[id(node)].partners[head]
            is_left[id(node)] = head < size
            descend(node[0], head if head < size else partner)
            descend(node[1], partner if head < size else head - size)

    whole = climb(tree, 0)
    descend(tree, int(np.argmax(whole.scores + np.diag(arcs))))
    return lambda node: is_left[id(node)]


def bracketing(tree: DependencyTree) -> tuple[Tree, Callable[[Tree], bool]] | None:
    """Makes the binary tree that a constituency treebank might have for a dependency tree.

    Returns:
        The tree, and a function that returns for each of its nodes whether the left child has the
        head; `None` if the tree is not projective.
    """
    is_left: dict[int, bool] = {}

    def merge(left: Tree, right: Tree, left_has_head: bool) -> Tree:
        node = Tree("", [left, right])
        is_left[id(node)] = left_has_head
        return node

    def build(word: int) -> Tree:
        before = [other for other in reversed(tree.dependents[word]) if other < word]
        after = [other for other in tree.dependents[word] if other > word]
        left_first = bool(tree.upos) and tree.upos[word] in NOMINAL
        node = Tree("", [str(word)])
        for other in before + after if left_first else after + before:
            part = build(other)
            node = merge(node, part, True) if other > word else merge(part, node, False)
        return node

    built = build(tree.root)
    if [int(word) for word in built.leaves()] != list(range(len(tree.words))):
        return None
    return built, lambda node: is_left[id(node)]


def accuracy(trees: Sequence[DependencyTree], arcs: Sequence[np.ndarray]) -> dict[str, float]:
    """Measures the share of words that get their true head from `bracketing` of their sentences.

    Args:
        trees: Those that are not projective are left out.
        arcs: For each tree float32 `[words, words]`, as `ArcScorer.log_probabilities` has them.

    Returns:
        The share of words with the true head if the left child always has the head, if the right
        child has, and as found by `most_likely_heads`; and `orientation`, the share of true
        arcs that are more likely than their reverse.
    """
    correct = dict.fromkeys(("left child", "right child", "most likely"), 0)
    words = turned = num_arcs = 0
    for tree, scores in zip(trees, arcs, strict=True):
        made = bracketing(tree)
        if made is None:
            continue
        rules = (lambda _: True, lambda _: False, most_likely_heads(made[0], scores))
        for name, rule in zip(correct, rules, strict=True):
            found, _ = dependencies_from_constituents(made[0], rule)
            correct[name] += np.sum(np.equal(found.heads, tree.heads))
        words += len(tree.words)
        below = [word for word, head in enumerate(tree.heads) if head >= 0]
        above = [tree.heads[word] for word in below]
        turned += np.sum(scores[below, above] > scores[above, below])
        num_arcs += len(below)
    shares = {name: float(count / words) for name, count in correct.items()}
    return {**shares, "orientation": float(turned / num_arcs)}


def conllu(tree: DependencyTree, labels: Sequence[int]) -> str:
    """Formats a dependency tree as CoNLL-U, labels as relations."""
    lines = [
        f"{number}\t{word}\t_\t_\t_\t_\t{head + 1}\t{label}\t_\t_\n"
        for number, (word, head, label) in enumerate(
            zip(tree.words, tree.heads, labels, strict=True), start=1
        )
    ]
    return "".join(lines) + "\n"


def parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Make dependency trees from binary trees, by a model of another treebank.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--dependencies",
        type=Path,
        required=True,
        help="directory to learn from, with *train.conllu and *dev.conllu",
    )
    parser.add_argument(
        "--treebank",
        type=Path,
        required=True,
        help="directory with train.txt, dev.txt and test.txt, a bracketed binary tree per line",
    )
    parser.add_argument(
        "--vectors", type=Path, required=True, help="word vectors, .npz or GloVe's .txt"
    )
    parser.add_argument("--epochs", type=int, default=7, help="of the parser's training")
    parser.add_argument("--seed", type=int, default=1, help="of weights, dropout and shuffling")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("runs/dependency_trees"),
        help="directory of the new trees",
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Writes the trees and returns how many heads are found right on dev of the dependencies."""
    options = parse_options(argv)
    keras.utils.set_random_seed(options.seed)

    train, dev = (read_split(options.dependencies, split) for split in ("train", "dev"))
    treebank = {split: read_sst(options.treebank / f"{split}.txt") for split in SPLITS}
    words = {word for tree in train + dev for word in tree.words}
    words.update(word for trees in treebank.values() for tree in trees for word in tree.leaves())
    features = WordFeatures(train, read_vectors(options.vectors, written(words)))
    scorer = train_arc_scorer(train, features, options.epochs)
    figures = accuracy(dev, scorer.log_probabilities([features(tree.words) for tree in dev]))
    for name, share in figures.items():
        print(f"{name:12} {share:.1%}")

    options.output.mkdir(parents=True, exist_ok=True)
    for split, trees in treebank.items():
        arcs = scorer.log_probabilities([features(tree.leaves()) for tree in trees])
        with (options.output / f"{split}.conllu").open("w", encoding="utf-8") as file:
            for tree, scores in zip(trees, arcs, strict=True):
                heads = most_likely_heads(tree, scores)
                file.write(conllu(*dependencies_from_constituents(tree, heads)))
    print(f"dependency trees are in {options.output}; their relations are the sentiments")
    return figures


if __name__ == "__main__":
    main()
