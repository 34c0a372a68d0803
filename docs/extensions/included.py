"""Pages that are files of other folders, such as models/README.md, and links to such files.

A page takes a file in by `{include}`, or `{literalinclude}` for a program under a heading that is
its name. With `:heading-offset: 1`, the file's headings become one level lower. Links are written
as the repository has them; in the site they lead to these pages.
"""

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

TAKEN_IN = re.compile(
    r"```\{(?P<literal>literal)?include\} (?P<path>\S+)\n(?P<lower>:heading-offset: 1\n)?.*?```",
    re.DOTALL,
)
FENCED = re.compile(r"^(```+).*?^\1$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?(?=\))")


def pages_of_files(source: Path) -> dict[Path, str]:
    """Which page takes in which file, or folder for its README.md; with the heading of programs."""
    found = {}
    for page in source.rglob("*.md"):
        for match in TAKEN_IN.finditer(page.read_text(encoding="utf-8")):
            file = (page.parent / match["path"]).resolve()
            found[file] = str(page)
            if match["literal"]:
                found[file] += "#" + file.name.replace(".", "")
            if match["literal"] or file.name == "README.md":
                found[file.parent] = str(page)
    return found


def with_links_of_site(text: str, folder: Path, page: Path, pages: dict[Path, str]) -> str:
    """Markdown as the site needs it.

    Args:
        text: with links from `folder`.
        folder: of the file that it is from.
        page: on which it will be.
        pages: what `pages_of_files` found.
    """

    def target(match: re.Match) -> str:
        file = (folder / match["path"]).resolve()
        place, _, heading = pages.get(file, str(file)).partition("#")
        anchor = match["anchor"] or (f"#{heading}" if heading else "")
        return os.path.relpath(place, page.parent) + anchor

    parts, end = [], 0
    for block in FENCED.finditer(text):
        parts += [LINK.sub(target, text[end : block.start()]), block[0]]
        end = block.end()
    return "".join(parts) + LINK.sub(target, text[end:])


def _read(app: Sphinx, name: str, source: list[str]) -> None:
    page, pages = Path(app.env.doc2path(name)), pages_of_files(Path(app.srcdir))
    if page.suffix != ".md":
        return

    def whole(match: re.Match) -> str:
        if match["literal"]:
            return match[0]
        file = (page.parent / match["path"]).resolve()
        app.env.note_dependency(file)
        text = with_links_of_site(file.read_text(encoding="utf-8"), file.parent, page, pages)
        return re.sub("^#", "##", text, flags=re.MULTILINE) if match["lower"] else text

    source[0] = TAKEN_IN.sub(whole, with_links_of_site(source[0], page.parent, page, pages))


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds this to Sphinx."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}
