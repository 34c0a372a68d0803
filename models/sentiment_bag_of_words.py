"""Sentiment of sentences from their words alone: the baseline that a tree model has to beat.

    python models/sentiment_bag_of_words.py
    python models/sentiment_bag_of_words.py --data path/to/trees --epochs 30

The embeddings of a sentence's words are averaged, and a hidden layer classifies the average; the
epoch with the best dev accuracy counts. Order and structure are not seen. Trained on the labels of
whole sentences (Socher et al. 2013, section 5, compare with such models).
"""

import argparse
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from kerasrec.datasets import Treebank, load_treebank

DATA = Path(__file__).resolve().parents[1] / "data" / "treebank"
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


def sentences(treebank: Treebank, split: str, shuffle: bool = False) -> tf.data.Dataset:
    """Gives `(tokens, label)` of whole sentences: the tokens of inner tree nodes are padding."""
    batches = treebank.batches(split, 32, shuffle=shuffle)
    return batches.map(lambda inputs, labels: (inputs[0], labels[:, 0]))


def accuracies(model: keras.Model, batches: tf.data.Dataset) -> tuple[float, float]:
    """Returns the accuracy over five classes, and over two with neutral sentences left out."""
    probabilities = model.predict(batches, verbose=0)
    labels = np.concatenate([labels for _, labels in batches.as_numpy_iterator()])
    five = np.mean(probabilities.argmax(axis=1) == labels)
    says_positive = probabilities[:, 3:].sum(axis=1) > probabilities[:, :2].sum(axis=1)
    polar = labels != NEUTRAL
    two = np.mean((says_positive == (labels > NEUTRAL))[polar])
    return float(five), float(two)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA, help="directory of train, dev, test.txt")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    keras.utils.set_random_seed(arguments.seed)
    treebank = load_treebank(arguments.data)
    model = build_model(len(treebank.vocabulary), treebank.num_classes)
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    best = keras.callbacks.EarlyStopping(
        "val_accuracy", patience=arguments.epochs, restore_best_weights=True
    )
    model.fit(
        sentences(treebank, "train", shuffle=True),
        validation_data=sentences(treebank, "dev"),
        epochs=arguments.epochs,
        callbacks=[best],
        verbose=2,
    )
    print("split  five classes  two classes")
    for split in ("dev", "test"):
        five, two = accuracies(model, sentences(treebank, split))
        print(f"{split:5}  {five:12.1%}  {two:11.1%}")


if __name__ == "__main__":
    main()
