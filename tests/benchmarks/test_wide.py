"""The benchmark of one node of many children."""

import pytest

from benchmarks import wide
from kerasrec.datasets import encode_objects


def test_trees_are_of_the_sizes_that_are_said():
    trees = [
        encode_objects(tree, children_of=list, token_of=lambda _: 1)
        for tree in wide.make_trees(40, 3)
    ]
    assert [len(tree.tokens) for tree in trees] == [41, *[wide.NODES] * 3]
    assert trees[0].children.arity == 40


def test_a_line_has_the_size_of_the_padded_table():
    row = {"form": "ragged", "children": 1999, "trees": 5, "nodes": 4000}
    row |= {"MB": 20.0, "seconds": 2.0}
    assert wide.line(row) == "| ragged | 1,999 | 5 | 4,000 | 20 | 5.0 | 2.00 | 0.500 | 80 |"


@pytest.mark.slow
@pytest.mark.parametrize("form", wide.FORMS)
def test_a_row_is_measured(form):
    row = wide.measure(form, 30, 2)
    assert row["nodes"] == 31 + 2 * wide.NODES
    assert row["seconds"] > 0
