"""Draws the graphs of docs/gallery.md, as SVG files in docs/gallery.

    python docs/draw_gallery.py

needs Graphviz. Each graph that a block of the page names is drawn into a file of that name. The
file contains its source, a digest of the graph in DOT, so that tests need no Graphviz to find
pictures that are out of date.
"""

import hashlib
import os
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = "docs/gallery.md"
PICTURES = ROOT / "docs" / "gallery"
DIGEST = re.compile(r"<!-- SHA-256 of the DOT: (\w+) -->")


def graphs_of(namespace: dict) -> dict:
    """The graphs among the names of a page's blocks."""
    return {name: value for name, value in namespace.items() if hasattr(value, "to_dot")}


def digest(graph) -> str:
    """Tells graphs apart that are drawn otherwise."""
    return hashlib.sha256(graph.to_dot().encode()).hexdigest()


def drawn_from(picture: Path) -> str | None:
    """The digest of the graph that a picture shows."""
    found = DIGEST.search(picture.read_text(encoding="utf-8"))
    return found and found[1]


def main() -> None:
    """The command."""
    sys.path.insert(0, str(ROOT))
    from docs.run_pages import ENVIRONMENT, run

    os.environ.update(ENVIRONMENT)
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        _, namespace = run(PAGE, Path(folder))
    PICTURES.mkdir(exist_ok=True)
    for old in PICTURES.glob("*.svg"):
        old.unlink()
    for name, graph in graphs_of(namespace).items():
        picture = PICTURES / f"{name}.svg"
        graph.to_picture(picture)
        svg = picture.read_text(encoding="utf-8")
        mark = f"<!-- SHA-256 of the DOT: {digest(graph)} -->\n"
        start = svg.index("<svg")
        text = svg[:start] + mark + svg[start:]
        lines = [line.rstrip() for line in text.splitlines()]
        picture.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(picture.relative_to(ROOT))


if __name__ == "__main__":
    main()
