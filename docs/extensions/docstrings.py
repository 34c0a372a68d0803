"""Docstrings are Markdown in Google's sections; autodoc wants reStructuredText."""

import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils.utils import new_document
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.inspect import stringify_signature

# The title of each section that lists names, one `name: text` each.
LISTS = {
    "Args": "Arguments",
    "Call arguments": "Arguments of a call",
    "Attributes": "Attributes",
    "Raises": "Raises",
}
# Sections of text.
TEXTS = ["Returns", "Example", "Examples", "Input shape", "Output shape", "Reference", "References"]
# The parts of a page before the arguments of a class, which may be many.
FIRST = ["Example", "Examples", "Call arguments", "Output shape"]


class Markdown(SphinxDirective):
    """Markdown inside reStructuredText."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Parses what it holds."""
        document = new_document(self.state.document["source"], self.state.document.settings)
        MystParser().parse("\n".join(self.content), document)
        return document.children


def markdown_of(lines: list[str]) -> Iterator[str]:
    """A docstring's lines, its sections and doctests as Markdown has them."""
    rest = list(lines)
    while rest:
        line = rest.pop(0)
        title = line.removesuffix(":")
        if line.startswith(">>> "):
            yield "```pycon"
            yield line
            while rest and rest[0]:
                yield rest.pop(0)
            yield "```"
        elif line.endswith(":") and title in LISTS:
            yield from ("", f"**{LISTS[title]}**", "")
            yield from _definitions(_indented(rest))
        elif line.endswith(":") and title in TEXTS:
            yield from ("", f"**{title}**", "")
            yield from markdown_of(textwrap.dedent("\n".join(_indented(rest))).split("\n"))
        else:
            yield line


def _indented(rest: list[str]) -> list[str]:
    """Takes the indented and the empty lines that are next."""
    taken = []
    while rest and (not rest[0] or rest[0].startswith(" ")):
        taken.append(rest.pop(0))
    return taken


def _definitions(lines: list[str]) -> Iterator[str]:
    """Lines `names: text` as a definition list."""
    for item in re.split(r"\n(?=\S)", textwrap.dedent("\n".join(lines)).strip()):
        names, _, text = item.partition(":")
        first, _, others = text.strip().partition("\n")
        yield ", ".join(f"`{name.strip()}`" for name in names.split(","))
        yield f": {first}"
        yield from textwrap.indent(textwrap.dedent(others), "  ").split("\n")
        yield ""


def reordered(text: str) -> str:
    """A docstring with the sections that a page shows first before the arguments."""
    titles = "|".join([*LISTS, *TEXTS])
    summary, *sections = re.split(rf"^(?=(?:{titles}):$)", text, flags=re.MULTILINE)
    places = {title: place for place, title in enumerate(FIRST)}
    sections.sort(key=lambda section: places.get(section.partition(":")[0], len(FIRST)))
    return "\n".join([summary, *sections])


def _convert(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """The first paragraph stays as it is, for tables of names; all else becomes Markdown."""
    summary, _, rest = "\n".join(lines).partition("\n\n")
    summary = re.sub(r"(`[^`]+`)", r"\1\\ ", summary)  # A letter may come right after code.
    if what == "class":
        rest = reordered(rest)
    if rest.strip():
        text = textwrap.indent("\n".join(markdown_of(rest.split("\n"))), "   ")
        lines[:] = [*summary.split("\n"), "", ".. markdown::", "", *text.split("\n"), ""]


def _signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str, returns: str
) -> tuple[str, str] | None:
    """That of `__init__` also where a class of Keras has a `__new__` that takes anything."""
    if what != "class" or not signature.startswith("(*args"):
        return None
    return stringify_signature(inspect.signature(obj), show_annotation=False), returns


def _skip(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Fields of named tuples are described by the class."""
    return True if (getattr(obj, "__doc__", "") or "").startswith("Alias for field") else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds this to Sphinx."""
    app.add_directive("markdown", Markdown)
    app.connect("autodoc-process-docstring", _convert)
    app.connect("autodoc-process-signature", _signature)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True}
