"""The Stanford Sentiment Treebank, with its trees, as a dataset of `tensorflow_datasets`.

It needs `pip install tensorflow-datasets importlib-resources`. Importing it registers the name
`sst_trees`:

    import kerasrec.datasets.sst_trees
    import tensorflow_datasets as tfds

    train = tfds.load("sst_trees/download", split="train")
"""

try:
    from kerasrec.datasets.sst_trees.sst_trees_dataset_builder import Builder
except ImportError as error:
    raise ImportError(
        f"kerasrec.datasets.sst_trees needs the package tensorflow-datasets ({error}): "
        "pip install tensorflow-datasets importlib-resources. Without it, load_treebank reads the "
        "same files."
    ) from error

__all__ = ["Builder"]
