"""Graphs are drawn by Graphviz, and who has none is told what to install."""

import shutil
import sys

import pytest

from tests import golden_programs

# Writes down what it was asked for and what it was given, and answers as dot does.
FAKE_DOT = """#!{python}
import pathlib, sys
folder = pathlib.Path(__file__).parent
folder.joinpath("asked").write_text(" ".join(sys.argv[1:]))
folder.joinpath("given").write_bytes(sys.stdin.buffer.read())
sys.stdout.write("a picture")
"""


@pytest.fixture
def graph():
    return golden_programs.fact.tagged_graph(3)


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_dot_is_called(graph, kind, tmp_path, monkeypatch):
    pytest.importorskip("graphviz", reason="the Python package graphviz is not there")
    program = tmp_path / "bin" / "dot"
    program.parent.mkdir()
    program.write_text(FAKE_DOT.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    graph.to_picture(tmp_path / f"graph.{kind}")
    assert (tmp_path / f"graph.{kind}").read_text() == "a picture"
    assert f"-T{kind}" in (program.parent / "asked").read_text().split()
    assert (program.parent / "given").read_text() == graph.to_dot()


def test_graphviz_draws_it(graph, tmp_path):
    pytest.importorskip("graphviz", reason="the Python package graphviz is not there")
    if shutil.which("dot") is None:
        pytest.skip("Graphviz is not there")
    graph.to_picture(tmp_path / "graph.svg")
    assert "MERGE n" in (tmp_path / "graph.svg").read_text()


def test_without_the_package(graph, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(ImportError, match="pip install graphviz"):
        graph.to_picture(tmp_path / "graph.png")


def test_without_the_program(graph, tmp_path, monkeypatch):
    pytest.importorskip("graphviz", reason="the Python package graphviz is not there")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ImportError, match="program dot of Graphviz"):
        graph.to_picture(tmp_path / "graph.png")


@pytest.mark.parametrize("name", ["graph", "graph.jpeg"])
def test_a_suffix_that_is_no_picture(graph, name, tmp_path):
    message = r"must end in one of \.png, \.svg, \.pdf\. Received: .*graph"
    with pytest.raises(ValueError, match=message):
        graph.to_picture(tmp_path / name)
