"""Names that something is wrong with: all are counted, and the first are kept.

Users choose how many names there are and how long each is. So memory and reports stay small, and what is
told of all of them is which directories they lie in: an administrator asks whose those are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gridwright.repository.keys import shown
from gridwright.repository.known import Known
from gridwright.units import counted

MOST_KEPT, _MOST_OF_NAME = 200, 300
"""Names that are kept, and characters of one that people are shown."""
_MOST_DIRECTORIES, _SHOWN_DIRECTORIES = 1000, 3
_APART, _TOGETHER = 2, 5
"""Names of one reason that people are shown a line each; of more, those that one line has."""
_LEVELS = 2
"""Of a directory that names are counted by: `home/anna` tells whose they are."""
_ELSEWHERE, _TOP = "other directories", "the top directory"
_FAILED = "failed"
"""The fact that the last export was not whole."""


@dataclass(slots=True)
class CountedNames:
    """How many names, the first of them with the reason, and how many lie below which directory."""

    count: int = 0
    first: list[tuple[str, str]] = field(default_factory=list)
    """Path or key, and why."""
    directories: dict[str, int] = field(default_factory=dict)
    remedies: dict[str, str] = field(default_factory=dict)
    """What to do about a reason."""

    def add(self, name: bytes | str, why: str) -> None:
        """Count a name."""
        self.count += 1
        if len(self.first) < MOST_KEPT:
            self.first.append((shown(name), why))
        path = name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")
        below = path.split(b"/", _LEVELS)[:-1][:_LEVELS]
        self._count(cut(shown(b"/".join(below))) or ".", 1)

    def take(self, others: CountedNames) -> None:
        """Count the names of others, too."""
        self.count += others.count
        self.first += others.first[: MOST_KEPT - len(self.first)]
        self.remedies |= others.remedies
        for name, count in others.directories.items():
            self._count(name, count)

    def _count(self, directory: str, count: int) -> None:
        is_known = directory in self.directories or len(self.directories) < _MOST_DIRECTORIES
        name = directory if is_known else _ELSEWHERE
        self.directories[name] = self.directories.get(name, 0) + count

    @property
    def where(self) -> str:
        """The directories that most of them lie in, each with how many, such as `home/anna (12)`."""
        most = sorted(self.directories.items(), key=lambda each: (-each[1], each[0]))
        shown_first = most[:_SHOWN_DIRECTORIES]
        told = ", ".join(f"{_TOP if name == '.' else name} ({count:,})" for name, count in shown_first)
        return told + (", …" if len(most) > _SHOWN_DIRECTORIES else "")

    def document(self) -> list[dict[str, str]]:
        """The first names for programs."""
        return [{"name": name, "why": why} for name, why in self.first]

    @property
    def words(self) -> str:
        """How many, in words."""
        return counted(self.count, "name")

    def counts(self) -> dict[str, Any]:
        """How many, and where, for programs."""
        return {"count": self.count, "directories": self.directories}

    def lines(self) -> Iterator[str]:
        """The first names for people, and what of the others is known."""
        by_reason: dict[str, list[str]] = {}
        for name, why in self.first:
            by_reason.setdefault(why, []).append(cut(name))
        for why, names in by_reason.items():
            reason = f"{why}: {self.remedies[why]}" if why in self.remedies else why
            if len(names) <= _APART and why not in self.remedies:
                yield from (f"{name}: {reason}" for name in names)
                continue
            others = f" and {len(names) - _TOGETHER:,} more" if len(names) > _TOGETHER else ""
            yield f"{', '.join(names[:_TOGETHER])}{others}: {reason}"
        if (more := self.count - len(self.first)) > 0:
            yield f"and {more:,} more; of all, below: {self.where}"


def cut(name: str) -> str:
    """A name for people, without its middle where it is long."""
    half = _MOST_OF_NAME // 2
    return name if len(name) <= _MOST_OF_NAME else f"{name[:half]}…{name[-half:]}"


def note_failed(known: Known, begun: float, failed: CountedNames) -> None:
    """Keep for `repo status` what an export of all, begun at so many seconds since 1970, could not send."""
    # A flag is none of them: what was not deleted is told as a refusal.
    count = failed.count - sum(name.startswith("--") for name, _ in failed.first)
    told = f"{begun:.0f} {count} {failed.where}" if count else ""
    if told or known.fact(_FAILED):
        known.set_fact(_FAILED, told)


def last_failed_export(known: Known) -> str:
    """What the last export of all could not send, and where most of that lies; empty for nothing."""
    begun, _, rest = (known.fact(_FAILED) or "").partition(" ")
    count, _, where = rest.partition(" ")
    if not begun.isdecimal() or not count.isdecimal():
        return ""
    when = datetime.fromtimestamp(min(int(begun), 2**32), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"the export of {when} was not whole: {int(count):,} could not be sent, below {where}"
