"""How Sphinx builds these pages: `make docs`. Why it is built this way: design/documentation.md."""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import hubbub  # noqa: E402  found by the line above where it is not installed
from scripts.reference.pages import setup  # noqa: E402, F401  Sphinx calls it: what code says, put into pages

project = "Hubbub"
author = "the Hubbub authors"
project_copyright = "the Hubbub authors, Apache-2.0"
release = version = hubbub.__version__

extensions = ["myst_parser", "sphinx_copybutton", "sphinx_design"]
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 4
exclude_patterns = ["images/README.md"]

html_theme = "furo"
html_title = "Hubbub"
html_static_path = ["_static"]
html_css_files = ["hubbub.css"]
html_logo = html_favicon = "../aggregator/hubbub_aggregator/dashboard/static/icon.svg"  # one sign for both
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#005f94", "color-brand-content": "#005f94"},
    "dark_css_variables": {"color-brand-primary": "#7cc4ef", "color-brand-content": "#7cc4ef"},
}
copybutton_prompt_text = "$ "
