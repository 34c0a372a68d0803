"""Pages: their blocks run, links lead somewhere, and names in tables are names.

`make site` runs all pages, by docs/run_pages.py; this runs one.
"""

import importlib.util
import operator
import re
from pathlib import Path
from types import SimpleNamespace

import keras
import pytest
import tensorflow as tf

import kerasrec.datasets
import kerasrec.layers
import kerasrec.training
from docs.run_pages import check_readme, run
from tests.parameters import few_of

ROOT = Path(__file__).parents[1]
DOCS = [str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").rglob("*.md"))]
LINKED = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/papers.md", *DOCS]
LINKED += [f"{folder}/README.md" for folder in ("benchmarks", "data", "models", "tests")]
RESULTS = [str(page.relative_to(ROOT)) for page in sorted(ROOT.glob("*/results/*.md"))]


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", few_of(["README.md", "docs/compiler.md"], "docs/compiler.md", many=[])
)
def test_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    shown, namespace = run(page, tmp_path)
    assert shown == (ROOT / page).read_text()
    assert "__name__" in namespace and len(namespace) > 1  # some block ran
    if page == "README.md":
        check_readme(namespace)


@pytest.mark.parametrize("page", LINKED + RESULTS)
def test_links_lead_somewhere(page):
    assert dead_links(ROOT / page) == []


@pytest.mark.parametrize("page", LINKED)
def test_begins_with_its_description(page):
    text = (ROOT / page).read_text()
    assert re.match(r"```{include} |# .*\n\n(?![#|!>-]|```)\S", text), "a paragraph goes first"


@pytest.mark.parametrize("page", LINKED + RESULTS)
def test_names_of_kerasrec_can_be_imported(page):
    code = re.findall(r"`@?(kerasrec(?:\.\w+)*)(?:\([^`]*\))?`", without_blocks(ROOT / page))
    assert [name for name in code if not is_a_name(name)] == []


def test_names_in_tables_can_be_imported():
    pages = ["README.md", *(page for page in DOCS if page.startswith("docs/guides/"))]
    found = set().union(*(names_in_tables((ROOT / page).read_text()) for page in pages))
    assert {"kerasrec.cond", "TreeLSTM", "Recursive"} <= found
    assert [name for name in found if not is_a_name(name)] == []


def test_every_example_is_on_its_page():
    page = (ROOT / "docs/examples.md").read_text()
    folder = ROOT / "examples"
    examples = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*.py"))]
    assert re.findall(r"{literalinclude} \.\./examples/(\S+)", page) == examples
    assert re.findall(r"^## (.*)", page, re.MULTILINE) == examples


def test_all_results_are_on_the_site():
    pages = "".join(page.read_text() for page in ROOT.glob("docs/*-results.md"))
    assert sorted(re.findall(r"{include} \.\./(\S+)", pages)) == RESULTS


def test_the_map_of_the_code_is_that_of_the_files():
    """The files that docs/compiler.md names are there, and it names all files of these folders."""
    package = ROOT / "kerasrec" / "_src"
    there = {str(path.relative_to(package)) for path in package.rglob("*.py")}
    page = without_blocks(ROOT / "docs/compiler.md")
    rows = re.findall(r"^\| *(`.*?) \|", page, re.MULTILINE)
    in_rows = set().union(*map(files_of_row, rows))
    assert sorted(in_rows - there) == []
    named = in_rows | set(re.findall(r"`([\w/]+\.py)`", page))
    names = {path.rpartition("/")[2] for path in there}  # Prose names some without their folder.
    assert [name for name in named - there - names if not (ROOT / name).exists()] == []
    folders = ("schedule", "emit", "waves", "queues", "engine", "scalar", "compiled")
    expected = {
        str(path.relative_to(package)) for at in folders for path in package.glob(f"{at}/*.py")
    }
    assert [path for path in expected - named if not path.endswith("__init__.py")] == []


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
    assert files_of_row("`a/b.py`, `c.py`, `d/e/f.py`, `g`") == {"a/b.py", "a/c.py", "d/e/f.py"}


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


def files_of_row(cell):
    """The files that a cell names; one without a folder lies in that of the one before it."""
    files, folder = set(), ""
    for name in re.findall(r"`([\w/]+\.py)`", cell):
        folder = name.rpartition("/")[0] or folder
        files.add(f"{folder}/{name.rpartition('/')[2]}" if folder else name)
    return files


def without_blocks(page):
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def names_in_tables(text):
    """The names written as code that are of kerasrec, or look like classes."""
    rows = "\n".join(re.findall(r"^\|.*", text, re.MULTILINE))
    return set(re.findall(r"`@?(kerasrec(?:\.\w+)*|[A-Z]\w*)(?:\([^`]*\))?`", rows))


def is_a_name(name):
    """Whether it is a name or module of kerasrec, or a class that tables name by itself."""
    try:
        operator.attrgetter(name)(SimpleNamespace(kerasrec=kerasrec))
        return True
    except AttributeError:
        if name.startswith("kerasrec."):
            return importlib.util.find_spec(name) is not None
        folders = (kerasrec, kerasrec.layers, kerasrec.datasets, kerasrec.training)
        others = (keras, keras.layers, tf.distribute)
        return any(name in folder.__all__ for folder in folders) or any(
            hasattr(other, name) for other in others
        )
