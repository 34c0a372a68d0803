"""Gradients that are accumulated over several steps, on two replicas and on one."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.datasets import tree_batches
from kerasrec.training import OptimizerPerLayer, TreeCrossentropy, fit
from tests.parameters import few_of
from tests.training.strategies import assert_same, make_model, random_trees, trained

pytestmark = pytest.mark.usefixtures("optimized")


ACCUMULATING = {
    "adam": lambda: keras.optimizers.Adam(0.1, gradient_accumulation_steps=2),
    "clipped": lambda: keras.optimizers.SGD(
        0.1, gradient_accumulation_steps=4, global_clipnorm=0.01
    ),
}


@pytest.mark.parametrize("name", few_of(ACCUMULATING, many=[]))
def test_two_replicas_accumulate_as_one_device(two_replicas, name):
    """Of nine steps the last move no weights, and steps of one epoch go into the next."""
    make = ACCUMULATING[name]
    expected = trained(tf.distribute.get_strategy(), optimizer=make(), recursive=False)
    with two_replicas.scope():
        optimizer = make()
    assert_same(trained(two_replicas, optimizer=optimizer, recursive=False), expected)


@pytest.mark.slow
def test_accumulated_gradients_go_on_in_the_next_fit(two_replicas):
    found = []
    for strategy in (tf.distribute.get_strategy(), two_replicas):
        with strategy.scope():
            adam = keras.optimizers.Adam(0.1, gradient_accumulation_steps=2)
            model = make_model(TreeCrossentropy(), adam, recursive=False)
        for _ in range(2):
            fit(model, tree_batches(random_trees(19, seed=1), 7), verbose=0)
        found.append(model.get_weights())
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, 1e-5, 1e-6)


@pytest.mark.parametrize(
    "make, reason",
    [
        (
            lambda: OptimizerPerLayer(
                keras.optimizers.SGD(gradient_accumulation_steps=2), {"inner": "sgd"}
            ),
            "inside of 'optimizer_per_layer' has gradient_accumulation_steps",
        ),
        (lambda: keras.optimizers.SGD(gradient_accumulation_steps=2, use_ema=True), "and use_ema"),
        (
            lambda: keras.optimizers.SGD(
                keras.optimizers.schedules.InverseTimeDecay(0.1, 1, 1),
                gradient_accumulation_steps=2,
            ),
            "a schedule of learning rates",
        ),
    ],
)
def test_accumulation_that_replicas_cannot_follow(two_replicas, make, reason):
    with two_replicas.scope():
        model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1, name="inner")])
        model.compile(make(), "mse")
    with pytest.raises(ValueError, match=reason):
        fit(model, tf.data.Dataset.from_tensors((np.zeros([2, 2]), np.zeros([2, 1]))))


@pytest.mark.slow
def test_accumulates_as_keras_does():
    data = tree_batches(random_trees(19, seed=1), 7)
    histories = []
    for train in fit, lambda model, *args, **kwargs: model.fit(*args, shuffle=False, **kwargs):
        sgd = keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)
        model = make_model(TreeCrossentropy(), sgd, recursive=False)
        histories.append(train(model, data, epochs=3, verbose=0).history)
    for name in histories[1]:
        np.testing.assert_allclose(histories[0][name], histories[1][name], 1e-5)
