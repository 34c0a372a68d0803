"""Trees that sections choose by size and form."""

import pytest

from benchmarks import forests


@pytest.mark.slow
def test_trees_nearest_to_a_length(monkeypatch):
    monkeypatch.setattr(forests, "NUM_RANDOM_TREES", 200)
    description, _, groups = forests.of_lengths(None, [5, 20], [1, 10], 4)
    assert description["trees"] == 200
    assert [(what["batch"], len(batches)) for what, batches in groups] == [
        (1, 4),
        (1, 4),
        (10, 1),
        (10, 1),
    ]
    for (what, batches), length in zip(groups, [5, 20, 5, 20], strict=True):
        assert what["words"] == pytest.approx(length, abs=3)
        assert [batch.num_trees for batch in batches] == [what["batch"]] * len(batches)
        leaves = sum(batch.is_leaf.sum() for batch in batches)
        trees = what["batch"] * len(batches)
        assert sum(what["words of each"]) * what["batch"] == pytest.approx(leaves)
        assert what["words"] * trees == pytest.approx(leaves)


def test_shapes_have_as_many_nodes():
    _, _, groups = forests.of_shapes(16, [2], 4)
    levels = {what["shape"]: what["levels"] for what, _ in groups}
    assert levels == {"balanced": 5, "moderate": 10, "linear": 16}
    assert {batch.num_nodes for _, batches in groups for batch in batches} == {2 * 31}


@pytest.mark.slow
def test_growths():
    _, _, groups = forests.growing(3)
    sizes = {}
    for what, (batch,) in groups:
        assert (batch.num_trees, batch.num_nodes) == (what["batch"], what["nodes"])
        sizes.setdefault(what["growth"], []).append((what["levels"], what["nodes"]))
    assert sizes == {
        "more trees": [(8, 255), (8, 510), (8, 1020)],
        "deeper trees": [(8, 240), (16, 496), (32, 1008)],
        "one tree": [(2, 3), (3, 7), (4, 15)],
    }
