"""The extended graph is that of the 2024 thesis, chapter 4."""

import pytest

from tests import golden_programs
from tests.programs import each_in_one_worker


@pytest.fixture(scope="module")
def exp():
    return golden_programs.exp.extended_graph(2.0, 3)


def labels(nodes):
    return [node.attributes["label"] for node in nodes if node is not None]


def test_power_takes_x_n_dy_and_gives_y_dx(exp):
    """Figure 4.6: three arguments, two outputs; `n` has no gradient."""
    body = exp.bodies["exp"]
    assert [node.attributes["name"] for node in body.parameters] == ["x", "n"]
    assert [node.attributes["name"] for node in body.gradient_parameters] == ["d_output"]
    assert [str(node.types[0]) for node in body.entrances] == ["f32[]", "i32[]", "f32[]"]
    assert len(body.outputs) == 1
    dx, dn = body.gradient_outputs
    assert dx.attributes["name"] == "d_x"
    assert dn is None


def test_power_has_two_call_sites_whose_gradients_share_their_labels(exp):
    """Figure 4.6: id 0 is the recursive call, id 1 the outer one."""
    assert sorted(exp.call_sites) == [0, 1]
    for label, site in exp.call_sites.items():
        assert site.label == label
        assert labels(site.calls) == [label, label]
        assert labels(site.returns) == [label]
        assert labels(site.gradient_calls) == [label]
        assert labels(site.gradient_returns) == [label]
        assert site.gradient_returns[1] is None
        assert set(site.gradient_returns[0].control) == set(site.gradient_calls)
    every = [node for node in exp.nodes if node.op in ("CALL", "RETURN")]
    assert len(every) == 2 * (3 + 2)


def test_power_gradient_has_one_switch_and_one_merge_in_step_with_the_forward_ones(exp):
    """Figure 4.5: both SWITCHes of the path from dy to dx read the forward predicate."""
    body = exp.bodies["exp"]
    (equal,) = [node for node in body.nodes if node.op == "Equal"]
    (switch,) = [node for node in body.gradient_nodes if node.op == "SWITCH"]
    (dy,) = body.gradient_parameters
    assert switch.inputs == [dy.output(), equal.output()]
    merges = [node for node in body.gradient_nodes if node.op == "MERGE" and node is not dy]
    assert [node.attributes["predicate"] for node in merges] == [equal.output()]
    assert body.gradient_outputs[0].inputs == [merges[0].output()]


def test_power_drops_x_and_n_of_the_gradient_call(exp):
    """Section 4.2: the gradient call hands in dy alone, and reads forward values by their tag."""
    body = exp.bodies["exp"]
    site = exp.call_sites[0]
    (dy_call,) = site.gradient_calls
    assert dy_call.output() in body.gradient_parameters[0].inputs
    (product,) = [node for node in body.nodes if node.op == "Mul"]
    x, y = product.inputs
    assert y == site.returns[0].output()
    products = [node for node in body.gradient_nodes if node.op == "Mul"]
    read = {value for node in products for value in node.inputs}
    assert {x, y} <= read


def test_branch_of_the_base_case_has_a_gradient_of_zero(exp):
    """Section 4.3: if n == 0, then y = 1 and dx = 0."""
    (merge,) = exp.bodies["exp"].gradient_outputs[0].inputs
    assert merge.node.inputs[0].node.op == "ZerosLike"


def test_an_integer_program_has_no_gradient():
    graph = golden_programs.fact.extended_graph(3)
    body = graph.bodies["fact"]
    assert (body.gradient_nodes, body.accumulates) == ([], [])
    assert body.gradient_parameters == body.gradient_outputs == [None]


@each_in_one_worker
def test_forward_part_is_the_tagged_graph(program):
    """`extend` adds nodes and call sites' gradients, and changes nothing that was there."""
    tagged = program.function.tagged_graph(*program.inputs)
    extended = program.function.extended_graph(*program.inputs)
    assert not tagged.is_extended
    assert extended.is_extended
    for name, body in tagged.bodies.items():
        assert extended.bodies[name].nodes == body.nodes
        assert body.gradient_nodes == []
    for label, site in extended.call_sites.items():
        assert site.calls == tagged.call_sites[label].calls
        assert len(site.gradient_calls) in (0, len(site.returns))
        assert len(site.gradient_returns) in (0, len(site.calls))
