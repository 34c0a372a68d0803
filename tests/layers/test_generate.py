"""Limits on the draws of growing trees, and beam search, against enumeration."""

import math

import numpy as np
import pytest
import tensorflow as tf

from kerasrec.layers import TopDownTreeLSTMCell, TreeDecoder
from tests.layers.helpers import all_trees, nested, texts
from tests.layers.test_tree_decoder import ALL_SLOTS, NUM_TOKENS, Plain, decoder
from tests.parameters import few_of


@pytest.fixture(scope="module")
def small():
    """A decoder of which all trees can be enumerated: two tokens, two slots, three levels."""
    layer = TreeDecoder(TopDownTreeLSTMCell(4, arity=2), 3, 3, max_depth=3)
    layer.build((None, None), (None, None, 2))
    random = np.random.default_rng(7)
    layer.set_weights([random.normal(size=weight.shape) for weight in layer.weights])
    return layer


@pytest.fixture(scope="module")
def layer():
    return decoder(2, None, max_depth=4)


@pytest.fixture(scope="module")
def smaller():
    return decoder(2, None, bias=-0.3, max_depth=5)


def scores_of(layer, grown):
    return tf.reduce_sum(layer(grown.tokens, grown.children), [1, 2]).numpy()


@pytest.mark.many
def test_many_beams_find_the_likeliest_tree(small):
    tokens, children = all_trees(3, ALL_SLOTS, 3)
    scores = tf.reduce_sum(small(tokens, children), [1, 2]).numpy()
    found = small.generate([-1, 1, 2], num_beams=200)
    trees = texts(found.tokens.numpy(), found.children.numpy())
    all_texts = texts(tokens, children)
    assert trees[0] == all_texts[scores.argmax()]
    np.testing.assert_allclose(found.log_likelihood[0], scores.max(), rtol=1e-5)
    root = small(tokens, children)[:, 0, 0].numpy()
    for place, token in ((1, 1), (2, 2)):
        of_root = np.where(tokens[:, 0] == token, scores - root, -np.inf)
        assert trees[place] == all_texts[of_root.argmax()]
        np.testing.assert_allclose(found.log_likelihood[place], of_root.max(), rtol=1e-5)


@pytest.mark.parametrize("num_beams", few_of([2, 5, 1], many=[2]))
def test_scores_of_beam_search_are_those_of_the_trees(layer, num_beams):
    found = layer.generate(2, num_beams=num_beams)
    np.testing.assert_allclose(found.log_likelihood, scores_of(layer, found), rtol=1e-4)
    greedy = scores_of(layer, layer.generate(2, temperature=0))
    assert (found.log_likelihood.numpy() > greedy - 1e-4).all()
    drawn = layer.generate(200, seed=3)
    if num_beams == 5:
        assert found.log_likelihood[0] >= drawn.log_likelihood.numpy().max() - 1e-4


@pytest.mark.many
def test_beams_avoid_what_the_likeliest_choices_lead_to():
    """Each node wants a child a little more than not, so that greedy trees fill all levels."""
    layer = decoder(2, None, bias=0.3, max_depth=6)
    for weight in (layer.growth.kernel, layer.words.kernel):
        weight.assign(weight * 0.01)
    found, greedy = layer.generate(1, num_beams=4), layer.generate(1, temperature=0)
    assert np.count_nonzero(greedy.tokens) == 63 > np.count_nonzero(found.tokens)
    assert found.log_likelihood[0] > scores_of(layer, greedy)[0] + 50
    np.testing.assert_allclose(found.log_likelihood, scores_of(layer, found), rtol=1e-4)


@pytest.mark.many
def test_results_of_many_beams_are_the_likeliest_trees(small):
    tokens, children = all_trees(3, ALL_SLOTS, 3)
    scores = tf.reduce_sum(small(tokens, children), [1, 2]).numpy()
    found = small.generate([-1, 2], num_beams=200, num_results=12)
    all_texts = np.array(texts(tokens, children))
    root = small(tokens, children)[:, 0, 0].numpy()
    of_root = np.where(tokens[:, 0] == 2, scores - root, -np.inf)
    for place, expected in enumerate((scores, of_root)):
        order = np.argsort(-expected)[:12]
        np.testing.assert_allclose(found.log_likelihood[place], expected[order], rtol=1e-5)
        trees = texts(found.tokens[place].numpy(), found.children[place].numpy())
        assert trees == list(all_texts[order])


