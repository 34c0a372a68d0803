"""Rows of children, from numbers of parents, and as tables."""

import numpy as np
import pytest

from kerasrec.datasets import ChildRows


@pytest.mark.parametrize(
    ("parents", "rows", "table"),
    [
        ([-1, 0, 0, 1], [[1, 2], [3], [], []], [[1, 2], [3, -1], [-1, -1], [-1, -1]]),
        ([-1, 3, 3, 0], [[3], [], [], [1, 2]], [[3, -1], [-1, -1], [-1, -1], [1, 2]]),
        ([-1], [[]], [[-1]]),
    ],
)
def test_rows_from_parents_and_their_table(parents, rows, table):
    found = ChildRows.from_parents(np.int32(parents))
    assert found.tolist() == rows
    assert found.to_table().tolist() == table
    assert (found.values.dtype, found.splits.dtype, found.to_table().dtype) == ("i4", "i8", "i4")
