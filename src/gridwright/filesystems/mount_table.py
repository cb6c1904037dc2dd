"""Reads from /proc/mounts what is mounted where, without touching a mount, so nothing hangs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from gridwright.filesystems.health import Run

LIMIT_S = 5.0
"""For reading a file of /proc: it answers at once unless the node itself is lost."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of /proc/mounts."""

    source: str
    point: str
    type: str
    options: tuple[str, ...]

    def option(self, name: str) -> str | None:
        """The value of an option `name=value`; empty for one without value, None where it is not there."""
        for option in self.options:
            key, _, value = option.partition("=")
            if key == name:
                return value
        return None


def parse_mounts(text: str) -> list[Mount]:
    """The lines of /proc/mounts, in their order; those that cannot be understood are passed over."""
    found = []
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) >= 4:
            source, point, kind = (_unescaped(field) for field in fields[:3])
            found.append(Mount(source, point, kind, tuple(fields[3].split(","))))
    return found


def mount_of(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """The mount that holds a path: the longest, and of several on one point the last, which is on top."""
    place = PurePosixPath(path)
    holding = [mount for mount in mounts if place.is_relative_to(mount.point)]
    return max(reversed(holding), key=lambda each: len(each.point), default=None)


def read_mounts(run: Run) -> list[Mount]:
    """The mounts of the node. Raises GridwrightError (status ENVIRONMENT) where it does not answer."""
    return parse_mounts(run(["cat", "/proc/mounts"], timeout_s=LIMIT_S).stdout.decode(errors="replace"))


def _unescaped(field: str) -> str:
    r"""Blank, tab, newline and backslash are written as \040 and so on (proc(5))."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)
