"""One step of the first sweep."""

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from tests.compiled.helpers import never_by_waves


@kerasrec.recursive(engine="compiled")
def branches_wait(n):
    """Calls of two branches are waited for at one place."""
    which = tf.where(n <= 0, 0, 1 + n % 2)
    return kerasrec.switch(
        which,
        [lambda: n, lambda: 3 * branches_wait(n - 1), lambda: branches_wait(n - 2) + n],
    )


def plain(n):
    if n <= 0:
        return n
    return plain(n - 2) + n if n % 2 else 3 * plain(n - 1)


@pytest.mark.many
def test_branches_that_wait_for_one_place():
    numbers = np.arange(-1, 9, dtype=np.int32)
    with never_by_waves():
        found = branches_wait(numbers)
    np.testing.assert_array_equal(found, list(map(plain, numbers.tolist())))


@pytest.mark.many
def test_a_call_that_is_too_deep():
    @kerasrec.recursive(engine="compiled", max_depth=20)
    def down(n):
        return kerasrec.cond(n < 1, lambda: n, lambda: down(n - 1) + 1)

    with pytest.raises(tf.errors.InvalidArgumentError, match="max_depth=20"):
        down([3, 25])
    np.testing.assert_array_equal(down([3, 19]), [3, 19])
