"""A model as files, one for Keras and one for serving, which are loaded again and compared."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from exporting import call, export


def save_and_export(
    model: keras.Model,
    inputs: Sequence[Any],
    folder: Path,
    answer: Callable[..., Any] = call,
    signature: Sequence[Any] | None = None,
) -> None:
    """Writes `model.keras` and `export`, loads both, and prints how far their answers differ.

    Args:
        model: of a class that Keras can load.
        inputs: to compare answers for.
        folder: where the files go.
        answer: a function of the model and its inputs, which the export serves.
        signature: the types of the inputs; by default arrays like these, of any length.

    Raises:
        ValueError: if an answer differs from the model's.
    """
    if signature is None:
        signature = [tf.TensorSpec([None, *array.shape[1:]], array.dtype) for array in inputs]
    expected = np.asarray(answer(model, *inputs), float)
    model.save(folder / "model.keras")
    export(model, signature, folder / "export", answer)
    loaded = keras.models.load_model(folder / "model.keras", compile=False)
    served = tf.saved_model.load(folder / "export")
    found = {"saved": answer(loaded, *inputs), "exported": served.serve(*inputs)}
    for name, values in found.items():
        difference = np.max(np.abs(np.asarray(values, float) - expected))
        if not np.allclose(values, expected, rtol=1e-4, atol=1e-4):
            raise ValueError(f"The {name} model differs by {difference:.1e} from the trained one.")
        print(f"The {name} model differs by {difference:.1e} from the trained one.")
