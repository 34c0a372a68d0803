"""The tagged graph is that of the papers' figures."""

from kerasrec._src.graph.nodes import Computed
from tests import golden_programs
from tests.programs import FEW, MORE, each


def nodes(graph, op):
    return [node for node in graph.nodes if node.op == op]


def test_factorial_is_figure_3():
    """Kostopoulou et al., figure 3, edge by edge."""
    graph = golden_programs.fact.tagged_graph(3)
    calls, returns = nodes(graph, "CALL"), nodes(graph, "RETURN")
    call = {node.label: node for node in calls}
    back = {node.label: node for node in returns}
    assert sorted(call) == sorted(back) == [0, 1]
    assert (len(calls), len(returns)) == (2, 2)

    merge, chosen = nodes(graph, "MERGE")
    (switch,) = nodes(graph, "SWITCH")
    (equal,), (sub,), (mul,) = (nodes(graph, op) for op in ("Equal", "Sub", "Mul"))
    (out,) = nodes(graph, "IDENTITY")
    assert merge.name == "n"
    assert merge.inputs == [call[0].output(), call[1].output()]
    assert equal.inputs[0] == merge.output()
    assert switch.inputs == [merge.output(), equal.output()]
    then, otherwise = switch.outputs
    assert sub.inputs[0] == otherwise
    assert call[0].inputs == [sub.output()]
    assert mul.inputs == [otherwise, back[0].output()]
    assert chosen.inputs == [then, mul.output()]
    assert out.inputs == [chosen.output()]

    for label in (0, 1):
        assert back[label].inputs == [out.output()]
        assert back[label].control == [call[label]]
    assert not any(node.control for node in graph.nodes if node.op != "RETURN")
    (argument,) = nodes(graph, "ARGUMENT")
    assert call[1].inputs == [argument.output()]


def test_fib_is_figure_3_3():
    """Vasilakopoulos 2024: Fib(4) + Fib(7) has four pairs of CALL and RETURN, and one body."""
    graph = golden_programs.main.tagged_graph(4, 7)
    sites = graph.sites_to("fib")
    assert [(site.label, site.caller) for site in sites] == [
        (0, "main"),
        (1, "main"),
        (2, "fib"),
        (3, "fib"),
    ]
    body = graph.bodies["fib"]
    (merge,), (out,) = body.parameters, body.outputs
    assert merge.inputs == [site.calls[0].output() for site in sites]
    for site in sites:
        (call,), (back,) = site.calls, site.returns
        assert back.inputs == [out.output()]
        assert back.control == [call]
    assert len([node for node in body.nodes if node.op == "AddV2"]) == 1


def test_every_argument_and_output_has_its_call_and_return():
    """Vasilakopoulos 2024, section 3.4: x CALLs and y RETURNs share one label."""
    graph = golden_programs.is_even.tagged_graph(3)
    for site in graph.call_sites.values():
        assert (len(site.calls), len(site.returns)) == (1, 2)
        assert {node.label for node in (*site.calls, *site.returns)} == {site.label}


@each(few=FEW, many=MORE)
def test_one_body_for_each_function(program):
    functions = program.function.function_graphs(*program.inputs)
    graph = program.function.tagged_graph(*program.inputs)
    assert list(graph.bodies) == list(functions.functions)
    labels = [site.label for function in functions for site in function.call_sites]
    assert list(graph.call_sites) == [*labels, max(labels, default=-1) + 1]
    assert graph.root.caller is None
    assert not any(node.op in ("CALLSITE", "PARAMETER") for node in graph.nodes)


@each(few=FEW, many=MORE)
def test_graph_is_as_large_as_its_functions(program):
    """Static: its size depends on the program, and not on how deep it runs."""
    functions = program.function.function_graphs(*program.inputs)
    graph = program.function.tagged_graph(*program.inputs)
    primitives = sum(
        isinstance(node, Computed) for function in functions for node in function.nodes
    )
    assert sum(isinstance(node, Computed) for node in graph.nodes) == primitives
