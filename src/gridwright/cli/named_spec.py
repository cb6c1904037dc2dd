"""The spec that the user named, in commands of remedies: without it they would be about another grid."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from gridwright.cli.verbs import VERBS
from gridwright.errors import Problem

OF_GROUPS = frozenset({"lab", "repo"})
"""Verbs of several commands, each of which takes the spec by --grid."""
BY_GRID_FLAG = frozenset({*VERBS["work"], *OF_GROUPS})
"""Verbs that take the spec by --grid: what stands after them is a job, a node, a repository or a command."""
_BY_FILE = (
    *("check", "console", "doctor", "down", "explain-slow", "exporter", "iotest", "plan", "predict"),
    *("prove", "render", "setup", "start", "status", "stop", "top", "up", "watch", "workload"),
)
_COMMAND = re.compile(
    rf"\bgridwright ({'|'.join((*_BY_FILE, *VERBS['work'], 'repo [a-z]+'))})\b(?!-)( (?:--grid )?FILE\b)?"
)
_NAMED = re.compile(r" (--(?:local|directory)\b|\S+\.ya?ml\b|(?:(?!gridwright\b)[^\s,;:()]+ ){0,4}--grid )")

_file: Path | None = None


def remember(file: Path | None) -> None:
    """Remember how the user named the spec of this command; None where ./grid.yaml was taken."""
    global _file  # noqa: PLW0603 - the one place that knows, for the one command of a process
    _file = file


def with_named_spec(text: str) -> str:
    """A text for people in which commands of gridwright name the spec that the user named."""
    if _file is None:
        return text
    named = shlex.quote(str(_file))

    def name(match: re.Match[str]) -> str:
        after = text[match.end() :]
        if _NAMED.match(after) or after.startswith((f" {named}", f" {_file}")):
            return match.group()
        flag = "--grid " if match.group(1).split()[0] in BY_GRID_FLAG else ""
        return f"gridwright {match.group(1)} {flag}{named}"

    return _COMMAND.sub(name, text)


def naming_spec(problem: Problem) -> Problem:
    """The same problem, whose remedy names the spec that the user named."""
    return replace(problem, remedy=problem.remedy and with_named_spec(problem.remedy))


def with_named_remedies(document: Any) -> Any:  # noqa: ANN401 - whatever JSON has
    """A document for programs, in which remedies name the spec that the user named."""
    if _file is None:
        return document
    if isinstance(document, dict):
        return {
            name: with_named_spec(value)
            if name == "remedy" and isinstance(value, str)
            else with_named_remedies(value)
            for name, value in document.items()
        }
    if isinstance(document, list | tuple):
        return [with_named_remedies(each) for each in document]
    return document
