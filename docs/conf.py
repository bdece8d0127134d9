"""The site: `sphinx-build -W -b html docs site`. Pages are the files of this folder; the reference is made of
docstrings."""

from __future__ import annotations

import sys
from pathlib import Path

from docutils.nodes import SkipNode

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import latex2mathml.converter  # noqa: E402
import reference  # noqa: E402
from gallery import draw  # noqa: E402

from portable import __version__  # noqa: E402

project, author, copyright = (
    "portable",
    "the portable developers",
    "2026, the portable developers",
)  # noqa: A001
version = release = __version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "numpydoc", "sphinx_copybutton", "sphinx_design"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
nb_execution_mode = "force"  # notebooks are kept without outputs, and run when the site is built
nb_execution_raise_on_error = True
nb_execution_timeout = 300
exclude_patterns = ["examples", "worked", "reports", "decisions/README.md", "**/.ipynb_checkpoints"]
html_theme = "pydata_sphinx_theme"
html_title = f"portable {__version__}"
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": False,
    "header_links_before_dropdown": 7,
    "navbar_persistent": ["search-button"],
}
html_sidebars = {"index": [], "install": [], "tutorial": []}
html_math_renderer = "mathml"
html_extra_path = ["reports"]
myst_enable_extensions = ["attrs_inline", "colon_fence"]  # widths of images; cards
myst_fence_as_directive = ["math"]
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


def inline_equation(translator, node):
    """Write an equation as MathML, which browsers typeset without a script."""
    translator.body.append(latex2mathml.converter.convert(node.astext()))
    raise SkipNode


def displayed_equation(translator, node):
    """Write an equation on a line of its own."""
    mathml = latex2mathml.converter.convert(node.astext(), display="block")
    number = f'<span class="eqno">({node["number"]})</span>' if node["number"] else ""
    translator.body.append(f'<div style="overflow-x: auto; margin: 1rem 0">{number}{mathml}</div>')
    raise SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (inline_equation, None), (displayed_equation, None))
    app.connect("builder-inited", builder_inited)
