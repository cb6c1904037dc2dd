"""`gridwright help`: the documents that come with Gridwright, on the terminal."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gridwright.cli.arguments import Json
from gridwright.cli.output import LazyResult, Output
from gridwright.errors import input_error, nearest

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
    from gridwright.cli.shell import pages

    listed = pages.pages()
    if not name:
        return "index", _index(listed)
    if name in listed:
        return "page", pages.page(name)
    explained = pages.findings()
    if name in explained:
        at = explained[name]
        text = pages.sections(pages.page(at), depth=4)[name]
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
