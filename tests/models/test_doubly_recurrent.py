"""The doubly recurrent recipe: its trees, its model against plain Python, and a whole run."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from nltk import Tree

import doubly_recurrent
from doubly_recurrent import (
    VOCABULARY,
    DoublyRecurrentCell,
    DoublyRecurrentDecoder,
    StringToTree,
    arrays,
    decoded,
)
from random_trees import LETTERS, Grammar, breadth_first, edges, evaluate, figures, match
from tests.layers.helpers import check_distribution, with_random_weights
from tests.parameters import few_of

UNITS, DIM = 5, 3
MAX_DEPTH = 40  # the levels of a tree by first child and next sibling
TREES = [Tree.fromstring(text) for text in ("(A (B C (D E) F) C (G H))", "(C A)", "(B A A A)")]


class Plain:
    """Alvarez-Melis and Jaakkola 2017, section 3, by Python recursion on trees of any arity."""

    def __init__(self, weights):
        weights = iter(weights)
        self.embeddings = next(weights)
        self.ancestral, self.fraternal = ([next(weights) for _ in range(3)] for _ in range(2))
        self.from_ancestral, self.from_fraternal = next(weights), next(weights)
        self.topology, self.labels = ([next(weights), next(weights)] for _ in range(2))

    @staticmethod
    def variables(layer):
        """A layer's weights in the order above."""
        cell = layer.decoder.cell
        parts = [layer.decoder.embedding, cell.ancestral, cell.fraternal]
        parts += [cell.from_ancestral, cell.from_fraternal]
        parts += [layer.decoder.topology, layer.decoder.labels]
        return [weight for part in parts for weight in part.trainable_variables]

    def vector(self, label):
        return self.embeddings[2 + LETTERS.index(label)]

    @staticmethod
    def gru(weights, h, x):
        """A gated recurrent unit in Keras' form (Cho et al. 2014, the reset gate behind U h)."""
        kernel, recurrent, (bias, recurrent_bias) = weights
        update, reset, new = np.split(x @ kernel + bias, 3)
        update_h, reset_h, new_h = np.split(h @ recurrent + recurrent_bias, 3)
        update, reset = (1 / (1 + np.exp(-gate)) for gate in (update + update_h, reset + reset_h))
        return update * h + (1 - update) * np.tanh(new + reset * new_h)

    def predict(self, h_a, h_f):
        """Log-odds of children and of a next sibling, and what labels are made from."""
        h = np.tanh(h_f @ self.from_fraternal + h_a @ self.from_ancestral)
        odds = h @ self.topology[0] + self.topology[1]
        kernel, bias = self.labels

        def log_labels(alpha, phi):
            logits = h @ kernel[:UNITS] + alpha * kernel[UNITS] + phi * kernel[UNITS + 1] + bias
            return logits - np.log(np.exp(logits[1:]).sum())

        return odds, log_labels

    def log_likelihood(self, tree, code):
        total = 0.0

        def visit(node, h_a, h_f, has_next, level):
            nonlocal total
            label, below = (node.label(), list(node)) if isinstance(node, Tree) else (node, [])
            odds, log_labels = self.predict(h_a, h_f)
            decisions = [bool(below)] if has_next is None else [bool(below), has_next]
            for is_so, odd in zip(decisions, odds, strict=False):
                if level < MAX_DEPTH:  # Nothing is decided on the last level.
                    total -= np.log1p(np.exp(-odd if is_so else odd))
            total += log_labels(bool(below), bool(has_next))[2 + LETTERS.index(label)]
            fraternal = np.zeros(UNITS)
            for place, child in enumerate(below):
                ancestral = self.gru(self.ancestral, h_a, self.vector(label))
                has_next = place + 1 < len(below)
                visit(child, ancestral, fraternal, has_next, level + 1 + place)
                name = child.label() if isinstance(child, Tree) else child
                fraternal = self.gru(self.fraternal, fraternal, self.vector(name))

        visit(tree, code, np.zeros(UNITS), None, 1)
        return total


@pytest.fixture(scope="module")
def layer():
    layer = StringToTree(UNITS, DIM)
    layer.build((None, None), (None, None), (None, None, 2))
    random = np.random.default_rng(2)
    layer.set_weights([0.7 * random.normal(size=weight.shape) for weight in layer.weights])
    # Unknown labels, which no tree of letters has.
    layer.decoder.labels.bias.assign(layer.decoder.labels.bias - 99 * np.eye(28)[1])
    layer.decoder.topology.bias.assign([0.0, -0.7])
    return layer


def plain(layer):
    return Plain([weight.numpy().astype(float) for weight in Plain.variables(layer)])


