"""The site of the documents, built by `make docs`. Pages stay Markdown that reads well without it."""

from __future__ import annotations

import re
from typing import Any

project = "Gridwright"
copyright = "the authors of Gridwright"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["site"]
# Headings get the anchors that code hosts give them, so that one link serves both.
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]
nitpicky = True

html_theme = "furo"
html_title = "Gridwright"
html_show_sphinx = False
html_show_sourcelink = False
html_copy_source = False
html_permalinks_icon = "#"
html_static_path = ["static"]
html_css_files = ["site.css"]
pygments_style = "sphinx"

_SECTION = re.compile(r"^## (?P<title>.+)\n(?P<body>(?:(?!^## ).*\n?)*)", re.MULTILINE)
_PAGE = re.compile(r"^- \[[^\]]+\]\((?P<page>[\w-]+)\.md\)", re.MULTILINE)


def _navigation(_app: Any, name: str, source: list[str]) -> None:  # noqa: ANN401 - Sphinx's own class
    """Make the navigation of the site from the lists of pages in docs/index.md."""
    if name != "index":
        return
    for section in _SECTION.finditer(source[0]):
        pages = "\n".join(_PAGE.findall(section["body"]))
        if pages:
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {section['title']}\n\n{pages}\n```\n"


def setup(app: Any) -> dict[str, bool]:  # noqa: ANN401 - Sphinx's own class
    """Have the navigation made when the index is read."""
    app.connect("source-read", _navigation)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
