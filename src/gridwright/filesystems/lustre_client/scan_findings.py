"""What is wrong with the layouts of the files that a scan has seen, and what it costs."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Collection, Iterator, Sequence

from gridwright.errors import Finding
from gridwright.filesystems.desired_layout import DesiredLayout
from gridwright.filesystems.layout import FileLayout
from gridwright.filesystems.lustre_client.judged_files import LEAST, Judged, JudgedFile, ages, judge, total
from gridwright.filesystems.lustre_client.scan_program import LibraryScan
from gridwright.units import format_bytes, format_rate

LARGE = 16 * 2**30
"""From here on one target's rate is what a reader of the file feels: about a minute at 250 MB/s."""
UNEVEN = 2.0
"""A target with so many times its share of a library's bytes ends last whatever the others do."""
_CLOSED = frozenset({os.strerror(errno.EACCES), os.strerror(errno.EPERM)})
"""Reasons that another user would not meet."""


class LayoutFindings:
    """Judges a scan of a library on a file system of `targets` targets; sizes in bytes."""

    def __init__(
        self,
        found: LibraryScan,
        directory: str,
        targets: int,
        wish: DesiredLayout,
        *,
        now_s: float | None = None,
        large_bytes: int = LARGE,
        least_bytes: int = LEAST,
    ) -> None:
        """Times are in seconds since 1970; nothing is asked of anybody."""
        self._scan, self._directory, self._targets, self._wish = found, directory, targets, wish
        self._now_s = time.time() if now_s is None else now_s
        self._large_bytes = large_bytes
        self._part = "" if found.scanned.complete else " (of those found in time)"
        self._judged = judge(
            found.scanned.largest,
            self._target_layout,
            targets,
            self._now_s,
            released=found.scanned.released.files,
            least_bytes=least_bytes,
        )

    @property
    def _target_layout(self) -> FileLayout | None:
        """The wish; else what the directory gives to new files."""
        default = self._scan.default.layout if self._scan.default else None
        return self._wish.layout or (default if default and not default.is_default else None)

    @property
    def suspects(self) -> list[str]:
        """Paths of files that are to be told, unless they are archived."""
        return [each.file.path for each in (*self._on_one(), *self._otherwise())]

    def without(self, archived: Collection[str]) -> None:
        """Leave files alone that an archive knows: to move them would have them archived once more."""
        self._judged.without(archived)

    @property
    def judged(self) -> Judged:
        """What was judged, and what was left alone."""
        return self._judged

    def all(self) -> Iterator[Finding]:
        """What is wrong."""
        yield from self._unread()
        if self._targets < 2:
            return
        if on_one := self._on_one():
            yield self._single(on_one)
        told = {each.file.path for each in on_one}
        if others := [each for each in self._otherwise() if each.file.path not in told]:
            yield self._differing(others)
        yield from self._uneven()

    def _unread(self) -> Iterator[Finding]:
        scanned = self._scan.scanned
        if scanned.hanging:
            yield Finding(
                "warning",
                "layouts-unread",
                f"a look through {self._directory} hangs in {scanned.hanging[0]}",
                "See gridwright doctor for targets that are away; until then jobs hang there, too",
            )
        elif scanned.unread:
            first = scanned.unread_named[0]
            yield Finding(
                "info",
                "layouts-unread",
                f"{scanned.unread} files or directories in {self._directory} could not be looked at, such as "
                f"{first.path}: {first.reason}",
                "Run it as a user who may read them"
                if first.reason in _CLOSED
                else "See that file; one that was removed meanwhile is no fault",
            )

    def _on_one(self) -> list[JudgedFile]:
        """Large files on one target; one target may be what is wanted of them."""
        return [
            each
            for each in self._judged.files
            if each.file.allocated_bytes >= self._large_bytes and each.width == 1 and each.wanted != 1
        ]

    def _otherwise(self) -> list[JudgedFile]:
        return [each for each in self._judged.files if each.is_misplaced]

    def _single(self, on_one: Sequence[JudgedFile]) -> Finding:
        worst = on_one[0]
        large = sum(each.file.allocated_bytes >= self._large_bytes for each in self._judged.files)
        return Finding(
            "warning",
            "single-target-files",
            f"{len(on_one)} of the {large} largest files{self._part} from "
            f"{format_bytes(self._large_bytes)} in {self._directory} lie on one target each, {total(on_one)} "
            f"in all, such as {worst.file.path} ({format_bytes(worst.file.allocated_bytes)}): "
            f"{self._cost(1, worst.wanted or self._targets)}, and they fill it; "
            f"{ages(on_one, self._now_s)}{self._judged.left_text}",
            self._remedy(),
        )

    def _differing(self, others: Sequence[JudgedFile]) -> Finding:
        narrow = [each for each in others if each.is_narrow]
        worst = (narrow or others)[0]
        wanted = worst.wanted or 0
        size = format_bytes(worst.file.allocated_bytes)
        cost = (
            f"{self._cost(worst.width, wanted)}"
            if narrow
            else "wider ones cost requests to more targets whenever they are opened"
        )
        whose = (
            f"the layout of library {self._wish.library}" if self._wish.layout else "its layout for new files"
        )
        return Finding(
            "warning" if narrow and self._wish.layout else "info",
            "files-laid-out-otherwise",
            f"{len(others)} of the {len(self._judged.files)} largest files{self._part} in {self._directory}, "
            f"{total(others)} in all, lie otherwise than {whose} has it for their size ({len(narrow)} on too "
            f"few targets), such as {worst.file.path} ({size}) on {worst.width} "
            f"{'target' if worst.width == 1 else 'targets'} instead of {wanted}: {cost}; "
            f"{ages(others, self._now_s)}{self._judged.left_text}",
            self._remedy(),
        )

    def _remedy(self) -> str:
        moves = f"{self._wish.command('rebalance')} --dry-run shows what moving them takes"
        return f"{moves}; {self._wish.command('set')} gives new files the layout"

    def _cost(self, width: int, wanted: int) -> str:
        """What a reader loses by too few targets."""
        rate = self._wish.target_bytes_per_s
        if not rate:
            return f"a reader gets at most {width}/{wanted} of the rate that it is to have"
        has, should = format_rate(width * rate), format_rate(wanted * rate)
        return f"a reader gets at most {has} of the {should} that it is to have"

    def _uneven(self) -> Iterator[Finding]:
        by_target = self._scan.scanned.targets
        in_all = sum(by_target.values())
        # A few small files lie anywhere.
        if in_all < self._large_bytes * self._targets or self._targets < UNEVEN:
            return
        index, most = max(by_target.items(), key=lambda item: item[1])
        times = most * self._targets / in_all
        if times <= UNEVEN:
            return
        rate = self._wish.target_bytes_per_s
        cost = ""
        if rate:
            even, now = self._targets * rate, in_all * rate / most
            cost = f", at {format_rate(now)} for all instead of {format_rate(even)}"
        yield Finding(
            "warning",
            "library-on-few-targets",
            f"target {index} holds {format_bytes(most)} of the {format_bytes(in_all)} in "
            f"{self._directory}{self._part}, {times:.1f} times its share of {self._targets} targets: who "
            f"reads all of it waits for that one{cost}",
            f"{self._wish.command('rebalance')} --dry-run shows what moves from targets that are too full; "
            "a layout with more stripes spreads new files",
        )
