"""DOT output is what Graphviz can read."""

import re
import shutil
import subprocess

import pytest

from tests import golden_programs
from tests.programs import tree_rnn

GRAPHS = {
    "functions": lambda: golden_programs.main.function_graphs(4, 7),
    "tagged": lambda: golden_programs.is_even.tagged_graph(3),
    "extended": lambda: golden_programs.exp.extended_graph(2.0, 3),
    "tree": lambda: tree_rnn.extended_graph(0),
}

each_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)

QUOTED = r'"(?:[^"\\]|\\.)*"'
NODE = re.compile(rf"(n\d+) \[label={QUOTED} shape=\w+[^\]]*\];")
EDGE = re.compile(rf"(n\d+) -> (n\d+) \[(?:label={QUOTED}[^\]]*|style=dashed)\];")
CLUSTER = re.compile(rf"subgraph {QUOTED} {{ label={QUOTED};(?: \w+={QUOTED})?")
DEFAULT = re.compile(r"(graph|node|edge) \[.*\];")


@each_graph
def test_every_line_is_a_node_an_edge_or_a_cluster(graph):
    head, *lines, tail = graph().to_dot().strip().splitlines()
    assert (head, tail) == ("digraph program {", "}")
    lines = [line for line in map(str.strip, lines) if not DEFAULT.fullmatch(line)]
    depth, declared, used = 0, [], set()
    for line in lines:
        if CLUSTER.fullmatch(line):
            depth += 1
        elif line == "}":
            depth -= 1
        elif match := NODE.fullmatch(line):
            declared.append(match[1])
        else:
            match = EDGE.fullmatch(line)
            assert match, line
            used |= {match[1], match[2]}
        assert depth >= 0
    assert depth == 0
    assert len(declared) == len(set(declared))
    assert used <= set(declared)


def test_as_many_edges_as_inputs_and_control_edges():
    graph = tree_rnn.extended_graph(0)
    text = graph.to_dot()
    assert text.count("style=dashed") == sum(len(node.control) for node in graph.nodes)
    sums = sum(len(body.accumulates) for body in graph.bodies.values())
    assert text.count('label="sum"') == sums > 0
    edges = sum(len(node.inputs) + len(node.control) for node in graph.nodes)
    assert text.count(" -> ") == edges + sums


def test_boxes_are_the_scopes():
    """Nodes stand in the box of their scope, the gradient in one of another color."""
    text = golden_programs.exp.extended_graph(2.0, 3).to_dot()
    stack, inside, colors = [], {}, {}
    for line in map(str.strip, text.splitlines()[1:-1]):
        if CLUSTER.fullmatch(line):
            stack.append(re.findall(QUOTED, line)[1].strip('"'))
            colors[tuple(stack)] = "bgcolor" in line
        elif line == "}":
            stack.pop()
        elif NODE.fullmatch(line):
            inside.setdefault(tuple(stack), []).append(line.split('"')[1].split("\\n")[0])
    assert inside[("exp",)] == ["MERGE x", "MERGE n", "Equal", "IDENTITY"]
    assert inside[("exp", "cond")] == ["SWITCH", "SWITCH", "SWITCH", "MERGE"]
    assert inside[("exp", "cond", "true")] == ["BROADCAST"]
    assert inside[("exp", "gradient")] == ["MERGE d_output", "IDENTITY d_x"]
    assert [scope for scope, is_colored in colors.items() if is_colored] == [("exp", "gradient")]


def test_edges_of_a_switch_name_the_branch():
    text = golden_programs.is_even.tagged_graph(3).to_dot()
    assert 'label="false i32[]"' in text
    assert 'label="true bool[]"' in text
    assert 'label="1 i32[]"' in text


@each_graph
def test_graphviz_draws_it(graph):
    if shutil.which("dot") is None:
        pytest.skip("Graphviz is not there")
    drawn = subprocess.run(
        ["dot", "-Tsvg"], input=graph().to_dot(), capture_output=True, text=True, check=True
    )
    assert "<svg" in drawn.stdout
