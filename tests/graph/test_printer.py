"""Graphs print as in the golden files."""

import pytest

from tests import golden_programs, golden_rows
from tests.golden.compare import assert_golden


@pytest.mark.parametrize(
    ("name", "graph"),
    [
        ("factorial_functions", lambda: golden_programs.fact.function_graphs(3)),
        ("factorial_tagged", lambda: golden_programs.fact.tagged_graph(3)),
        ("fib_tagged", lambda: golden_programs.main.tagged_graph(4, 7)),
        ("power_functions", lambda: golden_programs.exp.function_graphs(2.0, 3)),
        ("power_extended", lambda: golden_programs.exp.extended_graph(2.0, 3)),
        ("even_odd_functions", lambda: golden_programs.is_even.function_graphs(3)),
        ("even_odd_tagged", lambda: golden_programs.is_even.tagged_graph(3)),
        ("ragged_extended", lambda: golden_rows.scaled_size.extended_graph(0, 2.0)),
    ],
)
def test_golden(name, graph):
    assert_golden(name, str(graph()))


def test_names_are_given_while_printing():
    """Each value is defined once, and none is read that is not defined."""
    text = str(golden_programs.exp.extended_graph(2.0, 3))
    defined = [
        name.strip(" ,")
        for line in text.splitlines()
        if " = " in line
        for name in line.split(":")[0].split()
    ]
    assert defined == [f"%{place}" for place in range(len(defined))]


def test_same_text_each_time():
    first = str(golden_programs.fact.tagged_graph(3))
    assert first == str(golden_programs.fact.tagged_graph(4))
    assert "object at" not in first


def test_branches_calls_and_tables_say_what_they_are():
    text = str(golden_programs.is_even.tagged_graph(3))
    for line in (
        "  where %12 is false:\n    %15: i32[] = Sub",
        "    where %15 is 0:\n      %18: i32[] = Sub",
        "    where %15 is another:\n      %22: i32[] = Sub",
        "CALL_0(%18) into is_odd",
        "COLLECT seen(%11) at %11 of %0",
    ):
        assert line in text
