"""The linear-chain field: against all sequences of tags, and a whole run."""

import itertools
import json

import numpy as np
import pytest
import tensorflow as tf

import part_of_speech_crf as recipe
from kerasrec.datasets import Vocabulary
from linear_chain import LinearChain

RANDOM = np.random.default_rng(1)
SCORES = RANDOM.normal(size=[3, 4, 3]).astype(np.float32)
TRANSITIONS = RANDOM.normal(size=[3, 3])
TAGS = np.int32([[0, 2, 1, 1], [2, 2, 0, -1], [1, -1, -1, -1]])
LENGTHS = np.int32([4, 3, 1])


def score(row, tags):
    pairs = sum(TRANSITIONS[pair] for pair in itertools.pairwise(tags))
    return pairs + sum(SCORES[row, place, tag] for place, tag in enumerate(tags))


def sequences(row):
    return list(itertools.product(range(3), repeat=LENGTHS[row]))


@pytest.fixture(scope="module")
def chain():
    found = LinearChain(3)
    found.transitions.assign(TRANSITIONS)
    return found


@pytest.mark.slow
def test_likelihoods_are_over_all_sequences(chain):
    wanted = [
        np.logaddexp.reduce([score(row, tags) for tags in sequences(row)])
        - score(row, TAGS[row][: LENGTHS[row]])
        for row in range(3)
    ]
    np.testing.assert_allclose(chain.loss(tf.constant(TAGS), tf.constant(SCORES)), wanted, 1e-4)


@pytest.mark.many
def test_the_best_sequence(chain):
    found = chain.decode(tf.constant(SCORES), tf.constant(LENGTHS)).numpy()
    for row in range(3):
        best = max(sequences(row), key=lambda tags: score(row, tags))
        assert tuple(found[row][: LENGTHS[row]]) == best


def write_conllu(file, number, seed):
    """Words say nothing; the first tag is drawn, and then A, B and C follow each other.

    Only the first word is one of its tag.
    """
    random, text = np.random.default_rng(seed), ""
    for _ in range(number):
        first = random.integers(3)
        for place in range(random.integers(3, 8)):
            tag = "ABC"[(first + place) % 3]
            word = "xyz"[first] if place == 0 else "-"
            text += f"{place + 1}\t{word}\t_\t{tag}\t_\t_\t{place}\tdep\t_\t_\n"
        text += "\n"
    file.write_text(text, encoding="utf-8")


@pytest.mark.slow
def test_from_end_to_end(tmp_path):
    write_conllu(tmp_path / "train.conllu", 600, seed=1)
    write_conllu(tmp_path / "test.conllu", 50, seed=2)
    arguments = f"--data {tmp_path} --units 8 --epochs 30 --seeds 2 --output {tmp_path / 'run'}"
    (run,) = recipe.main(arguments.split())
    assert json.loads((tmp_path / "run" / "results.json").read_text()) == [run]
    assert run["chain"]["right tags, %"] > 99
    assert run["no chain"]["right tags, %"] < 70
    assert (tmp_path / "run" / "transitions.png").exists()
    vocabulary = Vocabulary.load(tmp_path / "run" / "vocabulary.txt")
    served = tf.saved_model.load(tmp_path / "run" / "export")
    words = np.int32([[*vocabulary.encode(["y", "-", "-", "-", "-"]), 0, 0]])
    assert served.serve(words).numpy()[0, :5].tolist() == [1, 2, 0, 1, 2]
