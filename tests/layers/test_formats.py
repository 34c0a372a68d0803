"""Every way in which Keras saves or copies a model, with every layer."""

import copy
import json
import pickle

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec import layers
from kerasrec.datasets import Vocabulary
from tests.layers.helpers import with_random_weights
from tests.layers.own_cell import GatedCell
from tests.parameters import few_of

CHILDREN = np.array([[[1, 2], [-1, -1], [-1, -1]], [[1, -1], [-1, -1], [-1, -1]]], np.int32)
FEATURES = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
TOKENS = np.array([[3, 4, 5], [1, 2, 0]], np.int32)
TEXT = tf.constant(["(3 (2 a) (4 film))", "(1 (2 plot) (3 film))"])
CONLLU = tf.constant([f"1\tFilm\t_\t{tag}\t_\t_\t0\t_\tx\t_" for tag in ("NOUN", "VERB")])
DOCUMENTS = [{"size": 1.5, "parts": [{"name": "a"}, {"name": "b"}]}, {"size": 2.5}]
SCHEMA = kerasrec.Schema.infer(DOCUMENTS)
BATCH = SCHEMA.encode(DOCUMENTS)


@keras.saving.register_keras_serializable("test_formats")
def one_and_length(part):
    length = tf.cast(tf.strings.length(part.name), tf.float32)
    return tf.stack([tf.ones_like(length), length], axis=1)


def decoder(**options):
    cell = layers.TopDownTreeLSTMCell(3, arity=2)
    return layers.TreeDecoder(cell, 9, 4, max_depth=3, **options)


def tree_rnn():
    inputs = [keras.Input([None, 4]), keras.Input([None, 2], dtype="int32")]
    return keras.Model(inputs, layers.TreeRNN(3)(*inputs))


# For each layer: how it is made, and what is a model's input. Options that are lists are given.
ON_CPU = {"devices": ["/CPU:0"]}
MADE = {
    "JitCompiled": (lambda: layers.JitCompiled(tree_rnn()), (FEATURES, CHILDREN)),
    "RNTN": (lambda: layers.RNTN(3), (FEATURES, CHILDREN)),
    "TreeRNN": (lambda: layers.TreeRNN(3, **ON_CPU), (FEATURES, CHILDREN)),
    "TreeGRU": (lambda: layers.TreeGRU(3, return_sequences=True), (FEATURES, CHILDREN)),
    "TreeLSTM": (
        lambda: layers.TreeLSTM(
            3, read_inner_inputs=True, embedding=keras.layers.Embedding(9, 4), return_state=True
        ),
        (TOKENS, CHILDREN),
    ),
    "ChildSumTreeLSTM": (lambda: layers.ChildSumTreeLSTM(3, dropout=0.1), (FEATURES, CHILDREN)),
    "OrderedTreeRNN": (
        lambda: layers.OrderedTreeRNN(keras.layers.GRUCell(3)),
        (FEATURES, CHILDREN),
    ),
    "TopDownTreeLSTM": (lambda: layers.TopDownTreeLSTM(3, **ON_CPU), (FEATURES, CHILDREN)),
    "Recursive": (lambda: layers.Recursive(GatedCell(3), **ON_CPU), (FEATURES, CHILDREN)),
    "TopDown": (
        lambda: layers.TopDown(layers.TopDownTreeLSTMCell(3, arity=2)),
        (FEATURES, CHILDREN),
    ),
    "Bidirectional": (
        lambda: layers.Bidirectional(layers.TreeLSTM(3, **ON_CPU), merge_mode="sum"),
        (FEATURES, CHILDREN),
    ),
    "TreeDecoder": (
        lambda: decoder(allowed_slots=[[0, 1], [0, 1], [0, 1]], growth=keras.layers.Dense(2)),
        (TOKENS, CHILDREN),
    ),
    "AttentionPooling": (lambda: layers.AttentionPooling(3), (FEATURES,)),
    "NodeWise": (lambda: layers.NodeWise(keras.layers.Dense(2)), (FEATURES,)),
    "LinearChainCRF": (lambda: layers.LinearChainCRF(4), (FEATURES,)),
    "HMM": (lambda: layers.HMM(2, 6), (TOKENS,)),
    "TreeCRF": (lambda: layers.TreeCRF(2), (np.ones([2, 3, 3, 2], np.float32),)),
    "Alignment": (lambda: layers.Alignment(), (np.ones([2, 3, 4, 3], np.float32),)),
    "EditDistance": (lambda: layers.EditDistance(6), (TOKENS, TOKENS)),
    "BracketedText": (lambda: layers.BracketedText(vocabulary=["a", "film"]), (TEXT,)),
    "ConlluText": (
        lambda: layers.ConlluText(
            vocabulary=["a", "film"], features={"upos": Vocabulary(["NOUN"]), "deps": None}
        ),
        (CONLLU,),
    ),
    "TextTree": (lambda: layers.TextTree("left", vocabulary=["a", "film"]), (TEXT,)),
    "Subwords": (
        lambda: layers.Subwords(
            keras.layers.TextVectorization(split="character", ragged=True, vocabulary=["a"]),
            start_value=3,
        ),
        (tf.constant([["", "ab"], ["c", ""]]),),
    ),
    "SubwordPooling": (
        lambda: layers.SubwordPooling("first"),
        (FEATURES, np.array([[-1, 1, 1], [0, -1, 2]], np.int32), CHILDREN),
    ),
    "SchemaEncoder": (
        lambda: layers.SchemaEncoder(SCHEMA, 3, pooling=["max", "attention"]),
        (BATCH,),
    ),
    "SchemaTrees": (
        lambda: layers.SchemaTrees(
            SCHEMA,
            token_of={"document": b"d", "parts": np.array("p")},
            features_of={"document": [1.0, 2.0], "parts": one_and_length},
            children_of={"document": ["parts"]},
        ),
        (BATCH,),
    ),
}


