"""The site reads nothing from the network: scripts, styles, fonts and images are its own."""

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import SphinxError

ADDRESS = r"(?:https?:)?//[^\"'\s)]+"
READS = re.compile(
    rf"<(?:script|img|iframe|source|video)\b[^>]*?\ssrc=[\"']({ADDRESS})"
    rf"|<link\b(?=[^>]*\brel=[\"'](?:stylesheet|preload|preconnect|icon|modulepreload))[^>]*?href=[\"']({ADDRESS})"
    rf"|@import\s+(?:url\()?[\"']?({ADDRESS})|\burl\([\"']?({ADDRESS})"
)


def _check(app: Sphinx, error: Exception | None) -> None:
    if error:
        return
    for file in sorted(Path(app.outdir).rglob("*")):
        if file.suffix in (".html", ".css") and (match := READS.search(file.read_text("utf-8"))):
            raise SphinxError(f"{file} reads {next(filter(None, match.groups()))}")


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds this to Sphinx."""
    app.connect("build-finished", _check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
