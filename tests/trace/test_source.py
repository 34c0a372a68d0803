"""Lines of the user's program, where it is typed into a notebook."""

import re

import pytest
from IPython.core.interactiveshell import InteractiveShell

DEFINITION = """\
import kerasrec
@kerasrec.recursive
def count(n):
    return kerasrec.cond(n < 1, lambda: n, lambda: count(n - 1))
"""
WRONG = """\
@kerasrec.recursive
def wrong(n):
    return n if n < 1 else wrong(n - 1)
"""


@pytest.fixture
def shell():
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


@pytest.mark.many
def test_lines_of_notebook_cells(shell):
    for code in ("1 + 1", DEFINITION, WRONG, "graph = str(count.tagged_graph(3))"):
        shell.run_cell(code, store_history=True).raise_error()
    graph = shell.user_ns["graph"]
    assert re.search(r"Less\(.*\)  # In\[2\]:4", graph) and "body count  # In[2]:2" in graph
    failed = shell.run_cell("wrong(3)", store_history=True)
    assert "wrong (In[3]:1) uses a tensor where Python needs a value" in str(failed.error_in_exec)
