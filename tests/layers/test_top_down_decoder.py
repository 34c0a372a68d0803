"""A decoder of one's own; `test_tree_decoder.py` has what all decoders share."""

from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from keras.layers import Dense

from kerasrec.layers import TopDownCell, TopDownDecoder, TopDownTreeLSTMCell, TreeDecoder
from tests.layers.helpers import with_random_weights
from tests.parameters import few_of

NUM_TOKENS, DIM, UNITS = 5, 3, 4


class ChildrenFirst(TopDownDecoder):
    """The token depends on which children there are, and the children on the state alone."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.growth = Dense(2)
        self.words = Dense(NUM_TOKENS)

    def build(self, tokens_shape, children_shape, *_):
        self.growth.build((None, UNITS))
        self.words.build((None, UNITS + 2))
        super().build(tokens_shape, children_shape)

    def decide(self, states, choose):
        growth = choose.children(self.growth(states))
        features = tf.concat([states, tf.cast(growth.value, states.dtype)], -1)
        return choose.token(self.words, features), growth


@pytest.fixture(scope="module")
def decoder():
    cell = TopDownTreeLSTMCell(UNITS, arity=2)
    layer = ChildrenFirst(cell, NUM_TOKENS, DIM, follows="first_child", max_depth=5)
    layer.build((None, None), (None, None, 2))
    random = np.random.default_rng(1)
    layer.set_weights([random.normal(size=weight.shape) for weight in layer.weights])
    return layer


@pytest.mark.slow
def test_growing_and_scoring_share_their_decisions(decoder):
    grown = decoder.generate(40, seed=1)
    scored = tf.reduce_sum(decoder(grown.tokens, grown.children), [1, 2])
    np.testing.assert_allclose(grown.log_likelihood, scored, rtol=1e-5, atol=1e-5)
    assert (grown.tokens.numpy() > 0).sum(1).max() > 5


@pytest.mark.many
def test_tokens_that_follow_from_children(decoder):
    """At a root the states are zero, so all that differs is which children it has."""
    kernel, bias = decoder.words.get_weights()
    chances = []
    for children in ([-1, -1], [1, -1]):
        logits = (kernel[UNITS] if children[0] > 0 else 0) + bias
        chances.append(logits[1:] - np.log(np.exp(logits[1:]).sum()))
    for token in range(1, NUM_TOKENS):
        found = decoder(
            np.array([[token, 0], [token, 1]]),
            np.array([[[-1, -1], [-1, -1]], [[1, -1], [-1, -1]]]),
        ).numpy()
        wanted = [chances[0][token - 1], chances[1][token - 1]]
        np.testing.assert_allclose(found[:, 0, 0], wanted, rtol=1e-5, atol=1e-6)
        growth = decoder.growth.bias[0]
        wanted = [-np.log1p(np.exp(growth)), -np.log1p(np.exp(-growth))]
        np.testing.assert_allclose(found[:, 0, 1], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_roots_have_no_sibling(decoder):
    children = decoder.generate(40, seed=2).children.numpy()
    assert (children[:, 0, 1] == -1).all()
    assert (children[:, 0, 0] >= 0).any()
    assert (children[..., 1] >= 0).any()


class SlotCell(TopDownCell):
    """A child's state is its parent's and its slot, as told."""

    state_size = UNITS

    def call(self, inputs, states, slot=0):
        told = states[0] + slot + 1.0
        return told, [told]


@pytest.mark.parametrize(
    "cell_class", few_of([partial(TopDownTreeLSTMCell, UNITS), SlotCell], many=[])
)
def test_cells_that_share_their_weights_grow_as_they_score(cell_class):
    cell = cell_class(arity=2, shares_weights=True)
    layer = TreeDecoder(cell, NUM_TOKENS, DIM, follows="first_child", max_depth=5)
    layer.build((None, None), (None, None, 2))
    with_random_weights(layer)
    grown = layer.generate(40, seed=1)
    assert (grown.children.numpy() >= 0).any((0, 1)).all()  # in each slot
    scored = tf.reduce_sum(layer(grown.tokens, grown.children), [1, 2])
    np.testing.assert_allclose(grown.log_likelihood, scored, rtol=1e-5, atol=1e-5)


@pytest.mark.many
def test_vocabularies_of_several_sizes_in_one_process():
    """After another decoder had grown trees, one with another vocabulary could not be traced."""
    for num_tokens in (3, 4, 6):
        layer = TreeDecoder(TopDownTreeLSTMCell(UNITS, arity=2), num_tokens, DIM, max_depth=2)
        layer.build((None, None), (None, None, 2))
        tokens = layer.generate(50, seed=1).tokens
        assert set(tokens.numpy().ravel()) == set(range(num_tokens))


@pytest.mark.many
def test_bad_use():
    cell = TopDownTreeLSTMCell(UNITS, arity=2)
    with pytest.raises(ValueError, match=r"with arity 2\), or 3 rows .* received 'next'"):
        TopDownDecoder(cell, NUM_TOKENS, DIM, follows="next")
    with pytest.raises(ValueError, match=r"3 rows of slots from 0 to 1.*received 'left_right'"):
        TopDownDecoder(cell, NUM_TOKENS, DIM, follows="left_right")
    for follows in (3, [0, 1, 2], [[0], [1], [2]], [[0], [1], [[1]]]):
        with pytest.raises(ValueError, match=r"3 rows of slots from 0 to 1.*received [3\[]"):
            TopDownDecoder(cell, NUM_TOKENS, DIM, follows=follows)
    layer = TopDownDecoder(cell, NUM_TOKENS, DIM)
    for use in (layer.tagged_graph, lambda: layer.generate(3)):
        with pytest.raises(ValueError, match="has no weights yet"):
            use()
    with pytest.raises(ValueError, match="needs two inputs"):
        layer(np.ones([1, 1], int))
    with pytest.raises(NotImplementedError, match="TopDownDecoder must implement `decide`"):
        layer(np.ones([1, 1], int), np.full([1, 1, 2], -1))
