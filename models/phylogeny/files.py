"""A fitted phylogeny as files: the Keras model, an export, and a picture."""

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from kerasrec.datasets import NewickTree
from phylogeny.alignments import Alignment
from phylogeny.picture import draw
from phylogeny.tree_likelihood import Phylogeny
from phylogeny.unrooted_trees import as_arrays


def write_files(model: Phylogeny, tree: NewickTree, alignment: Alignment, folder: Path) -> None:
    """Writes `model.keras`, `export/` and `tree.png`; checks that loaded ones compute the same.

    The export takes the same number of columns, int32 `[columns, taxa]`, and any branch lengths,
    float64 `[1, nodes]`.

    Args:
        model: of one tree.
        tree: the model's.
        alignment: its columns test loaded models, and its taxa are the names.
        folder: made if it does not exist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model.save(folder / "model.keras")
    archive = keras.export.ExportArchive()
    archive.track(model)
    specs = [
        tf.TensorSpec(alignment.columns.shape, tf.int32, "columns"),
        tf.TensorSpec(model.log_lengths.shape, tf.float64, "lengths"),
    ]
    archive.add_endpoint("log_likelihoods", model.log_likelihoods, specs)
    archive.write_out(folder / "export", verbose=False)

    loaded = keras.models.load_model(folder / "model.keras")
    served = tf.saved_model.load(folder / "export")
    wanted = model.predict_on_batch(alignment.columns)
    for found in (
        loaded.predict_on_batch(alignment.columns),
        served.log_likelihoods(alignment.columns, model.lengths).numpy(),
    ):
        if not np.allclose(found, wanted, rtol=1e-9, atol=1e-9):
            raise RuntimeError(
                "The likelihoods of the loaded model differ from those of the saved one."
            )
    arrays = as_arrays(tree, alignment.taxa)
    total = alignment.counts @ wanted[:, 0]
    fitted = arrays.fitted(tree, model.lengths.numpy()[0])
    title = f"{folder.parent.name}, {folder.name}: log-likelihood {total:,.1f}"
    draw(fitted, title, folder / "tree.png")
