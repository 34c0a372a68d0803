"""Each kind of node has all its rules, so a new kind is a class and its rules."""

import inspect

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec import GraphError
from kerasrec._src.graph import interpreter, nodes
from kerasrec._src.graph.printer import GraphPart, print_graph
from kerasrec._src.graph.values import Node, Value
from kerasrec._src.transform import extend
from tests.programs import PROGRAMS

# All classes of nodes, without those that only others are made of.
KINDS = [
    item
    for name, item in inspect.getmembers(nodes, inspect.isclass)
    if issubclass(item, Node) and name[0] != "_"
    if item not in (Node, nodes.Named, nodes.Computed)
]
# Of function graphs: tagging makes other nodes of them.
BEFORE_TAGGING = {nodes.Parameter, nodes.CallOf}
# Their values are there before any token is sent.
GIVEN = {nodes.Argument, nodes.Shared, nodes.SumCotangent, nodes.RowsOfRoots}
# A call and what it returns have one rule; entrances and results become each other's gradients.
GRADIENT_OF_CALLS = {nodes.Call, nodes.Return, nodes.Entrance, nodes.Result}
GRADIENT_OF_CALLS |= {nodes.LoopEnter, nodes.LoopNext, nodes.LoopExit}
GRADIENT_OF_GROUPS = {nodes.Recomputed}
# They pass no value on, or one that depends on no float.
NO_GRADIENT = {nodes.Check, nodes.Effect, nodes.New, nodes.Rows}


weight = tf.Variable(2.0)


@kerasrec.recursive
def shows(x, n):
    """With two of the list of programs, all kinds of nodes."""
    tf.print(x)
    tf.debugging.assert_less(x, 100.0)
    _, y = tf.while_loop(lambda step, _: step < 2, lambda step, y: (step + 1, y * x), (0, x))
    y = kerasrec.while_loop(lambda y: y < 1.0, lambda y: 2.0 * y, y)
    shared = kerasrec.cond(x < 1.0, lambda: weight, lambda: y)
    return kerasrec.cond(n < 1, lambda: shared, lambda: weight * shows(y, n - 1))


(FOREST,) = [program for program in PROGRAMS if program.name == "forest"]
(MADE,) = [program for program in PROGRAMS if program.name == "sum_upto"]


@kerasrec.recursive(memo=True)
def shares(x, n):
    """Equal calls are one call."""
    return kerasrec.cond(n < 1, lambda: x, lambda: shares(x, n - 1) + shares(x, n - 2))


@pytest.fixture(scope="module")
def by_kind():
    """For each kind, a node and the nodes of its graph."""
    found = {}
    arguments = np.float32([1]), np.int32([1])
    calls = [(shows, arguments), (shares, arguments)]
    calls += [(program.function, program.inputs) for program in (FOREST, MADE)]
    for function, inputs in calls:
        for graph in (function.extended_graph(*inputs), *function.function_graphs(*inputs)):
            found.update({type(node): (node, graph.nodes) for node in graph.nodes})
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_prints(kind, by_kind):
    node, of_graph = by_kind[kind]
    (line,) = [line for item, line in zip(of_graph, _lines(of_graph), strict=True) if item is node]
    assert node.title in line and node.title.startswith(node.op)
    assert all(value.node.title for value in node.named.values())


def _lines(of_graph):
    lines = print_graph([GraphPart("all", of_graph)]).splitlines()[1:]
    return [line for line in lines if not line.endswith(":")]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_checked(kind, by_kind):
    node, _ = by_kind[kind]
    node.check("here")
    broken = node.copy(lambda value: Value(value.node, 99), node.region)
    if node.inputs:
        with pytest.raises(GraphError, match="here reads an output that"):
            broken.check("here")


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_a_meaning(kind):
    rules = [interpreter.ARRIVING, interpreter.ENTERING, interpreter.FIRING]
    assert sum(kind in table for table in (*rules, BEFORE_TAGGING, GIVEN)) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_a_gradient_or_is_named_as_having_none(kind):
    named = [BEFORE_TAGGING, GIVEN, GRADIENT_OF_CALLS, GRADIENT_OF_GROUPS, NO_GRADIENT]
    assert sum(kind in table for table in (extend.RULES, *named)) == 1
