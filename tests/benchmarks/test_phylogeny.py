"""All ways to the likelihood of a tree find what NumPy finds, and a wrong one is noticed."""

import importlib
import itertools

import numpy as np
import pytest

from benchmarks import phylogeny, phylogeny_programs
from benchmarks.phylogeny_case import Case, derivative, levels, log_likelihoods, make_case
from tests.parameters import few_of

CASE = make_case(9, 5)
WEIGHTS = {"lengths": CASE.lengths}


def computed(name):
    module, runner = phylogeny.RUNNERS[name].split(":")
    return getattr(importlib.import_module(module), runner)(WEIGHTS).computed(CASE)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    few_of(
        ["kerasrec", "while_loop", "TensorArray", "TensorArray by XLA", "levels", "unrolled"],
        *("kerasrec", "while_loop", "levels"),
    ),
)
def test_likelihood_and_gradient(name):
    phylogeny.check(CASE, name, computed(name))


@pytest.mark.parametrize("name", ["jax scan", "jax levels", "jax unrolled"])
def test_jax(name):
    pytest.importorskip("jax")
    phylogeny.check(CASE, name, computed(name))


def test_levels_have_children_below():
    found = levels(CASE.children)
    np.testing.assert_array_equal(np.sort(np.concatenate(found)), np.arange(9, 17))
    done = set(range(9))
    for nodes in found:
        assert set(CASE.children[nodes].flat) <= done
        done |= set(nodes)


def test_what_does_not_run_has_a_row_that_says_why(monkeypatch):
    monkeypatch.setattr(phylogeny, "MOST_TAXA", {"jax unrolled": 8})
    rows = list(phylogeny.measure(CASE, 1, ["jax unrolled"]))
    assert [row["name"] for row in rows] == ["jax unrolled: not run with more than 8 taxa"]
    assert [cell(rows[0]) for cell in phylogeny.COLUMNS.values()][1:] == [""] * 7


@pytest.mark.slow
def test_compiled():
    phylogeny.check(CASE, "kerasrec compiled", computed("kerasrec compiled"))


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["output", "gradient of lengths"])
def test_a_wrong_result_ends_the_run(wrong):
    found = computed("TensorArray")
    found[wrong] = found[wrong] * (1 + 1e-6)
    with pytest.raises(ValueError, match="TensorArray computes a wrong"):
        phylogeny.check(CASE, "TensorArray", found)


def test_numpy_sums_over_all_states_of_inner_nodes():
    children = np.array([[-1, -1]] * 3 + [[0, 1], [2, 3]], np.int32)
    lengths = np.array([0.1, 0.4, 0.3, 0.2, 9.0])
    case = Case(children, np.array([[0], [1], [0]]), lengths)
    stays, leaves = 0.25 + 0.75 * np.exp(-4 / 3 * lengths), 0.25 - 0.25 * np.exp(-4 / 3 * lengths)

    def along(branch, above, below):
        return stays[branch] if above == below else leaves[branch]

    likelihood = sum(
        0.25 * along(3, root, inner) * along(0, inner, 0) * along(1, inner, 1) * along(2, root, 0)
        for root, inner in itertools.product(range(4), repeat=2)
    )
    np.testing.assert_allclose(log_likelihoods(case, lengths), [np.log(likelihood)], rtol=1e-12)


def test_the_derivative_of_two_taxa():
    case = Case(np.array([[-1, -1], [-1, -1], [0, 1]]), np.array([[2], [2]]), np.full(3, 0.1))
    kept = np.exp(-4 / 3 * 0.2)
    expected = -4 / 3 * 0.75 * kept / (0.25 + 0.75 * kept)
    found = derivative(case, np.array([1.0, 0.0, 0.0]))
    np.testing.assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.slow
def test_a_likelihood_that_is_too_small_for_a_float():
    case = make_case(2000, 2)
    rng = np.random.default_rng(1)
    case = case._replace(states=rng.integers(4, size=case.states.shape))
    found = phylogeny_programs.Kerasrec({"lengths": case.lengths}).computed(case)
    assert np.all(found["output"] < np.log(np.finfo(np.float64).tiny))
    phylogeny.check(case, "kerasrec", found)


@pytest.mark.many
def test_the_dense_limit_computes_all_gradients():
    found = phylogeny_programs.DenseLimit(WEIGHTS).computed(CASE)
    assert found["gradient of others"].shape == (8, 4, 5)
    assert np.count_nonzero(found["gradient of lengths"]) == 2 * 9 - 1 - 1


@pytest.mark.slow
def test_a_small_run(monkeypatch, capsys):
    options = ["--taxa", "6", "--sites", "2", "--repeats", "1"]
    monkeypatch.setattr("sys.argv", ["phylogeny", *options])
    phylogeny.main()
    lines = capsys.readouterr().out.splitlines()
    names = [line.split("|")[1].strip() for line in lines if line.startswith("|")][2:]
    # JAX may not be there.
    assert [name.split(":")[0] for name in names] == [*phylogeny.RUNNERS, *phylogeny.DENSE]
