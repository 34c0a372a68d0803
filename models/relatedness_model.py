"""The model of Tai, Socher and Manning 2015, section 4.2: how related two sentences are."""

from typing import Any

import keras
import numpy as np

from kerasrec.layers import ChildSumTreeLSTM


def build_model(
    matrix: np.ndarray, num_scores: int = 5, units: int = 150, l2: float = 1e-4
) -> keras.Model:
    """Builds two sentences -> their roots -> a distribution over the scores.

    Args:
        matrix: of word vectors, float32 `[words, dim]`.
        num_scores: that have a probability.
        units: of a sentence.
        l2: of all kernels.
    """
    options = {"kernel_regularizer": keras.regularizers.L2(l2 / 2)}
    embedding = keras.layers.Embedding(*matrix.shape, weights=[matrix], name="embedding")
    layer = ChildSumTreeLSTM(units, recurrent_regularizer=options["kernel_regularizer"], **options)
    inputs = [keras.Input(shape, dtype="int32") for shape in ([None], [None, None]) * 2]
    left, right = (layer(embedding(inputs[at]), inputs[at + 1]) for at in (0, 2))
    return keras.Model(inputs, compare(left, right, num_scores, **options))


def compare(left: Any, right: Any, num_scores: int, dropout: float = 0.0, **options: Any) -> Any:
    """From two sentences `[batch, units]` to a distribution over the scores `[batch, scores]`."""
    both = keras.layers.concatenate([left * right, keras.ops.abs(left - right)])
    both = keras.layers.Dropout(dropout)(both)
    hidden = keras.layers.Dense(50, "sigmoid", **options)(both)
    return keras.layers.Dense(num_scores, "softmax", **options)(hidden)
