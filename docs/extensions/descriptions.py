"""The first paragraph of a page is its description for search engines."""

import html
import textwrap
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

LENGTH = 160  # The part that search engines show, in characters.


def description_of(document: nodes.document) -> str:
    """The beginning of a page's text."""
    first = next(document.findall(nodes.paragraph))
    return textwrap.shorten(first.astext(), LENGTH, placeholder=" …")


def _describe(
    app: Sphinx, name: str, template: str, context: dict[str, Any], document: nodes.document | None
) -> None:
    if document is not None:  # None for the search, the index and listings of modules
        text = html.escape(description_of(document))
        context["metatags"] += f'<meta name="description" content="{text}" />'


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds this to Sphinx."""
    app.connect("html-page-context", _describe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
