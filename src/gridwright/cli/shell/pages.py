"""The documents that an installation carries, and what they say of one topic."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import gridwright
from gridwright.errors import environment_error

INDEX = "index"
"""The page that lists all others."""
FINDINGS = ("bad-result", "doctor")
"""Pages with a heading for each finding."""
_CARRIED = ("share", "doc", "gridwright")
_HEADING = re.compile(r"^(?P<marks>#{1,6}) (?P<title>.+?)\s*$")
_LISTED = re.compile(r"^- \[[^\]]+\]\((?P<page>[\w-]+)\.md\): (?P<about>.+)$", re.MULTILINE)
_FENCE = ("```", "~~~")


def directory() -> Path:
    """Where the pages are: in the checkout that Python imports, or where the wheel put them.

    Raises GridwrightError (status ENVIRONMENT) where neither has them.
    """
    checkout = Path(gridwright.__file__).parents[2] / "docs"
    if (checkout / f"{INDEX}.md").is_file():
        return checkout
    try:
        carried = metadata.files("gridwright") or []
    except metadata.PackageNotFoundError:
        carried = []
    for file in carried:
        if file.parts[-4:] == (*_CARRIED, f"{INDEX}.md"):
            return Path(str(file.locate())).parent
    raise environment_error(
        "this installation lacks the documents",
        where=str(Path(gridwright.__file__).parent),
        remedy="install the wheel or the Debian package of Gridwright again: both carry them",
    )


def pages() -> dict[str, str]:
    """Name of each page and what it is about, in the order of the index."""
    text = (directory() / f"{INDEX}.md").read_text("utf-8")
    return {found["page"]: found["about"] for found in _LISTED.finditer(text)}


def page(name: str) -> str:
    """The text of a page, in Markdown."""
    return (directory() / f"{name}.md").read_text("utf-8")


def findings() -> dict[str, str]:
    """Each finding that a page explains, with that page."""
    return {title: name for name in reversed(FINDINGS) for title in sections(page(name), depth=4)}


def sections(text: str, *, depth: int) -> Mapping[str, str]:
    """Heading and text of the sections of one depth, up to the next heading of that depth or a higher one."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    fenced = False
    for line in text.splitlines():
        fenced ^= line.startswith(_FENCE)
        heading = None if fenced else _HEADING.match(line)
        if heading and len(heading["marks"]) <= depth:
            deep = len(heading["marks"]) == depth
            current = found.setdefault(heading["title"].strip("`"), []) if deep else None
        elif current is not None and not line.startswith("<!--"):
            current.append(line)
    return {title: "\n".join(lines).strip() for title, lines in found.items()}
