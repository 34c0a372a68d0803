"""A chart over spans with a sum and with a maximum, against all binary trees, one by one."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from tests.memo.cases import at

_WORDS = 5


def _chart(total):
    @kerasrec.recursive(memo=True)
    def chart(spans, i, j):
        def split():
            rows = kerasrec.map_fn(
                lambda k: chart(spans, i, k) + chart(spans, k, j), tf.ragged.range(i + 1, j)
            )
            return total(rows.to_tensor(-np.inf), axis=1)

        below = kerasrec.cond(j - i < 2, lambda: tf.zeros([], tf.float64), split)
        return below + at(at(spans, i), j)

    return lambda spans: chart(spans, [0] * len(spans), [_WORDS] * len(spans))


def _trees(i, j):
    """The spans of each binary tree over words i .. j - 1."""
    if j - i < 2:
        return [[(i, j)]]
    return [
        [(i, j), *left, *right]
        for k in range(i + 1, j)
        for left in _trees(i, k)
        for right in _trees(k, j)
    ]


@pytest.fixture(name="spans")
def _spans():
    return np.random.default_rng(0).normal(size=[2, _WORDS + 1, _WORDS + 1])


def _scores(spans):
    """The score of each tree, and which spans it has."""
    masks = np.zeros([len(_trees(0, _WORDS)), _WORDS + 1, _WORDS + 1])
    for mask, tree in zip(masks, _trees(0, _WORDS), strict=True):
        for span in tree:
            mask[span] = 1.0
    return np.sum(masks * spans, axis=(1, 2)), masks


def _entropy(spans):
    scores, _ = _scores(spans)
    logs = scores - np.logaddexp.reduce(scores)
    return -np.sum(np.exp(logs) * logs)


def _with_gradient(function, spans):
    tensor = tf.constant(spans)
    with tf.GradientTape() as tape:
        tape.watch(tensor)
        found = function(tensor)
    return found, tape.gradient(found, tensor)


@pytest.mark.many
def test_a_sum_gives_marginals(spans):
    found, gradient = _with_gradient(_chart(tf.reduce_logsumexp), spans)
    for place, one in enumerate(spans):
        scores, masks = _scores(one)
        total = np.logaddexp.reduce(scores)
        np.testing.assert_allclose(found[place], total)
        marginals = np.tensordot(np.exp(scores - total), masks, 1)
        np.testing.assert_allclose(gradient[place], marginals, atol=1e-12)


@pytest.mark.slow
def test_a_maximum_gives_the_best_tree(spans):
    found, gradient = _with_gradient(_chart(tf.reduce_max), spans)
    for place, one in enumerate(spans):
        scores, masks = _scores(one)
        np.testing.assert_allclose(found[place], scores.max())
        np.testing.assert_array_equal(gradient[place], masks[scores.argmax()])


@pytest.mark.slow
def test_the_entropy_has_a_gradient(spans):
    """It takes a gradient of the marginals, a second derivative."""
    chart = _chart(tf.reduce_logsumexp)

    def entropy(tensor):
        total, marginals = _with_gradient(chart, tensor)
        return total - tf.reduce_sum(marginals * tensor, axis=[1, 2])

    found, gradient = _with_gradient(entropy, spans)
    np.testing.assert_allclose(found, [_entropy(one) for one in spans])
    for place, one in enumerate(spans):
        for index in np.ndindex(one.shape):
            step = np.zeros_like(one)
            step[index] = 1e-6
            slope = (_entropy(one + step) - _entropy(one - step)) / 2e-6
            assert gradient[place].numpy()[index] == pytest.approx(slope, abs=1e-7)