@pytest.mark.slow
def test_log_likelihood_is_that_of_the_paper(layer):
    inputs = arrays(TREES)
    found = tf.reduce_sum(layer(*inputs), [1, 2])
    codes = layer.encode(inputs[0])[1].numpy().astype(float)
    assert np.abs(codes[0] - codes[1]).max() > 0.1
    wanted = [plain(layer).log_likelihood(*pair) for pair in zip(TREES, codes, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.slow
def test_trees_that_grow_are_scored_alike(layer):
    strings = arrays(TREES)[0]
    grown = layer.generate(np.repeat(strings, 5, axis=0), seed=3, temperature=1.0)
    trees = decoded(grown)
    assert len({str(tree) for tree in trees}) > 5
    codes = np.repeat(layer.encode(strings)[1].numpy().astype(float), 5, axis=0)
    wanted = [plain(layer).log_likelihood(*pair) for pair in zip(trees, codes, strict=True)]
    np.testing.assert_allclose(grown.log_likelihood, wanted, rtol=1e-4)


@pytest.mark.parametrize(("levels", "num_trees"), few_of([(1, 2), (2, 6), (3, 38)], many=[(3, 38)]))
def test_probabilities_of_all_trees_add_up_to_one(levels, num_trees):
    decoder = DoublyRecurrentDecoder(DoublyRecurrentCell(UNITS), 3, DIM, max_depth=levels)
    decoder.build((None, None), (None, None, 2))
    check_distribution(with_random_weights(decoder), [[0], [0, 1], [0, 1]], num_trees)


@pytest.mark.slow
def test_the_likeliest_decisions(layer):
    strings = arrays(TREES)[0]
    model = plain(layer)
    codes = layer.encode(strings)[1].numpy().astype(float)
    for tree, code in zip(decoded(layer.generate(strings)), codes, strict=True):
        odds, log_labels = model.predict(code, np.zeros(UNITS))
        assert bool(len(tree)) == (odds[0] > 0)
        label = VOCABULARY.words[1 + int(log_labels(odds[0] > 0, False)[1:].argmax())]
        assert tree.label() == label


@pytest.mark.slow
def test_gradient_is_that_of_the_paper(layer):
    inputs = arrays(TREES[:1])
    variables = Plain.variables(layer)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(*inputs))
    slopes = [tf.convert_to_tensor(slope).numpy() for slope in tape.gradient(loss, variables)]
    weights = [weight.numpy().astype(float) for weight in variables]
    code = layer.encode(inputs[0])[1].numpy().astype(float)[0]
    random = np.random.default_rng(0)
    for place, slope in enumerate(slopes):
        way = random.normal(size=slope.shape)

        def moved(step, place=place, way=way):
            others = [*weights[:place], weights[place] + step * way, *weights[place + 1 :]]
            return Plain(others).log_likelihood(TREES[0], code)

        wanted = (moved(1e-5) - moved(-1e-5)) / 2e-5
        np.testing.assert_allclose(np.sum(slope * way), wanted, rtol=1e-3, atol=1e-4)
        assert np.abs(slope).max() > 1e-3


def test_strings_and_trees_of_a_batch():
    strings, tokens, children = arrays(TREES)
    letters = ["".join(VOCABULARY.words[token] for token in row if token) for row in strings]
    assert letters == ["ABCGCDFHE", "CA", "BAAA"]
    assert tokens.shape == (3, 9)
    assert children.shape == (3, 9, 2)
    assert strings.dtype == tokens.dtype == children.dtype == np.int32


def test_random_trees():
    trees = Grammar(np.random.default_rng(1)).distinct_trees(200)
    assert len({str(tree) for tree in trees}) == 200
    sizes = [len(breadth_first(tree)) for tree in trees]
    assert min(sizes) >= 2
    assert max(sizes) <= 20
    assert max(tree.height() for tree in trees) == 5
    assert {letter for tree in trees for letter in breadth_first(tree)} <= set(LETTERS)
    assert Grammar(np.random.default_rng(1)).distinct_trees(200) == trees


def test_how_well_trees_match():
    true = Tree.fromstring("(A (B C) (B C D))")
    assert edges(true) == [("A", "B"), ("A", "B"), ("B", "C"), ("B", "C"), ("B", "D")]
    # Found are A, B, C and C of A B B C C D; of the edges A-B and one B-C of A-B, B-C and C-C.
    found = match(true, Tree.fromstring("(A (B (C C)))"))
    assert found == (4 / 4, 4 / 6, 2 / 3, 2 / 5, 0.0)
    assert match(true, true) == (1, 1, 1, 1, 1)
    # Another order has the same edges, and is another tree.
    assert match(true, Tree.fromstring("(A (B D C) (B C))")) == (1, 1, 1, 1, 0)
    assert match(true, Tree("A", [])) == (1, 1 / 6, 0, 0, 0)
    means = figures([found, match(true, true)])
    assert means["node_f1"] == pytest.approx(2 * 1 * (5 / 6) / (1 + 5 / 6))
    assert means["exact"] == 0.5


def test_table_has_mean_and_spread_of_seeds():
    true = Tree.fromstring("(A (B C) (B C D))")
    perfect, other = (
        evaluate([true], [found]) for found in (true, Tree.fromstring("(A (B (C C)))"))
    )
    header, _, *rows = doubly_recurrent.table([perfect, other]).split("\n")
    columns = [cell.strip() for cell in header.split("|")]
    for row, group in zip(rows, ("all trees", "3 levels (1 trees)"), strict=True):
        cells = [cell.strip() for cell in row.split("|")]
        assert cells[columns.index("test")] == group
        assert cells[columns.index("edge recall")] == "70.0 ± 42.4"  # 100 and 40
        assert cells[columns.index("exact")] == "50.0 ± 70.7"
    assert "±" not in doubly_recurrent.table([perfect])


@pytest.mark.slow
def test_from_end_to_end(tmp_path):
    options = "--trees 400 --units 24 --embedding 8 --epochs 12 --learning-rate 0.01 --seeds 2"
    (run,) = doubly_recurrent.main(f"{options} --output {tmp_path}".split())
    assert json.loads((tmp_path / "results.json").read_text()) == [run]
    losses = run["history"]["val_loss"]
    assert min(losses) < 0.9 * losses[0]
    scores = run["test"]["all trees"]
    assert 0.2 < scores["node_f1"] <= 1
    assert scores["edge_f1"] < scores["node_f1"]
    directory = tmp_path / "seed_2"
    assert (directory / "trees.png").stat().st_size > 1000
    loaded = keras.models.load_model(directory / "model.keras").get_layer("string_to_tree")
    served = tf.saved_model.load(directory / "export")
    given = arrays(TREES)[0], np.int64(5), np.float32(0.8)
    for mine, theirs in zip(loaded.generate(*given), served.generate(*given), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)
