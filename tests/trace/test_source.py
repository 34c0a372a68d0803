"""Lines of the user's program: those typed into a notebook, and those that tracebacks show."""

import re
import traceback

import keras
import pytest
import tensorflow as tf
from IPython.core.interactiveshell import InteractiveShell

import kerasrec

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


def test_tracebacks_show_the_users_lines():
    """And a few of ours: with all of them, what is wrong is far below what is typed."""

    @kerasrec.recursive
    def wrong(n):
        return kerasrec.cond(n < 1, lambda: tf.ones([3]) @ tf.ones([2]), lambda: wrong(n - 1))

    def frames(error):
        return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]

    with pytest.raises(kerasrec.TraceError) as caught:
        wrong(3)
    few = len(frames(caught.value))
    assert set(frames(caught.value.__cause__)) == {__file__}
    keras.config.disable_traceback_filtering()
    try:
        with pytest.raises(kerasrec.TraceError) as caught:
            wrong(3)
        assert few < 10 < len(frames(caught.value))
    finally:
        keras.config.enable_traceback_filtering()
