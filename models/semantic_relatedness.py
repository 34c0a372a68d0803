"""Relatedness of two sentences: a child-sum Tree-LSTM of each, and a net that compares them.

    python models/semantic_relatedness.py --data path/to/sick --vectors path/to/vectors.npz

Tai, Socher and Manning 2015, section 4.2, on SICK. As in the paper: 150 units, a net of 50 units on
the product and the distance of the two roots, and a distribution over the scores 1 to 5 with the
prediction as its mean, trained by its KL divergence from the true one with AdaGrad 0.05, L2 1e-4
and batches of 25. The paper's word vectors are GloVe's 840B; here you choose them, concatenated
from several files, and words without a vector take that of their stem. Figures of pairs with and
without such words show their effect. For pairs with other scores, use `--score-range 0 5`.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np

from comparison import Run, report
from correlation import agreement_of
from kerasrec.datasets import Vocabulary, embedding_matrix, read_vectors
from kerasrec.training import OptimizerPerLayer
from recipe_options import parse, recipe_parser
from relatedness_model import build_model
from relatedness_pictures import draw
from sick_pairs import SCORE_RANGE, batches, by_known_words, read, scores_of
from stem_vectors import with_stems


def fit(
    model: keras.Model,
    data: dict,
    true: np.ndarray,
    rate: float,
    epochs: int,
    scores: np.ndarray,
) -> np.ndarray:
    """Trains, keeps the weights that are best on the true scores of dev, and predicts on test."""
    sgd, adagrad = keras.optimizers.SGD(rate), keras.optimizers.Adagrad(0.05, 0.0)
    model.compile(OptimizerPerLayer(adagrad, {"embedding": sgd}), "kl_divergence")
    best, weights = -1.0, model.get_weights()
    for _ in range(epochs):
        model.fit(data["train"], verbose=2, shuffle=False)
        dev = agreement_of(model.predict(data["dev"], verbose=0) @ scores, true)
        if dev["Pearson"] > best:
            best, weights = dev["Pearson"], model.get_weights()
    model.set_weights(weights)
    return model.predict(data["test"], verbose=0) @ scores


def main(argv: Sequence[str] | None = None) -> list[Run]:
    """Runs the recipe and returns the figures of each seed."""
    parser = recipe_parser("semantic_relatedness")
    parser.add_argument("--data", type=Path, required=True, help="SICK: train, dev and test")
    parser.add_argument(
        "--score-range", type=float, nargs=2, default=SCORE_RANGE, help="lowest and highest score"
    )
    parser.add_argument("--vectors", type=Path, nargs="+", required=True, help=".npz or .txt")
    parser.add_argument("--no-stems", action="store_true", help="keep vectors as they are")
    parser.add_argument("--epochs", type=int, default=8, help="the best on dev is kept")
    parser.add_argument("--rate", type=float, default=0.1, help="of SGD, for the word vectors")
    options = parse(parser, argv)
    score_range, scores = options.score_range, scores_of(options.score_range)
    pairs = {split: read(options.data, split, score_range) for split in ("train", "dev", "test")}
    vocabulary = Vocabulary.from_trees([tree for of in pairs.values() for tree in of[0] + of[1]])
    vectors = [read_vectors(file) for file in options.vectors]
    words = set.intersection(*(set(of.words) for of in vectors))
    parts = by_known_words(pairs["test"], vocabulary, words)
    vectors = vectors if options.no_stems else [with_stems(of, vocabulary) for of in vectors]
    runs = []
    for seed in options.seeds:
        keras.utils.set_random_seed(seed)
        data = {of: batches(pairs[of], vocabulary, {"train": seed}.get(of), scores) for of in pairs}
        matrix = np.concatenate([embedding_matrix(vocabulary, of, seed) for of in vectors], axis=1)
        model, start = build_model(matrix, num_scores=len(scores)), time.perf_counter()
        predicted = fit(model, data, pairs["dev"][2], options.rate, options.epochs, scores)
        minutes, true = (time.perf_counter() - start) / 60, pairs["test"][2]
        run = {"child-sum TreeLSTM": agreement_of(predicted, true) | {"minutes": minutes}}
        runs.append(run | {of: agreement_of(predicted[at], true[at]) for of, at in parts.items()})
        model.save(options.output / f"seed_{seed}.keras")
    draw(model, pairs["test"], vocabulary, predicted, options.output, scores)
    model.export(options.output / "export", verbose=False)
    vocabulary.save(options.output / "vocabulary.txt")
    report(runs, options.output)
    return runs


if __name__ == "__main__":
    main()
