"""When things run, before any pass."""

import numpy as np
import pytest

import kerasrec
from kerasrec._src.schedule.build import build
from kerasrec._src.schedule.instructions import Fire, Load, Reduce, Save
from kerasrec._src.schedule.sections import AllTokens, Direction, Loop
from tests import programs
from tests.programs import FEW, MORE, each


def schedule_of(program):
    return build(program.function.extended_graph(*program.inputs))


@each(few=FEW, many=MORE)
@pytest.mark.parametrize("by_queues", [False, True])
def test_every_op_that_is_needed_runs_once_if_it_is_not_materialized_at_use(program, by_queues):
    found = build(program.function.extended_graph(*program.inputs), by_queues)
    fired = [one for _, _, one in found.instructions() if isinstance(one, Fire) and not one.at_use]
    assert len(fired) == len(set(fired))
    nodes = {node for body in found.graph.bodies.values() for node in body.nodes}
    assert {one.node for one in fired} <= nodes


@each(few=FEW, many=MORE)
def test_rounds(program):
    assert schedule_of(program).in_queues == (program.num_rounds > 1)


def test_leaves_and_weight_gradients_leave_the_loop():
    """The leaf of a tree and the gradient of a shared weight run once, for all waves together."""
    found = build(programs.tree_rnn.extended_graph(0))
    hoisted = [one for section, _, one in found.instructions() if isinstance(section, AllTokens)]
    ops = [one.node.op for one in hoisted if isinstance(one, Fire)]
    assert {"GatherV2", "ResourceGather"} & set(ops)
    assert sum(isinstance(one, Reduce) and one.node.op == "ACCUMULATE" for one in hoisted) == 3
    products = [
        section.direction
        for section, _, one in found.instructions()
        if isinstance(section, Loop) and isinstance(one, Fire) and one.node.op == "MatMul"
    ]
    assert products == [Direction.UP, Direction.DOWN]


def test_without_calls_there_are_no_loops():
    @kerasrec.recursive(engine="waves")
    def half(x):
        return kerasrec.cond(x < 1.0, lambda: x, lambda: x / 2.0)

    found = build(half.extended_graph(np.float32([3.0])))
    assert not found.has_loops
    assert [section.sweep for section in found.sections] == [0, 1]


@pytest.mark.many
def test_what_gradients_read_is_a_residual():
    found = build(programs.tree_rnn.extended_graph(0))
    saved_in = {save.item: section.sweep for section, _, save in found.of(Save)}
    assert {saved_in[load.item] for section, _, load in found.of(Load) if section.sweep} == {0, 1}