@pytest.mark.parametrize("num_beams", few_of([3, 8], many=[3]))
def test_results_are_sorted_and_distinct_and_have_their_scores(layer, num_beams):
    found = layer.generate([-1, 3, 5, -1], num_beams=num_beams, num_results=3)
    assert all(part.shape[:2] == (4, 3) for part in found)
    best = layer.generate([-1, 3, 5, -1], num_beams=num_beams)
    assert (found.log_likelihood[:, 0] >= best.log_likelihood - 1e-4).numpy().all()
    for place, is_drawn in enumerate([True, False, False, True]):
        trees = found.tokens[place], found.children[place]
        terms = layer(*trees).numpy()
        expected = terms.sum((1, 2)) - (0 if is_drawn else terms[:, 0, 0])
        np.testing.assert_allclose(found.log_likelihood[place], expected, rtol=1e-4)
        assert (np.diff(found.log_likelihood[place]) <= 0).all()
        assert len(set(texts(*(part.numpy() for part in trees)))) == 3


def test_results_that_no_tree_is_left_for_are_empty():
    layer = TreeDecoder(TopDownTreeLSTMCell(4, arity=1), 3, 3, max_depth=1)
    layer.build((None, None), (None, None, 1))
    found = layer.generate([-1, 2], num_beams=4, num_results=4)
    assert sorted(found.tokens[0, :, 0].numpy()) == [0, 0, 1, 2]
    assert found.tokens[1, :, 0].numpy().tolist() == [2, 0, 0, 0]
    np.testing.assert_allclose(tf.reduce_logsumexp(found.log_likelihood, 1), [0, 0], atol=1e-6)
    assert found.log_likelihood[1].numpy().tolist() == [0] + [-np.inf] * 3


class Uniform(TreeDecoder):
    """All choices are equally likely."""

    def decide(self, states, choose):
        token = choose.token(self.words, 0 * states)
        return token, choose.children(tf.zeros([tf.shape(states)[0], 2]))


def test_results_of_equal_scores_are_complete_and_distinct():
    layer = Uniform(TopDownTreeLSTMCell(4, arity=2), 4, 3, max_depth=4)
    layer.build((None, None), (None, None, 2))
    for number in (1, 5, 9):
        found = layer.generate(1, num_beams=9, num_results=number)
        expected = tf.reduce_sum(layer(found.tokens[0], found.children[0]), [1, 2])
        np.testing.assert_allclose(found.log_likelihood[0], expected, rtol=1e-5)
        trees = texts(found.tokens[0].numpy(), found.children[0].numpy())
        assert len(set(trees)) == number


@pytest.mark.parametrize("root", [1, 2, 5])
def test_the_largest_partial_tree_may_be_dropped(smaller, root):
    """Nothing then needs the room for its nodes, which was an error."""
    found = smaller.generate([root], num_beams=4)
    terms = smaller(found.tokens, found.children).numpy()
    np.testing.assert_allclose(found.log_likelihood, terms.sum() - terms[0, 0, 0], rtol=1e-4)


def log_likelihood(layer, tokens, children, kept):
    """That of the process that draws only from the tokens that `kept` keeps of their chances."""
    plain = Plain(layer, ALL_SLOTS)
    total = sum(growth for _, growth in plain.terms(tokens, children).values())

    def visit(node, states):
        chances = kept(plain.word_chances(states))
        own = math.log(chances[tokens[node]] / chances.sum())
        for slot, child in enumerate(children[node]):
            if child >= 0:
                own += visit(child, plain.below(states, tokens[node], slot))
        return own

    return total + visit(0, plain.begin())


def top_k(chances):
    return np.where(chances >= np.sort(chances)[-2], chances, 0)


def top_p(chances):
    order = np.argsort(-chances)
    before = np.cumsum(chances[order]) - chances[order]
    kept = np.zeros_like(chances)
    kept[order[before < 0.6]] = chances[order[before < 0.6]]
    return kept


def allowed(chances):
    return np.where(np.isin(np.arange(NUM_TOKENS), [1, 5]), 0, chances)


