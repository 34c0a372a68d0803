"""A custom decoder; `test_tree_decoder.py` has the tests that all decoders share."""

from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.layers import Dense

from kerasrec import TraceError
from kerasrec.layers import Choice, TopDownCell, TopDownDecoder, TopDownTreeLSTMCell, TreeDecoder
from tests.layers.helpers import all_trees, check_distribution, texts, with_random_weights
from tests.parameters import few_of

NUM_TOKENS, DIM, UNITS = 5, 3, 4


class ChildrenFirst(TopDownDecoder):
    """The token depends on which children there are, and the children only on the state."""

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
    layer = ChildrenFirst(cell, NUM_TOKENS, DIM, allowed_slots="first_child", max_depth=5)
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
    cell = cell_class(arity=2, share_weights=True)
    layer = TreeDecoder(cell, NUM_TOKENS, DIM, allowed_slots="first_child", max_depth=5)
    layer.build((None, None), (None, None, 2))
    with_random_weights(layer)
    grown = layer.generate(40, seed=1)
    assert (grown.children.numpy() >= 0).any((0, 1)).all()  # in each slot
    scored = tf.reduce_sum(layer(grown.tokens, grown.children), [1, 2])
    np.testing.assert_allclose(grown.log_likelihood, scored, rtol=1e-5, atol=1e-5)


class TwoKinds(TopDownDecoder):
    """Leaves have other tokens than inner nodes; both slots share a logit."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.kinds = [Dense(self.num_tokens) for _ in range(2)]
        self.growth = Dense(1)

    def build(self, tokens_shape, children_shape, *_):
        for layer in (*self.kinds, self.growth):
            layer.build((None, UNITS))
        super().build(tokens_shape, children_shape)

    def decide(self, states, choose):
        growth = choose.children(tf.repeat(self.growth(states), 2, axis=1))
        leaf, inner = (choose.token(layer, states) for layer in self.kinds)
        is_leaf = ~tf.reduce_any(growth.value, axis=1)
        pairs = zip(leaf, inner, strict=True)
        return Choice(*(tf.where(is_leaf, *pair) for pair in pairs)), growth


class Forced(TopDownDecoder):
    """Token 1 has two children, if the bounds allow them, and other tokens have none."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.words = Dense(self.num_tokens)

    def build(self, tokens_shape, children_shape, *_):
        self.words.build((None, UNITS))
        super().build(tokens_shape, children_shape)

    def decide(self, states, choose):
        token = choose.token(self.words, states)
        logits = tf.where(token.value[:, tf.newaxis] == 1, np.inf, [-np.inf, -np.inf])
        return token, choose.children(logits)


ANY = [[0, 1], [0, 1], [0, 1]]
FIRST_CHILD = [[0], [0, 1], [0, 1]]
LEFT_RIGHT = [[0, 1], [0, 1, 2], [0, 1, 3], [0, 1, 2], [0, 1, 3]]


def bounded(decoder_class, num_tokens, allowed_slots, max_depth, **options):
    cell = TopDownTreeLSTMCell(UNITS, arity=len(allowed_slots) - 1)
    options = {"allowed_slots": allowed_slots, "max_depth": max_depth, **options}
    layer = decoder_class(cell, num_tokens, DIM, **options)
    layer.build((None, None), (None, None, len(allowed_slots) - 1))
    return with_random_weights(layer)


CASES = [
    (TreeDecoder, 3, ANY, [2, 18, 722], "auto"),
    (TreeDecoder, 3, ANY, [2, 18, 722], "compiled"),
    (TreeDecoder, 2, LEFT_RIGHT, [1, 4, 81], "auto"),
    (ChildrenFirst, 5, FIRST_CHILD, [4, 20, 404], "auto"),
    (TwoKinds, 3, ANY, [2, 18, 722], "auto"),
    (TwoKinds, 3, [[1], [], [1]], [2, 6, 14], "compiled"),
    (Forced, 3, ANY, [2, 18, 722], "auto"),
    (Forced, 3, [[1], [], [0, 1]], [2, 6, 38], "compiled"),
]


