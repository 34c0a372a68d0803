"""Tables of sentences, not figures: site.css stacks their cells on a phone."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

LENGTH = 50  # Characters of the longest cell; a column of them is wider than a phone.


class TablesOfSentences(SphinxTransform):
    """Gives each such table the class `sentences`; cells of three or more columns name theirs."""

    default_priority = 800

    def apply(self) -> None:
        """Looks at all tables."""
        for table in self.document.findall(nodes.table):
            if all(len(cell.astext()) <= LENGTH for cell in table.findall(nodes.entry)):
                continue
            table["classes"].append("sentences")
            head, *rows = table.findall(nodes.row)
            for row in rows if len(head) > 2 else []:
                for title, cell in zip(head[1:], row[1:], strict=True):
                    name = nodes.inline("", f"{title.astext()}: ", classes=["column"])
                    if len(cell):
                        cell[0].insert(0, name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds this to Sphinx."""
    app.add_transform(TablesOfSentences)
    return {"parallel_read_safe": True}
