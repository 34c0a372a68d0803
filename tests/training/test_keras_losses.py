"""Labels that a loss of Keras would misread are refused."""

import keras
import nltk
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec.datasets import Vocabulary, encode_tree
from tests.parameters import few_of
from tests.training.test_number_labels import CLASSES, LABELS, NAN, batches, number_model


def _fit_of_model(model, data):
    model.fit(data, verbose=0)


def _fit_of_kerasrec(model, data):
    kerasrec.training.fit(model, data, verbose=0)


@pytest.mark.parametrize(
    "fit, loss, ragged",
    few_of(
        [
            (_fit_of_kerasrec, "mse", False),
            (_fit_of_kerasrec, "mse", True),
            (_fit_of_kerasrec, keras.losses.Huber(), False),
            (_fit_of_kerasrec, keras.losses.mean_absolute_error, False),
            (kerasrec.training.evaluate, "mse", False),
            (_fit_of_model, "mse", False),
        ],
        (_fit_of_kerasrec, "mse", False),
    ),
)
def test_nan_meets_no_loss_of_keras(fit, loss, ragged):
    """And no weight has moved."""
    functional_class = kerasrec.training.Model if fit is _fit_of_model else keras.Model
    model = number_model(ragged, loss, functional_class)
    before = model.get_weights()
    with pytest.raises(tf.errors.InvalidArgumentError, match="A label is NaN") as error:
        fit(model, batches(ragged=ragged))
    assert "kerasrec.training.TreeSquaredError()" in str(error.value)
    for one, other in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.many
def test_nan_meets_no_loss_of_keras_on_replicas(two_replicas):
    with two_replicas.scope():
        model = number_model()
    for data in (batches(), lambda context: batches().repeat(2)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="A label is NaN"):
            kerasrec.training.fit(model, data, verbose=0)
    assert all(np.isfinite(of).all() for of in model.get_weights())


@pytest.mark.many
@pytest.mark.parametrize("fit", [_fit_of_kerasrec, kerasrec.training.evaluate, _fit_of_model])
def test_labels_of_trees_meet_no_outputs_of_nodes(fit):
    """Keras would broadcast both; a loss of the user may."""
    functional_class = kerasrec.training.Model if fit is _fit_of_model else keras.Model
    model, data = number_model(functional_class=functional_class), batches(LABELS[:, 0])
    with pytest.raises(ValueError, match=r"the loss mse of Keras would.*return_sequences=True"):
        fit(model, data)
    model.compile("sgd", lambda labels, outputs: (labels[:, None] - outputs[:, 0]) ** 2)
    fit(model, data)


@pytest.mark.many
def test_a_loss_of_the_user_may_take_nan():
    def masked(labels, outputs):
        known, outputs = ~tf.math.is_nan(labels), tf.reshape(outputs, tf.shape(labels))
        return tf.where(known, (tf.where(known, labels, 0.0) - outputs) ** 2, 0.0)

    class Masked(keras.losses.Loss):
        def call(self, labels, outputs):
            return masked(labels, outputs)

    for loss in (masked, Masked()):
        model = number_model(loss=loss)
        history = kerasrec.training.fit(model, batches(), verbose=0).history
        assert history["loss"][0] > 0
        assert all(np.isfinite(of).all() for of in model.get_weights())


@pytest.mark.many
@pytest.mark.parametrize(
    "loss", ["binary_crossentropy", keras.losses.BinaryFocalCrossentropy(from_logits=True)]
)
def test_minus_one_meets_no_binary_loss_of_keras(loss):
    for trainer, functional_class in (
        (_fit_of_kerasrec, keras.Model),
        (_fit_of_model, kerasrec.training.Model),
    ):
        model = number_model(False, loss, functional_class)
        with pytest.raises(tf.errors.InvalidArgumentError, match="A label is negative") as error:
            trainer(model, batches(CLASSES))
        assert "kerasrec.training.TreeCrossentropy()" in str(error.value)
        trainer(model, batches(np.abs(CLASSES)))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "float16"])
