"""Sentiment of sentences from only their words: the baseline that a tree model has to beat.

    python models/sentiment_bag_of_words.py
    python models/sentiment_bag_of_words.py --data path/to/trees --seeds 1 2 3

The embeddings of a sentence's words are averaged, and a hidden layer classifies the average; the
epoch with the best dev accuracy counts. Order and structure are not seen. Trained on the labels of
whole sentences (Socher et al. 2013, section 5, compare with such models).
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import sentiment
from kerasrec.datasets import Treebank, load_treebank

NEUTRAL = 2


def build_model(vocabulary_size: int, num_classes: int) -> keras.Model:
    """Takes tokens int32 `[batch, words]`, 0 = none; gives class probabilities."""
    return keras.Sequential(
        [
            keras.layers.Embedding(vocabulary_size, 64, mask_zero=True),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(num_classes, activation="softmax"),
        ]
    )


def sentences(treebank: Treebank, split: str, seed: int | None = None) -> tf.data.Dataset:
    """Gives `(tokens, label)` of whole sentences: the tokens of inner tree nodes are padding.

    A seed shuffles them.
    """
    batches = treebank.batches(split, 32, shuffle=seed is not None, seed=seed, bucket_by_size=True)
    return batches.map(lambda inputs, labels: (inputs[0], labels[:, 0]))


def accuracies(model: keras.Model, batches: tf.data.Dataset) -> dict[str, float]:
    """Returns the accuracy over five classes, and over two with neutral sentences left out."""
    probabilities = model.predict(batches, verbose=0)
    labels = np.concatenate([labels for _, labels in batches.as_numpy_iterator()])
    five = np.mean(probabilities.argmax(axis=1) == labels)
    says_positive = probabilities[:, 3:].sum(axis=1) > probabilities[:, :2].sum(axis=1)
    polar = labels != NEUTRAL
    two = np.mean((says_positive == (labels > NEUTRAL))[polar])
    return {"root_accuracy": float(five), "binary_root_accuracy": float(two)}


def parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=sentiment.REPOSITORY / "data" / "treebank",
        help="directory with train.txt, dev.txt and test.txt, a bracketed tree per line",
    )
    parser.add_argument("--epochs", type=int, default=30, help="of training")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="a training run for each")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("runs/sentiment_bag_of_words"),
        help="directory for figures",
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> sentiment.Results:
    """Runs the recipe and returns its figures."""
    options = parse_options(argv)
    treebank = load_treebank(options.data)
    runs = []
    for seed in options.seeds:
        keras.utils.set_random_seed(seed)
        model = build_model(len(treebank.vocabulary), treebank.num_classes)
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        best = keras.callbacks.EarlyStopping(
            "val_accuracy", patience=options.epochs, restore_best_weights=True
        )
        start = time.perf_counter()
        history = model.fit(
            sentences(treebank, "train", seed),
            validation_data=sentences(treebank, "dev"),
            epochs=options.epochs,
            callbacks=[best],
            verbose=2,
        )
        minutes = (time.perf_counter() - start) / 60
        of_splits = {
            split: accuracies(model, sentences(treebank, split)) for split in ("dev", "test")
        }
        runs.append({"seed": seed, "minutes": minutes, "history": history.history, **of_splits})
    return sentiment.write_results(options, runs)


if __name__ == "__main__":
    main()
