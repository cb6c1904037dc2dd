"""Large files that lie on one target: a bounded look through a directory."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from gridwright.errors import Finding, GridwrightError
from gridwright.filesystems.desired_layout import DesiredLayout
from gridwright.filesystems.health import Run
from gridwright.filesystems.lustre_client.layout import read_layout
from gridwright.filesystems.lustre_client.parameters import read_parameters, whole_number
from gridwright.units import format_bytes

LARGE = 16 * 2**30
"""From here on one target's rate is what a reader of the file feels: about a minute at 250 MB/s."""
SECONDS = 3.0
MOST_LAYOUTS = 16
"""Layouts looked at, of the largest files found: each takes a call to the metadata server."""
_TIMED_OUT = 124
_BLOCK = 512
"""What %b of find counts in."""


@dataclass(frozen=True, slots=True)
class LargeFile:
    """A large file and over how many targets the part with most of its bytes goes."""

    path: str
    size_bytes: int
    """What of it takes room."""
    targets: int
    """-1 is all."""


def single_target_files(
    run: Run, directory: str, wish: DesiredLayout, *, large_bytes: int = LARGE, seconds: float = SECONDS
) -> list[Finding]:
    """A finding where large files in `directory` lie on one target though there are several; else none.

    It is a sample: the search ends after `seconds`, and looks at the layouts of the largest files that it has
    found until then. Raises GridwrightError (status ENVIRONMENT) where nothing answers.
    """
    if number_of_targets(run) < 2:
        return []
    deadline = time.monotonic() + 2 * seconds
    found, is_whole = _large_files(run, directory, large_bytes, seconds)
    seen: list[LargeFile] = []
    for path, size in found[:MOST_LAYOUTS]:
        if time.monotonic() > deadline:
            break
        try:
            layout = read_layout(run, path)
        except GridwrightError:
            continue  # Removed meanwhile, or not readable: a sample can do without it.
        # Of a progressive layout the component in the middle of the file holds about half of it or more.
        seen.append(LargeFile(path, size, layout.component_at(size // 2).targets))
    on_one = [each for each in seen if each.targets == 1 and not _is_intended(each, wish)]
    if not on_one:
        return []
    worst = on_one[0]
    part = "" if is_whole else " (of those found in time)"
    return [
        Finding(
            "warning",
            "single-target-files",
            f"{len(on_one)} of the {len(seen)} largest files{part} from {format_bytes(large_bytes)} in "
            f"{directory} lie on one target each, such as {worst.path} ({format_bytes(worst.size_bytes)}): "
            "they are read and written at the rate of one target, and fill it",
            f"{wish.command('rebalance')} --dry-run shows what moving them takes; {wish.command('set')} "
            "gives new files the layout",
        )
    ]


def _is_intended(file: LargeFile, wish: DesiredLayout) -> bool:
    part = wish.layout.component_at(file.size_bytes // 2) if wish.layout else None
    return part is not None and part.stripe_count == 1


def number_of_targets(run: Run) -> int:
    """Of the file system with most of them that this node has mounted; 0 where none is told."""
    told = read_parameters(run, ["lov.*-clilov-*.numobd"])
    return max((whole_number(value) or 0 for value in told.values.values()), default=0)


def _large_files(
    run: Run, directory: str, large_bytes: int, seconds: float
) -> tuple[list[tuple[str, int]], bool]:
    """The large files found in time, the largest first, and whether the search came to its end."""
    command = [
        "timeout",
        f"{seconds:.0f}",
        # Without it find keeps what it has found in a buffer, which is lost when its time is over.
        "stdbuf",
        "-oL",
        "find",
        directory,
        "-xdev",
        "-type",
        "f",
        "-size",
        f"+{large_bytes // 1024 - 1}k",
        "-printf",
        "%s %b %p\\n",
    ]
    answer = run(command, timeout_s=seconds + 5)
    found = []
    for line in answer.stdout.decode(errors="surrogateescape").splitlines():
        row = re.fullmatch(r"([0-9]{1,20}) ([0-9]{1,20}) (/.*)", line)
        # Holes take no room, and a released file nearly none: its bytes are in the archive.
        size = min(int(row[1]), int(row[2]) * _BLOCK) if row else 0
        if row and size >= large_bytes:
            found.append((row[3], size))
    found.sort(key=lambda each: -each[1])
    return found, answer.status != _TIMED_OUT
