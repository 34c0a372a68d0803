"""Every program gives, in every way it can be run, what plain Python gives."""

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.scalar.ops import obstacles
from tests.engine.helpers import (
    assert_same,
    by_name,
    cotangents_of,
    is_float,
    result_of,
    run_engine,
    run_in_function,
    run_in_queues,
    run_lowered,
    run_one,
    run_plain,
    with_tokens,
)
from tests.programs import FEW, each

pytestmark = pytest.mark.usefixtures("optimized")

# Each has what no other of them has; the programs with data types and with functions as arguments,
# which trace for seconds, are run in separate tests.
BY_WAVES = {
    "sum_upto",
    "many_ways",
    "call_in_argument",
    "nested_in_branch",
    "ragged_in_branch",
    "rows_without_a_call",
    "several_outputs",
}


@each(few=FEW, many=BY_WAVES)
def test_by_waves(program):
    assert_same(run_lowered(program, engine="waves"), run_plain(program))


@pytest.mark.many
@each(few=["ackermann"], many=["no_call_but_all_else", "child_sum", "captures"])
def test_by_the_scalar_engine(program):
    if obstacles(program.function.extended_graph(*program.inputs)):
        with pytest.raises(kerasrec.TraceError, match="engine='scalar' cannot run"):
            run_lowered(program, engine="scalar")
    else:
        assert_same(run_lowered(program, engine="scalar"), run_plain(program))


@pytest.mark.slow
@each(few=["collect"], many=["child_sum"])
def test_called_eagerly(program):
    assert_same(run_engine(program), run_plain(program))


@pytest.mark.slow
@each(few=["tree_rnn"], many=["child_sum"])
def test_called_inside_a_tf_function(program):
    found = run_in_function(program, program.num_tokens)
    assert_same(found, run_plain(program), num_gradients=len(found.gradients))


@pytest.mark.slow
@each(lambda program: program.num_rounds == 1, few=["tree_rnn"], many=[])
def test_by_queues_without_need(program):
    assert_same(run_in_queues(program), run_plain(program))


@pytest.mark.slow
@each(few=["tree_rnn"], many=[])
def test_one_token_by_waves(program):
    assert_same(run_one(program, engine="waves"), run_plain(with_tokens(program, 1)))


@each(few=[], many=["child_sum"])
def test_called_inside_a_tf_function_for_any_number_of_tokens(program):
    found = run_in_function(program, num_tokens=None)
    assert_same(found, run_plain(program), num_gradients=len(found.gradients))


@pytest.mark.many
@each(lambda program: program.is_smooth, few=["tree_rnn"], many=["call_in_argument"])
def test_finite_differences(program):
    """Along one direction of all arguments and variables at once."""
    inputs = [tf.constant(item) for item in program.flat_inputs]
    places = [place for place, item in enumerate(inputs) if is_float(item)]
    run = run_engine(program)
    given = [item for item in cotangents_of(run) if item is not None]
    random = np.random.default_rng(0)
    directions = [random.normal(size=item.shape) for item in run.gradients]
    variables = []
    for place, source in enumerate(program.sources, start=len(places)):
        if isinstance(source, tf.Variable):
            variables.append((source, directions[place]))
        else:
            directions[place] *= 0.0  # a tensor stays as it is

    def loss(size: float) -> float:
        moved = list(inputs)
        for place, direction in zip(places, directions[: len(places)], strict=True):
            moved[place] += size * direction
        before = [variable.numpy() for variable, _ in variables]
        try:
            for variable, direction in variables:
                variable.assign_add(size * direction)
            outputs, tables = result_of(program, moved)
        finally:  # Other tests read the same variables.
            for (variable, _), value in zip(variables, before, strict=True):
                variable.assign(value)
        results = [item for item in [*outputs, *by_name(tables)] if is_float(item)]
        return sum(np.sum(item * cotangent) for item, cotangent in zip(results, given, strict=True))

    slope = sum(np.sum(pair[0] * pair[1]) for pair in zip(run.gradients, directions, strict=True))
    np.testing.assert_allclose((loss(1e-6) - loss(-1e-6)) / 2e-6, slope, rtol=1e-6, atol=1e-9)
