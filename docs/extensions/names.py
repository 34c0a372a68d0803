"""Public names: each is in a table of docs/api and has a page, where code that is one leads."""

import inspect
import re
import shutil
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

import kerasrec

MODULES = [kerasrec, kerasrec.layers, kerasrec.datasets, kerasrec.training]
PUBLIC = {f"{module.__name__}.{name}": name for module in MODULES for name in module.__all__}
PAGE = """:orphan:

{name}
{line}

.. auto{kind}:: {module}.{name}{special}

More of :py:mod:`{module}`.
"""
SPECIAL = {
    "RecursiveFunction": "()",  # The decorator makes them.
    # A user writes the methods of these.
    "RecursiveCell": "\n   :exclude-members: build, get_config",
    "TopDownCell": "\n   :exclude-members: build, get_config",
}

# Names that by themselves may mean something else.
COMMON = {"Model", "Sequential", "collect", "cond", "coverage", "datasets", "evaluate", "fit"}
COMMON |= {"layers", "map_fn", "recursive", "switch", "training"}
FULL_NAMES = {full: full for full in PUBLIC}
FULL_NAMES |= {name: full for full, name in PUBLIC.items() if name not in COMMON}
# `kerasrec.cond`, `@kerasrec.recursive`, `TreeLSTM(150)`, `Treebank.batches`
CODE = re.compile(
    r"@?(?P<name>(?:kerasrec\.)?(?:(?:layers|datasets|training)\.)?\w+)(?P<member>\.\w+)?(?:\(.*\))?"
)


def _write_pages(app: Sphinx) -> None:
    """Writes api/names. In the navigation of each page, they would slow the build by a half."""
    folder = Path(app.srcdir) / "api" / "names"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for module in MODULES:
        tables = folder.parent / f"{module.__name__.rpartition('.')[2]}.md"
        listed = re.findall(r"^   (\w+)$", tables.read_text(encoding="utf-8"), re.MULTILINE)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.ismodule(value):
                continue
            if name not in listed:
                logging.getLogger(__name__).warning("%s does not list %s", tables, name)
            kind = "class" if inspect.isclass(value) else "function"
            if kind == "class" and issubclass(value, Exception):
                kind = "exception"
            page = PAGE.format(
                name=name,
                line="=" * len(name),
                kind=kind,
                module=module.__name__,
                special=SPECIAL.get(name, ""),
            )
            (folder / f"{module.__name__}.{name}.rst").write_text(page, encoding="utf-8")


class LinksOfNames(SphinxTransform):
    """Makes links of inline code."""

    default_priority = 800

    def apply(self) -> None:
        """Looks at all inline code that is not in a link or heading."""
        for literal in list(self.document.findall(nodes.literal)):
            match = CODE.fullmatch(literal.astext())
            full = match and FULL_NAMES.get(match["name"])
            parents = (nodes.reference, nodes.title, addnodes.pending_xref)
            if not full or isinstance(literal.parent, (*parents, addnodes.download_reference)):
                continue
            link = addnodes.pending_xref(
                "",
                refdomain="py",
                reftype="obj",
                reftarget=full + (match["member"] or ""),
                refdoc=self.env.docname,
                refexplicit=True,
            )
            literal.replace_self(link)
            link += literal


def _class_of_member(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.Element
) -> nodes.Element | None:
    """The class instead, for a member that it has of Keras, such as `Model.fit`."""
    name = node["reftarget"].rpartition(".")[0]
    if node.get("reftype") != "obj" or name not in PUBLIC:
        return None
    domain = env.get_domain("py")
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, content)


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds this to Sphinx."""
    app.connect("builder-inited", _write_pages)
    app.add_transform(LinksOfNames)
    app.connect("missing-reference", _class_of_member)
    return {"parallel_read_safe": True}
