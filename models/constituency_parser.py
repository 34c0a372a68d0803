"""A parser: a grammar that is learned from bracketed sentences, with sums over all their trees.

    python models/constituency_parser.py --seeds 1 2 3

The sums are a recursion in which equal calls are one call (`weighted_grammar.py`).
"""

import time
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from bracketed_sentences import encode
from chart_picture import draw_chart
from comparison import Run, report
from kerasrec.datasets import load_treebank
from recipe_options import parse, recipe_parser
from saving import save_and_export
from weighted_grammar import WeightedGrammar, best_phrases


def main(argv: Sequence[str] | None = None) -> list[Run]:
    """Runs the recipe and returns the figures of each seed."""
    parser = recipe_parser("constituency_parser")
    parser.add_argument("--data", type=Path, help="a treebank; by default the built-in one")
    parser.add_argument("--longest", type=int, default=15, help="words of a sentence")
    parser.add_argument("--train", type=int, default=10000, help="sentences to learn from, at most")
    parser.add_argument("--test", type=int, default=10000, help="sentences to test on, at most")
    parser.add_argument("--symbols", type=int, default=16, help="of the grammar")
    parser.add_argument("--epochs", type=int, default=20, help="of training")
    options = parse(parser, argv)
    treebank = load_treebank(options.data, min_count=2)
    train = encode(treebank.train, treebank.vocabulary, options.longest, options.train)
    test = encode(treebank.test, treebank.vocabulary, options.longest, options.test)
    parts = np.split(test.tokens, range(64, len(test.tokens), 64))
    runs = []
    for seed in options.seeds:
        keras.utils.set_random_seed(seed)
        start = time.perf_counter()
        model = WeightedGrammar(len(treebank.vocabulary), options.symbols)
        model.compile(keras.optimizers.Adam(0.03))
        model.fit((train.tokens, train.known), batch_size=64, epochs=options.epochs, verbose=2)
        minutes = (time.perf_counter() - start) / 60
        found = np.concatenate([best_phrases(model, part) for part in parts])
        grammar = {"F1, %": test.agreement(found), "minutes": minutes}
        baseline = {"F1, %": test.agreement(test.right_branching())}
        runs.append({"grammar": grammar, "right-branching": baseline})
    save_and_export(model, [test.tokens[:8]], options.output, best_phrases)
    treebank.vocabulary.save(options.output / "vocabulary.txt")
    chances = model.chart(tf.reduce_logsumexp, test.tokens[:1])[0].numpy()
    draw_chart(test.words[0], chances, test.known[0], options.output / "chart.png")
    report(runs, options.output)
    return runs


if __name__ == "__main__":
    main()
