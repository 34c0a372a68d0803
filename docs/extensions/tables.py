"""Tables of sentences, not figures: site.css stacks their cells on a phone."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

LENGTH = 50  # Characters of the longest cell; a column of them is wider than a phone.


class TablesOfSentences(SphinxTransform):
    """Gives each such table the class `sentences`."""

    default_priority = 800

    def apply(self) -> None:
        """Looks at all tables."""
        for table in self.document.findall(nodes.table):
            if any(len(cell.astext()) > LENGTH for cell in table.findall(nodes.entry)):
                table["classes"].append("sentences")


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds this to Sphinx."""
    app.add_transform(TablesOfSentences)
    return {"parallel_read_safe": True}
