"""Runs the Python blocks of the pages; a text block after one must be what it prints.

KERASREC_UPDATE_GOLDEN=1 writes what is printed into the pages in place of checking it.
"""

import contextlib
import io
import os
import pathlib
import re

import pytest

from tests.parameters import few_of

ROOT = pathlib.Path(__file__).parent.parent
PAGES = ["README.md", "kerasrec/README.md", "data/README.md"]
BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n(?P<text>.*?)```\n)?", re.DOTALL)


@pytest.mark.parametrize("page", few_of(PAGES, "kerasrec/README.md"))
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


def _filename(code, folder):
    """The file that a block names in its first line, for the lines that graphs print."""
    named = re.match(r"# (\w+\.py)\n", code)
    return str(folder / (named[1] if named else "page.py"))
