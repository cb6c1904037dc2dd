"""`gridwright help`: the documents that an installation carries, and what they say of one topic."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

import gridwright
from gridwright.cli.arguments import Json
from gridwright.cli.output import LazyResult, Output
from gridwright.errors import environment_error, input_error, nearest

_WIDTH = 13
"""Of the longest name of a page."""


def help(
    context: typer.Context,
    topic: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC]", help="A page, a finding such as stalled, or a command."),
    ] = None,
    json: Json = False,
) -> None:
    """Show a page of the documents, or what causes a finding and how to mend it.

    Without TOPIC it lists the pages. A command that has no page shows its flags.

    \b
    Examples:
      gridwright help first-grid                       # from an empty directory to a verdict
      gridwright help stalled                          # the cause of a finding, and its remedy
      gridwright help workload | less
    """  # noqa: D301 - \b is a control character for click
    name = " ".join(topic or ()).removesuffix(".md")
    kind, text = _topic(name, context)
    Output("help", json=json).show(
        LazyResult(document=lambda: {"topic": name, "kind": kind, "text": text}, text=lambda: text)
    )


def _topic(name: str, context: Any) -> tuple[str, str]:  # noqa: ANN401 - typer hides the class
    """What a topic is and its text; a page before the command of that name, which has its own --help."""
    listed = pages()
    if not name:
        return "index", _index(listed)
    if name in listed:
        return "page", page(name)
    explained = findings()
    if name in explained:
        at = explained[name]
        text = sections(page(at), depth=4)[name]
        return "finding", f"{name}\n\n{text}\n\nall of {at}: gridwright help {at}"
    root = context.find_root()
    command, path = root.command, root
    for word in name.split():
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            break
        path = command.make_context(word, [], parent=path, resilient_parsing=True)
    else:
        return "command", path.get_help()
    near = nearest(name, [*listed, *explained, *root.command.commands])
    hint = f"did you mean {near}? " if near else ""
    raise input_error(f"there is no topic {name!r}", remedy=f"{hint}all pages: gridwright help")


def _index(listed: dict[str, str]) -> str:
    lines = ["Pages, each shown by gridwright help PAGE:", ""]
    lines += [f"  {name:<{_WIDTH}} {about}" for name, about in listed.items()]
    lines += ["", "gridwright help FINDING says what causes a finding, and how to mend it."]
    return "\n".join(lines)


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
    from importlib import metadata  # reads twenty modules

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
