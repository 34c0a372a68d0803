"""Ways to look at the graph of a whole program, besides printing it.

`graph/graph.py` imports this file for its two classes of whole programs. Therefore this file, and
those that it imports from `inspect`, may import only nodes and values from `graph`.
"""

from __future__ import annotations

import html
import os
from abc import ABC, abstractmethod
from pathlib import Path

from kerasrec._src.graph.values import Node
from kerasrec._src.inspect.dot import to_dot
from kerasrec._src.inspect.scopes import Scope
from kerasrec._src.inspect.tensorboard import write_graph

FORMATS = ("png", "svg", "pdf")


class Drawable(ABC):
    """A graph that can be drawn, since it knows the scope of each of its nodes."""

    @abstractmethod
    def scopes(self) -> dict[Node, Scope]:
        """The scope of every node, in the order of the nodes; see `inspect/scopes.py`."""

    def _repr_html_(self) -> str:
        """The printed graph, for notebooks."""
        return f"<pre>{html.escape(str(self))}</pre>"

    def to_dot(self) -> str:
        """The graph in DOT, the language of Graphviz."""
        return to_dot(self.scopes())

    def to_picture(self, path: str | os.PathLike[str]) -> None:
        """Draws the graph into a file, a PNG, SVG or PDF by its suffix; needs Graphviz."""
        draw(self.to_dot(), path)

    def to_tensorboard(self, logdir: str | os.PathLike[str]) -> None:
        """Writes the graph into an event file, for the Graphs page of TensorBoard."""
        write_graph(self.scopes(), logdir)


def draw(dot: str, path: str | os.PathLike[str]) -> None:
    """Draws a graph.

    Args:
        dot: The graph in DOT.
        path: The path of the picture; its suffix, .png, .svg or .pdf, chooses the format.

    Raises:
        ValueError: If the suffix is another one.
        ImportError: If the Python package graphviz or Graphviz's program dot is missing.
    """
    target = Path(path)
    kind = target.suffix[1:].lower()
    if kind not in FORMATS:
        wanted = ", ".join(f".{item}" for item in FORMATS)
        raise ValueError(f"The path of a picture must end in one of {wanted}. Received: {path!s}.")
    try:
        import graphviz
    except ImportError as error:
        raise ImportError(
            "Drawing a graph needs the Python package graphviz: pip install graphviz. Without it, "
            "to_dot() gives the graph as text, and to_tensorboard() needs no Graphviz."
        ) from error
    try:
        drawn = graphviz.Source(dot).pipe(format=kind)
    except graphviz.ExecutableNotFound as error:
        raise ImportError(
            "Drawing a graph needs the program dot of Graphviz, and it is not on the PATH: "
            "https://graphviz.org/download, or for instance apt install graphviz. Without it, "
            "to_dot() gives the graph as text, and to_tensorboard() needs no Graphviz."
        ) from error
    target.write_bytes(drawn)
