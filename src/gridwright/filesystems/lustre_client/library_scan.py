"""What a scan says of a library: large or narrow files, and targets that hold most."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence

from gridwright.errors import Finding, GridwrightError
from gridwright.filesystems.health import Run
from gridwright.filesystems.layout import ALL, Component, FileLayout
from gridwright.filesystems.library_layouts import LayoutClass, LibraryLayouts
from gridwright.filesystems.lustre_client.attribute import ATTRIBUTES, SeenFile
from gridwright.filesystems.lustre_client.scan_program import LibraryScan
from gridwright.messages import MessageError, decode
from gridwright.units import format_bytes

SECONDS = 3.0
LARGE = 16 * 2**30
"""From here on one target's rate is what a reader of the file feels: about a minute at 250 MB/s."""
GROWN_S = 3600
"""A file that was still written so long after it was made grew by appending: a job copies faster."""
UNEVEN = 2.0
"""A target with so many times its share of a library's bytes ends last whatever the others do."""
_PROGRAM = (sys.executable, "-P", "-m", "gridwright.filesystems.lustre_client.scan_program")


def scan_library(
    run: Run, directory: str, *, seconds: float = SECONDS, attributes: Sequence[str] = ATTRIBUTES
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


def targets_of(file: SeenFile) -> int | None:
    """Over how many different targets most of a file's bytes go; None where that is not to be judged.

    Mirrors, files that were made by appending, and such on a metadata server are as somebody wants them.
    """
    layout = file.layout.layout
    if layout is None or layout.mirrors > 1 or was_appended(file, layout):
        return None
    # Of a sparse file the end holds nothing; of a progressive one the middle's component holds about half.
    part = layout.component_at(min(file.size_bytes, file.allocated_bytes) // 2)
    return None if part.on_metadata_server else part.targets


def was_appended(file: SeenFile, layout: FileLayout) -> bool:
    """Whether it looks like a file that was opened to append: one stripe, whatever its directory wants."""
    part = layout.components[0]
    is_one = len(layout.components) == 1 and not file.layout.composite and part.stripe_count == 1
    return is_one and file.born_s is not None and file.modified_s - file.born_s > GROWN_S


def library_scan_findings(
    found: LibraryScan, directory: str, targets: int, *, large_bytes: int = LARGE
) -> Iterator[Finding]:
    """What is wrong with the layouts of the files in a library on a file system of `targets` targets."""
    scanned = found.scanned
    if scanned.hanging:
        yield Finding(
            "warning",
            "layouts-unread",
            f"a look through {directory} hangs in {scanned.hanging[0]}",
            "See gridwright doctor for targets that are away; until then jobs hang there, too",
        )
    elif scanned.unread:
        first = scanned.unread_named[0]
        yield Finding(
            "info",
            "layouts-unread",
            f"{scanned.unread} files or directories in {directory} could not be looked at, such as "
            f"{first.path}: {first.reason}",
            "Run it as a user who may read them",
        )
    if targets < 2:
        return
    judged = [(each, width) for each in scanned.largest if (width := targets_of(each)) is not None]
    large = [(each, width) for each, width in judged if each.allocated_bytes >= large_bytes]
    on_one = [each for each, width in large if width == 1]
    part = "" if scanned.complete else " (of those found in time)"
    if on_one:
        yield _single(on_one, len(large), part, directory, targets, large_bytes)
    default = found.default.layout if found.default else None
    if default is not None and not default.is_default:
        yield from _narrow(judged, default, directory, targets, part, skip=on_one)
    yield from _uneven(found, directory, targets, large_bytes, part)


def _single(
    on_one: Sequence[SeenFile], large: int, part: str, directory: str, targets: int, large_bytes: int
) -> Finding:
    worst = on_one[0]
    total = format_bytes(sum(each.allocated_bytes for each in on_one))
    return Finding(
        "warning",
        "single-target-files",
        f"{len(on_one)} of the {large} largest files{part} from {format_bytes(large_bytes)} in "
        f"{directory} lie on one target each, {total} in all, such as {worst.path} "
        f"({format_bytes(worst.allocated_bytes)}): they are read and written at the rate of one target, "
        f"1/{targets} of what all have, and fill it",
        "lfs migrate -c -1 FILE spreads a file that nobody has open; for new ones: "
        f"lfs setstripe -E 64M -c 1 -E 4G -c 4 -E -1 -c -1 {directory}",
    )


def _narrow(
    judged: Sequence[tuple[SeenFile, int]],
    default: FileLayout,
    directory: str,
    targets: int,
    part: str,
    *,
    skip: Sequence[SeenFile],
) -> Iterator[Finding]:
    narrow = []
    for each, width in judged:
        middle = min(each.size_bytes, each.allocated_bytes) // 2
        wanted = default.component_at(middle).stripe_count
        wanted = targets if wanted == ALL else min(wanted, targets)
        if 0 < _counted(width, targets) < wanted and each not in skip:
            narrow.append((each, width, wanted))
    if narrow:
        file, width, wanted = narrow[0]
        total = format_bytes(sum(each.allocated_bytes for each, _, _ in narrow))
        yield Finding(
            "info",
            "files-narrower-than-directory",
            f"{len(narrow)} of the {len(judged)} largest files{part} in {directory}, {total} in all, lie on "
            f"fewer targets than its layout gives to new ones, such as {file.path} on {width} of {wanted}: "
            "they were made before, or moved there",
            "lfs migrate --copy DIRECTORY FILE gives a file that nobody has open the layout of its directory",
        )


def _counted(width: int, targets: int) -> int:
    return targets if width == ALL else width


def _uneven(
    found: LibraryScan, directory: str, targets: int, large_bytes: int, part: str
) -> Iterator[Finding]:
    by_target = found.scanned.targets
    total = sum(by_target.values())
    # A few small files lie anywhere.
    if total < large_bytes * targets or targets < UNEVEN:
        return
    index, most = max(by_target.items(), key=lambda item: item[1])
    if most > UNEVEN * total / targets:
        yield Finding(
            "warning",
            "library-on-few-targets",
            f"target {index} holds {format_bytes(most)} of the {format_bytes(total)} in {directory}{part}, "
            f"{most * targets / total:.1f} times its share of {targets} targets: who reads all of it waits "
            "for that one",
            f"Move large files off it: lfs find --ost {index} -size +1G {directory}, then lfs migrate",
        )
