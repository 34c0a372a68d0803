"""Ragged batches on two replicas, against one device."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.sparse_gradients import with_a_row
from kerasrec.datasets import tree_batches, value_file_batches, write_value_files
from kerasrec.layers import ChildSumTreeLSTM, NodeWise, SchemaEncoder
from kerasrec.training import Model, TreeCrossentropy, evaluate, fit
from tests.parameters import few_of
from tests.training.strategies import NUM_CLASSES, NUM_WORDS, assert_same, random_trees

RANDOM = np.random.default_rng(1)
DOCUMENTS = [
    {"words": ["ab"[place % 2] for place in range(number % 4)], "size": float(size)}
    for number, size in enumerate(RANDOM.normal(size=17))
]
LABELS = RANDOM.integers(2, size=17)
SCHEMA = kerasrec.Schema.infer(DOCUMENTS)


def documents():
    return tf.data.Dataset.from_tensor_slices((SCHEMA.encode(DOCUMENTS), LABELS)).batch(8)


def trees():
    return tree_batches(random_trees(17, seed=1), 8, ragged=True)


def document_model(model_class):
    inputs = SCHEMA.inputs()
    logits = keras.layers.Dense(2)(SchemaEncoder(SCHEMA, 4)(inputs))
    model = model_class(inputs, logits)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def tree_model(model_class):
    tokens = keras.Input([None], dtype="int32", ragged=True)
    children = keras.Input([None, None], dtype="int32", ragged=True)
    embedding = keras.layers.Embedding(NUM_WORDS, 4)
    layer = ChildSumTreeLSTM(5, embedding=embedding, read_inner_inputs=True, return_sequences=True)
    logits = NodeWise(keras.layers.Dense(NUM_CLASSES))(layer(tokens, children))
    model = model_class([tokens, children], logits)
    model.compile("adam", TreeCrossentropy())
    return model


MODELS = {"documents": (document_model, documents), "trees": (tree_model, trees)}


def trained(strategy, make, data, model_class=Model, train=Model.fit):
    """The results of two epochs.

    The last batch has one example, so one replica has none; and no words, if it is of documents.
    """
    keras.utils.set_random_seed(0)
    with strategy.scope():
        model = make(model_class)
        model.optimizer.build(model.trainable_variables)  # or Keras traces a step twice
    history = train(model, data, epochs=2, verbose=0).history
    return {"history": history, "weights": model.get_weights(), "evaluated": evaluate(model, data)}


@functools.cache
def trained_alone(name):
    make, data = MODELS[name]
    return trained(tf.distribute.get_strategy(), make, data())


@pytest.mark.slow
@pytest.mark.parametrize("name", few_of(MODELS, "documents", many=[]))
def test_two_replicas_train_as_one(two_replicas, name):
    make, data = MODELS[name]
    assert_same(trained(two_replicas, make, data()), trained_alone(name))


@pytest.mark.slow
def test_files_and_any_keras_model(two_replicas, tmp_path):
    write_value_files(SCHEMA, zip(DOCUMENTS, LABELS, strict=True), tmp_path / "values", 2)

    def read(context):
        return value_file_batches(SCHEMA, tmp_path / "values", 8, input_context=context)

    found = trained(two_replicas, document_model, read, keras.Model, fit)
    assert_same(found, trained_alone("documents"))


@pytest.mark.slow
def test_predictions_are_those_of_one_device(two_replicas):
    with two_replicas.scope():
        model = document_model(Model)
    expected = model(SCHEMA.encode(DOCUMENTS))
    np.testing.assert_allclose(model.predict(documents(), verbose=0), expected, rtol=1e-5)


@pytest.mark.many
def test_sparse_gradients_have_a_row():
    rows = tf.IndexedSlices(tf.ones([2, 3]), tf.constant([1, 3]), tf.constant([4, 3]))
    none = tf.IndexedSlices(tf.ones([0, 3]), tf.zeros([0], tf.int32), tf.constant([4, 3]))
    np.testing.assert_array_equal(with_a_row(rows).indices, rows.indices)
    np.testing.assert_array_equal(with_a_row(rows).values, rows.values)
    assert len(with_a_row(none).values) == len(with_a_row(none).indices) == 1
    np.testing.assert_array_equal(tf.convert_to_tensor(with_a_row(none)), np.zeros([4, 3]))


@pytest.mark.slow
def test_keras_own_fit_refuses_them_before_a_step(two_replicas):
    """docs/troubleshooting.md has the alternative."""
    with two_replicas.scope():
        model = document_model(keras.Model)
    weights = model.get_weights()
    with pytest.raises(AttributeError, match="'RaggedTensor' object has no attribute 'device'"):
        model.fit(documents(), verbose=0)
    for weight, before in zip(model.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(weight, before)
    fit(model, documents(), verbose=0)
