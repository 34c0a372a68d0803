"""Layers made from their configuration: arguments of subclasses, and values that changed since."""

import keras
import numpy as np

from kerasrec.layers import (
    AttentionPooling,
    Bidirectional,
    BracketedText,
    ConlluText,
    TopDownTreeLSTMCell,
    TreeDecoder,
    TreeLSTM,
)


class Scaled(TreeLSTM):
    def __init__(self, scale, pooling=None, **kwargs):
        super().__init__(3, **kwargs)
        self.scale = scale * 2
        self.pooling = pooling


def again(layer):
    return type(layer).from_config(layer.get_config())


def test_a_subclass_is_saved_with_its_own_arguments():
    layer = Scaled(2.0, AttentionPooling(5), recompute=True, dropout=0.5, name="scaled")
    loaded = again(layer)
    assert (loaded.scale, loaded.pooling.units, loaded.name) == (4.0, 5, "scaled")
    assert (loaded.cell.units, loaded.recompute, loaded.cell.dropout) == (3, True, 0.5)
    of_keras = {"name", "trainable", "dtype"}
    assert set(layer.get_config()) == {"scale", "pooling", "recompute", "dropout", *of_keras}


def test_values_that_changed_are_saved():
    layer = TreeLSTM(3)
    layer.return_sequences = True
    assert again(layer).return_sequences
    both = Bidirectional(TreeLSTM(3))
    both.upward_layer.trainable = False
    loaded = again(both)
    assert not loaded.upward_layer.trainable and loaded.downward_layer.trainable
    decoder = TreeDecoder(TopDownTreeLSTMCell(3, arity=2), num_tokens=5, embedding_dim=3)
    decoder.growth.trainable = False
    assert not again(decoder).growth.trainable and again(decoder).words.trainable


def test_vocabularies_of_any_kind_are_saved_as_lists():
    words = BracketedText(vocabulary=iter(["b", "a"]), has_labels=np.bool_(True))
    assert again(words).get_config() == words.get_config()
    assert again(words).vocabulary == ["b", "a"] and again(words).has_labels is True
    columns = ConlluText(features={"upos": iter(["X"]), "lemmas": None}, return_positions=True)
    assert again(columns).get_config() == columns.get_config()
    assert columns.get_config()["features"]["upos"]["vocabulary"] == ["X"]
    text = keras.saving.serialize_keras_object(columns)
    assert keras.saving.deserialize_keras_object(text).return_positions
