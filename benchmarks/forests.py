"""Batches for the sections that choose their trees by size and form.

They are called in a separate process, so that the command itself loads no TensorFlow.
"""

import numpy as np

from benchmarks.trees import (
    NUM_WORDS,
    chain,
    complete_tree,
    count_table,
    count_words,
    describe,
    height,
    make_batches,
    random_trees,
    read_trees,
    tree_of_splits,
)

# Few long trees are as random ones are.
NUM_RANDOM_TREES = 4000
# Of the words below an inner node, those on its left.
SPLITS = {
    "balanced": lambda words: words // 2,
    "moderate": lambda words: max(1, words // 4),
    "linear": lambda words: words - 1,
}
# Of the number of a size, from zero: a form of trees, their levels, and how many are a batch.
GROWTHS = {
    "more trees": lambda number: (complete_tree, 8, 2**number),
    "deeper trees": lambda number: (chain, 8 * 2**number, 16),
    "one tree": lambda number: (complete_tree, 2 + number, 1),
}


def compared():
    """A batch that all must agree on before they are timed."""
    return make_batches(random_trees(10), 10)[0]


def of_lengths(directory, lengths, batch_sizes, num_trees):
    """Batches of the trees that are nearest in number of words to each length.

    Args:
        directory: where `train.txt` is; None for random trees.
        lengths: numbers of words.
        batch_sizes: trees per batch.
        num_trees: of each length, or one batch, if that is more.

    Returns:
        A description, rows of the table of words, and groups: `batch`, `words` on average and
        `words of each` batch; batches.
    """
    trees = read_trees(directory) if directory else random_trees(NUM_RANDOM_TREES)
    words = np.array([count_words(tree) for tree in trees])
    groups = []
    for size in batch_sizes:
        for length in lengths:
            nearest = np.argsort(np.abs(words - length), kind="stable")[: max(num_trees, size)]
            batches = make_batches([trees[number] for number in nearest], size)
            of_each = [batch.is_leaf.sum() / size for batch in batches]
            what = {
                "batch": size,
                "words": float(np.mean(of_each)),
                "words of each": list(map(float, of_each)),
            }
            groups.append((what, batches))
    return describe(trees), count_table(trees), groups


def of_shapes(num_words, batch_sizes, num_trees):
    """Batches of trees of equal size and of each form of `SPLITS`, other words in each tree.

    Returns:
        A description, rows of the table of words, and groups: `batch`, `shape`, `levels`;
        batches.
    """
    groups = []
    for shape, split in SPLITS.items():
        for size in batch_sizes:
            rng = np.random.default_rng(0)
            trees = [tree_of_splits(num_words, split, rng) for _ in range(max(num_trees, size))]
            what = {"batch": size, "shape": shape, "levels": height(trees[0])}
            groups.append((what, make_batches(trees, size)))
    return {"words": num_words, "tree nodes": 2 * num_words - 1}, NUM_WORDS, groups


def growing(num_sizes):
    """For each of `GROWTHS` a batch of each size, other words in each tree.

    Returns:
        A description, rows of the table of words, and groups: `growth`, `batch`, `levels`,
        `nodes`; batches.
    """
    groups = []
    for growth, sized in GROWTHS.items():
        for number in range(num_sizes):
            make, levels, size = sized(number)
            (batch,) = make_batches([make(levels, seed) for seed in range(size)], size)
            what = {"batch": size, "levels": levels, "nodes": batch.num_nodes}
            groups.append(({"growth": growth, **what}, [batch]))
    return {}, NUM_WORDS, groups
