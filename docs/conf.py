"""The site: `sphinx-build -W -b html docs site`. Pages are the files of this folder; the reference is made of
docstrings."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import reference  # noqa: E402
from gallery import draw  # noqa: E402

from portable import __version__  # noqa: E402

project, author, copyright = (
    "portable",
    "the portable developers",
    "2026, the portable developers",
)  # noqa: A001
version = release = __version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "numpydoc", "sphinx_copybutton"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
nb_execution_mode = "force"  # notebooks are kept without outputs, and run when the site is built
nb_execution_raise_on_error = True
nb_execution_timeout = 300
exclude_patterns = ["examples", "worked", "reports", "decisions/README.md", "**/.ipynb_checkpoints"]
html_theme = "pydata_sphinx_theme"
html_title = f"portable {__version__}"
html_theme_options = {"navigation_with_keys": False, "show_prev_next": False}
html_sidebars = {"index": [], "tutorial": []}
html_extra_path = ["reports"]
myst_enable_extensions = ["attrs_inline"]  # {width=...} of images
myst_heading_anchors = 3
# links to the files of examples and reports, which the link check of tests/docs follows
suppress_warnings = ["myst.xref_missing"]
default_role = "code"
numpydoc_show_class_members = False
autosummary_generate = False
numpydoc_class_members_toctree = False
autodoc_typehints = "none"  # the sections of a docstring say the types, with shapes and units
autodoc_member_order = "bysource"
copybutton_prompt_text = ">>> "


def builder_inited(app):
    """Write the pages that are made: the reference, and the gallery with its pictures."""
    reference.write(HERE / "api")
    draw(HERE / "gallery")


def setup(app):
    app.connect("builder-inited", builder_inited)
