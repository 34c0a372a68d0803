"""Every example runs and says what it should."""

import runpy
from pathlib import Path

import pytest

from tests.parameters import few_of

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
# What each prints, among others.
SAID = {
    "01_factorial": ["factorial(10) = 3628800", "CALL_0", "RETURN_0"],
    "02_fib_batch": ["fib(10) = 55", "[ 8 13 21 13]", "4181]", "traced 1 time"],
    "03_gradients": ["[1. 8. 9.]", "[ 4. 12.  6.]", "[12. 12.  2.]", "gradient of power"],
    "04_tree_sum": ["= 21.0", "[1. 1. 1. 1. 1. 1.]", "[21. 11.  9.  4.  5.  6.]"],
    "05_own_cell": ["accuracy on all nodes of dev:"],
    "06_collect": ["= 21.0", "[21. 11.  9.  4.  5.  6.]", "[1. 2. 2. 3. 3. 3.]"],
    "07_ragged_children": ["= 36.0", "[[8.0, 3.0, 19.0, 5.0], [6.0], []]", "= 2.1052", "LEAVE"],
    "08_inspect": ["177 calls in 10 waves", "50 in the largest", "tensorboard --logdir"],
    "09_matrix_vector": ["accuracy on all nodes of dev:"],
    "10_devices": ["CPU:0", "CPU:1", "= [  6. 120.] with gradient [ 11. 274.]"],
}

TRAIN = ("05_own_cell", "09_matrix_vector")


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
    module = runpy.run_path(str(path), run_name="__main__")
    said = capsys.readouterr().out
    for words in SAID[path.stem]:
        assert words in said
    if path.stem in TRAIN:
        assert module["after"]["node_accuracy"] > module["before"]["node_accuracy"] + 0.3
