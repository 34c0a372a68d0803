"""Runs the Python blocks of the pages; a text block after one must be what it prints.

Links must lead somewhere, and names in the README's tables must be names.

KERASREC_UPDATE_GOLDEN=1 writes what is printed into the pages in place of checking it.
"""

import contextlib
import io
import operator
import os
import pathlib
import re
from types import SimpleNamespace

import pytest

import kerasrec.datasets
import kerasrec.layers
import kerasrec.training
from tests.parameters import few_of

ROOT = pathlib.Path(__file__).parent.parent
PAGES = ["README.md", "docs/recursion.md", "docs/trees.md", "kerasrec/README.md"]
PAGES += ["kerasrec/training/README.md", "data/README.md"]
LINKED = [
    *PAGES,
    "docs/limits.md",
    "docs/deprecated.md",
    "kerasrec/datasets/README.md",
    "models/README.md",
]
LINKED += ["benchmarks/README.md", "tests/README.md", "CONTRIBUTING.md"]
BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n(?P<text>.*?)```\n)?", re.DOTALL)


@pytest.mark.parametrize("page", few_of(PAGES, "kerasrec/README.md", many=["README.md"]))
def test_page(page, tmp_path, monkeypatch):
    path = ROOT / page
    content = path.read_text()
    monkeypatch.chdir(ROOT)
    namespace = {"__name__": "page"}

    def run(match):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(match["code"], _filename(match["code"], tmp_path), "exec"), namespace)
        if match["text"] is None:
            return match[0]
        start = match.start("text") - match.start()
        return match[0][:start] + printed.getvalue() + match[0][start + len(match["text"]) :]

    found = BLOCK.sub(run, content)
    if os.environ.get("KERASREC_UPDATE_GOLDEN"):
        path.write_text(found)
    else:
        assert found == content
    assert BLOCK.search(content)
    if page == "README.md":
        batches = namespace["treebank"].batches("dev", 100)
        figures = namespace["model"].evaluate(batches, verbose=0, return_dict=True)
        assert figures["root_accuracy"] > 0.85  # It says .936; chance is .2.


def _filename(code, folder):
    """The file that a block names in its first line, for the lines that graphs print."""
    named = re.match(r"# (\w+\.py)\n", code)
    return str(folder / (named[1] if named else "page.py"))


@pytest.mark.parametrize("page", LINKED)
def test_links_lead_somewhere(page):
    assert dead_links(ROOT / page) == []


def test_names_in_tables_can_be_imported():
    pages = (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
    found = set().union(*(names_in_tables(page.read_text()) for page in pages))
    assert {"kerasrec.layers.Recursive", "kerasrec.recursive", "TreeLSTM", "Recursive"} <= found
    assert [name for name in found if not is_a_name(name)] == []


def test_rules_tell_good_from_bad(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A `b`, c_d\n```\n# no heading [x](no/link)\n```\n## A `b`, c_d\n"
        "[1](page.md) [2](#a-b-c_d) [3](page.md#a-b-c_d-1) [4](https://example.org/#x)\n"
        "[5](other.md) [6](#no-heading-xnolink) [7](page.md#a-b)\n"
    )
    assert dead_links(page) == ["other.md", "#no-heading-xnolink", "page.md#a-b"]
    table = "`Text` | `No` |\n| `kerasrec.layers.Lost`, `@kerasrec.cond` | `Cell(x)` `.a()` `b` |\n"
    assert names_in_tables(table) == {"kerasrec.layers.Lost", "kerasrec.cond", "Cell"}
    assert not is_a_name("kerasrec.layers.Lost") and not is_a_name("Cell")


def dead_links(page):
    """The links to files and headings that are not there."""
    dead = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_blocks(page)):
        path, _, anchor = link.partition("#")
        if re.match(r"\w+:", link):
            continue
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    return dead


def anchors(page):
    """The anchors that GitHub gives headings."""
    found = []
    for heading in re.findall(r"^#+ +(.+?) *$", without_blocks(page), re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = sum(re.fullmatch(rf"{anchor}(-\d+)?", other) is not None for other in found)
        found.append(f"{anchor}-{number}" if number else anchor)
    return found


def without_blocks(page):
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def names_in_tables(text):
    """The names written as code that are of kerasrec, or look like classes."""
    rows = "\n".join(re.findall(r"^\|.*", text, re.MULTILINE))
    return set(re.findall(r"`@?(kerasrec(?:\.\w+)*|[A-Z]\w*)(?:\([^`]*\))?`", rows))


def is_a_name(name):
    """Whether it is one of kerasrec, or of one of its folders."""
    folders = (kerasrec, kerasrec.layers, kerasrec.datasets, kerasrec.training)
    try:
        operator.attrgetter(name)(SimpleNamespace(kerasrec=kerasrec))
        return True
    except AttributeError:
        return any(name in folder.__all__ for folder in folders)
