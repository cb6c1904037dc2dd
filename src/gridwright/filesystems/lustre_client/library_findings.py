"""What is wrong with the files of a library on Lustre: by a scan, or by lfs where there is no Gridwright.

A scan tells in words how files lie, and what of it costs; beside it: large files on one target, metadata
targets that fill with the first bytes of files (data on MDT), and targets that this client keeps far busier
than others.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from gridwright.errors import Finding, GridwrightError
from gridwright.filesystems.counters import Counts, traffic
from gridwright.filesystems.health import Run, Traffic
from gridwright.filesystems.layout import Component, DesiredLayout, FileLayout, LayoutClass, LibraryLayouts
from gridwright.filesystems.lustre_client.attribute import (
    ATTRIBUTES,
    LEAST,
    ClassCount,
    Judged,
    JudgedFile,
    Scanned,
    ages,
    judge,
    total,
)
from gridwright.filesystems.lustre_client.counters import read_connection_counters
from gridwright.filesystems.lustre_client.layout import read_layout
from gridwright.filesystems.lustre_client.metadata_servers import archive_states
from gridwright.filesystems.lustre_client.parameters import (
    client_mount,
    file_system_name,
    read_parameters,
    whole_number,
)
from gridwright.filesystems.lustre_client.scan_program import LibraryScan
from gridwright.filesystems.mounts import read_mounts
from gridwright.messages import MessageError, decode
from gridwright.units import format_bytes, format_rate

ARCHIVE_S = 5.0
"""For the state of some tens of files: a metadata server tells one within milliseconds."""


def library_findings(
    run: Run, directory: str, wish: DesiredLayout, *, pause: Callable[[float], None] = time.sleep
) -> list[Finding]:
    """All findings of its layouts; a sample, since it ends after some seconds.

    Raises GridwrightError (status ENVIRONMENT) where nothing answers.
    """
    targets = number_of_targets(run)
    if targets < 1:
        return []
    look = _Look(run, directory, wish, targets)
    before, began = look.counts(), time.monotonic()
    found = scan_library(run, directory)
    if found is None or _is_blind(found.scanned):
        # There is no Gridwright where the file system is mounted, or the attribute is not shown there.
        return single_target_files(run, directory, wish)
    told = list(look.of_files(found))
    if before and not found.scanned.hanging:
        pause(max(0.0, LOAD_SECONDS - (time.monotonic() - began)))
        told += load_findings(traffic(before, look.counts()), targets, wish.target_bytes_per_s)
    return told


@dataclass(slots=True)
class _Look:
    run: Run
    directory: str
    wish: DesiredLayout
    targets: int

    def counts(self) -> Counts:
        """What this client moved by target; nothing where that is not told, as to others than root."""
        with suppress(GridwrightError):
            if name := self._name():
                return read_connection_counters(self.run, name)
        return {}

    def of_files(self, found: LibraryScan) -> Iterator[Finding]:
        """What the scan shows; files that an archive knows are left alone."""
        judged = LayoutFindings(found, self.directory, self.targets, self.wish)
        if not found.scanned.hanging and (suspects := judged.suspects):
            with suppress(GridwrightError):
                states = archive_states(self.run, suspects, timeout_s=ARCHIVE_S)
                judged.without([path for path, flags in states.items() if flags])
        yield from judged.all()
        if found.scanned.metadata_server_bytes:
            with suppress(GridwrightError):
                spaces = read_metadata_space(self.run, self._name() or "*")
                yield from data_on_mdt_findings(found, self.directory, spaces, self.wish)

    def _name(self) -> str:
        """Of the file system that is mounted here; empty where none is."""
        mount = client_mount(self.directory, read_mounts(self.run))
        return file_system_name(mount.source) if mount else ""


def _is_blind(scanned: Scanned) -> bool:
    """Whether no file had the attribute."""
    return 0 < scanned.files.files == scanned.without_layout.files


LOOK_SECONDS = 3.0
"""For a scan, or a search by find, of which only findings are told."""
_PROGRAM = (sys.executable, "-P", "-m", "gridwright.filesystems.lustre_client.scan_program")


def scan_library(
    run: Run, directory: str, *, seconds: float = LOOK_SECONDS, attributes: Sequence[str] = ATTRIBUTES
) -> LibraryScan | None:
    """Scan it where `run` runs commands; None where this Gridwright is not there, or nothing answers."""
    named = [word for name in attributes for word in ("--attribute", name)]
    try:
        answer = run([*_PROGRAM, "--seconds", str(seconds), *named, directory], timeout_s=seconds + 10)
        return decode(answer.stdout, LibraryScan) if answer.status == 0 else None
    except (GridwrightError, MessageError):
        return None


SHOW_S = 20.0
"""For a look whose result is shown: some million files."""


def library_layouts(
    run: Run, directory: str, *, seconds: float = SHOW_S, attributes: Sequence[str] = ATTRIBUTES
) -> LibraryLayouts | None:
    """What a scan says of all files; None where none can be made."""
    found = scan_library(run, directory, seconds=seconds, attributes=attributes)
    if found is None:
        return None
    scanned = found.scanned
    summed: dict[tuple[str, int], tuple[int, int]] = {}
    for each in scanned.classes:
        files, size = summed.get((each.layout, each.size_class), (0, 0))
        summed[each.layout, each.size_class] = files + each.files, size + each.bytes
    classes = [
        LayoutClass(
            layout=short_in_words(layout), below_bytes=2**power if power else 0, files=files, bytes=size
        )
        for (layout, power), (files, size) in sorted(summed.items(), key=lambda item: -item[1][1])
    ]
    return LibraryLayouts(
        default=found.default.layout if found.default else None,
        default_unread=None if found.default else _why_unread(directory, scanned),
        files=scanned.files.files,
        bytes=scanned.files.bytes,
        classes=classes,
        released=scanned.released.files,
        elsewhere=scanned.foreign.files,
        without_layout=scanned.without_layout.files,
        unread=scanned.unread + len(scanned.hanging),
        targets=scanned.targets,
        metadata_server_bytes=scanned.metadata_server_bytes,
        complete=scanned.complete,
    )


def _why_unread(directory: str, scanned: Scanned) -> str | None:
    if scanned.hanging:
        return f"{scanned.hanging[0]} hangs"
    return next((each.reason for each in scanned.unread_named if each.path == directory), None)


def short_in_words(short: str) -> str:
    """`67108864:1,-1` as `1 up to 64 MiB, then all`; what is no such form as it is."""
    rows = [re.fullmatch(r"(\+?)(?:(\d+):)?(mdt|-?\d+)(o?)(?:@(.+))?", word) for word in short.split(",")]
    components: list[Component] = []
    mirror = 0
    for row in rows:
        if row is None:
            return short
        mirror += bool(row[1])
        components.append(
            Component(
                end=int(row[2]) if row[2] else None,
                stripe_count=0 if row[3] == "mdt" else int(row[3]),
                on_metadata_server=row[3] == "mdt",
                overstriped=bool(row[4]),
                pool=row[5],
                mirror=mirror,
            )
        )
    return FileLayout(tuple(components)).text


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
    run: Run,
    directory: str,
    wish: DesiredLayout,
    *,
    large_bytes: int = LARGE,
    seconds: float = LOOK_SECONDS,
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


FULL = 0.7
"""Part of a metadata target in use from which it is told: at 90 % the doctor warns of any target."""
SOON_DAYS = 60
"""Or it is full within so many days at the rate of the last week."""
SHARE = 0.05
"""Part of what is in use that has to be data of the library: else something else fills it."""
_WEEK_DAYS = 7


@dataclass(frozen=True, slots=True)
class MetadataSpace:
    """A metadata target. Sizes in bytes."""

    target: str
    total_bytes: int
    available_bytes: int

    @property
    def used_bytes(self) -> int:
        """What nobody can use any more."""
        return self.total_bytes - self.available_bytes


def read_metadata_space(run: Run, name: str) -> list[MetadataSpace]:
    """Of each metadata target of file system `name`. Raises GridwrightError where one does not answer."""
    parts = ("kbytestotal", "kbytesavail")
    told = read_parameters(run, [f"mdc.{name}-MDT*-mdc-*.{part}" for part in parts], timeout_s=3.0).values
    sizes: dict[str, dict[str, int]] = {}
    for parameter, value in told.items():
        row = re.fullmatch(r"mdc\.(\S+-MDT[0-9a-f]{4})-mdc-\S+\.(\w+)", parameter)
        if row and (kib := whole_number(value)) is not None:
            sizes.setdefault(row[1], {})[row[2]] = kib * 1024
    return [
        MetadataSpace(target, each[parts[0]], min(each[parts[1]], each[parts[0]]))
        for target, each in sorted(sizes.items())
        if len(each) == len(parts)
    ]


def data_on_mdt_findings(
    found: LibraryScan, directory: str, spaces: Sequence[MetadataSpace], wish: DesiredLayout
) -> Iterator[Finding]:
    """A finding where files of the library fill metadata targets, with when these are full."""
    held = found.scanned.metadata_server_bytes
    used = sum(each.used_bytes for each in spaces)
    if not spaces or held < SHARE * used:
        return
    fullest = max(spaces, key=lambda each: each.used_bytes / max(each.total_bytes, 1))
    part_in_use = fullest.used_bytes / max(fullest.total_bytes, 1)
    daily = min(new_bytes(found.scanned.classes), held) / _WEEK_DAYS
    days = sum(each.available_bytes for each in spaces) / daily if daily else None
    if part_in_use < FULL and (days is None or days > SOON_DAYS):
        return
    scan_part = "" if found.scanned.complete else " (of the files found in time)"
    when = f"; at the rate of the last week they are full in {days:.0f} days" if days is not None else ""
    yield Finding(
        "warning",
        "metadata-fills-with-data",
        f"files in {directory} keep {format_bytes(held)}{scan_part} on metadata targets, "
        f"{100 * held / used:.0f} % of what these hold; {fullest.target} is {100 * part_in_use:.0f} % in "
        f"use, {format_bytes(fullest.available_bytes)} left{when}. {_whose(found, wish)}. Once it is "
        "full no file at all can be made",
        f"State a layout without where: mdt, then {wish.command('set')}, and {wish.command('rebalance')} "
        "--at-least 1B for files that are there",
    )


def new_bytes(classes: Sequence[ClassCount]) -> int:
    """Bytes on metadata targets of files that were written in the last week; no less than there are."""
    found = 0
    for each in classes:
        row = re.match(r"(\d+):mdt", each.layout)
        if row and 0 < each.age_days <= _WEEK_DAYS:
            found += min(each.bytes, each.files * int(row[1]))
    return found


def _whose(found: LibraryScan, wish: DesiredLayout) -> str:
    default = found.default.layout if found.default else None
    layouts: Mapping[str, FileLayout | None] = {
        f"The layout of library {wish.library}": wish.layout,
        "The layout of its directory": default,
    }
    for whose, layout in layouts.items():
        first = layout.components[0] if layout else None
        if first is not None and first.on_metadata_server:
            return f"{whose} has the first {format_bytes(first.end or 0)} of each file there"
    return "Its layout for new files keeps none there"


BUSIER = 2.0
"""A target with so many times its share of the load: the others idle half of the time."""
LEAST_BYTES_PER_S = 50e6
"""Below it no target is busy, and few requests fall anywhere."""
LOAD_SECONDS = 1.0
"""The least span of a look: requests of 4 MiB come and go within tens of milliseconds."""


def load_findings(
    moved: Sequence[Traffic], targets: int, target_bytes_per_s: float | None = None
) -> Iterator[Finding]:
    """A finding where one target has far more than its share of what this client moves.

    `targets` is how many there are. One stream to a file on one target is told, too: it is what it costs.
    """
    rates = {
        each.target: (each.read_bytes + each.written_bytes) / each.seconds for each in moved if each.target
    }
    total = sum(rates.values())
    if targets < 2 or total < LEAST_BYTES_PER_S:
        return
    busiest = max(rates, key=lambda target: rates[target])
    most, times = rates[busiest], rates[busiest] * targets / total
    if times < BUSIER:
        return
    span = max(each.seconds for each in moved)
    spare = targets * most - total
    full = f", and a target delivers {format_rate(target_bytes_per_s)}" if target_bytes_per_s else ""
    yield Finding(
        "info",
        "targets-unevenly-loaded",
        f"{busiest} has {format_rate(most)} of the {format_rate(total)} that this client moved over "
        f"{span:.1f} s, {times:.1f} times its share of {targets} targets{full}: with all as busy as it there "
        f"would be {format_rate(spare)} more",
        "See in gridwright layout check which files lie on few targets, and move these: gridwright layout "
        "rebalance",
    )