def test_every_layer_is_tried():
    public = [getattr(layers, name) for name in layers.__all__]
    found = {
        item.__name__
        for item in public
        if issubclass(item, keras.layers.Layer) and not issubclass(item, layers.RecursiveCell)
    }
    assert found - {"TopDownDecoder"} == MADE.keys()  # This one is a base class.


def model_of(name):
    make, given = MADE[name]
    if given[0] is BATCH:
        inputs = [SCHEMA.inputs()]
    else:
        shapes = [(None, *item.shape[2:]) if len(item.shape) > 1 else () for item in given]
        pairs = zip(shapes, given, strict=True)
        inputs = [keras.Input(shape, dtype=tf.as_dtype(item.dtype).name) for shape, item in pairs]
    layer = make()
    outputs = layer(inputs) if name == "JitCompiled" else layer(*inputs)
    return with_random_weights(keras.Model(inputs, outputs))


def by_hdf5(model, folder):
    model.save(folder / "model.h5")
    return keras.models.load_model(folder / "model.h5")


def by_keras(model, folder):
    model.save(folder / "model.keras")
    return keras.models.load_model(folder / "model.keras")


def by_weights(model, folder):
    model.save_weights(folder / "model.weights.h5")
    found = keras.models.clone_model(model)
    found.load_weights(folder / "model.weights.h5")
    return found


def by_json(model, _):
    found = keras.models.model_from_json(model.to_json())
    found.set_weights(model.get_weights())
    return found


WAYS = {
    "hdf5": by_hdf5,
    "keras": by_keras,
    "weights": by_weights,
    "json": by_json,
    "deepcopy": lambda model, _: copy.deepcopy(model),
    "pickle": lambda model, _: pickle.loads(pickle.dumps(model)),
}


@pytest.mark.parametrize("name", MADE)
def test_a_configuration_is_plain_data(name):
    layer = MADE[name][0]()
    config = layer.get_config()
    assert json.loads(json.dumps(copy.deepcopy(config))) == json.loads(json.dumps(config))
    assert type(layer).from_config(copy.deepcopy(config)).get_config() == config


@pytest.mark.parametrize("name", MADE)
def test_hdf5_keeps_layers_and_weights(name, tmp_path):
    model = model_of(name)
    loaded = by_hdf5(model, tmp_path)
    assert list(map(type, loaded.layers)) == list(map(type, model.layers))
    for one, two in zip(loaded.weights, model.weights, strict=True):
        assert one.name == two.name
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", few_of(MADE, "NodeWise", "TextTree", many=["TreeLSTM"]))
def test_every_way_gives_the_same_model(name, tmp_path):
    model = model_of(name)
    _, given = MADE[name]
    expected = tf.nest.flatten(model([*given]), expand_composites=True)
    for way, copied in WAYS.items():
        found = tf.nest.flatten(copied(model, tmp_path)([*given]), expand_composites=True)
        for one, two in zip(found, expected, strict=True):
            same = np.array_equal if one.dtype == tf.string else np.allclose
            assert same(one.numpy(), two.numpy()), way
