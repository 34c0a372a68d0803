"""Every example runs and prints the expected lines."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from tests.parameters import few_of

FOLDER = Path(__file__).parents[1] / "examples"
KERAS_IO = sorted(FOLDER.glob("keras_io/*.py"))
EXAMPLES = [*sorted(FOLDER.glob("*.py")), *KERAS_IO]
# Some of the lines that each prints.
SAID = {
    "01_factorial": ["factorial(10) = 3628800", "CALL_0", "RETURN_0"],
    "02_fib_batch": ["fib(10) = 55", "[ 8 13 21 13]", "4181]", "traced 1 time"],
    "03_gradients": ["[1. 8. 9.]", "[ 4. 12.  6.]", "[12. 12.  2.]", "gradient of power"],
    "04_tree_sum": ["= 21.0", "[1. 1. 1. 1. 1. 1.]", "[21. 11.  9.  4.  5.  6.]"],
    "05_own_cell": ["accuracy on all nodes of dev:"],
    "06_collect": ["= 21.0", "[21. 11.  9.  4.  5.  6.]", "[1. 2. 2. 3. 3. 3.]"],
    "07_ragged_children": [
        "= 36.0",
        "[[8.0, 3.0, 19.0, 5.0], [6.0], []]",
        "= 2.1052",
        "LEAVE_ROWS",
    ],
    "08_inspect": ["177 calls in 10 waves", "50 in the largest", "tensorboard --logdir"],
    "09_matrix_vector": ["accuracy on all nodes of dev:"],
    "10_devices": ["CPU:0", "CPU:1", "= [  6. 120.] with gradient [ 11. 274.]"],
    "11_jax": ["power = [5.06", "loss = 0.0578", "[ 4.63", "by JAX only [ 4.63"],
    "12_while_loop": [
        "[   1    1    2    5   14   42  132  429 1430]",
        "ENTER_0",
        "NEXT_3",
        "EXIT_0",
    ],
    "13_demand": [
        "[  5  10  89 144]",
        "eager: 179",
        "demand: 2",
        "[False  True False]",
        "[21. 13.]",
    ],
    "14_module_network": ["new questions: 100%", "answered alike: 48%"],
    "15_matrix_chain": ["fewest multiplications: 15125 in the order ((A (B C)) ((D E) F))"],
    "16_tagging": [
        "the/determiner run/noun ends/verb",
        "dogs/noun end/verb a/determiner run/noun",
        "the best is more than likely: True among 9",
    ],
    "tree_lstm_sentiment": ["Tree-LSTM, all phrases", "very negative", "  being very dull\n"],
}

TRAIN = ("05_own_cell", "09_matrix_vector")


def orders(sizes, i, j):
    """All orders of the product of matrices i to j - 1: multiplications, and the last split."""
    if j - i == 1:
        return [(0.0, None)]
    return [
        (left + right + sizes[i] * sizes[k] * sizes[j], k)
        for k in range(i + 1, j)
        for left, _ in orders(sizes, i, k)
        for right, _ in orders(sizes, k, j)
    ]


def chances_of_last_products(sizes, temperature):
    """How likely each last split is, where orders of fewer multiplications are likelier."""
    costs, splits = np.transpose(orders(sizes, 0, len(sizes) - 1))
    weights = np.exp((costs.min() - costs) / temperature)
    return [weights[splits == k].sum() / weights.sum() for k in range(1, len(sizes) - 1)]


@pytest.mark.many
def test_every_example_is_tested():
    assert {path.stem for path in EXAMPLES} == set(SAID)


@pytest.mark.parametrize(
    "path",
    few_of(
        EXAMPLES,
        *EXAMPLES[:2],
        EXAMPLES[3],
        many=[path for path in EXAMPLES if path.stem in ("06_collect", "08_inspect")],
    ),
    ids=lambda path: path.stem,
)
def test_example(path, capsys):
    if path.stem == "11_jax":
        pytest.importorskip("jax")
    module = runpy.run_path(str(path), run_name="__main__")
    said = capsys.readouterr().out
    for words in SAID[path.stem]:
        assert words in said
    if path.stem in TRAIN:
        assert module["after"]["node_accuracy"] > module["before"]["node_accuracy"] + 0.3
    if path.stem == "12_while_loop":
        assert module["errors"][-1] < 0.1 * module["errors"][0]
        assert len(set(module["steps"].numpy())) > 3
    if path.stem == "13_demand":
        calls = [int(line.split()[-1]) for line in said.splitlines() if line.startswith("calls wi")]
        assert 2 * calls[0] < calls[1]
    if path.stem == "15_matrix_chain":
        wanted = chances_of_last_products(module["SIZES"], module["TEMPERATURE"])
        np.testing.assert_allclose(module["chances"][0, 0, 1:6, 6], wanted, atol=1e-3)
        np.testing.assert_allclose(module["samples"].mean(0)[0, 1:6, 6], wanted, atol=0.05)
    if path.stem == "tree_lstm_sentiment":
        words, order, tree, phrases = module["accuracies"].values()
        assert words + 0.2 < order < tree - 0.05 and phrases > 0.9


@pytest.mark.parametrize("path", KERAS_IO, ids=lambda path: path.stem)
def test_format_of_keras_io(path):
    lines = path.read_text().split("\n")
    assert lines[0] == lines[7] == '"""'
    header = dict(line.split(": ", 1) for line in lines[1:7])
    assert list(header) == [
        "Title",
        "Author",
        "Date created",
        "Last modified",
        "Description",
        "Accelerator",
    ]
    description = header["Description"]
    assert description[0].isupper() and description.endswith(".") and len(description) <= 100
    assert [line for line in lines if line.endswith(" ")] == []
    # Such a line begins or ends a text, and has nothing else in it.
    assert {line for line in lines if line.startswith('"""')} == {'"""'}
