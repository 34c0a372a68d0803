"""`kerasrec.training.Model` and `Sequential` against the models of Keras, in one process."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.training import Model, Sequential, TreeCrossentropy
from tests.parameters import few_of
from tests.training.clusters import run_on_cluster
from tests.training.keras_models import X, Y, functional, results, sequential, subclassed


def assert_alike(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        pairs = zip(
            keras.tree.flatten(found[name]), keras.tree.flatten(expected[name]), strict=True
        )
        for one, other in pairs:
            np.testing.assert_allclose(one, other, 1e-4, 1e-6, err_msg=name)


@pytest.mark.parametrize("make", few_of([functional, sequential, subclassed], many=[]))
def test_alone_they_are_models_of_keras(make, tmp_path):
    theirs = {"sequential": keras.Sequential}.get(make.__name__, keras.Model)
    ours = {"sequential": Sequential}.get(make.__name__, Model)
    model = make(ours)
    assert_alike(results(model), results(make(theirs)))
    if make is not subclassed:
        model.save(tmp_path / "model.keras")
        again = keras.models.load_model(tmp_path / "model.keras")
        assert type(again) is type(model)
        np.testing.assert_allclose(again.predict(X, verbose=0), model.predict(X, verbose=0))
        histories = [of.fit(X, Y, shuffle=False, verbose=0).history for of in (again, model)]
        assert histories[0] == histories[1]


@pytest.mark.many
def test_fit_resumes_from_backups(tmp_path):
    begun = []
    note = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: begun.append(epoch))

    def fitted(epochs, backup_dir, **options):
        model = sequential(Sequential)
        model.compile("adam", "mse")
        given = {"batch_size": 8, "verbose": 0, "shuffle": False, "callbacks": [note], **options}
        history = model.fit(X, Y, epochs=epochs, backup_dir=backup_dir, **given).history
        return {"loss": history["loss"], "weights": model.get_weights()}

    fitted(1, tmp_path)
    assert_alike(fitted(2, tmp_path), fitted(2, None))
    assert begun == [0, 1, 0, 1]  # The second program began with the second epoch.
    with pytest.raises(ValueError, match="fit with backup_dir does not take validation_split"):
        fitted(1, tmp_path, validation_split=0.1)


@pytest.mark.many
def test_trees_without_labels_leave_other_losses_as_they_are():
    """Those of other outputs and of regularizers were also 0."""
    nodes = np.random.default_rng(1).normal(size=[2, 3, 4]).astype("float32")
    labels, numbers = np.full([2, 3], -1), np.ones([2])

    def trained(model_class):
        x = keras.Input([None, 4])
        classes = keras.layers.Dense(3, kernel_initializer="ones", kernel_regularizer="l2")(x)
        number = keras.layers.Dense(1, kernel_initializer="ones")(x[:, 0])
        model = model_class(x, [classes, number])
        model.compile("sgd", [TreeCrossentropy(), "mse"], run_eagerly=True)
        return [model.train_on_batch(nodes, [labels, numbers]), *model.get_weights()]

    for found, expected in zip(trained(Model), trained(keras.Model), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.many
def test_data_may_be_a_function_that_reads():
    model = functional(Model)
    model.compile("sgd", "mse")
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)

    def read(input_context):
        assert input_context.num_replicas_in_sync == 1
        return data

    loss = model.evaluate(read, verbose=0)
    assert loss == model.evaluate(data, verbose=0)
    assert model.fit(read, validation_data=read, verbose=0).history["val_loss"][0] < loss
    np.testing.assert_array_equal(model.predict(read, verbose=0), model.predict(X, verbose=0))


@pytest.mark.slow
def test_on_two_replicas_they_do_as_alone(two_replicas):
    with two_replicas.scope():
        models = [functional(Model), sequential(Sequential), subclassed(Model)]
    expected = results(sequential(keras.Sequential))
    for model in models:
        assert_alike({"fit": results(model)["fit"]}, {"fit": expected["fit"]})


@pytest.mark.slow
@pytest.mark.parametrize(
    "options, strategy, num_processes",
    [
        (["--workers", "2"], "multi_worker", 2),
        (["--workers", "2", "--ps", "1"], "parameter_server", 1),
    ],
)
def test_on_a_cluster_they_do_as_alone(options, strategy, num_processes):
    ended = run_on_cluster(options, ["-m", "tests.training.keras_models", strategy])
    assert ended.returncode == 0, ended.errors[-3000:]
    assert len(ended.results) == 3 * num_processes
    expected = results(sequential(keras.Sequential))
    # Shuffled by another hand, the third epoch ends elsewhere.
    for found in ended.results:
        assert_alike({"fit": found["fit"]}, {"fit": expected["fit"]})
        assert found["shuffled"] == 1
        assert np.shape(found["predict"]) == Y.shape
        np.testing.assert_allclose(
            found["evaluate"], list(found["evaluate_to_dict"].values()), 1e-5
        )
        np.testing.assert_allclose(found["evaluate"][0], np.mean((found["predict"] - Y) ** 2), 1e-4)
