"""TensorFlow, level by level: one `tf.while_loop` over depths, all inner nodes of one in a step.

The waves of kerasrec, written by hand for this model, with orders made in NumPy: no recursion.
"""

import numpy as np

from benchmarks.baselines.iterative import Iterative


class TensorFlowLevels(Iterative):
    def steps(self, batch):
        """Tree and number of each inner node, and the step that computes it, deepest first."""
        levels = []
        tree, node = np.arange(batch.num_trees), np.zeros(batch.num_trees, np.int64)
        while len(tree):
            is_inner = batch.children[tree, node, 0] >= 0
            tree, node = tree[is_inner], node[is_inner]
            levels.append((tree, node))
            tree, node = np.repeat(tree, 2), batch.children[tree, node].reshape(-1)
        levels = levels[-2::-1]  # The last level has no inner node.
        sizes = [len(tree) for tree, _ in levels]
        tree, node = (np.concatenate(numbers) for numbers in zip(*levels, strict=True))
        return tree, node, np.repeat(np.arange(len(levels)), sizes)
