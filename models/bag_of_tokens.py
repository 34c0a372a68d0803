"""A bag of the tokens of Python functions, for comparison: it does not see their structure."""

import ast
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from standard_library import Labeled


def bag_of_tokens(
    train: Sequence[Labeled], test: Sequence[Labeled], seed: int
) -> tuple[keras.Model, tf.data.Dataset, tf.data.Dataset]:
    """A model with a hidden layer, and batches to train and to test it on.

    Inputs are counts of tokens, weighed by tf-idf.

    Args:
        train: functions with their labels.
        test: others.
        seed: of the order to train in.
    """
    words = keras.layers.TextVectorization(10_000, output_mode="tf_idf", split=split_tokens)
    words.adapt([ast.unparse(tree) for tree, _ in train])

    def data(part: Sequence[Labeled]) -> tf.data.Dataset:
        inputs = words([ast.unparse(tree) for tree, _ in part])
        return tf.data.Dataset.from_tensor_slices((inputs, [int(label) for _, label in part]))

    model = keras.Sequential([keras.layers.Dense(64, "relu"), keras.layers.Dense(2)])
    return model, data(train).shuffle(len(train), seed).batch(16), data(test).batch(64)


@keras.saving.register_keras_serializable("models")
def split_tokens(sources: Any) -> Any:
    """Words, and every other sign by itself."""
    return tf.strings.split(tf.strings.regex_replace(sources, r"(\W)", r" \1 "))
