"""Rows that are moved for several copies at once, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from kerasrec._src.memo.copies import added, taken

_RANDOM = np.random.default_rng(0)
_ROWS = np.int32([3, 0, 0, 4])
_SIZE = 5


@pytest.mark.parametrize(
    ("copies", "shape"),
    [
        (3, []),
        *(
            pytest.param(copies, shape, marks=pytest.mark.many)
            for copies, shape in [(3, [2]), (3, [2, 4]), (1, []), (1, [2]), (0, []), (0, [2])]
        ),
    ],
)
def test_rows_of_each_copy(copies, shape):
    whole = _RANDOM.normal(size=[copies, _SIZE, *shape])
    found = taken(tf.reshape(whole, [copies * _SIZE, *shape]), _ROWS, copies, _SIZE)
    np.testing.assert_array_equal(found, whole[:, _ROWS].reshape(-1, *shape))
    of_rows = _RANDOM.normal(size=[copies, len(_ROWS), *shape])
    sums = np.zeros_like(whole)
    for place, row in enumerate(_ROWS):
        sums[:, row] += of_rows[:, place]
    found = added(tf.reshape(of_rows, [-1, *shape]), _ROWS, copies, _SIZE)
    np.testing.assert_allclose(found, sums.reshape(-1, *shape), rtol=1e-12)
