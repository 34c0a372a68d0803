"""The recipe for ListOps: what expressions are, and what the cell can learn."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import listops as recipe
from operations import SYMBOLS, arguments, batches, draw, length, value
from operator_picture import as_tree


@pytest.mark.parametrize(
    ("expression", "wanted", "symbols"),
    [
        (7, 7, 1),
        (["MAX", 2, 9, ["MIN", 4, 7], 0], 9, 9),
        (["MED", 1, 8, 2], 2, 5),
        (["MED", 1, 8, 3, 6], 4, 6),
        (["SM", 7, 8, ["SM", 9, 9]], 3, 8),
    ],
)
def test_values_and_lengths(expression, wanted, symbols):
    """The first is an example of Nangia and Bowman 2018, figure 1, without its inner MAX."""
    assert value(expression) == wanted
    assert length(expression) == symbols


def test_drawn_expressions():
    drawn = draw(300, 4, 30, seed=1)
    assert len(set(map(str, drawn))) == 300
    assert all(4 <= length(of) <= 30 for of in drawn)
    assert drawn == draw(300, 4, 30, seed=1)
    assert {len(arguments(of)) for of in drawn} == {2, 3, 4, 5}


def test_batches_hold_expressions_and_values():
    (tokens, children), values = next(iter(batches([["MAX", 2, ["SM", 9, 9]]], 1)))
    assert [SYMBOLS[token] for token in tokens[0].numpy()] == ["MAX", 2, "SM", 9, 9]
    assert children.to_list() == [[[1, 2], [], [3, 4], [], []]]
    assert values.numpy().tolist() == [8]
    assert as_tree(["MAX", 2, ["SM", 9, 9]]).pformat() == "(8 (2 2) (8 (9 9) (9 9)))"


@pytest.mark.many
def test_a_cell_of_right_tables_computes_any_expression():
    """Weights that are set by hand: no net of counts, and tables of MAX, MIN and SM."""
    expressions = [of for of in draw(60, 20, 120, seed=2) if "MED" not in str(of)]
    assert len(expressions) > 5
    model = recipe.build_model(hidden=4)
    (tokens, children), values = next(iter(batches(expressions, len(expressions))))
    model([tokens, children])
    table = np.zeros((4, 10, 10, 10), np.float32)
    for place, fold in enumerate([max, min, lambda a, b: 0, lambda a, b: (a + b) % 10]):
        for one, other in np.ndindex(10, 10):
            table[place, one, other, fold(one, other)] = 40.0
    for weight in model.trainable_weights:
        shape = weight.shape
        weight.assign(table.reshape(shape) if weight.name == "table" else np.zeros(shape))
    np.testing.assert_array_equal(tf.argmax(model([tokens, children]), -1), values)


@pytest.mark.slow
def test_from_end_to_end(tmp_path):
    arguments = "--train 600 --test 50 --epochs 20 --hidden 16 --seeds 2"
    (run,) = recipe.main(f"{arguments} --output {tmp_path}".split())
    assert json.loads((tmp_path / "results.json").read_text()) == [run]
    assert run["operators"]["4 to 50, %"] > 40  # of ten digits
    model = keras.models.load_model(tmp_path / "model.keras")
    (tokens, children), _ = next(iter(batches([["MAX", 2, 3], 4], 2)))
    exported = tf.saved_model.load(tmp_path / "export")
    np.testing.assert_allclose(
        exported.serve(tokens, children), model([tokens, children]), atol=1e-5
    )
    assert (tmp_path / "expression.png").exists()
