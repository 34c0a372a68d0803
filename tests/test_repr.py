"""What notebooks and debuggers show of graphs, traces and treebanks is one short line."""

import pytest

from kerasrec.datasets import treebank_of
from kerasrec.datasets.text_tree import text_tree
from tests.programs import fib

SHORT = 120


@pytest.fixture(scope="module")
def graph():
    return fib.extended_graph(3)


@pytest.mark.many
def test_a_line_for_each(graph):
    treebank = treebank_of([text_tree(f"word {number}", label=1) for number in range(300)])
    assert repr(fib) == "<RecursiveFunction fib(n)>"
    assert repr(fib.function_graphs(3)) == "<FunctionGraphs of fib; print() shows them>"
    assert repr(graph) == "<TaggedGraph of fib: 18 nodes, 3 call sites; print() shows them>"
    assert repr(fib.run_trace(5)).startswith("<RunTrace of fib: 15 calls in 5 waves and 10 steps")
    sizes = "300 train, 0 dev, 0 test trees, 303 words, 5 classes"
    assert repr(treebank) == f"<Treebank: {sizes}>"
    assert repr(treebank.vocabulary) == "<Vocabulary of 303 words>"
    for node in graph.nodes:
        assert node.op in repr(node) and len(repr(node)) < SHORT
        assert all(str(value.type) in repr(value) for value in node.outputs)
        assert all(len(repr(value)) < SHORT for value in node.outputs)


@pytest.mark.many
def test_notebooks_show_what_prints(graph):
    for item in (fib.function_graphs(3), graph, fib.run_trace(5)):
        page = item._repr_html_()
        assert page.startswith("<pre>") and page.endswith("</pre>")
        lines = page.removeprefix("<pre>").removesuffix("</pre>").replace("&lt;", "<")
        assert lines.replace("&gt;", ">").replace("&#x27;", "'") == str(item)
