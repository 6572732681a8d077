"""Settings of Sphinx for `make site`: the pages of this folder, a reference from the docstrings.

Sphinx, as it reads our NumPy docstrings by itself, checks every link between pages, and searches
without a server; MyST, as the pages are Markdown that other tools show, too; Furo, as it fetches
nothing when a page is viewed, works with the keyboard, and follows the reader's dark mode.
"""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "Daedal"
copyright = "the authors of Daedal"
version = release = version_of("daedal")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "reference"]
exclude_patterns = ["reference.py", "conf.py"]
nitpicky = False  # types of other packages have no page here

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4  # pages link to each other's headings

autodoc_member_order = "bysource"
python_maximum_signature_line_length = 88  # else each parameter has a line of its own
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
napoleon_google_docstring = False
napoleon_use_rtype = False

html_theme = "furo"
html_title = "Daedal"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
# Decisions come after the pages for users.
html_search_scorer = str(Path(__file__).parent / "search_scorer.js")
