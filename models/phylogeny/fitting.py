"""Fits a `Phylogeny` to an alignment, and climbs from tree to tree."""

from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

from kerasrec.datasets import NewickTree
from phylogeny.alignments import Alignment
from phylogeny.tree_likelihood import NegativeLogLikelihood, Phylogeny
from phylogeny.unrooted_trees import as_arrays, interchanges

# The least length of a branch at the start of a fit; the logarithm of 0 could not grow.
SHORTEST = 1e-4
# Of an interchange that is taken, in nats; trees with a branch of no length may be equal.
LEAST_GAIN = 0.01


def totals(model: Phylogeny, alignment: Alignment) -> np.ndarray:
    """float64 `[trees]`: log-likelihoods of the whole alignment."""
    return alignment.counts @ model.predict_on_batch(alignment.columns)


def fit(model: Phylogeny, alignment: Alignment, steps: int, rate: float) -> np.ndarray:
    """Fits all that is trained, by Adam with a rate that falls to 0, and returns `totals`.

    The next fit of the model has the same optimizer and graph.
    """
    if not model.compiled:
        schedule = keras.optimizers.schedules.CosineDecay(rate, steps)
        optimizer = keras.optimizers.Adam(schedule)
        model.compile(optimizer, NegativeLogLikelihood(), jit_compile=False)
    for variable in model.optimizer.variables:
        variable.assign(tf.zeros_like(variable))
    no_targets = np.zeros([len(alignment.counts), 1])
    data = tf.data.Dataset.from_tensors((alignment.columns, no_targets, alignment.counts))
    model.fit(data.repeat(steps), shuffle=False, verbose=0)
    return totals(model, alignment)


def start(model: Phylogeny, tree: NewickTree, alignment: Alignment) -> float:
    """Sets the likeliest scale of lengths for a model of one tree, and the counted frequencies.

    Lengths may be in years; the scale is a power of the root of 10. Returns the log-likelihood.
    """
    if model.substitution.general:
        model.substitution.logits.assign(np.log(alignment.frequencies))
    found = {}
    for scale in 10.0 ** np.arange(-5.0, 1.0, 0.5):
        model.assign([as_arrays(tree, alignment.taxa, scale, SHORTEST)])
        found[scale] = totals(model, alignment)[0]
    best = max(found, key=found.__getitem__)
    model.assign([as_arrays(tree, alignment.taxa, best, SHORTEST)])
    return found[best]


def climb(
    model: Phylogeny, tree: NewickTree, alignment: Alignment, steps: int, rate: float
) -> Iterator[tuple[NewickTree, float, int]]:
    """Repeats the best nearest-neighbor interchange until no tree is better.

    All lengths of the tree and of all its neighbors are fitted, as many trees at once as the model
    has.

    Yields:
        The tree with its lengths, its log-likelihood, and the number of trees fitted to find it.
    """
    while True:
        trees, found = [tree, *interchanges(tree)], []
        for first in range(0, len(trees), model.num_trees):
            some = trees[first : first + model.num_trees]
            arrays = [as_arrays(one, alignment.taxa, shortest=SHORTEST) for one in some]
            model.assign(arrays + arrays[-1:] * (model.num_trees - len(some)))
            of_some = fit(model, alignment, steps, rate).tolist()
            lengths = model.lengths.numpy()
            for one, array, total, row in zip(some, arrays, of_some, lengths, strict=False):
                found.append((total, array.fitted(one, row)))
        best = max(found, key=lambda one: one[0])
        is_better = best[0] > found[0][0] + LEAST_GAIN
        total, tree = best if is_better else found[0]
        yield tree, total, len(trees)
        if not is_better:
            return
