"""Scopes show where a node stands, and give every node a name."""

import re

import pytest

from kerasrec._src.inspect.scopes import OUTSIDE, SHARED, names_in
from tests import golden_programs
from tests.programs import PROGRAMS, labels_all

# TensorFlow's own rule for the name of an op.
VALID = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
SOME = [item for item in PROGRAMS if item.name in ("factorial", "tree_rnn", "collect", "captures")]


@pytest.mark.parametrize("program", SOME, ids=lambda program: program.name)
def test_every_node_has_a_scope_and_a_name_of_its_own(program):
    graphs = program.function.function_graphs(*program.inputs)
    extended = program.function.extended_graph(*program.inputs)
    for nodes, scopes in (
        (
            [node for function in graphs for node in function.nodes],
            graphs.scopes(),
        ),
        (extended.nodes, extended.scopes()),
    ):
        assert set(scopes) == set(nodes)
        names = names_in(scopes)
        assert len(set(names.values())) == len(nodes)
        assert all(VALID.fullmatch(name) for name in names.values())


def test_functions_gradients_and_branches_are_scopes():
    graph = golden_programs.exp.extended_graph(2.0, 3)
    body = graph.bodies["exp"]
    scopes = graph.scopes()
    assert {scopes[node] for node in graph.shared} == {SHARED}
    assert {scopes[node] for node in (*graph.root.calls, *graph.root.returns)} == {OUTSIDE}
    assert {scopes[node] for node in body.sweeps[0].nodes} == {
        ("exp",),
        ("exp", "cond"),
        ("exp", "cond", "true"),
        ("exp", "cond", "false"),
    }
    assert {scopes[node][:2] for node in body.sweeps[1].nodes} == {("exp", "gradient")}
    names = set(names_in(scopes).values())
    assert {"exp/MERGE_n", "exp/cond/SWITCH", "exp/cond/false/Mul", "exp/cond/MERGE"} <= names
    assert {"exp/gradient/MERGE_d_output", "exp/gradient/cond/false/CALL_0"} <= names


def test_branches_of_a_switch_inside_a_branch_are_numbered():
    scopes = golden_programs.is_even.tagged_graph(3).scopes()
    found = {scope for node, scope in scopes.items() if node.op == "CALL"}
    inner = ("is_even", "cond", "false", "switch")
    assert found == {OUTSIDE, ("is_odd",), (*inner, "0"), (*inner, "1")}


def test_conditionals_beside_each_other_have_scopes_of_their_own():
    scopes = labels_all.tagged_graph(0).scopes()
    where = {node.name: scope for node, scope in scopes.items() if node.op == "COLLECT"}
    assert where == {
        "states": ("labels_all",),
        "inner": ("labels_all", "cond_1", "false"),
    }
