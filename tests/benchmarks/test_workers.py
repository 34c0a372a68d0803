"""What the benchmark of two workers makes of times, against times made by a known rule."""

import numpy as np
import pytest

from benchmarks import workers
from benchmarks.trees import random_trees

STEP, NODE, MESSAGE, BYTE = 5e-3, 1e-5, 2e-3, 1e-9


def turn_of(nodes, slower=1.0):
    steps = [slower * (STEP - 1e-3 + NODE * number) for number in nodes]
    return {"draw": 6e-4 * len(nodes), "metrics": 4e-4 * len(nodes), "steps": steps}


@pytest.fixture
def measured():
    """Two workers take twice as long as one process; the second is no slower than the first."""
    nodes = [300, 500, 900, 400]
    reduce = {str(number): MESSAGE + 4 * number * BYTE for number in (1, 1000, 1_000_000)}
    turns = {
        "alone": [[turn_of(nodes)]] * 3,
        "apart": [[turn_of(nodes), turn_of(nodes)]] * 3,
        "workers": [[turn_of(nodes), turn_of(nodes, 2.0)]] * 3,
        "reduce": [[reduce, reduce]] * 3,
    }
    return {"turns": turns, "nodes": nodes, "num_weights": 1000, "batch_size": 25}


def test_parts_are_those_that_times_were_made_of(measured):
    parts = workers.parts_of(measured)
    np.testing.assert_allclose(
        [parts[name] for name in ("step", "node", "message", "byte", "bytes")],
        [STEP, NODE, MESSAGE + 4 * BYTE, BYTE, 4000],
    )
    assert parts["error"] < 1e-9


def test_the_slowest_process_counts(measured):
    row = workers.summary(measured)
    seconds = [STEP * 4 + NODE * 2100, 2 * (STEP * 4 + NODE * 2100) - 1e-3 * 4]
    np.testing.assert_allclose(row["alone"], 100 / seconds[0])
    np.testing.assert_allclose(row["workers"], 200 / seconds[1])
    np.testing.assert_allclose(row["efficiency"], seconds[0] / seconds[1])
    np.testing.assert_allclose(row["metrics"], 4 * 4e-4 / seconds[1])


def test_more_workers_take_longer_messages(measured):
    parts = workers.parts_of(measured)
    one, two, *_, many = workers.model(random_trees(200), 25, parts)
    assert one["efficiency on loopback"] == one["efficiency on ethernet"] == 1
    assert one["waiting"] == 0 <= two["waiting"] < many["waiting, unsorted"]
    longer = 2 * 25 / two["loopback"] - 25 / one["loopback"]
    messages = workers.NUM_MESSAGES * MESSAGE + 4000 * BYTE
    assert messages <= longer < messages + 0.05 * 25 / one["loopback"]
    assert many["efficiency on loopback"] < many["efficiency on ethernet"] < 1
