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
from sick_pairs import SCORES, Pairs


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


def pair_to_show(pairs: Pairs) -> int:
    """The first pair that is half related, of 6 to 9 words a sentence; else the first of all."""
    sides = zip(*pairs[:2], strict=True)
    fits = [all(6 <= len(tree.words) <= 9 for tree in pair) for pair in sides]
    return int(np.argmax(fits & (pairs[2] >= 3) & (pairs[2] < 4)))


def draw(
    model: keras.Model, pairs: Pairs, vocabulary: Vocabulary, predicted: np.ndarray, folder: Path
) -> None:
    """Draws `scores.png`, a point for each pair, and `pair.png`, one of them.

    Args:
        model: from two trees to a distribution over scores.
        pairs: with their true scores.
        vocabulary: gives words their tokens.
        predicted: scores `[pairs]`.
        folder: where the files go.
    """
    draw_scores(predicted, pairs[2], folder / "scores.png")
    draw_pair(model, pairs, vocabulary, folder / "pair.png")


def draw_scores(predicted: np.ndarray, true: np.ndarray, file: Path) -> None:
    """Draws a point for each pair, and the line on which both agree."""
    figure = Figure(figsize=(5, 5))
    axes = figure.subplots()
    axes.scatter(true, predicted, s=4, alpha=0.3)
    axes.plot([1, 5], [1, 5], color="#999999")
    axes.set(xlabel="true score", ylabel="predicted score", title="SICK, test")
    figure.savefig(file, dpi=120, bbox_inches="tight")


def draw_pair(model: keras.Model, pairs: Pairs, vocabulary: Vocabulary, file: Path) -> None:
    """Draws a pair: of each phrase the best score that it has with one of the other sentence.

    A phrase is a word with all words below it.

    Args:
        model: from two trees to a distribution over scores.
        pairs: of which one is drawn.
        vocabulary: gives words their tokens.
        file: of the picture.
    """
    shown = pair_to_show(pairs)
    trees = [side[shown] for side in pairs[:2]]
    first, second = (phrases(tree, vocabulary) for tree in trees)
    all_pairs = [(one, other) for one in first for other in second]
    batches = tree_pair_batches(*zip(*all_pairs, strict=True), np.zeros(len(all_pairs)), 25)
    scores = (model.predict(batches, verbose=0) @ SCORES).reshape(len(first), len(second))
    bar = None  # of colors: on the right alone
    figure = Figure(figsize=(3 + 0.62 * sum(scores.shape), 5), layout="constrained")
    panels = figure.subplots(1, 2, width_ratios=scores.shape)
    for axes, tree, other, of in zip(panels, trees, trees[::-1], (scores, scores.T), strict=True):
        partner = {
            word: other.words[other.order[best]]
            for word, best in zip(tree.order, of.argmax(1), strict=True)
        }
        words = [f"{text} ~ {partner[word]}" for word, text in enumerate(tree.words)]
        best = DependencyTree(words, tree.heads)
        plot_tree(best, of.max(1), cmap="Blues", limits=(1, 5), colorbar=bar, ax=axes)
        bar = "1: not related, 5: they mean the same"
    figure.suptitle(
        f"The score of this pair is {pairs[2][shown]:.1f}; the model says {scores[0, 0]:.1f}.\n"
        "Disc: the model's score of the words below it and the phrase of the other sentence\n"
        "with which that is highest; the head of that phrase stands after ~."
    )
    figure.savefig(file, dpi=110)
