"""Batches of a whole treebank, for training and for measuring accuracy."""

from benchmarks.trees import describe, make_batches
from kerasrec.datasets import load_treebank


class Epochs:
    """A treebank.

    Args:
        directory: where `train.txt` and `dev.txt` are, in SST's format.
    """

    def __init__(self, directory):
        self._treebank = load_treebank(directory)

    def train(self, batch_size, seed):
        """Batches of all training trees but a few left over, shuffled by a seed."""
        trees = self._treebank.encoded("train")
        return make_batches(trees, batch_size, shuffle=True, seed=seed)

    def dev(self):
        return make_batches(self._treebank.encoded("dev"), 100, drop_remainder=False)

    def num_words(self):
        """Rows of a table of words."""
        return len(self._treebank.vocabulary)

    def description(self):
        return describe(self._treebank.encoded("train"))
