"""The command lines that documents, examples and `--help` name, as words that can be run.

Found are all lines of blocks of shell code, lines after `$` in other blocks, code within sentences that is a
whole command, comments of examples, and examples of the help of every verb.
"""

from __future__ import annotations

import inspect
import itertools
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from typer.main import get_command

from gridwright.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted(each for each in (ROOT / "examples").rglob("*.yaml") if each.is_file())
_FENCE = re.compile(r"(?ms)^ *(```|~~~)(?P<language>\w*)\n(?P<body>.*?)^ *\1$")
_SPAN = re.compile(r"`(?P<code>(?:sudo |[A-Z_]+=\S+ )*gridwright [^`\n]*)`")
_START = re.compile(r"\s*(?:sudo |[A-Z_]+=\S+ )*gridwright ")
_INDENTED = re.compile(r"(?m)^ {4,}(?:\$ )?((?:sudo )?gridwright .*)")
_OF_COMMENT = re.compile(r"(?m)^# {2,}(?P<code>gridwright (?:.(?! {2}))*.)|`(?P<span>gridwright [^`\n]*)`")
_OF_HELP = re.compile(
    r"Examples?: (?P<line>gridwright (?:.|\n)*?)(?:\n\n|\Z)|^ +(?P<row>gridwright .*)", re.MULTILINE
)
_BETWEEN = {"&&", "||", "|", ";", "&"}

PLACEHOLDERS = {
    "A": "last", "B": "last", "COMMAND": "hostname", "COMMAND…": "hostname", "DIRECTORY": "scratch",
    "FILE": "grid.yaml", "FILE...": "nightly.log", "JOB": "1", "LIBRARY": "data", "MATRIX": "one.yaml",
    "N": "1000", "NAME": "archive", "NODE": "compute1", "PAGE": "iotest", "PATH": "made", "RUN": "last",
    "[--json]": "--json", "[FILE]": "grid.yaml", "[LIBRARY]...": "data",
    "help NAME": "stalled", "down NAME": "disk", "iotest NAME": "auto", "top FILE": "tuesday.top",
}  # fmt: skip
"""What stands for words that a reader replaces; `VERB WORD` where a verb has another meaning for one."""
PATHS = {
    "/mnt/scratch": "scratch", "/mnt/old": "old", "/lustre/data": "scratch", "/data": "disk/data",
    "/shared/data": "disk/data", "/grid/data/claims.dat": "disk/data/claims.dat", "/sas/logs/": "logs/",
    "/sas/logs/*.log": "logs/nightly.log", "/dev/shm/grid": "scratch", "here": "scratch", "there": "scratch",
    "/tmp/grid": "made", "site.yml": "site.yml", "~/.ssh/grid": "key",
}  # fmt: skip
"""What stands for directories of somebody's grid."""


@dataclass(frozen=True, slots=True)
class DocumentedCommand:
    """One command, without `gridwright`."""

    words: tuple[str, ...]
    """As they are to be run, with values in place of placeholders."""
    where: tuple[str, ...]
    """Pages, examples and verbs that name it."""
    is_mention: bool
    """Whether it only stands within a sentence, where the name of a verb need not be all of a command."""

    @property
    def text(self) -> str:
        """As one line."""
        return shlex.join(self.words)

    @property
    def flags(self) -> frozenset[str]:
        """Its verb, alone and with each of its flags."""
        names = (" ".join(self.words[:count]) for count in (3, 2, 1, 0))
        verb = next(each for each in names if each in _names())
        ours = itertools.takewhile(lambda word: word != "--", self.words)
        return frozenset({verb, *(f"{verb} {word}" for word in ours if word.startswith("-"))})


@cache
def documented() -> tuple[DocumentedCommand, ...]:
    """All of them, each once."""
    found: dict[tuple[str, ...], tuple[set[str], bool]] = {}
    for where, line, is_mention in _lines():
        for words in _commands(line):
            places, only_mentioned = found.setdefault(_filled(words), (set(), True))
            places.add(where)
            found[_filled(words)] = (places, only_mentioned and is_mention)
    return tuple(
        DocumentedCommand(words, tuple(sorted(where)), is_mention)
        for words, (where, is_mention) in sorted(found.items())
    )


def _lines() -> Iterator[tuple[str, str, bool]]:
    for page in PAGES:
        text = page.read_text("utf-8").replace("\\\n", " ")
        for block in _FENCE.finditer(text):
            is_shell = block["language"] in ("sh", "bash")
            for line in block["body"].splitlines():
                bare = line.strip().removeprefix("$ ")
                if _START.match(bare) and (is_shell or block["language"] == "" or bare != line.strip()):
                    yield page.name, bare, False
        for line in _INDENTED.findall(_FENCE.sub("", text)):
            yield page.name, line, False
        for span in _SPAN.finditer(_FENCE.sub("", text)):
            yield page.name, span["code"], True
    for example in EXAMPLES:
        for found in _OF_COMMENT.finditer(example.read_text("utf-8")):
            yield f"examples/{example.name}", found["code"] or found["span"], found["code"] is None
    for name, command in verbs(get_command(main.app)):
        for found in _OF_HELP.finditer(inspect.cleandoc(command.help or "")):
            for line in (found["row"] or found["line"].replace("\n", " ")).split(";"):
                yield f"gridwright {name} --help", line.strip(), False


def verbs(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """All commands by their whole names, groups too."""
    yield name, command
    below = getattr(command, "commands", {})
    for verb in below:
        yield from verbs(below[verb], f"{name} {verb}".strip())


@cache
def _names() -> frozenset[str]:
    return frozenset(name for name, _ in verbs(get_command(main.app)))


def parsed(words: Sequence[str]) -> None:
    """Read words as the command does, without running it. Raises click's UsageError, and Exit after help."""
    command: Any = get_command(main.app)
    context = command.make_context("gridwright", list(words))
    while hasattr(command, "commands"):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)


def _commands(line: str) -> Iterator[list[str]]:
    """The commands of a line of a shell, each without `gridwright`; those that others start, too."""
    lexer = shlex.shlex(line.replace("|PATH]", "]"), posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split, lexer.commenters = True, "#"
    commands: list[list[str]] = [[]]
    words = iter(lexer)
    for word in words:
        if word in _BETWEEN:
            commands.append([])
        elif word == ">":
            next(words)
        else:
            commands[-1].append(word)
    for each in commands:
        while each and (each[0] == "sudo" or re.match(r"[A-Z_]+=", each[0])):
            del each[0]
        if each[:1] == ["gridwright"]:
            yield each[1:]
            if "gridwright" in each[1:]:
                yield each[each.index("gridwright", 1) + 1 :]


def _filled(words: list[str]) -> tuple[str, ...]:
    verb = words[0] if words else ""
    return tuple(
        PLACEHOLDERS.get(f"{verb} {word}") or PLACEHOLDERS.get(word) or PATHS.get(word, word)
        for word in words
    )
