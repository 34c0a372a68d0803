"""Settings of the site: `make site` runs the pages' blocks, then Sphinx, into build/site."""

import os
import sys
from pathlib import Path

# Before TensorFlow is imported: the site is the same on every machine.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).parent / "extensions"))

import kerasrec

project = "kerasrec"
version = release = kerasrec.__version__
extensions = [
    "myst_parser",  # pages in Markdown
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",  # tables of names
    "sphinx.ext.viewcode",  # links to source
    "sphinx_copybutton",
    # The rest is in docs/extensions.
    "docstrings",
    "names",
    "included",
    "descriptions",
    "tables",
    "offline",
]

nitpicky = True  # a name in the reference that leads nowhere is a warning, and warnings fail

html_theme = "furo"
html_title = f"kerasrec {version}"
html_logo = html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = html_show_copyright = False
highlight_language = "none"  # of blocks that name no language
copybutton_selector = ", ".join(
    f"div.highlight-{language} pre" for language in ("python", "py", "sh")
)

# Links to headings have the anchors that GitHub gives them, so they work in both places.
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]

# Docstrings give types and shapes in words; annotations would make signatures unreadable.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
# Keras' documentation describes its methods.
autodoc_inherit_docstrings = False
autodoc_default_options = {
    "members": True,
    # What Keras or kerasrec calls, and no user of a class does.
    "exclude-members": "bind, build, call, call_leaf, cell_class, check, check_inputs, "
    "compute_mask, compute_output_shape, compute_output_spec, from_config, get_config, "
    "has_separate_output, initial_states, returns_all_states, run_python",
}
autosummary_generate = False  # The extension names writes the pages.
default_role = "literal"  # of the first sentences of docstrings in tables of names
toc_object_entries_show_parents = "hide"