@pytest.mark.parametrize(
    ("options", "kept"),
    few_of(
        [
            ({"top_k": 2}, top_k),
            ({"top_p": 0.6}, top_p),
            ({"forbidden_tokens": [5, 1]}, allowed),
            ({"forbidden_tokens": [5, 1], "top_k": 2}, lambda chances: top_k(allowed(chances))),
        ],
        many=[({"top_p": 0.6}, top_p)],
    ),
)
def test_likelihood_is_that_of_the_limited_draws(layer, options, kept):
    grown = layer.generate(60, seed=2, **options)
    tokens, children = grown.tokens.numpy(), grown.children.numpy()
    assert len(set(texts(tokens, children))) > 5
    expected = [log_likelihood(layer, *tree, kept) for tree in zip(tokens, children, strict=True)]
    np.testing.assert_allclose(grown.log_likelihood, expected, rtol=1e-4, atol=1e-4)
    assert np.isfinite(expected).all()


@pytest.mark.slow
def test_limited_draws_are_as_frequent_as_they_are_likely():
    layer = decoder(1, None, bias=-50.0, max_depth=2)
    grown = layer.generate(4000, seed=1, top_p=0.8, forbidden_tokens=[2])
    chances = Plain(layer, ((0,), (0,))).word_chances([np.zeros(4)] * 2)
    chances[2] = 0
    chances /= chances.sum()
    order = np.argsort(-chances)
    kept = order[np.cumsum(chances[order]) - chances[order] < 0.8]
    expected = np.zeros(NUM_TOKENS)
    expected[kept] = chances[kept] / chances[kept].sum()
    found = np.bincount(grown.tokens[:, 0], minlength=NUM_TOKENS) / 4000
    np.testing.assert_allclose(found, expected, atol=0.03)


@pytest.mark.slow
def test_limits_hold_when_compiled():
    waves = decoder(2, None, max_depth=3)
    compiled = decoder(2, None, max_depth=3, engine="compiled")
    options = {"seed": 4, "top_k": 3, "top_p": 0.9, "forbidden_tokens": [4]}
    one, other = waves.generate(6, **options), compiled.generate(6, **options)
    assert texts(one.tokens.numpy(), one.children.numpy()) == texts(
        other.tokens.numpy(), other.children.numpy()
    )
    np.testing.assert_allclose(one.log_likelihood, other.log_likelihood, rtol=1e-4)


@pytest.mark.many
def test_forbidden_tokens_are_not_found(layer):
    found = layer.generate(1, num_beams=3)
    token = int(found.tokens[0, 0])
    without = layer.generate([-1, token], num_beams=3, forbidden_tokens=[token])
    assert token not in without.tokens[0].numpy()
    assert without.tokens[1, 0] == token  # A root that is given stays.
    assert token not in without.tokens[1, 1:].numpy()
    np.testing.assert_allclose(without.log_likelihood[0], scores_of(layer, without)[0], rtol=1e-4)
    assert nested(found.tokens.numpy()[0], found.children.numpy()[0])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"top_k": 0}, "`top_k` of generate must be a positive integer or None, received 0"),
        ({"num_beams": 1.5}, "`num_beams` of generate must be a positive integer"),
        ({"top_p": 1.5}, "`top_p` of generate must be a probability"),
        ({"forbidden_tokens": [0]}, r"of tokens from 1 to 6, but not all.*received \[0\]"),
        ({"forbidden_tokens": 1}, "must be a list of tokens from 1 to 6.*received 1"),
        ({"forbidden_tokens": ["<unk>"]}, "must be a list of tokens from 1 to 6"),
        ({"forbidden_tokens": range(1, 7)}, "not all of them"),
        ({"num_beams": 2, "temperature": 0.5}, "`num_beams` of generate .*leave `temperature`"),
        ({"num_beams": 2, "top_k": 3}, "leave `temperature`, `top_k`"),
        (
            {"num_results": 0},
            "`num_results` of generate must be a positive integer or None, received 0",
        ),
        ({"num_results": 3}, "`num_beams` must be at least 3; received None. To draw several"),
        ({"num_results": 3, "num_beams": 2}, "`num_beams` must be at least 3; received 2"),
    ],
)
def test_what_options_cannot_be(layer, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        layer.generate(1, **options)
