"""Results of the benchmark of two workers, against times made by a known rule."""

import numpy as np
import pytest

from benchmarks import workers
from benchmarks.trees import random_trees

STEP, DRAW, NODE, MESSAGE, BYTE = 5e-3, 1e-3, 1e-5, 2e-3, 1e-9


def said(nodes, slower=1.0):
    """A process's report of an epoch."""
    steps = [slower * (STEP - DRAW + NODE * number) for number in nodes]
    draw = slower * DRAW * len(nodes)
    return {"seconds": sum(steps) + draw, "steps": steps, "draw": draw}


@pytest.fixture
def measured():
    """Two workers take twice as long as one process, and half as long again with metrics."""
    nodes = [300, 500, 900, 400]
    messages = {str(number): MESSAGE + 4 * number * BYTE for number in (1, 1000, 1_000_000)}
    one = {"alone": [said(nodes)], "apart": [said(nodes), said(nodes)]}
    return {
        "epochs": [{**one, "workers": [said(nodes), said(nodes, 2.0)]}] * 3,
        "by batch": [{**one, "workers": [said(nodes), said(nodes, 3.0)]}] * 3,
        "messages": [[messages, messages]] * 3,
        "nodes": nodes,
        "num_weights": 1000,
        "batch_size": 25,
    }


def test_parts_are_those_that_times_were_made_of(measured):
    parts = workers.parts_of(measured)
    np.testing.assert_allclose(
        [parts[name] for name in ("step", "node", "message", "byte", "bytes")],
        [STEP, NODE, MESSAGE + 4 * BYTE, BYTE, 4000],
    )
    assert parts["error"] < 1e-9


def test_the_slowest_process_counts(measured):
    row = workers.summary(measured)
    seconds = STEP * 4 + NODE * 2100
    np.testing.assert_allclose(row["alone"], 100 / seconds)
    np.testing.assert_allclose(row["workers"], 100 / seconds)
    np.testing.assert_allclose([row["efficiency"], row["of apart"], row["metrics"]], 0.5)
    np.testing.assert_allclose(row["draw"], 4 * DRAW / seconds)
    messages = 2 * (MESSAGE + 4 * BYTE) + 4000 * BYTE
    np.testing.assert_allclose(row["reduce"], 4 * messages / (2 * seconds))


def test_more_workers_take_longer_messages(measured):
    parts = workers.parts_of(measured)
    one, two, *_, many = workers.model(random_trees(200), 25, parts)
    assert one["efficiency on loopback"] == one["efficiency on ethernet"] == 1
    assert one["waiting"] == 0 <= two["waiting"] < many["waiting, unsorted"]
    longer = 2 * 25 / two["loopback"] - 25 / one["loopback"]
    messages = workers.NUM_MESSAGES * MESSAGE + 4000 * BYTE
    assert messages < longer < messages + 0.05 * 25 / one["loopback"]
    assert many["efficiency on loopback"] < many["efficiency on ethernet"] < 1
