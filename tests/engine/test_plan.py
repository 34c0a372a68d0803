"""The plan finds which engine a program needs, and when its nodes run."""

from kerasrec.engine.plan import is_placeless, plan
from tests import programs
from tests.programs import FEW, MORE, each


def plan_of(program):
    return plan(program.function.extended_graph(*program.inputs))


@each(few=FEW, many=MORE)
def test_rounds(program):
    found = plan_of(program)
    assert found.is_linear == (program.num_rounds == 1)
    if found.is_linear:
        assert found.rounds == 1


@each(few=FEW, many=MORE)
def test_every_node_has_one_part_or_none_if_it_is_placeless(program):
    found = plan_of(program)
    placed = [node for nodes in found.nodes.values() for node in nodes]
    assert len(placed) == len(set(placed))
    bodies = found.graph.bodies.values()
    assert set(placed) == {node for body in bodies for node in body.nodes if not is_placeless(node)}


def test_leaves_and_weight_gradients_leave_the_loop():
    """The leaf of a tree and the gradient of a shared weight run in bulk, for all waves at once."""
    found = plan(programs.tree_rnn.extended_graph(0))
    bulk = [node for (_, part), nodes in found.nodes.items() if part.is_bulk for node in nodes]
    gathers = [node for node in bulk if node.op in ("GatherV2", "ResourceGather")]
    assert gathers
    assert sum(node.op == "ACCUMULATE" for node in bulk) == 3
    (product,) = [
        node
        for node in found.graph.bodies["tree_rnn"].sweeps[0].nodes
        if node.op in ("MatMul", "BatchMatMulV2")
    ]
    assert not found.parts[product].is_bulk
