"""One and two instances are timed on the same trees, and compute the same."""

import pytest

from benchmarks import instances


def test_complete_trees():
    assert instances.complete_trees(2, 1)[0].tolist() == [[1, 2], [3, 4], [5, 6], *[[-1, -1]] * 4]


@pytest.mark.slow
def test_layers_that_differ_are_found(monkeypatch):
    layers = {
        "one": instances.layer(3, ["/CPU:0"]),
        "two": instances.layer(3, ["/CPU:0", "/CPU:1"]),
    }
    row = instances.timed(layers, 2, 2, "/CPU:0", repeats=1)
    assert (row["batch"], row["nodes"]) == (2, 7) and row["ratio"] == row["one"] / row["two"]
    monkeypatch.setattr(layers["two"], "set_weights", lambda weights: None)
    layers["one"].set_weights([weight + 1.0 for weight in layers["one"].get_weights()])
    with pytest.raises(AssertionError, match="Not equal"):
        instances.timed(layers, 2, 2, "/CPU:0", repeats=1)
