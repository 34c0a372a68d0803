"""One step of the first sweep."""

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.frames.rows_xla.sweeps import FirstSweep
from tests.frames.helpers import never_by_waves


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


CYCLE = tf.constant([(n + 1) % 4 for n in range(4096)])  # There is room for as many frames.


@kerasrec.recursive(engine="compiled", max_depth=50)
def around(n, x):
    return kerasrec.cond(x > 9.0, lambda: x, lambda: around(tf.gather(CYCLE, n), 1.001 * x))


@pytest.mark.many
def test_a_run_stops_soon_after_a_call_that_is_too_deep(monkeypatch):
    run = FirstSweep.run

    def run_briefly(sweep, given):
        run(sweep, given)
        sweep.store.faults[0] &= sweep.store.steps[0] < 100

    monkeypatch.setattr(FirstSweep, "run", run_briefly)
    around.clear_cache()
    with pytest.raises(tf.errors.InvalidArgumentError, match="max_depth=50"):
        around([0], [1.0])
    assert around.num_xla_sizes == 1  # It did not begin again with more room.
    np.testing.assert_array_equal(around([2], [9.5]), [9.5])


@pytest.mark.many
def test_an_entry_of_ragged_rows_that_fails():
    rows, table = tf.ragged.constant([[1, 2], [2], [], [2, 9]]), tf.constant([1, 2, 3])

    @kerasrec.recursive(engine="compiled")
    def sums(node):
        below = kerasrec.map_fn(lambda n: sums(n % 3) + tf.gather(table, n), tf.gather(rows, node))
        return 1 + tf.reduce_sum(below, 1)

    np.testing.assert_array_equal(sums([0, 1, 2]), [12, 5, 1])
    with pytest.raises(tf.errors.InvalidArgumentError, match="9"):
        sums([0, 3])
