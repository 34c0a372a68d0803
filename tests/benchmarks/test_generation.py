"""The baselines of the benchmark of generation are one model."""

import argparse

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import generation
from benchmarks.baselines.eager_decoder import EagerDecoder
from benchmarks.baselines.iterative_decoder import IterativeDecoder


@pytest.mark.slow
def test_what_eager_recursion_scores_and_grows_has_kerasrecs_likelihood():
    decoder, eager, iterative = baselines()
    decoders = dict.fromkeys(generation.ENGINES, decoder)
    generation.check_agreement(decoders, decoders, eager, iterative)
    eager.growth[1] = eager.growth[1] + tf.constant([0.0, 0.5, 0.0, 0.0])
    with pytest.raises(ValueError, match="log-likelihood of eager scoring differs"):
        generation.check_agreement(decoders, decoders, eager, iterative)


@pytest.mark.slow
def test_what_a_loop_grows_are_trees_with_the_likelihood_that_it_scores():
    _, eager, iterative = baselines()
    grown = iterative.generate(20)
    trees = generation.lists(grown)
    sizes = [len(tokens) for tokens, _ in trees]
    assert max(sizes) > 1
    for tokens, children in trees:
        below = sorted(child for row in children for child in row if child >= 0)
        assert below == list(range(1, len(tokens)))
        assert all(child > node for node, row in enumerate(children) for child in row if child >= 0)
    found = iterative.scores(*generation.padded(trees))
    np.testing.assert_allclose(found, grown.log_likelihood, rtol=1e-4)
    np.testing.assert_allclose(found, tf.stack(eager.scores(trees)), rtol=1e-4)


@pytest.mark.slow
def test_a_loop_grows_the_trees_that_kerasrec_has_grown():
    decoder, eager, iterative = baselines()
    steps, size = generation.generation({generation.OURS: decoder}, eager, iterative, 64)
    nodes = {steps[name]() for name in (generation.OURS, "iterative")}
    assert nodes == {round(size * generation.NUM_TREES)}


def test_nodes_in_the_order_in_which_they_come():
    tree = [5, 6, 7, 8], [[2, 1], [3, -1], [-1, -1], [-1, -1]]
    expected = [5, 7, 6, 8], [[1, 2], [-1, -1], [3, -1], [-1, -1]]
    assert generation.as_they_come(*tree) == expected


def baselines():
    """A small decoder, and those that share its weights."""
    arguments = argparse.Namespace(units=5, embedding=3, words=11)
    decoder = generation.make_decoder(arguments, "auto")
    return (
        decoder,
        EagerDecoder(decoder, generation.ALLOWED_SLOTS),
        IterativeDecoder(decoder, generation.ALLOWED_SLOTS),
    )


def test_lists_and_tensors_of_trees_are_the_same():
    trees = [([3, 1], [[1, -1, -1, -1], [-1] * 4]), ([2], [[-1] * 4])]
    tokens, children = generation.padded(trees)
    assert tokens.numpy().tolist() == [[3, 1], [2, 0]]
    assert generation.lists(argparse.Namespace(tokens=tokens, children=children)) == trees
    assert generation.mean_size(trees) == 1.5


def test_ratios_are_of_the_same_turn():
    row = generation.summary({"kerasrec": [1.0, 2.0, 4.0], "eager": [30.0, 20.0, 40.0]}, 10)
    assert row == {"kerasrec trees/s": 0.05, "eager trees/s": 1 / 300, "over eager": 10.0}