def test_labels_of_trees_of_any_dtype(dtype):
    model = kerasrec.training.Sequential([keras.Input([2]), keras.layers.Dense(1, "sigmoid")])
    model.compile("sgd", "binary_crossentropy")
    x, labels = np.ones([2, 2], "float32"), np.array([[1], [0]])
    expected = keras.losses.BinaryCrossentropy()(labels.astype("float32"), model(x))
    found = model.fit(x, labels.astype(dtype), verbose=0).history["loss"]
    np.testing.assert_allclose(found, [expected], rtol=1e-6)


@pytest.mark.slow
def test_labels_of_trees():
    """Missing ones are told apart from those of tree nodes; those of weight 0 count nowhere."""
    x = np.ones([3, 2], "float32")
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1, "sigmoid")])
    numbers = np.array([0.5, NAN, 1.0], "float32")
    classes = np.array([1, -1, 0], "int32")
    for loss, labels in (("mse", numbers), ("binary_crossentropy", classes)):
        model.compile("sgd", loss)
        data = tf.data.Dataset.from_tensors((x, labels))
        with pytest.raises(tf.errors.InvalidArgumentError, match="Leave out the trees"):
            kerasrec.training.fit(model, data, verbose=0)
    weights = np.array([1, 0, 1], "float32")
    data = tf.data.Dataset.from_tensors((x, classes, weights))
    found = kerasrec.training.fit(model, data, verbose=0).history["loss"][0]
    assert np.isfinite(found)


@pytest.mark.parametrize("loss", ["sparse_categorical_crossentropy", "mse"])
@pytest.mark.parametrize("fit", [_fit_of_kerasrec, _fit_of_model])
def test_labels_of_nodes_meet_no_outputs_of_trees(fit, loss):
    """Keras would fail in its own words, or broadcast both in silence."""
    model = kerasrec.training.Sequential([keras.Input([2]), keras.layers.Dense(1)])
    model.compile("sgd", loss)
    labels = np.array([[1, 0, 1], [0, 1, 1]])
    data = tf.data.Dataset.from_tensors((np.ones([2, 2], "float32"), labels))
    with pytest.raises(ValueError, match=r"(?s)labels of tree nodes.*TreeCrossentropy\(\)"):
        fit(model, data)
    open_shape = tf.data.Dataset.from_generator(
        lambda: iter(data), output_signature=(tf.TensorSpec([2, 2]), tf.TensorSpec([2, None]))
    )
    errors = ValueError, tf.errors.InvalidArgumentError
    with pytest.raises(errors, match=r"(?s)labels of tree nodes.*TreeCrossentropy\(\)"):
        fit(model, open_shape.map(lambda x, y: (x, tf.cast(y, tf.int32))))


@pytest.mark.parametrize("fit", [_fit_of_kerasrec, _fit_of_model])
def test_minus_one_meets_no_sparse_loss_of_keras(fit):
    losses = keras.losses.SparseCategoricalCrossentropy
    model = kerasrec.training.Sequential([keras.Input([3, 2]), keras.layers.Dense(2)])
    data = tf.data.Dataset.from_tensors((np.ones([1, 3, 2], "float32"), np.array([[1, 0, -1]])))
    for loss in ("sparse_categorical_crossentropy", losses(from_logits=True)):
        model.compile("sgd", loss)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"TreeCrossentropy\(\)") as error:
            fit(model, data)
        assert error.value.message.startswith("A label is negative")
    model.compile("sgd", losses(from_logits=True, ignore_class=-1))
    fit(model, data)


def test_trees_are_not_batches_of_arrays():
    trees = [nltk.Tree("1", ["a"]), nltk.Tree("2", ["b"])]
    encoded = encode_tree(trees[0], Vocabulary(["a"]))
    model = kerasrec.training.Sequential([keras.Input([3, 2]), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    for use in (model.predict, model.fit, lambda data: kerasrec.training.fit(model, data)):
        for data in (trees, trees[0], encoded, [encoded]):
            with pytest.raises(ValueError, match=r"Received trees .*tree_batches\("):
                use(data)
