"""Whether inner nodes read inputs: never lost without a word."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.layers import (
    Bidirectional,
    ChildSumTreeLSTM,
    Recursive,
    TopDownTreeLSTM,
    TreeGRU,
    TreeLSTM,
    TreeRNN,
)
from tests.layers.helpers import LAYERS, any_layer, expected, features, random_children
from tests.layers.own_cell import GatedCell
from tests.layers.test_any_arity import GatedMaxCell
from tests.parameters import few_of

CHILDREN = np.array([[[1, 2], [-1, -1], [3, -1], [-1, -1], [-1, -1]]], np.int32)
WORDS = np.array([[0, 3, 0, 1, 0]])  # the last one is padding
FEATURES = 4


def of_words(layer_class=TreeLSTM, **options):
    embedding = keras.layers.Embedding(6, FEATURES, embeddings_initializer="normal")
    return layer_class(3, embedding=embedding, **options)


def with_word(node):
    words = WORDS.copy()
    words[0, node] = 4
    return words


@pytest.mark.slow
@any_layer
def test_a_word_at_an_inner_node_is_an_error(layer_class):
    """By itself, in training with dropout, and in a model."""
    layer = of_words(layer_class, dropout=0.5)
    assert layer(WORDS, CHILDREN).shape == (1, 3)
    inputs = keras.Input([None], dtype="int32"), keras.Input([None, 2], dtype="int32")
    model = keras.Model(inputs, layer(*inputs))
    for use in (
        lambda words: layer(words, CHILDREN),
        lambda words: model((words, CHILDREN), training=True),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            use(with_word(2))
        assert str(error.value).startswith(
            "`x` has a word at an inner tree node, where the layer reads none. Give the layer "
            "read_inner_inputs=True to read it or read_inner_inputs=False to leave it out, or put "
            "0 there, which stands for no word. [tree, node]: [[0 2]] word: [4]\n"
        )


@pytest.mark.slow
# test_embedding.py compares what TreeLSTM computes from words at all nodes.
@pytest.mark.parametrize(
    ("layer_class", "read_inner_inputs", "reads"),
    few_of(
        [(TreeLSTM, False, False), (TreeLSTM, True, True), (ChildSumTreeLSTM, True, True)],
        many=[(ChildSumTreeLSTM, True, True)],
    ),
)
def test_a_word_at_an_inner_node_is_left_out_or_read(layer_class, read_inner_inputs, reads):
    layer = of_words(layer_class, read_inner_inputs=read_inner_inputs)
    without, root, leaf = (
        layer(words, CHILDREN).numpy() for words in (WORDS, with_word(0), with_word(1))
    )
    assert (np.abs(root - without).max() > 1e-4) == reads
    assert np.abs(leaf - without).max() > 1e-4


def both_inputs():
    return keras.Input([None, FEATURES]), keras.Input([None, 2], dtype="int32")


BETWEEN = {
    "nothing": lambda states, x: states,
    "dense": lambda states, x: keras.layers.Dense(2)(keras.layers.Dropout(0.1)(states)),
    "ops": lambda states, x: keras.ops.concatenate([x, 2 * states], -1),
    "model": lambda states, x: keras.Sequential([keras.layers.Dense(2)])(states),
}
FIRST = {
    "TreeLSTM": lambda: TreeLSTM(3, return_sequences=True),
    "ChildSumTreeLSTM": lambda: ChildSumTreeLSTM(3, return_sequences=True),
    "TopDownTreeLSTM": lambda: TopDownTreeLSTM(3),
    "Bidirectional": lambda: Bidirectional(TreeRNN(3)),
    "own cell": lambda: Recursive(GatedCell(3), return_sequences=True),
}


def refused(name="above"):
    message = rf"`x` of {name} are the states of another tree layer.*read_inner_inputs=True.*False"
    return pytest.raises(ValueError, match=message)


@pytest.mark.many
@pytest.mark.parametrize("between", BETWEEN)
def test_a_stack_says_when_it_is_built_what_to_choose(between):
    x, children = both_inputs()
    states = BETWEEN[between](TreeLSTM(3, return_sequences=True)(x, children), x)
    for layer_class in (TreeLSTM, TreeGRU):
        with refused():
            layer_class(3, name="above")(states, children)
        for read_inner_inputs in (False, True):
            layer_class(3, read_inner_inputs=read_inner_inputs)(states, children)


@pytest.mark.parametrize("first", FIRST)
def test_whichever_layer_is_below(first):
    x, children = both_inputs()
    states = FIRST[first]()(x, children)
    with refused():
        TreeRNN(3, name="above")(states, children)
    with refused():
        Bidirectional(TreeRNN(3, name="above"))(states, children)
    for reads_all in (ChildSumTreeLSTM(3), TopDownTreeLSTM(3), Recursive(GatedCell(3))):
        reads_all(states, children)


def test_a_model_below():
    x, children = both_inputs()
    model = keras.Model([x, children], TreeLSTM(3, return_sequences=True)(x, children))
    with refused():
        TreeLSTM(3, name="above")(model([x, children]), children)


@pytest.mark.many
def test_states_are_refused_after_an_attention_that_took_their_mask():
    states = Bidirectional(TreeRNN(3))(features(CHILDREN), CHILDREN)
    keras.layers.MultiHeadAttention(1, 2)(states, states)
    with refused():
        TreeRNN(3, name="above")(states, CHILDREN)


def test_states_of_roots_alone_are_no_states_of_inner_nodes():
    x, children = both_inputs()
    root = TreeLSTM(FEATURES)(x, children)
    TreeLSTM(3)(x + keras.ops.expand_dims(root, 1), children)


class Stack(keras.Model):
    def __init__(self):
        super().__init__()
        self.below = TreeRNN(3, return_sequences=True)
        self.between = keras.layers.Dense(2)
        self.above = TreeRNN(3, name="above")

    def call(self, inputs):
        x, children = inputs
        return self.above(self.between(self.below(x, children)), children)


@pytest.mark.slow
@pytest.mark.parametrize("in_graph", [False, True], ids=["eager", "graph"])
def test_a_stack_in_a_subclassed_model(in_graph):
    x = tf.constant(features(CHILDREN), tf.float32)
    model = Stack()
    with refused():
        (tf.function(model) if in_graph else model)((x, CHILDREN))


@pytest.mark.slow
def test_a_stack_computes_what_the_equations_say():
    children = random_children(5, 9, 2, seed=1)
    x = features(children)
    below = TreeRNN(3, arity=2, return_sequences=True, dtype="float64")
    of_below = below(x, children)
    states = expected(below, x, children).sequence
    for read_inner_inputs in (False, True):
        above = TreeRNN(
            3, return_sequences=True, read_inner_inputs=read_inner_inputs, dtype="float64"
        )
        found = above(of_below, children)
        np.testing.assert_allclose(found, expected(above, states, children).sequence, atol=1e-12)


@pytest.mark.many
@pytest.mark.parametrize("read_inner_inputs", [None, False, True])
def test_the_choice_is_kept(read_inner_inputs):
    layers = [layer_class(3, read_inner_inputs=read_inner_inputs) for layer_class in LAYERS]
    layers += [ChildSumTreeLSTM(3, read_inner_inputs=read_inner_inputs)]
    layers += [Recursive(GatedMaxCell(3, read_inner_inputs=read_inner_inputs))]
    for layer in layers:
        again = type(layer).from_config(layer.get_config())
        assert again.cell.read_inner_inputs is read_inner_inputs