@pytest.mark.parametrize(
    ("case", "levels"),
    few_of(
        [(case, levels) for case in range(len(CASES)) for levels in (1, 2, 3)],
        (0, 2),
        many=[(1, 2), (2, 3), (3, 3), (4, 2), (6, 3)],
    ),
)
def test_probabilities_of_all_trees_add_up_to_one(case, levels):
    """On the last level children were never drawn, but their absence lost probability."""
    decoder_class, num_tokens, allowed_slots, numbers, engine = CASES[case]
    layer = bounded(decoder_class, num_tokens, allowed_slots, levels, engine=engine)
    check_distribution(layer, allowed_slots, numbers[levels - 1])


@pytest.mark.parametrize("decoder_class", few_of([TreeDecoder, TwoKinds], TreeDecoder))
def test_trees_grow_as_often_as_their_log_likelihood_says(decoder_class):
    """At any temperature, and below a root that is given; then its mean gradient is 0."""
    layer = bounded(decoder_class, 3, ANY, 2)
    for root, temperature in ((-1, 1.0), (2, 1.0), (-1, 0.5), (1, 3.0)):
        with tf.GradientTape() as tape:
            grown = layer.generate([root] * 4000, seed=3, temperature=temperature)
            mean = tf.reduce_mean(grown.log_likelihood)
        gradients = tape.gradient(mean, layer.trainable_variables)
        assert max(np.abs(tf.convert_to_tensor(one)).max() for one in gradients) < 0.04
        trees = texts(grown.tokens.numpy(), grown.children.numpy())
        chances = dict(zip(trees, np.exp(grown.log_likelihood).tolist(), strict=True))
        assert sum(chances.values()) == pytest.approx(1, abs=2e-2)  # but for those never drawn
        for tree, chance in chances.items():
            spread = (chance * (1 - chance) / len(trees)) ** 0.5
            assert trees.count(tree) / len(trees) == pytest.approx(chance, abs=4.5 * spread + 1e-4)
        if temperature == 1:
            scored = layer(grown.tokens, grown.children).numpy()
            wanted = scored.sum((1, 2)) - (scored[:, 0, 0] if root > 0 else 0)
            np.testing.assert_allclose(grown.log_likelihood, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.many
def test_vocabularies_of_several_sizes_in_one_process():
    """After another decoder had grown trees, one with another vocabulary could not be traced."""
    for num_tokens in (3, 4, 6):
        layer = TreeDecoder(TopDownTreeLSTMCell(UNITS, arity=2), num_tokens, DIM, max_depth=2)
        layer.build((None, None), (None, None, 2))
        tokens = layer.generate(50, seed=1).tokens
        assert set(tokens.numpy().ravel()) == set(range(num_tokens))


@pytest.mark.many
def test_the_likeliest_tree_is_left_to_no_chance():
    layer = bounded(TreeDecoder, 3, ANY, 2)
    with tf.GradientTape() as tape:
        grown = layer.generate(3, temperature=0.0)
    np.testing.assert_array_equal(grown.log_likelihood, 0)
    for gradient in tape.gradient(grown.log_likelihood, layer.trainable_variables):
        np.testing.assert_array_equal(tf.convert_to_tensor(gradient), 0)
    grown = texts(grown.tokens.numpy(), grown.children.numpy())
    assert len(set(grown)) == 1
    assert grown[0] in texts(*all_trees(3, ANY, 2))
    layer.max_depth = 1  # It used to grow as it had been traced, and to score with the new bound.
    assert layer.generate(3).tokens.shape == (3, 1)


class WrongDecider(TopDownDecoder):
    """Gives features or logits of a wrong shape."""

    def __init__(self, which, wrong, **kwargs):
        super().__init__(TopDownTreeLSTMCell(UNITS, arity=2), NUM_TOKENS, DIM, **kwargs)
        self.which = which
        self.wrong = wrong
        self.growth = Dense(2)
        self.words = Dense(NUM_TOKENS)

    def build(self, tokens_shape, children_shape, *_):
        self.growth.build((None, UNITS))
        self.words.build((None, UNITS))
        super().build(tokens_shape, children_shape)

    def decide(self, states, choose):
        given = {"features": states, "logits": self.growth(states)}
        given[self.which] = self.wrong(given[self.which])
        token = choose.token(self.words, given["features"])
        return token, choose.children(given["logits"])


@pytest.mark.parametrize(
    ("which", "sentence"),
    [
        ("features", r"choose.token needs features \[nodes, 4\], a row for each node; received"),
        ("logits", r"choose.children needs logits \[nodes, 2\], a row for each node; received"),
    ],
)
@pytest.mark.parametrize(
    "wrong",
    few_of(
        [
            lambda given: given[:, :1],
            lambda given: given[:, 0],
            lambda given: given[:, tf.newaxis],
            lambda given: [given],
            lambda given: None,
        ],
        many=[lambda given: given[:, :1]],
    ),
)
def test_choices_are_checked_when_trees_are_scored_grown_and_searched(which, sentence, wrong):
    layer = WrongDecider(which, wrong)
    layer.build((None, None), (None, None, 2))
    tree = np.array([[1, 2]]), np.array([[[1, -1], [-1, -1]]])
    for use in (
        lambda: layer(*tree),
        lambda: layer.generate(1),
        lambda: layer.generate(1, num_beams=2),
    ):
        with pytest.raises(TraceError, match=sentence) as caught:
            use()
        assert "_src" not in str(caught.value)


def test_trees_of_more_levels_than_grow():
    """Numbers of tree nodes may come in any order."""
    tokens = np.array([[1, 0, 0, 0], [1, 2, 2, 1]])
    chain = np.full([2, 4, 2], -1)
    chain[1, 0, 0], chain[1, 3, 1], chain[1, 1, 0] = 3, 1, 2
    layer = bounded(TreeDecoder, 3, ANY, 3)
    message = r"max_depth=3 levels.* larger max_depth.*\[\[1 2\]\] levels of the deepest tree: 4"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        layer(tokens, chain)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        keras.Model(
            inputs := [keras.Input([4], dtype="int32"), keras.Input([4, 2], dtype="int32")],
            layer(inputs),
        ).predict([tokens, chain], verbose=0)
    layer.max_depth = 10**10
    unbounded = layer(tokens, chain).numpy()
    layer.max_depth = 4
    bounded_terms = layer(tokens, chain).numpy()
    assert unbounded[1, 2, 1] < 0
    assert bounded_terms[1, 2, 1] == 0  # the node on the last level
    unbounded[1, 2, 1] = 0
    np.testing.assert_allclose(bounded_terms, unbounded)


@pytest.mark.many
def test_bad_use():
    cell = TopDownTreeLSTMCell(UNITS, arity=2)
    with pytest.raises(ValueError, match=r"with arity 2\), or 3 rows .* received 'next'"):
        TopDownDecoder(cell, NUM_TOKENS, DIM, allowed_slots="next")
    with pytest.raises(ValueError, match=r"3 rows of slots from 0 to 1.*received 'left_right'"):
        TopDownDecoder(cell, NUM_TOKENS, DIM, allowed_slots="left_right")
    for allowed_slots in (3, [0, 1, 2], [[0], [1], [2]], [[0], [1], [[1]]]):
        with pytest.raises(ValueError, match=r"3 rows of slots from 0 to 1.*received [3\[]"):
            TopDownDecoder(cell, NUM_TOKENS, DIM, allowed_slots=allowed_slots)
    layer = TopDownDecoder(cell, NUM_TOKENS, DIM)
    for use in (layer.tagged_graph, lambda: layer.generate(3)):
        with pytest.raises(ValueError, match="has no weights yet"):
            use()
    with pytest.raises(ValueError, match="needs two inputs"):
        layer(np.ones([1, 1], int))
    with pytest.raises(NotImplementedError, match="TopDownDecoder must implement `decide`"):
        layer(np.ones([1, 1], int), np.full([1, 1, 2], -1))
