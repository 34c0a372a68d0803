"""A random tree with sequences at its leaves, and their likelihood by NumPy."""

from typing import NamedTuple

import numpy as np

NUM_STATES = 4
MEAN_LENGTH = 0.1
# The step of finite differences, as a fraction of each branch length.
STEP = 1e-5


class Case(NamedTuple):
    """A tree; leaves are its first nodes, and a node comes after its children.

    Attributes:
        children: int32 `[nodes, 2]`, -1 at leaves; the root is the last node.
        states: int `[taxa, sites]`, 0 to 3, as observed at the leaves.
        lengths: float64 `[nodes]`, of the branch above each node, in expected changes per site.
            That above the root changes nothing.
    """

    children: np.ndarray
    states: np.ndarray
    lengths: np.ndarray

    batch = 1
    has_gradient = True

    @property
    def num_taxa(self):
        return len(self.states)

    @property
    def key(self):
        return self.states.shape

    @property
    def observed(self):
        """float64 `[taxa, 4, sites]`, 1 for the state that was observed, otherwise 0."""
        return np.eye(NUM_STATES)[self.states].transpose(0, 2, 1)

    def weights(self, shared):
        """The arguments that have gradients, by name."""
        return shared


def make_case(num_taxa, num_sites, seed=0):
    """A tree whose nodes were joined two at a time at random, and sequences evolved along it."""
    rng = np.random.default_rng(seed)
    num_nodes = 2 * num_taxa - 1
    children, loose = np.full([num_nodes, 2], -1, np.int32), list(range(num_taxa))
    for node in range(num_taxa, num_nodes):
        first, second = sorted(rng.choice(len(loose), 2, replace=False))
        children[node] = loose[first], loose.pop(second)
        loose[first] = node
    lengths = rng.exponential(MEAN_LENGTH, num_nodes)
    states = rng.integers(NUM_STATES, size=[num_nodes, num_sites])
    for node in reversed(range(num_taxa, num_nodes)):
        for child in children[node]:
            is_kept = rng.random(num_sites) < _kept(lengths[child])
            states[child] = np.where(is_kept, states[node], states[child])
    return Case(children, states[:num_taxa], lengths)


def levels(children):
    """Inner nodes by height: for each from 1 up, which they are; children are below."""
    heights = np.zeros(len(children), int)
    for node, row in enumerate(children):
        if row[0] >= 0:
            heights[node] = 1 + heights[row].max()
    return [np.flatnonzero(heights == height) for height in range(1, heights.max() + 1)]


def log_likelihoods(case, lengths):
    """float64 `[sites]`, by the pruning recursion of Felsenstein (1981), model of JC69.

    Matrices of transition probabilities multiply the likelihoods `[4, sites]` of the states below a
    node, which are divided by their largest; logarithms of the divisors are summed.
    """
    below, logs = list(case.observed), 0.0
    for first, second in case.children[case.num_taxa :]:
        product = (
            _matrix(lengths[first]) @ below[first] * (_matrix(lengths[second]) @ below[second])
        )
        largest = product.max(0)
        below.append(product / largest)
        logs += np.log(largest)
    return logs + np.log(below[-1].mean(0))


def derivative(case, direction):
    """Of the sum over sites, along a direction `[nodes]` in lengths: a difference."""
    above, beneath = (
        log_likelihoods(case, case.lengths + step * direction).sum() for step in (STEP, -STEP)
    )
    return (above - beneath) / (2 * STEP)


def _kept(length):
    """Probability that no event draws a new state along a branch (Jukes and Cantor 1969)."""
    return np.exp(-NUM_STATES / (NUM_STATES - 1) * length)


def _matrix(length):
    """Transition probabilities `[4, 4]`: an event draws each state with equal chance."""
    kept = _kept(length)
    return kept * np.eye(NUM_STATES) + (1 - kept) / NUM_STATES
