"""The soft edit distance: against all ways to edit, and a whole run."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import soft_edit_distance as recipe
from edit_channel import Pairs, draw_channel, draw_pairs
from edit_distance import SoftEditDistance, expected_edits, total

NOTHING = 3
EDITS = np.random.default_rng(1).normal(size=[4, 4]).astype(np.float32)
STRINGS = [([0, 2, 1], [0, 1]), ([1], [2, 2, 0]), ([2, 0], [])]


def ways(x, y):
    """All ways to edit x into y: the edits of each."""
    if not x and not y:
        return [[(NOTHING, NOTHING)]]
    found = []
    if x and y:
        found += [[(x[0], y[0]), *rest] for rest in ways(x[1:], y[1:])]
    if x:
        found += [[(x[0], NOTHING), *rest] for rest in ways(x[1:], y)]
    if y:
        found += [[(NOTHING, y[0]), *rest] for rest in ways(x, y[1:])]
    return found


def padded(strings):
    return np.int32([[*string, *[0] * (3 - len(string))] for string in strings])


PAIRS = Pairs(
    padded([x for x, _ in STRINGS]),
    padded([y for _, y in STRINGS]),
    np.int32([len(x) for x, _ in STRINGS]),
    np.int32([len(y) for _, y in STRINGS]),
)


def scores(pair):
    return np.array([sum(EDITS[edit] for edit in way) for way in ways(*pair)])


@pytest.mark.many
def test_chances_are_over_all_ways():
    wanted = [np.logaddexp.reduce(scores(pair)) for pair in STRINGS]
    np.testing.assert_allclose(total(tf.reduce_logsumexp, tf.constant(EDITS), PAIRS), wanted, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("plus", [tf.reduce_logsumexp, tf.reduce_max], ids=["all", "best"])
def test_expected_edits(plus):
    wanted = np.zeros_like(EDITS)
    for pair in STRINGS:
        of_ways = scores(pair)
        chances = np.exp(of_ways - np.logaddexp.reduce(of_ways))
        if plus is tf.reduce_max:
            chances = np.eye(len(of_ways))[of_ways.argmax()]
        for way, chance in zip(ways(*pair), chances, strict=True):
            np.add.at(wanted, tuple(np.transpose(way)), chance)
    np.testing.assert_allclose(expected_edits(plus, tf.constant(EDITS), PAIRS), wanted, atol=1e-5)


@pytest.mark.slow
def test_the_channel_writes_what_it_says():
    chances = draw_channel(letters=5, noise=0.4, seed=1)
    assert chances.sum() == pytest.approx(1)
    assert np.trace(chances) == pytest.approx(0.9 * 0.6 + 0.1)
    pairs, made = draw_pairs(chances, number=3000, seed=1)
    assert made[:-1].sum() == pairs.x_lengths.sum()
    assert made[:, :-1].sum() == pairs.y_lengths.sum()
    np.testing.assert_allclose(made / made.sum(), chances, atol=0.02)


@pytest.mark.slow
def test_from_end_to_end(tmp_path):
    arguments = "--letters 4 --noise 0.5 --pairs 400 --steps 12 --seeds 2"
    (run,) = recipe.main(f"{arguments} --output {tmp_path}".split())
    assert json.loads((tmp_path / "results.json").read_text()) == [run]
    learned, shortest = run["learned"], run["shortest edits"]
    assert learned["wrong edits, %"] < 0.7 * shortest["wrong edits, %"]
    assert learned["bits above the channel's"] < shortest["bits above the channel's"]
    assert (tmp_path / "edits.png").exists()
    assert keras.models.load_model(tmp_path / "model.keras").count_params() == 25


@pytest.mark.slow
def test_the_distance_of_the_model():
    model = SoftEditDistance(3)
    model.edits.assign(EDITS)
    wanted = [-np.logaddexp.reduce(scores(pair)) for pair in STRINGS]
    np.testing.assert_allclose(model(list(PAIRS)), wanted, 1e-5)
