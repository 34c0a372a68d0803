"""All baselines that are installed compute one model, as plain recursion does."""

import itertools

import pytest

from benchmarks.agreement import disagreement
from benchmarks.baselines import BASELINES, LIMITS, TUNED, UNROLLED_WAVES, baseline_class
from benchmarks.model import MODELS, initial_values
from benchmarks.process import Failed
from benchmarks.timed_baseline import TimedBaseline
from benchmarks.trees import NUM_WORDS, chain, make_batches, random_trees
from benchmarks.turns import REFERENCE, start_baseline
from tests.parameters import few_of

UNITS = 4
# TensorFlow is imported here already, and nothing that cannot be imported next to it may be.
IN_TENSORFLOW = [
    "unrolled",
    "iterative",
    "kerasrec",
    "kerasrec vectors",
    "kerasrec recompute",
    "kerasrec compiled",
    UNROLLED_WAVES,
]
ELSEWHERE = sorted({*BASELINES} - {*IN_TENSORFLOW, REFERENCE, *LIMITS})

# These import TensorFlow once more.
ONE_MODEL_EACH = [
    (name, model)
    for name, model in zip(ELSEWHERE, itertools.cycle(MODELS), strict=False)
    if name not in (TUNED, "tensorflow levels")
]

each_model = pytest.mark.parametrize("model", MODELS)


def values_of(model):
    return initial_values(model, NUM_WORDS, UNITS)


@pytest.fixture(scope="module")
def batch():
    """Trees of many shapes, padded; among them a lone word."""
    (batch,) = make_batches([*random_trees(3), chain(1), chain(4)], 5)
    return batch


@pytest.fixture(scope="module")
def expected(batch):
    return {
        model: TimedBaseline(REFERENCE, model, values_of(model)).computed(batch) for model in MODELS
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_TENSORFLOW)
@each_model
def test_baselines_in_tensorflow(name, model, batch, expected):
    computed = TimedBaseline(name, model, values_of(model)).computed(batch)
    assert disagreement(computed, expected[model]) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "model"), few_of(itertools.product(ELSEWHERE, MODELS), many=ONE_MODEL_EACH[::3])
)
def test_baselines_elsewhere(name, model, batch, expected):
    try:
        baseline = start_baseline(name, model, values_of(model))
    except Failed as failed:
        if str(failed).startswith("not installed"):
            pytest.skip(str(failed))
        raise
    with baseline:
        assert disagreement(baseline.call("computed", batch), expected[model]) is None
        assert baseline.call("add_batches", 5, [batch]) == batch.num_nodes
        for mode in ("training", "inference"):
            seconds, inputs = baseline.call("turn", mode, 5)
            assert seconds > inputs >= 0
            assert name == TUNED or inputs > 0


@each_model
@pytest.mark.many
def test_dense_limit_has_the_weights_of_the_model(model, batch):
    limit = baseline_class("dense limit")(model, values_of(model))
    inputs = limit.inputs(batch)
    loss, gradients = limit.gradients(*inputs)
    assert limit.node_logits(batch, inputs).shape == (batch.num_nodes, 5)
    assert loss > 0
    assert {*gradients} == {*limit.weights(), "states"}


@pytest.mark.many
def test_a_slow_baseline_runs_some_trees_and_says_how_many_nodes():
    batches = make_batches(random_trees(40), 4)
    baseline = TimedBaseline("eager", "TreeRNN", values_of("TreeRNN"))
    assert baseline.add_batches(4, batches) == sum(batch.num_nodes for batch in batches[:2])
    (large,) = make_batches(random_trees(40), 40)
    assert baseline.add_batches(40, [large]) == large.first(10).num_nodes


@pytest.mark.slow
def test_steps_and_epochs_leave_no_batch_out():
    batches = make_batches([chain(2), chain(2), chain(3)], 1)
    baseline = TimedBaseline("dense limit", "TreeRNN", values_of("TreeRNN"))
    assert [inputs for _, inputs in baseline.steps("inference", batches)] == [0.0] * 3
    baseline = TimedBaseline("eager", "TreeRNN", values_of("TreeRNN"))
    assert all(seconds > inputs > 0 for seconds, inputs in baseline.steps("inference", batches))
    before = baseline.weights()
    seconds, losses = baseline.epoch(batches)
    assert seconds > 0
    assert len(losses) == 3
    assert (baseline.weights()["bias"] != before["bias"]).any()
