"""`kerasrec.training.fit` against Keras' own fit, and under strategies against one device."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.datasets import tree_batches
from kerasrec.layers import TreeLSTM
from kerasrec.training import OptimizerPerLayer, TreeCrossentropy, evaluate, fit
from tests.parameters import few_of
from tests.training.strategies import (
    NUM_CLASSES,
    NUM_WORDS,
    assert_same,
    batches,
    make_model,
    random_trees,
    trained,
)

pytestmark = pytest.mark.usefixtures("optimized")

LOSSES = {
    "trees": lambda: TreeCrossentropy(),
    "nodes": lambda: TreeCrossentropy(normalize="nodes", class_weight={0: 2.0, 1: 0.5}),
}


OPTIMIZERS = {
    "clipnorm": lambda: keras.optimizers.Adam(0.01, clipnorm=0.01),
    "clipvalue": lambda: keras.optimizers.SGD(0.1, clipvalue=0.01),
    "global_clipnorm": lambda: keras.optimizers.SGD(0.1, global_clipnorm=0.1),
    "clip_per_layer": lambda: OptimizerPerLayer(
        keras.optimizers.SGD(0.1, clipnorm=0.1), {"embedding": keras.optimizers.Adam(0.01)}
    ),
    "clip_all_layers": lambda: OptimizerPerLayer(
        "sgd", {"embedding": keras.optimizers.SGD(0.1)}, global_clipnorm=0.1
    ),
}


@functools.cache
def trained_alone(loss="trees"):
    return trained(tf.distribute.get_strategy(), LOSSES[loss]())


@pytest.mark.parametrize("loss", few_of(LOSSES, many=[]))
def test_two_replicas_train_as_one(two_replicas, loss):
    assert_same(trained(two_replicas, LOSSES[loss]()), trained_alone(loss))


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_two_replicas_step_as_one(two_replicas, optimizer):
    """Clipped gradients are those of the whole batch."""

    def run(strategy):
        with strategy.scope():
            return trained(strategy, optimizer=OPTIMIZERS[optimizer](), recursive=False)

    assert_same(run(two_replicas), run(tf.distribute.get_strategy()))


@pytest.mark.slow
def test_two_replicas_of_half_precision_train_as_one(two_replicas):
    def run(strategy):
        keras.mixed_precision.set_global_policy("mixed_float16")
        try:
            return trained(strategy, optimizer="sgd", recursive=False)
        finally:
            keras.mixed_precision.set_global_policy("float32")

    # Parts of a batch round otherwise than the whole.
    assert_same(run(two_replicas), run(tf.distribute.get_strategy()), 2e-3)


@pytest.mark.slow
def test_two_replicas_train_any_keras_model_as_one(two_replicas):
    rng = np.random.default_rng(0)
    x, y, weight = rng.normal(size=(12, 3)), rng.normal(size=(12, 2)), rng.uniform(size=12)
    data = tf.data.Dataset.from_tensor_slices((x, y, weight)).batch(5)  # 3 and 2, then 1 and 1
    histories = []
    for strategy in two_replicas, tf.distribute.get_strategy():
        with strategy.scope():
            keras.utils.set_random_seed(0)
            model = keras.Sequential([keras.Input([3]), keras.layers.Dense(2)])
            model.compile(
                keras.optimizers.Adam(0.1), "mse", metrics=["mae"], weighted_metrics=["mse"]
            )
        histories.append(fit(model, data, epochs=3, verbose=0).history)
    for name, values in histories[1].items():
        np.testing.assert_allclose(histories[0][name], values, 1e-5, err_msg=name)


@pytest.mark.slow
def test_one_device_trains_as_none():
    one = tf.distribute.OneDeviceStrategy("CPU:1")
    assert_same(trained(one), trained_alone())


@pytest.mark.slow
def test_trains_as_keras_does():
    """With momentum, since other optimizers square each gradient of a repeated word separately."""
    momentum = [keras.optimizers.SGD(0.1, momentum=0.9) for _ in range(2)]
    ours, theirs = (make_model(TreeCrossentropy(), optimizer) for optimizer in momentum)
    theirs.optimizer.build(theirs.trainable_variables)  # or the step would be traced twice
    in_order = tree_batches(random_trees(19, seed=1), 7)
    expected = theirs.fit(in_order, epochs=3, verbose=0, shuffle=False).history
    found = fit(ours, in_order, epochs=3, verbose=0).history
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], 1e-5)
    for one, other in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, 1e-5, 1e-6)


@pytest.mark.slow
def test_several_steps_an_execution():
    one, several = (
        trained(tf.distribute.get_strategy(), steps_per_execution=steps, recursive=False)
        for steps in (1, 2)
    )
    assert_same(several, one)


@pytest.mark.slow
def test_evaluate_is_that_of_keras():
    model = make_model(TreeCrossentropy())
    data = tree_batches(random_trees(8, seed=2), 5)
    expected = model.evaluate(data, verbose=0, return_dict=True)
    found = evaluate(model, data)
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], 1e-6)


def test_needs_a_compiled_model_and_a_dataset():
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
    with pytest.raises(ValueError, match="not compiled"):
        fit(model, batches())
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match=r"`data` must be a tf\.data\.Dataset of batches"):
        fit(model, np.zeros([2, 2]))
    with pytest.raises(ValueError, match=r"`validation_data` must be a tf\.data\.Dataset"):
        fit(model, batches(), (np.zeros([2, 2]), np.zeros([2, 1])))
    with pytest.raises(ValueError, match=r"`data` has no end, .* data\.take\(steps\)"):
        fit(model, batches().repeat())


def test_must_be_compiled_in_the_scope(two_replicas):
    with two_replicas.scope():
        model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="made in the scope of a strategy, but compiled outside"):
        fit(model, tf.data.Dataset.from_tensors((np.zeros([2, 2]), np.zeros([2, 1]))))


def test_a_step_of_the_model_s_own_would_not_be_called():
    class Own(keras.Sequential):
        def train_step(self, data):
            return {}

    model = Own([keras.Input([2]), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="Own overrides train_step"):
        fit(model, tf.data.Dataset.from_tensors((np.zeros([2, 2]), np.zeros([2, 1]))))


@pytest.mark.slow
def test_a_subclassed_model_of_trees():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.embedding = keras.layers.Embedding(NUM_WORDS, 4)
            self.tree_lstm = TreeLSTM(5, return_sequences=True)
            self.dense = keras.layers.Dense(NUM_CLASSES)

        def call(self, inputs):
            tokens, children = inputs
            return self.dense(self.tree_lstm(self.embedding(tokens), children))

    model = Own()
    model.compile("adam", TreeCrossentropy())
    history = fit(model, batches(), epochs=2, verbose=0).history["loss"]
    assert history[1] < history[0]
