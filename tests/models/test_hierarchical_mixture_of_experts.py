"""The hierarchical mixture of experts: against plain Python, what it computes, and a whole run."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import hierarchical_mixture_of_experts
from comparison import table
from flat_models import mixture, net
from hidden_tree import HiddenTree
from hierarchical_mixture import HierarchicalMixture

FEATURES, OUTPUTS = 4, 3


class Plain:
    """The mixture of one example by Python recursion; it counts the experts that it calls."""

    def __init__(self, layer):
        self.gates, self.experts = (weights.numpy() for weights in layer.weights)
        self.calls = 0

    def __call__(self, x, node=0):
        if node >= len(self.gates):
            self.calls += 1
            return x @ self.experts[node - len(self.gates)]
        t = np.clip(x @ self.gates[node] + 0.5, 0, 1)
        share = t**2 * (3 - 2 * t)
        total = 0.0
        for child, part in ((2 * node + 1, 1 - share), (2 * node + 2, share)):
            if part > 0:
                total = total + part * self(x, child)
        return total


@pytest.fixture(scope="module")
def layer_and_inputs():
    """A layer of three levels whose gates are sharp enough for some walks to take one way."""
    keras.utils.set_random_seed(1)
    layer = HierarchicalMixture(3, OUTPUTS)
    inputs = np.random.default_rng(1).normal(size=[20, FEATURES]).astype(np.float32)
    layer.build(inputs.shape)
    layer.gates.assign(2 * layer.gates)
    return layer, inputs


@pytest.mark.slow
def test_it_is_a_walk_over_the_tree(layer_and_inputs):
    layer, inputs = layer_and_inputs
    plain = Plain(layer)
    wanted = np.stack([plain(np.append(x, 1.0)) for x in inputs])
    np.testing.assert_allclose(layer(inputs), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_only_experts_that_are_reached_are_called(layer_and_inputs):
    layer, inputs = layer_and_inputs
    plain = Plain(layer)
    for x in inputs:
        plain(np.append(x, 1.0))
    gates, experts = layer.reached(inputs)
    assert experts == plain.calls / len(inputs)
    assert 1 < experts < 4
    assert 3 <= gates < 7
    trace = layer.recursion().run_trace(*layer.from_root(inputs))
    products = [name for name in trace.fired if name.startswith("expert/Einsum")]
    assert [trace.fired[name] for name in products] == [plain.calls]


@pytest.mark.slow
def test_gradient_is_that_of_a_mixture_that_computes_everything(layer_and_inputs):
    layer, inputs = layer_and_inputs
    weights = [layer.gates.value, layer.experts.value]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(inputs) ** 2)
    gradients = [tf.convert_to_tensor(slope) for slope in tape.gradient(loss, weights)]
    x, _ = layer.from_root(inputs)
    with tf.GradientTape() as tape:
        t = tf.clip_by_value(tf.einsum("ni,gi->gn", x, layer.gates.value) + 0.5, 0.0, 1.0)
        share = t * t * (3.0 - 2.0 * t)
        outputs = tf.einsum("ni,eio->eno", x, layer.experts.value)
        for level in reversed(range(3)):
            right = share[2**level - 1 : 2 ** (level + 1) - 1, :, tf.newaxis]
            outputs = (1.0 - right) * outputs[::2] + right * outputs[1::2]
        loss = tf.reduce_sum(outputs[0] ** 2)
    for mine, wanted in zip(gradients, tape.gradient(loss, weights), strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.many
def test_flat_models_have_as_many_weights():
    assert net(FEATURES, OUTPUTS, 1, 100).count_params() == 12 * (FEATURES + 1 + OUTPUTS) + OUTPUTS
    model = mixture(FEATURES, OUTPUTS, 8)
    assert model.count_params() == 8 * (FEATURES + 1) * (1 + OUTPUTS)
    assert model(np.zeros([2, FEATURES])).shape == (2, OUTPUTS)


def test_the_hidden_tree_has_a_map_for_each_leaf():
    x, y = HiddenTree(levels=2, features=3, outputs=2, seed=1).draw(400)
    assert x.shape == (400, 3)
    assert y.shape == (400, 2)
    ways = np.sign(x @ HiddenTree(2, 3, 2, 1)._planes.T) > 0
    leaves = np.where(ways[:, 0], 2 + ways[:, 2], ways[:, 1])
    assert sorted(set(leaves)) == [0, 1, 2, 3]
    for leaf in range(4):
        here = leaves == leaf
        linear, *_ = np.linalg.lstsq(x[here], y[here])
        np.testing.assert_allclose(x[here] @ linear, y[here], atol=1e-4)


def test_table_has_mean_and_spread_of_seeds():
    runs = [
        {"tree": {"weights": 1200, "error": 0.5 + half}, "net": {"weights": 7}} for half in (0, 1)
    ]
    assert table(runs).split("\n")[2:] == ["| tree | 1,200 | 1.00 ± 0.71 |", "| net | 7 |  |"]
    assert "±" not in table(runs[:1])


@pytest.mark.slow
def test_from_end_to_end(tmp_path):
    options = (
        "--levels 2 --features 6 --outputs 4 --examples 2000 --batch 100 --epochs 10 --seeds 2"
    )
    (run,) = hierarchical_mixture_of_experts.main(f"{options} --output {tmp_path}".split())
    assert json.loads((tmp_path / "results.json").read_text()) == [run]
    tree = run["tree of experts"]
    assert tree["unexplained, %"] < 0.7 * run["flat net, as many weights"]["unexplained, %"]
    assert 1 <= tree["experts"] < 3
    inputs = np.ones([3, 6], np.float32)
    loaded = keras.models.load_model(tmp_path / "seed_2.keras")
    assert loaded(inputs).shape == (3, 4)
