"""A parser: a grammar that is learned from bracketed sentences, with sums over all their trees.

    python models/constituency_parser.py --seeds 1 2 3

The chance of a tree, given the words, is a product of weights of rules and words over their sum for
all binary trees. `weighted_grammar.py` has that sum, a recursion over spans in which equal calls
are one call. Its gradient says how likely each phrase is, and the same recursion with a maximum in
place of sums has the phrases of the best tree as gradient.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from brackets import agreement, brackets, encode, right_branching
from chart_picture import draw_chart
from comparison import Run, report
from kerasrec.datasets import load_treebank
from weighted_grammar import WeightedGrammar


def main(argv: Sequence[str] | None = None) -> list[Run]:
    """Runs the recipe and returns the figures of each seed."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--data", type=Path, help="a treebank; by default the embedded one")
    parser.add_argument("--longest", type=int, default=15, help="words of a sentence")
    parser.add_argument("--train", type=int, default=10000, help="sentences to learn from, at most")
    parser.add_argument("--test", type=int, default=10000, help="sentences to test on, at most")
    parser.add_argument("--symbols", type=int, default=16, help="of the grammar")
    parser.add_argument("--epochs", type=int, default=20, help="of training")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="of training")
    parser.add_argument("--output", type=Path, default=Path("runs/constituency_parser"))
    options = parser.parse_args(argv)
    options.output.mkdir(parents=True, exist_ok=True)
    treebank = load_treebank(options.data, min_count=2)
    train, test = (
        [tree for tree in trees if 2 < len(tree.leaves()) <= options.longest][:number]
        for trees, number in ((treebank.train, options.train), (treebank.test, options.test))
    )
    (tokens, known), (test_tokens, test_known) = (
        encode(trees, treebank.vocabulary, options.longest) for trees in (train, test)
    )
    sentences = [tree.leaves() for tree in test]
    lengths = np.array([len(words) for words in sentences])
    rightward = [brackets(right_branching(words), options.longest) for words in sentences]
    baseline = agreement(np.stack(rightward), test_known, lengths)
    runs = []
    for seed in options.seeds:
        keras.utils.set_random_seed(seed)
        start = time.perf_counter()
        model = WeightedGrammar(len(treebank.vocabulary), options.symbols)
        model.compile(keras.optimizers.Adam(0.03))
        model.fit((tokens, known), batch_size=64, epochs=options.epochs, verbose=2)
        minutes = (time.perf_counter() - start) / 60
        parts = np.split(test_tokens, range(64, len(lengths), 64))
        best = [model.chart(tf.reduce_max, part) for part in parts]
        score = agreement(np.concatenate(best) > 0.5, test_known, lengths)
        figures = {"F1, %": score, "minutes": minutes}
        runs.append({"grammar": figures, "right-branching": {"F1, %": baseline}})
    chances = model.chart(tf.reduce_logsumexp, test_tokens[:1])[0].numpy()
    draw_chart(sentences[0], chances, test_known[0], options.output / "chart.png")
    report(runs, options.output)
    return runs


if __name__ == "__main__":
    main()
