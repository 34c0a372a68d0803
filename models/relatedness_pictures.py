"""Pictures of how related a model finds sentences: all pairs, and the phrases of one."""

from pathlib import Path

import keras
import numpy as np
from matplotlib.figure import Figure

from kerasrec.datasets import (
    DependencyTree,
    EncodedTree,
    Vocabulary,
    encode_dependencies,
    plot_tree,
    tree_pair_batches,
)
from sick_pairs import Pairs


def phrases(tree: DependencyTree, vocabulary: Vocabulary) -> list[EncodedTree]:
    """Of each tree node the tree below it, which follows it in preorder."""
    tokens, children, labels = encode_dependencies(tree, vocabulary)
    ends = np.arange(1, len(tokens) + 1)
    for node in reversed(range(len(tokens))):
        ends[node] = max([ends[node], *ends[children[node][children[node] >= 0]]])
    return [
        EncodedTree(
            tokens[node:end],
            np.where(children < 0, -1, children - node)[node:end],
            labels[node:end],
        )
        for node, end in enumerate(ends)
    ]


def pair_to_show(pairs: Pairs, scores: np.ndarray) -> int:
    """The first pair that is half to three quarters related, of 6 to 9 words per sentence.

    If there is none, the first pair.
    """
    sides = zip(*pairs[:2], strict=True)
    fits = [all(6 <= len(tree.words) <= 9 for tree in pair) for pair in sides]
    share = (pairs[2] - scores[0]) / (scores[-1] - scores[0])
    return int(np.argmax(fits & (share >= 0.5) & (share < 0.75)))


def draw(
    model: keras.Model,
    pairs: Pairs,
    vocabulary: Vocabulary,
    predicted: np.ndarray,
    folder: Path,
    scores: np.ndarray,
) -> None:
    """Draws `scores.png`, a point for each pair, and `pair.png`, one of them.

    Args:
        model: from two trees to a distribution over scores.
        pairs: with their true scores.
        vocabulary: gives words their tokens.
        predicted: scores `[pairs]`.
        folder: where the files go.
        scores: that have a probability, from the lowest to the highest.
    """
    draw_scores(predicted, pairs[2], folder / "scores.png", scores[[0, -1]])
    draw_pair(model, pairs, vocabulary, folder / "pair.png", scores)


def draw_scores(predicted: np.ndarray, true: np.ndarray, file: Path, ends: np.ndarray) -> None:
    """Draws a point for each pair, and the line on which both agree."""
    figure = Figure(figsize=(5, 5))
    axes = figure.subplots()
    axes.scatter(true, predicted, s=4, alpha=0.3)
    axes.plot(ends, ends, color="#999999")
    axes.set(xlabel="true score", ylabel="predicted score", title="Test")
    figure.savefig(file, dpi=120, bbox_inches="tight")


def draw_pair(
    model: keras.Model, pairs: Pairs, vocabulary: Vocabulary, file: Path, scores: np.ndarray
) -> None:
    """Draws a pair: of each phrase the best score that it has with one of the other sentence.

    A phrase is a word with all words below it.

    Args:
        model: from two trees to a distribution over scores.
        pairs: one of these is drawn.
        vocabulary: gives words their tokens.
        file: of the picture.
        scores: that have a probability, from the lowest to the highest.
    """
    shown, ends = pair_to_show(pairs, scores), (scores[0], scores[-1])
    trees = [side[shown] for side in pairs[:2]]
    first, second = (phrases(tree, vocabulary) for tree in trees)
    all_pairs = [(one, other) for one in first for other in second]
    batches = tree_pair_batches(*zip(*all_pairs, strict=True), np.zeros(len(all_pairs)), 25)
    found = (model.predict(batches, verbose=0) @ scores).reshape(len(first), len(second))
    bar = None  # of colors: only on the right
    figure = Figure(figsize=(3 + 0.62 * sum(found.shape), 5), layout="constrained")
    panels = figure.subplots(1, 2, width_ratios=found.shape)
    for axes, tree, other, of in zip(panels, trees, trees[::-1], (found, found.T), strict=True):
        partner = {
            word: other.words[other.order[best]]
            for word, best in zip(tree.order, of.argmax(1), strict=True)
        }
        words = [f"{text} ~ {partner[word]}" for word, text in enumerate(tree.words)]
        best = DependencyTree(words, tree.heads)
        plot_tree(best, of.max(1), cmap="Blues", limits=ends, colorbar=bar, ax=axes)
        bar = f"{ends[0]:g}: not related, {ends[1]:g}: they mean the same"
    figure.suptitle(
        f"The score of this pair is {pairs[2][shown]:.1f}; the model's is {found[0, 0]:.1f}.\n"
        "Disc: the model's score of the words below it and the phrase of the other sentence\n"
        "with the highest score; the head of that phrase follows after ~."
    )
    figure.savefig(file, dpi=110)
