"""The hierarchical multiscale recipe: its text, its layers against plain Python, a whole run."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import hierarchical_multiscale_rnn
from agreement import LETTERS, Agreement
from hierarchical_multiscale import HierarchicalMultiscale

UNITS, LEVELS, FEATURES = 5, 3, 4


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def affine(inputs, weights):
    kernel, bias = weights
    return inputs @ kernel + bias


class Plain:
    """Chung et al. 2017, equations 1 to 7, step by step; it counts what each level does."""

    def __init__(self, layer):
        self.gates, self.finders = (
            [[weights.numpy() for weights in dense.weights] for dense in part]
            for part in (layer.gates, layer.finders)
        )
        self.slope = float(layer.slope)
        self.did = [{"COPY": 0, "UPDATE": 0, "FLUSH": 0} for _ in range(LEVELS)]

    def __call__(self, row):
        hidden, cells = np.zeros([2, LEVELS, UNITS])
        boundaries = np.zeros(LEVELS)
        for x in row:
            below, found = x, 1.0
            before = hidden.copy(), boundaries.copy()
            for level in range(LEVELS):
                what = "FLUSH" if boundaries[level] else "UPDATE" if found else "COPY"
                self.did[level][what] += 1
                if what != "COPY":
                    above = [before[1][level] * before[0][level + 1]] if level + 1 < LEVELS else []
                    inputs = np.concatenate([found * below, hidden[level], *above])
                    f, i, o, g = np.split(affine(inputs, self.gates[level]), 4)
                    kept = sigmoid(f + 1) * cells[level] if what == "UPDATE" else 0.0
                    cells[level] = kept + sigmoid(i) * np.tanh(g)
                    hidden[level] = sigmoid(o) * np.tanh(cells[level])
                    if above:
                        (slope,) = self.slope * affine(inputs, self.finders[level])
                        boundaries[level] = (slope + 1) / 2 > 0.5
                below, found = hidden[level], boundaries[level]
            yield np.concatenate([hidden.ravel(), boundaries[:-1]])


@pytest.fixture(scope="module")
def layer_and_inputs():
    """A layer that finds boundaries at some steps, not at all, on each level that can."""
    keras.utils.set_random_seed(3)
    layer = HierarchicalMultiscale(UNITS, LEVELS, price=0.5)
    inputs = np.random.default_rng(1).normal(size=[6, 9, FEATURES]).astype(np.float32)
    layer.build(inputs.shape)
    for dense in layer.gates + layer.finders:
        dense.kernel.assign(keras.random.normal(dense.kernel.shape, stddev=0.7, seed=1))
    layer.slope.assign(0.4)
    return layer, inputs


@pytest.mark.many
def test_states_are_those_of_the_equations(layer_and_inputs):
    layer, inputs = layer_and_inputs
    hidden, boundaries = layer(inputs)
    plain = Plain(layer)
    wanted = np.stack([list(plain(row)) for row in inputs])
    np.testing.assert_allclose(tf.concat([hidden, boundaries], 2), wanted, atol=1e-5)
    for level in (1, 2):
        assert min(plain.did[level].values()) > 0 or level == LEVELS - 1
    np.testing.assert_allclose(layer.losses, [0.5 * np.mean(boundaries)], rtol=1e-6)


@pytest.mark.slow
def test_a_layer_that_copies_computes_nothing(layer_and_inputs):
    layer, inputs = layer_and_inputs
    plain = Plain(layer)
    for row in inputs:
        list(plain(row))
    trace = layer.recursion(inputs).run_trace(*layer.at_start(inputs))
    products = [trace.fired[name] for name in trace.fired if "MatMul" in name]
    steps = inputs.shape[0] * inputs.shape[1]
    fired = [steps - did["COPY"] for did in plain.did]
    assert sorted(products) == sorted(fired + fired[:-1])  # the top level finds no boundaries
    assert min(fired) < steps


@pytest.mark.slow
def test_gradient_is_straight_through(layer_and_inputs):
    layer, inputs = layer_and_inputs
    inputs = inputs[:3, :6]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(inputs)[0] ** 2)
    slopes = tape.gradient(loss, [weights.value for weights in layer.trainable_weights])
    with tf.GradientTape() as tape:
        loss = 0.0
        for row in inputs:
            states = [tuple(tf.zeros([1, size]) for size in (UNITS, UNITS, 1))] * LEVELS
            for x in row[:, np.newaxis]:
                below, found, after = tf.constant(x), tf.ones([1, 1]), []
                for level, state in enumerate(states):
                    above = states[level + 1][0] if level + 1 < LEVELS else None
                    if found + state[2] > 0:
                        state = layer.fire(level, below, found, state, above)
                    below, _, found = state
                    after.append(state)
                    loss += tf.reduce_sum(below**2)
                states = after
    wanted = tape.gradient(loss, [weights.value for weights in layer.trainable_weights])
    for mine, theirs in zip(slopes, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-4)
        assert np.abs(theirs).max() > 1e-3


def letters_of(characters):
    return "".join(LETTERS[character] for character in characters)


def words_of(text, row):
    return letters_of(text.characters[row]).split(" ")[:-1]


def test_text_agrees():
    source = Agreement(seed=1)
    text = source.draw(20, 300)
    assert {array.shape for array in text} == {(20, 300)}
    verb_of, others = {}, set()
    for row in range(20):
        words = words_of(text, row)
        while len(words) > 12:
            at = next(at for at in range(7, 12) if words[at] in source._verbs)
            assert verb_of.setdefault(words[0], words[at]) == words[at]
            others |= set(words[1:at])
            words = words[at + 1 :]
    assert len(set(verb_of.values())) == len(verb_of) == len(others) == 8
    assert np.array_equal(text.ends_word[:, :-1], text.characters[:, 1:] == 0)
    assert not text.ends_word[:, -1].any()
    verb = verb_of[words_of(text, 0)[0]]
    assert letters_of(text.characters[0][text.in_verb[0]]).startswith(verb + " ")


@pytest.mark.slow
def test_from_end_to_end(tmp_path):
    options = "--passages 64 --length 50 --units 8 --batch 16 --epochs 3 --rate 0.02 --seeds 2"
    (run,) = hierarchical_multiscale_rnn.main(f"{options} --output {tmp_path}".split())
    assert json.loads((tmp_path / "results.json").read_text()) == [run]
    figures, flat = run["multiscale"], run["LSTM"]
    assert 0.8 * figures["weights"] < flat["weights"] <= figures["weights"]
    assert 1 < figures["bits per character"] < np.log2(len(LETTERS))
    assert figures["bits per verb"] > figures["bits per character"]
    assert 0 <= figures["upper layer, % of steps"] <= 100
    loaded = keras.models.load_model(tmp_path / "seed_2.keras")
    assert loaded(np.ones([3, 7], np.int32)).shape == (3, 7, len(LETTERS))
