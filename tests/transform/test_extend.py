"""The extended graph is that of the 2024 thesis, chapter 4."""

import pytest
import tensorflow as tf

from kerasrec._src.graph.graph import Sweep, present
from kerasrec._src.graph.nodes import Entrance
from kerasrec._src.graph.types import Type
from kerasrec._src.transform.extend import extend
from tests import golden_programs
from tests.programs import FEW, MORE, each


@pytest.fixture(scope="module")
def exp():
    return golden_programs.exp.extended_graph(2.0, 3)


def labels(nodes):
    return [node.label for node in nodes if node is not None]


def test_power_takes_x_n_dy_and_gives_y_dx(exp):
    """Figure 4.6: three arguments, two outputs; `n` has no gradient."""
    body = exp.bodies["exp"]
    assert [node.name for node in body.parameters] == ["x", "n"]
    assert [node.name for node in body.sweeps[1].parameters] == ["d_output"]
    entrances = [node for node in body.nodes if isinstance(node, Entrance)]
    assert [str(node.types[0]) for node in entrances] == ["f32[]", "i32[]", "f32[]"]
    assert len(body.outputs) == 1
    dx, dn = body.sweeps[1].outputs
    assert dx.name == "d_x"
    assert dn is None


def test_power_has_two_call_sites_whose_gradients_share_their_labels(exp):
    """Figure 4.6: id 0 is the recursive call, id 1 the outer one."""
    assert sorted(exp.call_sites) == [0, 1]
    for label, site in exp.call_sites.items():
        assert site.label == label
        assert labels(site.calls) == [label, label]
        assert labels(site.returns) == [label]
        gradient = site.linkages[1]
        assert labels(gradient.calls) == [label]
        assert labels(gradient.returns) == [label]
        assert gradient.returns[1] is None
        assert set(gradient.returns[0].control) == set(gradient.calls)
    every = [node for node in exp.nodes if node.op in ("CALL", "RETURN")]
    assert len(every) == 2 * (3 + 2)


def test_power_gradient_has_one_switch_and_one_merge_in_step_with_the_forward_ones(exp):
    """Figure 4.5: both SWITCHes of the path from dy to dx read the forward predicate."""
    body = exp.bodies["exp"]
    gradient = body.sweeps[1]
    (equal,) = [node for node in body.nodes if node.op == "Equal"]
    (switch,) = [node for node in gradient.nodes if node.op == "SWITCH"]
    (dy,) = gradient.parameters
    assert switch.inputs == [dy.output(), equal.output()]
    merges = [node for node in gradient.nodes if node.op == "MERGE" and node is not dy]
    assert [node.predicate for node in merges] == [equal.output()]
    assert gradient.outputs[0].inputs == [merges[0].output()]


def test_power_drops_x_and_n_of_the_gradient_call(exp):
    """Section 4.2: the gradient call hands in only dy, and reads forward values by their tag."""
    body = exp.bodies["exp"]
    site = exp.call_sites[0]
    (dy_call,) = site.linkages[1].calls
    assert dy_call.output() in body.sweeps[1].parameters[0].inputs
    (product,) = [node for node in body.sweeps[0].nodes if node.op == "Mul"]
    x, y = product.inputs
    assert y == site.returns[0].output()
    products = [node for node in body.sweeps[1].nodes if node.op == "Mul"]
    read = {value for node in products for value in node.inputs}
    assert {x, y} <= read


def test_branch_of_the_base_case_has_a_gradient_of_zero(exp):
    """Section 4.3: if n == 0, then y = 1 and dx = 0."""
    (merge,) = exp.bodies["exp"].sweeps[1].outputs[0].inputs
    assert merge.node.inputs[0].node.op == "ZerosLike"


def test_an_integer_program_has_no_gradient():
    graph = golden_programs.fact.extended_graph(3)
    assert graph.bodies["fact"].sweeps[1] == Sweep([None], [None], [], [])


@each(few=FEW, many=MORE)
def test_forward_part_is_the_tagged_graph(program):
    """`extend` adds sweeps and linkages, and changes nothing that was there.

    Where calls of a function read different results, tokens carry which, in addition.
    """
    tagged = program.function.tagged_graph(*program.inputs)
    extended = program.function.extended_graph(*program.inputs)
    assert tagged.num_sweeps == 1
    assert extended.num_sweeps == 2
    for name, body in tagged.bodies.items():
        (sweep,) = body.sweeps
        forward = extended.bodies[name].sweeps[0]
        assert (forward is sweep) == (
            program.name
            not in ("calls_in_three_branches", "collects_below_a_choice", "two_ragged_calls")
        )
        assert [node for node in forward.nodes if node in sweep.nodes] == sweep.nodes
        carried = forward.parameters[len(sweep.parameters) :]
        assert {node.types[0] for node in carried} <= {Type(tf.bool, ())}
    for label, site in extended.call_sites.items():
        calls, returns = tagged.call_sites[label].linkages[0].calls, site.linkages[0].returns
        assert site.linkages[0].calls[: len(calls)] == calls
        assert returns == tagged.call_sites[label].linkages[0].returns
        assert len(site.linkages[1].calls) in (0, len(site.returns))
        assert len(site.linkages[1].returns) in (0, len(site.calls))


@each(lambda program: program.has_gradient, few=FEW, many=MORE)
def test_extend_changes_nothing_of_what_it_is_given(program):
    """Neither the nodes nor the graphs that TensorFlow traced; so it gives the same graph again."""
    graph = program.function.tagged_graph(*program.inputs)
    for _ in range(2):  # For the gradient, and for the second derivative.
        before = _state_of(graph)
        extended = extend(graph)
        assert _state_of(graph) == before
        assert str(extend(graph)) == str(extended)
        graph = extended


def _state_of(graph):
    traced = [item for body in graph.bodies.values() for item in body.traced]
    num_operations = [len(item.concrete.graph.get_operations()) for item in traced]
    return str(graph), num_operations, [dict(item.values) for item in traced]


@pytest.mark.many
def test_extended_again_each_sweep_has_its_gradient_the_last_one_first():
    """Sweep 2 takes d_d_x, the cotangent of the results of sweep 1, and gives that of its d_output.

    Sweep 3 is the gradient of sweep 0 again, now with the terms that sweep 2 adds to it. It takes
    the same SWITCHes and calls under the same labels.
    """
    extended = golden_programs.exp.extended_graph(2.0, 3)
    twice = extend(extended)
    body = twice.bodies["exp"]
    names = [
        (
            [node.name for node in present(sweep.parameters)],
            [node.name for node in present(sweep.outputs)],
        )
        for sweep in body.sweeps[1:]
    ]
    assert names == [
        (["d_output"], ["d_x"]),
        (["d_d_x"], ["d_d_output"]),
        (["d_output"], ["d_x"]),
    ]
    for site in twice.call_sites.values():
        for linkage in site.linkages:
            assert set(labels([*linkage.calls, *linkage.returns])) == {site.label}
    assert body.sweeps[:2] == extended.bodies["exp"].sweeps
    read = {value.node for node in body.sweeps[3].nodes for value in node.inputs}
    assert read & set(body.sweeps[2].nodes)
