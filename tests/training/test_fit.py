"""`kerasrec.training.fit` against Keras' own fit, and under strategies against one device."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec._src.training.batches import part_of
from kerasrec.datasets import tree_batches, tree_file_batches, write_tree_files
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
    reader,
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
}


@functools.cache
def trained_alone(loss="trees"):
    return trained(tf.distribute.get_strategy(), LOSSES[loss]())


@pytest.mark.parametrize("loss", few_of(LOSSES, many=[]))
def test_two_replicas_train_as_one(two_replicas, loss):
    assert_same(trained(two_replicas, LOSSES[loss]()), trained_alone(loss))


@pytest.mark.slow
def test_two_replicas_read_files_as_one(two_replicas, tmp_path):
    write_tree_files(random_trees(19, seed=1), tmp_path / "trees", num_files=2)
    read = reader(tmp_path / "trees")
    expected = trained(tf.distribute.get_strategy(), data=read)
    assert_same(trained(two_replicas, data=read), expected)


@pytest.mark.slow
def test_a_part_without_trees(two_replicas, tmp_path):
    """The last of ten groups of two has one tree, for one of the replicas."""
    write_tree_files(random_trees(19, seed=1), tmp_path / "trees", num_files=2)

    def read(context):
        return tree_file_batches(tmp_path / "trees", 2, input_context=context)

    expected = trained(tf.distribute.get_strategy(), data=read, recursive=False)
    assert_same(trained(two_replicas, data=read, recursive=False), expected)


def test_readers_that_cannot_be_used(two_replicas):
    with two_replicas.scope():
        model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    one = tf.data.Dataset.from_tensors((np.zeros([2, 2]), np.zeros([2, 1])))
    with pytest.raises(ValueError, match=r"or a function of a tf\.distribute\.InputContext"):
        fit(model, lambda: one)
    with pytest.raises(ValueError, match="has 1 parts of its last batch for 2 replicas"):
        fit(model, lambda context: one.repeat(3), verbose=0)


def test_parts_of_a_sorted_batch_are_alike():
    """Largest part against the mean, in trees and tree nodes."""
    sizes = np.sort(np.random.default_rng(0).integers(1, 50, 66))
    for number in (2, 8):
        parts = [part_of(tf.constant(sizes), part, number).numpy() for part in range(number)]
        assert sorted(np.concatenate(parts)) == sizes.tolist()
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        assert max(map(sum, parts)) - min(map(sum, parts)) <= sizes[-1]


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


class Seen(keras.callbacks.Callback):
    """Notes what it is called with."""

    def __init__(self):
        super().__init__()
        self.batches, self.epochs = [], []

    def on_train_batch_end(self, batch, logs=None):
        self.batches.append((batch, sorted(logs)))

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append((epoch, sorted(logs)))


@pytest.mark.slow
def test_callbacks(tmp_path):
    model, seen = make_model(TreeCrossentropy(), steps_per_execution=2), Seen()
    callbacks = [
        seen,
        keras.callbacks.CSVLogger(tmp_path / "log.csv"),
        keras.callbacks.ModelCheckpoint(
            tmp_path / "epoch_{epoch}.weights.h5", save_weights_only=True
        ),
        keras.callbacks.TerminateOnNaN(),
    ]
    fit(model, batches(), batches(), epochs=2, callbacks=callbacks, verbose=0)
    metrics = ["loss", "node_accuracy"]
    assert seen.batches == [(1, metrics), (2, metrics)] * 2
    assert seen.epochs == [(epoch, [*metrics, "val_loss", "val_node_accuracy"]) for epoch in (0, 1)]
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 3
    assert (tmp_path / "epoch_2.weights.h5").exists()


@pytest.mark.slow
def test_early_stopping_ends_training():
    model = make_model(TreeCrossentropy(), keras.optimizers.SGD(0.0))
    stop = keras.callbacks.EarlyStopping("loss", patience=1)
    history = fit(model, batches(), epochs=9, callbacks=[stop], verbose=0)
    assert len(history.history["loss"]) == 2


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


def regression(layers, loss, strategy, batch_size=4, **compiled):
    """History and weights of a model of one input, on 9 examples: the last batch has one."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(9, 3)).astype("float32"), rng.normal(size=(9, 2)).astype("float32")
    with strategy.scope():
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input([3]), *layers()])
        model.compile(keras.optimizers.SGD(0.1), loss, **compiled)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch_size)
    return fit(model, data, epochs=2, verbose=0).history, model.get_weights()


