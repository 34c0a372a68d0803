"""Additions of docs/extensions to Sphinx."""

import re

import pytest
from docutils import nodes
from docutils.core import publish_doctree

from docs.extensions.descriptions import description_of
from docs.extensions.docstrings import markdown_of, reordered
from docs.extensions.included import pages_of_files, with_links_of_site
from docs.extensions.offline import READS
from docs.extensions.tables import TablesOfSentences


@pytest.mark.many
def test_docstrings_become_markdown():
    docstring = """Does `this`.

Args:
    x: int `[batch]`,
      or None.
    a, b: of `x`.

Returns:
    A pair:

        not a section:

Example:

>>> f(1)
2

After it."""
    found = re.sub(r"\n{3,}", "\n\n", "\n".join(markdown_of(docstring.split("\n"))))
    expected = """Does `this`.

**Arguments**

`x`
: int `[batch]`,
  or None.

`a`, `b`
: of `x`.

**Returns**

A pair:

    not a section:

**Example**

```pycon
>>> f(1)
2
```

After it."""
    assert found == expected


@pytest.mark.many
def test_an_example_and_the_inputs_of_a_call_go_before_arguments():
    sections = ["Args:\n    x: 1.\n", "Call arguments:\n    y: 2.\n", "Example:\n\n>>> f(1)\n"]
    summary, (arguments, call, example) = "All of it.\n\nMore: text.\n\n", sections
    found = reordered(summary + "\n".join(sections))
    assert re.sub(r"\n+", "\n", found) == re.sub(r"\n+", "\n", summary + example + call + arguments)


@pytest.mark.many
def test_links_lead_to_the_pages_of_the_site(tmp_path):
    docs = tmp_path / "docs"
    (docs / "guides").mkdir(parents=True)
    (docs / "models.md").write_text("```{include} ../models/README.md\n```\n")
    (docs / "examples.md").write_text("```{literalinclude} ../examples/01_a.py\n:x: y\n```\n")
    pages = pages_of_files(docs)

    def moved(text, folder, page):
        return with_links_of_site(text, tmp_path / folder, docs / page, pages)

    guide = (
        "[1](../../models/README.md#a-b) [2](../../models) [3](trees.md#x) [4](#y) [5](https://a/b)"
    )
    expected = "[1](../models.md#a-b) [2](../models.md) [3](trees.md#x) [4](#y) [5](https://a/b)"
    assert moved(guide, "docs/guides", "guides/gpus.md") == expected
    code = "```sh\n[1](../../models)\n```\n"
    assert moved(code, "docs/guides", "guides/gpus.md") == code
    included = "[1](../examples/01_a.py) [2](../docs/limits.md) ![3](shapes.png)"
    expected = "[1](examples.md#01_apy) [2](limits.md) ![3](../models/shapes.png)"
    assert moved(included, "models", "models.md") == expected


@pytest.mark.many
def test_the_first_paragraph_describes_a_page():
    document = publish_doctree("Title\n=====\n\nIt has `all` of\nthis.\n\nNot this.")
    assert description_of(document) == "It has all of this."


@pytest.mark.many
@pytest.mark.parametrize("length", [10, 60])
def test_cells_of_tables_of_sentences_name_their_columns(length):
    rows = [["one", "two", "three"], ["a", "b" * length, "c"]]
    lines = [f"   {','.join(row)}\n" for row in rows]
    table = ".. csv-table::\n   :header-rows: 1\n\n" + "".join(lines)
    document = publish_doctree(table)
    TablesOfSentences(document).apply()
    cells = [cell.astext() for cell in document.findall(nodes.entry)][3:]
    named = ["a", "two: " + "b" * length, "three: c"]
    assert cells == (named if length > 50 else rows[1])


@pytest.mark.many
@pytest.mark.parametrize(
    "text",
    [
        '<script async="async" src="https://a.b/c.js"></script>',
        '<link rel="stylesheet" type="text/css" href="//a.b/c.css" />',
        '<link href="https://a.b/c.woff" rel="preload">',
        '@import "https://a.b/c.css";',
        "src: url(https://a.b/c.woff)",
    ],
)
def test_what_is_read_from_the_network_is_found(text):
    assert READS.search(text)
    assert not READS.search(text.replace("https:", "").replace("//", "_static/"))
