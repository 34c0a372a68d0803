"""The parser: against all trees of short sentences, and a whole run."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from nltk import Tree

import constituency_parser as recipe
from brackets import agreement, brackets, right_branching
from weighted_grammar import WeightedGrammar

TOKENS = np.int32([[1, 3, 2, 2, 1], [2, 1, 3, 0, 0]])
LENGTHS = [5, 3]


def trees(i, j):
    """All binary trees of words i to j - 1: the phrases of each."""
    if j - i == 1:
        return [[(i, j)]]
    return [
        [(i, j), *left, *right]
        for k in range(i + 1, j)
        for left in trees(i, k)
        for right in trees(k, j)
    ]


def symbols(grammar, tokens, phrases, plus):
    """`plus` over all symbols of the phrases of a tree, which are given from the top."""
    words, rules = grammar.words.weights[0].numpy().astype(float), grammar.rules.numpy()
    places = iter(phrases)

    def scores():
        i, j = next(places)
        if j - i == 1:
            return words[tokens[i]]
        left, right = scores(), scores()
        ways = rules + left[:, np.newaxis] + right
        return np.array([plus(way.ravel()) for way in ways])

    return scores()[0]


@pytest.fixture(scope="module")
def grammar():
    keras.utils.set_random_seed(1)
    found = WeightedGrammar(num_tokens=4, symbols=3)
    found.words.build()
    for weight in found.weights:
        weight.assign(np.random.default_rng(1).normal(size=weight.shape))
    return found


def all_trees(grammar, row, plus):
    found = trees(0, LENGTHS[row])
    return found, np.array([symbols(grammar, TOKENS[row], tree, plus) for tree in found])


def table(phrases, chance=1.0):
    found = np.zeros([6, 6])
    for i, j in phrases:
        if j - i > 1:
            found[i, j] = chance
    return found


@pytest.mark.slow
def test_likelihoods_are_over_all_trees(grammar):
    known, wanted = [], []
    for row, chosen in enumerate((9, 1)):
        found, scores = all_trees(grammar, row, np.logaddexp.reduce)
        known.append(table(found[chosen]) > 0)
        wanted.append(scores[chosen] - np.logaddexp.reduce(scores))
    assert len(all_trees(grammar, 0, max)[0]) == 14
    np.testing.assert_allclose(grammar((TOKENS, np.stack(known))), wanted, atol=1e-4)


@pytest.mark.slow
def test_chances_of_phrases(grammar):
    chart = grammar.chart(tf.reduce_logsumexp, tf.constant(TOKENS))
    for row in range(2):
        found, scores = all_trees(grammar, row, np.logaddexp.reduce)
        chances = np.exp(scores - np.logaddexp.reduce(scores))
        wanted = sum(table(*pair) for pair in zip(found, chances, strict=True))
        np.testing.assert_allclose(chart[row], wanted, atol=1e-4)


@pytest.mark.many
def test_the_best_tree(grammar):
    chart = grammar.chart(tf.reduce_max, tf.constant(TOKENS))
    for row in range(2):
        found, scores = all_trees(grammar, row, max)
        np.testing.assert_array_equal(chart[row], table(found[scores.argmax()]))


def test_agreement_of_brackets():
    known = brackets(Tree.fromstring("(x (x (x a) (x b)) (x (x c) (x d)))"), 5)
    assert np.argwhere(known & np.tri(6, k=-2, dtype=bool).T).tolist() == [[0, 2], [0, 4], [2, 4]]
    found = brackets(right_branching(["a", "b", "c", "d"]), 5)
    assert np.argwhere(found & np.tri(6, k=-2, dtype=bool).T).tolist() == [[0, 4], [1, 4], [2, 4]]
    assert agreement(found[np.newaxis], known[np.newaxis], np.array([4])) == 50
    apart = brackets(right_branching(["a", "b", "."]), 3)
    assert apart[0, 2] and not apart[1, 3]


@pytest.mark.slow
def test_from_end_to_end(tmp_path):
    arguments = "--longest 8 --train 300 --test 40 --symbols 6 --epochs 15 --seeds 2"
    (run,) = recipe.main(f"{arguments} --output {tmp_path}".split())
    assert json.loads((tmp_path / "results.json").read_text()) == [run]
    assert run["grammar"]["F1, %"] > run["right-branching"]["F1, %"]
    assert (tmp_path / "chart.png").exists()
    served = tf.saved_model.load(tmp_path / "export")
    phrases = served.serve(np.int32([[2, 3, 4, 0, 0, 0, 0, 0], [5, 4, 3, 2, 1, 1, 0, 0]])).numpy()
    assert phrases[0].sum() == 2 and phrases[1].sum() == 5  # of more than one word
    assert phrases[0, 0, 3] and phrases[1, 0, 6]
