"""The peers of the benchmark of generation are one model."""

import argparse

import pytest
import tensorflow as tf

from benchmarks import generation
from benchmarks.peers.eager_decoder import EagerDecoder


@pytest.mark.slow
def test_what_eager_recursion_scores_and_grows_has_kerasrecs_likelihood():
    decoder = generation.make_decoder(argparse.Namespace(units=5, embedding=3, words=11))
    eager = EagerDecoder(decoder, generation.FOLLOWS)
    generation.check_agreement(decoder, decoder, eager)
    eager.growth[1] = eager.growth[1] + tf.constant([0.0, 0.5, 0.0, 0.0])
    with pytest.raises(ValueError, match="eager scoring has another log-likelihood"):
        generation.check_agreement(decoder, decoder, eager)


def test_lists_and_tensors_of_trees_are_the_same():
    trees = [([3, 1], [[1, -1, -1, -1], [-1] * 4]), ([2], [[-1] * 4])]
    tokens, children = generation.padded(trees)
    assert tokens.numpy().tolist() == [[3, 1], [2, 0]]
    assert generation.lists(argparse.Namespace(tokens=tokens, children=children)) == trees
    assert generation.mean_size(trees) == 1.5


def test_ratios_are_of_the_same_turn():
    row = generation.summary({"kerasrec": [1.0, 2.0, 4.0], "eager": [30.0, 20.0, 40.0]}, 10)
    assert row == {"kerasrec trees/s": 0.05, "eager trees/s": 1 / 300, "speed-up": 10.0}
