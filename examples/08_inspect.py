"""Inspecting a recursion: its graph, and its run step by step.

`run_trace` shows a run wave by wave: how many tokens went through the graph at once, and which
nodes fired. You can open graphs in TensorBoard. If Graphviz is installed, it draws graphs; if
Matplotlib is, it draws runs.
"""

import tempfile
from pathlib import Path

import kerasrec


@kerasrec.recursive
def fib(n):
    return kerasrec.cond(n < 2, lambda: n, lambda: fib(n - 1) + fib(n - 2))


@kerasrec.recursive
def ackermann(m, n):
    return kerasrec.cond(
        m < 1,
        lambda: n + 1,
        lambda: kerasrec.cond(
            n < 1,
            lambda: ackermann(m - 1, 1),
            lambda: ackermann(m - 1, ackermann(m, n - 1)),
        ),
    )


print("Calls of fib wait only for their arguments, so all calls of one depth run together:\n")
print(fib.run_trace(10))
print("\nCalls of ackermann wait for each other; only calls of other tokens can run with them:\n")
print(ackermann.run_trace(2, 3).summary())
print(ackermann.run_trace([2] * 50, [3] * 50).summary())

folder = Path(tempfile.mkdtemp())
fib.tagged_graph(10).to_tensorboard(folder / "fib")
print("\nTo see the graph: tensorboard --logdir", folder)
for draw, name in (
    (fib.tagged_graph(10).to_picture, "graph.svg"),
    (fib.run_trace(20).plot, "run.png"),
):
    try:
        draw(folder / name)
        print("Drawn:", folder / name)
    except ImportError as error:
        print(error)
