"""The manual page gridwright(1), out of what `--help` prints: `python -m gridwright.cli.shell.man_page`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from typer.main import get_command

from gridwright import __version__
from gridwright.cli.main import app
from gridwright.cli.output import Output
from gridwright.cli.verbs import VERBS
from gridwright.errors import ExitStatus

_STATUSES = {
    ExitStatus.DONE: "Done, and all requirements are met.",
    ExitStatus.MISSED: "Done, but a requirement is missed or could not be proven, or a job failed.",
    ExitStatus.INPUT: "The input is wrong.",
    ExitStatus.ENVIRONMENT: "The environment failed: a node, a disk, a service, or standard output.",
    ExitStatus.INTERRUPTED: "Interrupted; what was measured is kept.",
}
_EVERYWHERE = frozenset({"--help", "--quiet", "--verbose"})
"""Flags of every command, which stand on the page once."""
_WORDS_OF_A_LINE = re.compile(r"\s+")


def man_page() -> str:
    """The page in the macros of man(7)."""
    root: Any = get_command(app)
    context = root.make_context("gridwright", [], resilient_parsing=True)
    first, *rest = _paragraphs(root.help or "")
    lines = [
        f'.TH GRIDWRIGHT 1 {datetime.now(UTC):%Y-%m-%d} "Gridwright {__version__}" "Gridwright"',
        ".SH NAME",
        f"gridwright \\- {_plain(first)[:1].lower()}{_plain(first)[1:].rstrip('.')}",
        ".SH SYNOPSIS",
        ".B gridwright",
        ".I COMMAND",
        "[\\fIARGUMENT\\fR...]",
        ".SH DESCRIPTION",
        *_text(rest),
        ".SH OPTIONS",
        *_parameters(root, context),
    ]
    for area, verbs in VERBS.items():
        if verbs:
            lines.append(f".SH {_plain(f'Commands: {area}').upper()}")
            for verb in verbs:
                lines += _command(root.commands[verb], context, verb)
    lines.append(".SH EXIT STATUS")
    for status, meaning in _STATUSES.items():
        lines += [".TP", f".B {int(status)}", _plain(meaning)]
    return "\n".join(lines) + "\n"


def _command(command: Any, parent: Any, name: str) -> Iterator[str]:  # noqa: ANN401 - typer hides the class
    """A command with its arguments and flags, and the commands below it."""
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    path = context.command_path
    usage = _WORDS_OF_A_LINE.sub(" ", context.get_usage()).removeprefix(f"Usage: {path}").strip()
    yield f".SS {_plain(path)}"
    yield f"\\fB{_plain(path)}\\fR {_plain(usage)}"
    yield ".PP"
    yield from _text(_paragraphs(command.help or ""))
    yield from _parameters(command, context)
    for below, each in getattr(command, "commands", {}).items():
        yield from _command(each, context, below)


def _parameters(command: Any, context: Any) -> Iterator[str]:  # noqa: ANN401 - typer hides the classes
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and not (_EVERYWHERE & {*parameter.opts} and context.parent is not None):
            names, text = record
            yield from (".TP", f"\\fB{_plain(names)}\\fR", _plain(text))


def _paragraphs(text: str) -> list[str]:
    return [each for each in text.split("\n\n") if each.strip()]


def _text(paragraphs: list[str]) -> Iterator[str]:
    """Give lines of paragraphs; what begins with the control character of `--help` keeps its lines."""
    for number, paragraph in enumerate(paragraphs):
        if number:
            yield ".PP"
        lines = paragraph.strip("\n").splitlines()
        if lines[0].strip() == "\b":
            yield from (".nf", *map(_plain, lines[1:]), ".fi")
        else:
            yield _plain(_WORDS_OF_A_LINE.sub(" ", paragraph).strip())


def _plain(text: str) -> str:
    """Text in which roff sees no request and no escape, and that can be pasted: its hyphens are hyphens."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("^", "\\(ha").replace("`", "\\(ga")
    return f"\\&{text}" if text[:1] in {".", "'"} else text


if __name__ == "__main__":
    Output(None).write(man_page())
