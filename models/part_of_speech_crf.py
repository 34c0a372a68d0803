"""Parts of speech by a linear-chain conditional random field, beside the same model without one.

    python models/part_of_speech_crf.py --data path/to/ud_english_ewt --seeds 1 2 3

A net scores each tag of each word; the chain adds a score for each pair of neighbouring tags
(`linear_chain.py`). Its likelihood is a recursion from the last word to the first.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np

from comparison import Run, report
from dependency_treebank import read_split
from kerasrec.datasets import Vocabulary
from linear_chain import LinearChain
from tagged_sentences import encode
from transitions_picture import draw_transitions


def main(argv: Sequence[str] | None = None) -> list[Run]:
    """Runs the recipe and returns the figures of each seed."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a directory of CoNLL-U files")
    parser.add_argument("--longest", type=int, default=40, help="words of a sentence to learn from")
    parser.add_argument("--units", type=int, default=64, help="of word vectors and hidden layer")
    parser.add_argument("--window", type=int, default=1, help="words that a tag's score looks at")
    parser.add_argument("--epochs", type=int, default=5, help="of training")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="of training")
    parser.add_argument("--output", type=Path, default=Path("runs/part_of_speech_crf"))
    options = parser.parse_args(argv)
    options.output.mkdir(parents=True, exist_ok=True)
    train, test = (read_split(options.data, split) for split in ("train", "test"))
    train = [tree for tree in train if len(tree.words) <= options.longest]
    vocabulary = Vocabulary.from_trees(train, lowercase=False, min_count=2)
    tags = sorted({tag for tree in [*train, *test] for tag in tree.upos})
    (words, known), (test_words, test_known) = (
        encode(trees, vocabulary, tags) for trees in (train, test)
    )
    lengths = np.sum(test_known >= 0, axis=1, dtype=np.int32)
    without = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    runs: list[Run] = []
    for seed in options.seeds:
        runs.append({})
        for name in ("no chain", "chain"):
            keras.utils.set_random_seed(seed)
            chain, start = LinearChain(len(tags)), time.perf_counter()
            chain.trainable = name == "chain"  # Otherwise it scores all pairs with 0.
            hidden = keras.layers.Conv1D(
                options.units, options.window, padding="same", activation="relu"
            )
            layers = [keras.layers.Embedding(len(vocabulary), options.units), hidden]
            model = keras.Sequential([*layers, keras.layers.Dense(len(tags)), chain])
            model.compile("adam", chain.loss if name == "chain" else without)
            model.fit(words, known, batch_size=32, epochs=options.epochs, verbose=2)
            minutes = (time.perf_counter() - start) / 60
            found = chain.decode(model(test_words), lengths)
            right = float(100 * np.mean((found == test_known)[test_known >= 0]))
            runs[-1][name] = {"right tags, %": right, "minutes": minutes}
    draw_transitions(chain.transitions.numpy(), tags, options.output / "transitions.png")
    report(runs, options.output)
    return runs


if __name__ == "__main__":
    main()
