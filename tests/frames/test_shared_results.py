"""Branches that return what all tokens share: buffers of results begin with it."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.frames.rows_xla.layout import MaskedLayout
from tests.frames.helpers import never_by_waves
from tests.parameters import few_of

NUMBERS = [0, 1, 2, 5, 6, 1]
FIRST, SECOND = tf.Variable([0.5, 2.0]), tf.Variable([1.5, -0.5])


def of_two(n):
    """Two branches return a weight each, and one what two calls have returned."""
    inner = [lambda: FIRST, lambda: 2.0 * SECOND, lambda: of_two(n - 1) * tf.sin(of_two(n - 2))]
    return inner[min(n, 2)]()


def handed_on(n):
    """All but two branches are tail calls."""
    return [lambda: FIRST, lambda: 2.0 * SECOND, lambda: handed_on(n - 2)][min(n, 2)]()


def recursive(plain, **options):
    """The same function for kerasrec."""

    @kerasrec.recursive(engine="compiled", **options)
    def found(n):
        def inner():
            if plain is of_two:
                return found(n - 1) * tf.sin(found(n - 2))
            return found(n - 2)

        kinds = [lambda: tf.identity(FIRST), lambda: 2.0 * SECOND, inner]
        return kerasrec.switch(tf.minimum(n, 2), kinds)

    return found


@pytest.mark.parametrize(
    "plain, options",
    few_of(
        itertools.product([of_two, handed_on], [{}, {"memo": True}, {"recompute": True}]),
        (of_two, {}),
        many=[(handed_on, {})],
    ),
)
def test_shared_results_and_others_in_one_buffer(plain, options):
    function, weights = recursive(plain, **options), [FIRST, SECOND]
    schedule = function.execution_plan(NUMBERS).schedule
    assert len(MaskedLayout(schedule).shared_results) == 1  # Of two such branches.
    with never_by_waves(), tf.GradientTape() as tape:
        values = function(NUMBERS)
        loss = tf.reduce_sum(tf.square(values))
    with tf.GradientTape() as plain_tape:
        expected = tf.stack([plain(n) for n in NUMBERS])
        plain_loss = tf.reduce_sum(tf.square(expected))
    np.testing.assert_allclose(values, expected, rtol=1e-6)
    found, wanted = tape.gradient(loss, weights), plain_tape.gradient(plain_loss, weights)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
