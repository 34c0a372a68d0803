"""Public names: each is in the reference, and code that is one leads there."""

import re

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

import kerasrec

MODULES = [kerasrec, kerasrec.layers, kerasrec.datasets, kerasrec.training]
PUBLIC = {f"{module.__name__}.{name}": name for module in MODULES for name in module.__all__}


# Names that alone may mean something else.
COMMON = {"Model", "Sequential", "collect", "cond", "coverage", "datasets", "evaluate", "fit"}
COMMON |= {"layers", "map_fn", "recursive", "switch", "training"}
FULL_NAMES = {full: full for full in PUBLIC}
FULL_NAMES |= {name: full for full, name in PUBLIC.items() if name not in COMMON}
# `kerasrec.cond`, `@kerasrec.recursive`, `TreeLSTM(150)`, `Treebank.batches`
CODE = re.compile(
    r"@?(?P<name>(?:kerasrec\.)?(?:(?:layers|datasets|training)\.)?\w+)(?P<member>\.\w+)?(?:\(.*\))?"
)


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
    """The class instead, for what it has of Keras, such as `Model.fit`."""
    name = node["reftarget"].rpartition(".")[0]
    if node.get("reftype") != "obj" or name not in PUBLIC:
        return None
    domain = env.get_domain("py")
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, content)


def _check(app: Sphinx, env: BuildEnvironment) -> None:
    documented = env.get_domain("py").objects
    for name in PUBLIC:
        if name not in documented:
            logging.getLogger(__name__).warning("%s is in no page of docs/api", name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds this to Sphinx."""
    app.add_transform(LinksOfNames)
    app.connect("missing-reference", _class_of_member)
    app.connect("env-check-consistency", _check)
    return {"parallel_read_safe": True}