def dense():
    return [keras.layers.Dense(2)]


@pytest.mark.slow
def test_a_replica_without_examples_changes_nothing(two_replicas):
    """What it computes of none may be no number."""
    _, weights = regression(
        lambda: [keras.layers.BatchNormalization(), *dense()], "mse", two_replicas
    )
    for weight in weights[:2]:  # scale and offset
        assert np.isfinite(weight).all()


@pytest.mark.many
@pytest.mark.parametrize(
    "loss", [keras.losses.MeanSquaredError("sum"), keras.losses.mean_squared_error]
)
def test_sums_and_functions_are_losses_of_the_whole_batch(two_replicas, loss):
    found = regression(dense, loss, two_replicas, metrics=[keras.metrics.R2Score(None)])
    expected = regression(
        dense, loss, tf.distribute.get_strategy(), metrics=[keras.metrics.R2Score(None)]
    )
    np.testing.assert_allclose(found[0]["loss"], expected[0]["loss"], 1e-5)
    assert np.shape(found[0]["r2_score"]) == (2, 2)
    for one, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(one, other, 1e-5)


@pytest.mark.many
def test_masked_losses_are_those_of_the_whole_batch(two_replicas):
    """A mean over the entries that are not masked, of which replicas have more or fewer."""

    def run(strategy):
        with strategy.scope():
            keras.utils.set_random_seed(0)
            tokens = keras.Input([None], dtype="int32")
            x = keras.layers.Embedding(NUM_WORDS, 4, mask_zero=True)(tokens)
            model = keras.Model(tokens, keras.layers.Dense(NUM_CLASSES)(x))
            model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        data = batches().map(lambda x, y: (x[0], tf.maximum(y, 0)))
        return fit(model, data, epochs=2, verbose=0).history["loss"]

    np.testing.assert_allclose(run(two_replicas), run(tf.distribute.get_strategy()), 1e-5)


@pytest.mark.parametrize(
    "loss, reason",
    [
        (lambda y, y_pred: keras.ops.mean((y - y_pred) ** 2), "returns a scalar"),
        (keras.losses.MeanSquaredError(None), "reduces by None"),
        (keras.losses.SparseCategoricalCrossentropy(ignore_class=0), "leaves out the class 0"),
    ],
)
def test_losses_that_parts_cannot_be_put_together_from(two_replicas, loss, reason):
    with pytest.raises(ValueError, match=reason):
        regression(dense, loss, two_replicas)


@pytest.mark.many
def test_two_outputs_on_two_replicas(two_replicas):
    def run(strategy):
        with strategy.scope():
            keras.utils.set_random_seed(0)
            x = keras.Input([3])
            outputs = [keras.layers.Dense(2, name=name)(x) for name in "ab"]
            model = keras.Model(x, outputs)
            model.compile("sgd", ["mse", "mae"], loss_weights=[1.0, 0.5])
        rng = np.random.default_rng(0)
        arrays = (rng.normal(size=[9, 3]), tuple(rng.normal(size=[2, 9, 2])))
        data = tf.data.Dataset.from_tensor_slices(arrays).batch(4)
        return fit(model, data, epochs=2, verbose=0).history["loss"]

    np.testing.assert_allclose(run(two_replicas), run(tf.distribute.get_strategy()), 1e-5)


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
