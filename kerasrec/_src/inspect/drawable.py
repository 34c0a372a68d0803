"""Ways to look at the graph of a whole program, besides printing it.

`graph/graph.py` imports this file for its two classes of whole programs. So this file, and what it
imports from `inspect`, may import only nodes and values from `graph`.
"""

from __future__ import annotations

import html
import os
from abc import ABC, abstractmethod

from kerasrec._src.graph.values import Node
from kerasrec._src.inspect.dot import to_dot
from kerasrec._src.inspect.picture import draw
from kerasrec._src.inspect.scopes import Scope
from kerasrec._src.inspect.tensorboard import write_graph


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
