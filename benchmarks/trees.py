"""Binary trees with words at the leaves: random ones, read ones, and batches of either.

Trees are `kerasrec.datasets.EncodedTree`: arrays over their nodes in preorder, so node 0 is the
root and every child comes after its parent.
"""

from pathlib import Path

import numpy as np

from benchmarks.batch import NUM_CLASSES, Batch
from kerasrec.datasets import EncodedTree, Vocabulary, encode_tree, read_sst, tree_batches

NUM_WORDS = 18_000
MAX_WORDS = 56
NUM_TREES = 256
# Fewer could not be sorted by size, as training has them.
NUM_BATCHES = 4


def make_batches(trees, batch_size, **options):
    """Batches of trees of similar size, as in training, without those left over.

    `options` are those of `kerasrec.datasets.tree_batches`, such as `bucket_by_size=False`.
    """
    options = {"bucket_by_size": True, "drop_remainder": True, **options}
    batches = tree_batches(trees, batch_size, **options)
    return [Batch(*inputs, labels) for inputs, labels in batches.as_numpy_iterator()]


def random_trees(num_trees, seed=0):
    """Random trees as long and as high as the training trees of SST.

    Both distributions are fitted to its 8,544 training trees: 19.1 words per tree with a standard
    deviation of 9.3, at most 56, and 10.8 levels.
    """
    rng = np.random.default_rng(seed)

    def split(words):
        return 1 + min(int(rng.beta(0.27, 0.27) * (words - 1)), words - 2)

    trees = []
    while len(trees) < num_trees:
        num_words = round(rng.gamma(4.2, 4.56))
        if 2 <= num_words <= MAX_WORDS:
            trees.append(tree_of_splits(num_words, split, rng))
    return trees


def complete_tree(height, seed=0):
    """A tree of `2 ** height - 1` nodes."""
    return tree_of_splits(2 ** (height - 1), lambda words: words // 2, np.random.default_rng(seed))


def chain(height, seed=0):
    """A tree in which every right child is a leaf: `2 * height - 1` nodes."""
    return tree_of_splits(height, lambda words: words - 1, np.random.default_rng(seed))


def tree_of_splits(num_words, split, rng):
    """A tree built from the top down, `split(words)` of each inner node's words on the left."""
    children = []
    pending = [(num_words, None, None)]
    while pending:
        words, parent, side = pending.pop()
        node = len(children)
        children.append([-1, -1])
        if parent is not None:
            children[parent][side] = node
        if words > 1:
            left = split(words)
            pending += [(words - left, node, 1), (left, node, 0)]
    children = np.array(children, np.int32)
    tokens = rng.integers(1, NUM_WORDS, len(children))
    tokens = np.where(children[:, 0] < 0, tokens, 0).astype(np.int32)
    labels = rng.integers(0, NUM_CLASSES, len(children)).astype(np.int32)
    return EncodedTree(tokens, children, labels)


def read_trees(directory, num_trees=None, seed=0):
    """Chooses trees of `train.txt`, a file in SST's format, at random; all without a number."""
    trees = read_sst(Path(directory) / "train.txt", NUM_CLASSES)
    vocabulary = Vocabulary.from_trees(trees, lowercase=False)
    chosen = np.random.default_rng(seed).permutation(len(trees))[:num_trees]
    return [encode_tree(trees[i], vocabulary) for i in chosen]


class TreeSource:
    """Trees of one run: at least `NUM_TREES`, and `NUM_BATCHES` batches of each size.

    Args:
        directory: where `train.txt` is; None for random trees.
        largest_batch: trees of the largest batch.
        sorted_by_size: whether a batch has trees of similar size; otherwise they keep their order.
    """

    def __init__(self, directory, largest_batch, sorted_by_size=True):
        self._sorted_by_size = sorted_by_size
        num_trees = _num_trees(largest_batch)
        self._trees = read_trees(directory, num_trees) if directory else random_trees(num_trees)

    def batches(self, batch_size):
        trees = self._trees[: _num_trees(batch_size)]
        return make_batches(trees, batch_size, bucket_by_size=self._sorted_by_size)

    def num_words(self):
        """Rows of a table of words that these trees need."""
        return count_table(self._trees)

    def description(self):
        return describe(self._trees)


def _num_trees(batch_size):
    return max(NUM_TREES, NUM_BATCHES * batch_size)


def describe(trees):
    """How many, how long and how high."""
    words = [count_words(tree) for tree in trees]
    return {
        "trees": len(trees),
        "mean words": round(float(np.mean(words)), 1),
        "max words": max(words),
        "mean height": round(float(np.mean([height(tree) for tree in trees])), 1),
    }


def count_table(trees):
    """Rows of a table of words that trees need."""
    return max(NUM_WORDS, *(1 + int(tree.tokens.max()) for tree in trees))


def count_words(tree):
    """Leaves of a tree."""
    return int(np.sum(tree.children[:, 0] < 0))


def height(tree):
    """Levels of a tree, 1 for a lone leaf."""
    levels = np.ones(len(tree.tokens), np.int32)
    for node in reversed(range(len(levels))):
        if tree.children[node, 0] >= 0:
            levels[node] = 1 + levels[tree.children[node]].max()
    return int(levels[0])
