"""Lays files out anew by `lfs migrate`, and finds those that are laid out otherwise.

`lfs migrate` copies a file into one without a name and swaps the layouts of both in one step: what is killed
leaves the file as it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gridwright.commands import CommandStopped
from gridwright.errors import GridwrightError, environment_error
from gridwright.filesystems.health import Run
from gridwright.filesystems.layout import FileLayout
from gridwright.filesystems.layout_text import layout_options
from gridwright.filesystems.lustre_client.layout import parse_layout
from gridwright.filesystems.lustre_client.parameters import read_parameters, whole_number
from gridwright.filesystems.moving import LaidOutFile, Move

SEARCH_S = 3600.0
"""For the search of a whole library."""
AT_ONCE = 64
"""Files asked for in one command: their names fit what a command takes."""
PLACES_AT_ONCE = 500
SPARE_S = 60.0
"""Time for a file beside that for its bytes: opening, objects on all targets, the swap."""
SLACK = 4.0
"""By how much a file may take longer than its bytes do at the rate that was asked for."""
UNEVEN = 0.17
"""By how much of its size a target is fuller before files are taken from it (qos_threshold_rr of the MDS)."""
_BUSY, _GONE, _USAGE = 16, 2, (4, 22)
"""EBUSY and ENOENT; lfs ends with 4 where it does not know an option (recorded with 2.17)."""
_MIB = 2**20


class LustreMover:
    """See FileMover. Takes root, or whoever owns the files."""

    def __init__(self, run: Run, name: str | None = None) -> None:
        """`name` is the file system's, where the spec has its source: a client may have several."""
        self._run, self._name = run, name or "*"
        self._limits_rate = True

    @property
    def limits_rate(self) -> bool:
        """Whether lfs holds a rate itself; a release without -W does not, as the first move shows."""
        return self._limits_rate

    def targets(self) -> int:
        """OSTs of the file system, as the client counts them."""
        told = read_parameters(self._run, [f"lov.{self._name}-clilov-*.numobd"])
        count = max((whole_number(value) or 0 for value in told.values.values()), default=0)
        if not count:
            raise environment_error(
                "this machine does not tell how many OSTs there are",
                remedy="mount the file system here, and run this as root",
            )
        return count

    def excess(self) -> Mapping[int, int]:
        """Of OSTs that are fuller than all together by UNEVEN: from there on new files go elsewhere.

        None where OSTs of several file systems answer. Raises GridwrightError where one does not answer.
        """
        parts = ("kbytestotal", "kbytesfree")
        told = read_parameters(self._run, [f"osc.{self._name}-OST*-osc-*.{part}" for part in parts]).values
        sizes: dict[tuple[str, int], dict[str, int]] = {}
        for name, value in told.items():
            row = re.fullmatch(r"osc\.(\S+)-OST([0-9a-f]{4})-osc-(?!MDT)\S+\.(\w+)", name)
            if row and (kib := whole_number(value)) is not None:
                sizes.setdefault((row[1], int(row[2], 16)), {})[row[3]] = kib * 1024
        whole = {key: (each[parts[0]], each[parts[1]]) for key, each in sizes.items() if len(each) == 2}
        total = sum(size for size, _ in whole.values())
        if not total or len({name for name, _ in whole}) > 1:
            return {}
        share = 1 - sum(free for _, free in whole.values()) / total
        return {
            index: int(size - free - share * size)
            for (_, index), (size, free) in whole.items()
            if size and (size - free) / size > share + UNEVEN
        }

    def files(self, places: Sequence[str], at_least_bytes: int) -> Iterator[LaidOutFile]:
        """By find, and `lfs getstripe` and `lfs hsm_state` for some files at a time."""
        found = self._search(places, at_least_bytes)
        for start in range(0, len(found), AT_ONCE):
            yield from self._look(dict(found[start : start + AT_ONCE]))

    def _search(self, places: Sequence[str], at_least_bytes: int) -> list[tuple[str, int]]:
        which = ["-xdev", "-type", "f", "-size", f"+{max(at_least_bytes - 1, 0)}c", "-printf", r"%s %p\0"]
        found: list[tuple[str, int]] = []
        for start in range(0, len(places), PLACES_AT_ONCE):
            command = ["find", *places[start : start + PLACES_AT_ONCE], *which]
            answer = self._run(command, timeout_s=SEARCH_S)
            rows = (
                re.fullmatch(r"([0-9]{1,20}) (/[^\n]*)", row)
                for row in answer.stdout.decode(errors="surrogateescape").split("\0")
            )
            # A name with the end of a line cannot be told apart in what lfs prints.
            found += [(row[2], int(row[1])) for row in rows if row]
            if answer.status != 0 and not found and len(places) == 1:
                said = answer.stderr.decode(errors="replace").strip()[-200:]
                raise environment_error(
                    f"it cannot be searched: {said}", where=places[0], remedy="see that it is mounted here"
                )
        return found

    def _look(self, sizes: dict[str, int]) -> Iterator[LaidOutFile]:
        layouts = self._told(["lfs", "getstripe", *sizes], sizes)
        states = self._told(["lfs", "hsm_state", *sizes], sizes)
        for path, size in sizes.items():
            layout = parse_layout(layouts.get(path, ""))
            if layout is None:
                continue
            yield LaidOutFile(path, size, layout, _why_kept(layouts[path], states.get(path), layout))

    def _told(self, command: Sequence[str], sizes: dict[str, int]) -> dict[str, str]:
        """What lfs printed of each path; some may be gone, which its exit status is about."""
        text = self._run(command, timeout_s=SPARE_S).stdout.decode(errors="surrogateescape")
        told: dict[str, str] = {}
        path = ""
        for line in text.splitlines():
            head, colon, rest = line.rpartition(": (0x")
            if line in sizes:
                path, told[line] = line, ""
            elif colon and head in sizes:
                told[head] = f"0x{rest}"
            elif path:
                told[path] += line + "\n"
        return told

    def move(self, file: LaidOutFile, layout: FileLayout, bytes_per_s: float) -> Move:
        """By `lfs migrate -n`: whoever opens the file meanwhile has it end, and the file stays."""
        limit = ["-W", f"{max(int(bytes_per_s / _MIB), 1)}M"] if self._limits_rate else []
        command = ["lfs", "migrate", "-n", *limit, *layout_options(layout), file.path]
        seconds = SPARE_S + SLACK * file.size_bytes / bytes_per_s
        try:
            answer = self._run(command, timeout_s=seconds)
        except CommandStopped:
            raise
        except GridwrightError as error:
            return Move("failed", error.problems[0].what)
        if answer.status == 0:
            return Move("moved")
        said = answer.stderr.decode(errors="replace").strip()
        if limit and answer.status in _USAGE and re.search(r"option.*(-W|'W')", said):
            self._limits_rate = False
            return self.move(file, layout, bytes_per_s)
        if answer.status == _BUSY or "resource busy" in said.lower():
            return Move("busy", "somebody has it open")
        if answer.status == _GONE:
            return Move("gone")
        reason = said.splitlines()[-1][:200] if said else f"lfs migrate ended with {answer.status}"
        return Move("failed", reason)


def _why_kept(told: str, state: str | None, layout: FileLayout) -> str | None:
    if re.search(r"pattern:.*released", told):
        return "its bytes are in the archive"
    if state is None or not (flags := re.match(r"0x([0-9a-f]{1,8})\)", state)):
        return "nobody tells whether it is archived"
    if int(flags[1], 16):
        # Recorded (lov-hsm-migrate): a move makes it dirty, and it is archived once more.
        return "it is archived, and would be once more"
    return "it has mirrors" if layout.mirrors > 1 else None
