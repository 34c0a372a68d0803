"""Tree layers whose embedding begins with `StringLookup` take words that are text."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.layers import Bidirectional, ChildSumTreeLSTM, TopDownTreeLSTM, TreeLSTM
from tests.layers.helpers import is_node, random_children, with_random_weights
from tests.parameters import few_of

VOCABULARY = ["a", "é", "film", "plot"]
CHILDREN = random_children(5, 7, 2, seed=1, sizes=[1, 7, 4, 2, 5])
IS_INNER = (CHILDREN >= 0).any(-1)
NUMBERS = np.random.default_rng(0).integers(0, len(VOCABULARY) + 2, CHILDREN.shape[:2])
NUMBERS *= is_node(CHILDREN)
TEXTS = np.array(["", "unknown", *VOCABULARY])[NUMBERS]
MADE = {
    "TreeLSTM": lambda table: TreeLSTM(3, embedding=table, read_inner_inputs=True),
    "leaves": lambda table: TreeLSTM(3, embedding=table, read_inner_inputs=False),
    "ChildSumTreeLSTM": lambda table: ChildSumTreeLSTM(3, embedding=table),
    "TopDownTreeLSTM": lambda table: TopDownTreeLSTM(3, embedding=table),
    "Bidirectional": lambda table: Bidirectional(
        TreeLSTM(3, embedding=table, read_inner_inputs=True)
    ),
    "compiled": lambda table: TreeLSTM(
        3, embedding=table, read_inner_inputs=True, engine="compiled"
    ),
}


def table_of_text():
    lookup = keras.layers.StringLookup(vocabulary=VOCABULARY, mask_token="")
    return keras.Sequential([lookup, keras.layers.Embedding(len(VOCABULARY) + 2, 4)])


@pytest.mark.slow
@pytest.mark.parametrize("name", few_of(MADE, many=["TreeLSTM", "leaves", "TopDownTreeLSTM"]))
def test_values_and_gradients_are_those_of_integers(name):
    of_text = MADE[name](table_of_text())
    of_numbers = MADE[name](keras.layers.Embedding(len(VOCABULARY) + 2, 4))
    found = []
    for layer, x in (of_text, TEXTS), (of_numbers, NUMBERS):
        layer.build(x.shape, CHILDREN.shape)
        if found:
            layer.set_weights(of_text.get_weights())
        else:
            with_random_weights(layer)
        with tf.GradientTape() as tape:
            outputs = layer(x, CHILDREN)
            total = tf.add_n([tf.reduce_sum(one**2) for one in tf.nest.flatten(outputs)])
        gradients = tape.gradient(total, layer.trainable_variables)
        found.append([outputs, *map(tf.convert_to_tensor, gradients)])
    assert len(found[0]) == len(found[1]) > 3
    for one, other in zip(*map(tf.nest.flatten, found), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.slow
def test_inner_nodes_have_no_text_unless_it_is_read():
    layer = TreeLSTM(3, embedding=table_of_text())
    layer(np.where(IS_INNER, "", TEXTS), CHILDREN)
    with pytest.raises(tf.errors.InvalidArgumentError, match="or put an empty text there"):
        layer(np.where(IS_INNER, "film", TEXTS), CHILDREN)


def test_other_words_than_the_embedding_takes_are_an_error():
    with pytest.raises(ValueError, match=r"put keras\.layers\.StringLookup before the table"):
        TreeLSTM(3, embedding=keras.layers.Embedding(6, 4))(TEXTS, CHILDREN)
    with pytest.raises(ValueError, match="must be text, since its `embedding` looks text up"):
        TreeLSTM(3, embedding=table_of_text())(NUMBERS, CHILDREN)


@pytest.mark.many
def test_an_embedding_may_say_by_its_input_that_it_takes_text():
    text = keras.Input([], dtype="string")
    lookup = keras.layers.StringLookup(vocabulary=VOCABULARY)
    table = keras.Model(text, keras.layers.Embedding(5, 4)(lookup(text)))
    layer = TreeLSTM(3, embedding=table, read_inner_inputs=False)
    assert layer(TEXTS, CHILDREN).shape == (5, 3)
    assert layer.tagged_graph() is not None and not layer.supports_jit


@pytest.mark.slow
def test_a_layer_in_a_model_of_ones_own_is_saved(tmp_path):
    @keras.saving.register_keras_serializable("tests")
    class ReadsText(keras.Model):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.tree = TreeLSTM(3, embedding=table_of_text(), read_inner_inputs=False, dropout=0.5)

        def call(self, inputs, training=False):
            return self.tree(*inputs, training=training)

    model = ReadsText()
    expected = model((TEXTS, CHILDREN))
    assert np.abs(model((TEXTS, CHILDREN), training=True) - expected).max() > 0
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded((TEXTS, CHILDREN)), expected)
