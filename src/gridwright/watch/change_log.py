"""The log of what opened and closed, which others lay on a time line: bounded JSON lines, the newest last."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gridwright import handed_files
from gridwright.atomic import naming
from gridwright.errors import Level
from gridwright.messages import Extensible, MessageError, decode, encode
from gridwright.trusted import open_directory, open_file
from gridwright.watch.damping import Changed, Step

NAME, FORMER = "changes.jsonl", "changes.former.jsonl"
MOST_BYTES = 2 * 2**20
"""Of each of both files: from then on the log is the former one, and that one goes. 5000 changes or more."""


@dataclass(frozen=True, slots=True)
class LoggedChange(Extensible):
    """A step of a finding, as it is kept; times in seconds since 1970."""

    number: int
    """Rises from change to change."""
    at_s: float
    step: Step
    name: str
    nodes: list[str]
    target: str
    level: Level
    since_s: float
    found: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class ChangeMark:
    """Something that happened, for a time line."""

    time: float
    """In seconds since 1970."""
    kind: Step
    what: str
    """The finding in words."""
    where: str
    """Nodes, folded, and what of them; of a finding without nodes its file system, or nothing."""
    link: str
    """The name of the finding, which `gridwright help` explains, and the documents have as an anchor."""


def marks(directory: Path, start_s: float, end_s: float) -> list[ChangeMark]:
    """What opened, closed or flapped between two times (seconds since 1970), in the order of its happening.

    `directory` is that of a watch (`state.watch_directory`). Where there is none, or it cannot be read, there
    are no marks. Nodes of one round with the same finding are one mark.
    """
    from gridwright.spec.hosts import fold_hosts

    together: dict[tuple[float, Step, str, str], list[LoggedChange]] = {}
    for change in read_changes(directory):
        if start_s <= change.at_s <= end_s:
            together.setdefault((change.at_s, change.step, change.name, change.target), []).append(change)
    found = []
    for (at_s, step, name, target), changes in together.items():
        nodes = fold_hosts(dict.fromkeys(node for each in changes for node in each.nodes))
        where = ": ".join(each for each in (nodes, target) if each)
        found.append(ChangeMark(at_s, step, f"{name} {step}: {changes[0].found}", where, name))
    return sorted(found, key=lambda mark: mark.time)


def read_changes(directory: Path) -> Iterator[LoggedChange]:
    """All changes that are kept, the oldest first; a line that a kill or a full disk tore is passed over."""
    last = 0
    for name in (FORMER, NAME):
        try:
            with handed_files.open_file(directory / name, follows=False) as file:
                lines = file.read().split(b"\n")
        except OSError:
            continue
        for line in lines:
            try:
                change = decode(line, LoggedChange)
            except (MessageError, UnicodeDecodeError):
                continue
            if change.number > last:
                last = change.number
                yield change


def logged(changes: Sequence[Changed], first: int, at_s: float) -> list[LoggedChange]:
    """Changes of a round as they are kept, numbered from `first` on."""
    return [
        LoggedChange(
            number,
            at_s,
            change.step,
            change.finding.key.name,
            list(change.finding.key.nodes),
            change.finding.key.target,
            change.finding.level,
            change.finding.since_s,
            change.finding.found,
            change.why,
        )
        for number, change in enumerate(changes, first)
    ]


def append(directory: Path, changes: Sequence[LoggedChange]) -> None:
    """Put changes at the end that are not there yet, on disk. Raises OSError and GridwrightError."""
    there = max((change.number for change in read_changes(directory)), default=0)
    lines = [encode(change) + b"\n" for change in changes if change.number > there]
    if not lines:
        return
    opened = open_directory(directory)
    try:
        with naming(directory / NAME):
            _append(opened, lines)
    finally:
        os.close(opened)


def _append(directory: int, lines: Sequence[bytes]) -> None:
    file = open_file(directory, NAME, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        size = os.fstat(file).st_size
        # What a kill tore keeps its line to itself.
        torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        data = memoryview((b"\n" if torn else b"") + b"".join(lines))
        while data:
            data = data[os.write(file, data) :]
        os.fsync(file)
        size = os.fstat(file).st_size
    finally:
        os.close(file)
    if size > MOST_BYTES:
        os.replace(NAME, FORMER, src_dir_fd=directory, dst_dir_fd=directory)
