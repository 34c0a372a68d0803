"""Pictures of graphs, drawn by Graphviz."""

from __future__ import annotations

import os
from pathlib import Path

FORMATS = ("png", "svg", "pdf")


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
