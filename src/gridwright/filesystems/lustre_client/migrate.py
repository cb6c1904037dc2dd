"""Lays files out anew by `lfs migrate`, and finds those that are laid out otherwise.

`lfs migrate` copies a file into one without a name and swaps the layouts of both in one step: what is killed
leaves the file as it was.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from gridwright.commands import CommandStopped
from gridwright.errors import GridwrightError, environment_error
from gridwright.filesystems.allocation import PARTS, THRESHOLD
from gridwright.filesystems.health import Run
from gridwright.filesystems.layout import (
    Component,
    FileLayout,
    FilePlacement,
    FileSearch,
    Move,
    layout_options,
)
from gridwright.filesystems.lustre_client.attribute import ATTRIBUTES
from gridwright.filesystems.lustre_client.metadata_servers import archive_states
from gridwright.filesystems.lustre_client.parameters import read_parameters, whole_number
from gridwright.filesystems.lustre_client.search_program import SearchAnswer, SearchOrder
from gridwright.messages import MessageError, decode, encode

SEARCH_S = 3600.0
"""For the search of a whole library."""
AT_ONCE = 64
"""Files asked for in one command: their names fit what a command takes."""
PLACES_AT_ONCE = 500
SPARE_S = 60.0
"""Time for a file beside that for its bytes: opening, objects on all targets, the swap."""
SLACK = 4.0
"""By how much a file may take longer than its bytes do at the rate that was asked for."""
UNEVEN = THRESHOLD / PARTS
"""By how much of its size a target is fuller before files are taken from it (qos_threshold_rr of the MDS)."""
_BUSY, _GONE, _USAGE = 16, 2, (4, 22)
"""EBUSY and ENOENT; lfs ends with 4 where it does not know an option (recorded with 2.17)."""
_MIB = 2**20
_PROGRAM = (sys.executable, "-P", "-m", "gridwright.filesystems.lustre_client.search_program")


class LustreMover:
    """See FileMover. Takes root, or whoever owns the files."""

    def __init__(self, run: Run, name: str | None = None, *, attributes: Sequence[str] = ATTRIBUTES) -> None:
        """`name` is the file system's, where the spec has its source: a client may have several."""
        self._run, self._name, self._attributes = run, name or "*", attributes
        self._limits_rate = True
        self._room: deque[int] = deque()
        """Targets that are not too full, where others are."""

    @property
    def limits_rate(self) -> bool:
        """Whether lfs holds a rate itself; a release without -W does not, as the first move shows."""
        return self._limits_rate

    def targets(self) -> int:
        """OSTs of the file system, as the client counts them."""
        try:
            told = read_parameters(self._run, [f"lov.{self._name}-clilov-*.numobd"])
        except CommandStopped:
            raise
        except GridwrightError as error:
            raise environment_error(
                f"this machine does not tell how many OSTs there are: {error.problems[0].what}",
                remedy="run this as root on a machine that has mounted the file system",
            ) from error
        count = max((whole_number(value) or 0 for value in told.values.values()), default=0)
        if not count:
            raise environment_error(
                "this machine does not tell how many OSTs there are",
                remedy="mount the file system here, and run this as root",
            )
        return count

    def excess(self) -> Mapping[int, int]:
        """Of OSTs that are fuller than all together by UNEVEN: from there on new files go elsewhere.

        None where OSTs of several file systems answer. Moves put nothing on these any more. Raises
        GridwrightError where one does not answer.
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
        full = {
            index: int(size - free - share * size)
            for (_, index), (size, free) in whole.items()
            if size and (size - free) / size > share + UNEVEN
        }
        by_room = sorted(whole, key=lambda key: -whole[key][1])
        self._room = deque(index for _, index in by_room if index not in full) if full else deque()
        return full

    def search(
        self,
        places: Sequence[str],
        at_least_bytes: int,
        wanted: FileLayout,
        full: Collection[int],
        *,
        may_be_gone: bool = False,
    ) -> FileSearch:
        """By a scan of attributes in a process of its own, and `lfs hsm_state` of what it finds."""
        order = SearchOrder(
            wanted=wanted, targets=self.targets(), full=sorted(full), at_least_bytes=at_least_bytes
        )
        found = FileSearch()
        for start in range(0, len(places), PLACES_AT_ONCE):
            answer = self._searched(places[start : start + PLACES_AT_ONCE], order, may_be_gone)
            found.looked_at += answer.looked_at
            found.misplaced += self._with_archived(answer.misplaced)
            found.on_full += self._with_archived(answer.on_full)
            found.more += answer.more
            found.unread += answer.unread
        return found

    def _searched(self, places: Sequence[str], order: SearchOrder, may_be_gone: bool) -> SearchAnswer:
        told = [word for name in self._attributes for word in ("--attribute", name)]
        command = [*_PROGRAM, *told, "--seconds", str(SEARCH_S), encode(order).decode(), *places]
        said = self._run(command, timeout_s=SEARCH_S + SPARE_S)
        try:
            answer = decode(said.stdout, SearchAnswer)
        except MessageError:
            why = said.stderr.decode(errors="replace").strip()[-200:]
            raise environment_error(
                f"it cannot be searched: {why or f'exit status {said.status}'}",
                where=places[0],
                remedy="see that it is mounted here",
            ) from None
        if not answer.complete:
            raise environment_error(
                f"a search has not ended after {SEARCH_S / 60:.0f} minutes"
                + "".join(f": {each.path}: {each.reason}" for each in answer.unread_named[:1]),
                where=places[0],
                remedy="see gridwright doctor; or name directories below it, one after another",
            )
        if len(places) == 1 and answer.unread and not answer.looked_at and not may_be_gone:
            first = answer.unread_named[0]
            raise environment_error(
                f"it cannot be searched: {first.path}: {first.reason}",
                where=places[0],
                remedy="see that it is mounted here, and run this as root",
            )
        if answer.is_blind:
            raise environment_error(
                f"layouts are not told here: of {answer.without_layout} files none has the attribute "
                f"{' or '.join(self._attributes)}",
                where=places[0],
                remedy="run this as root, on a client of the file system",
            )
        return answer

    def _with_archived(self, files: Sequence[FilePlacement]) -> list[FilePlacement]:
        """Files of which it is known that they may be moved, and why others may not."""
        asked = [each.path for each in files if each.kept is None]
        states: dict[str, int] = {}
        for start in range(0, len(asked), AT_ONCE):
            states |= archive_states(self._run, asked[start : start + AT_ONCE])
        return [replace(each, kept=each.kept or _why_skipped(states.get(each.path))) for each in files]

    def move(self, file: FilePlacement, layout: FileLayout, bytes_per_s: float) -> Move:
        """By `lfs migrate -n`: whoever opens the file meanwhile has it end, and the file stays."""
        placed = self._placed(layout, file.longest_bytes)
        move = self._moved(file, placed, bytes_per_s)
        # A target with room may be one that takes nothing for another reason, and the server knows that.
        return self._moved(file, layout, bytes_per_s) if move.state == "failed" and placed != layout else move

    def _placed(self, layout: FileLayout, size_bytes: int) -> FileLayout:
        """A layout with targets that have room for the components which a file of a size has.

        The server would choose those that are too full, too, only less often.
        """
        return replace(layout, components=tuple(self._put(each, size_bytes) for each in layout.components))

    def _put(self, part: Component, size_bytes: int) -> Component:
        is_free = not (part.pool or part.on_metadata_server or part.overstriped)
        if not is_free or not 0 < part.stripe_count <= len(self._room) or part.start > size_bytes:
            return part
        self._room.rotate(-part.stripe_count)
        return replace(part, osts=tuple(self._room)[-part.stripe_count :])

    def _moved(self, file: FilePlacement, layout: FileLayout, bytes_per_s: float) -> Move:
        limit = ["-W", f"{max(int(bytes_per_s / _MIB), 1)}M"] if self._limits_rate else []
        command = ["lfs", "migrate", "-n", *limit, *layout_options(layout, placed=True), file.path]
        seconds = SPARE_S + SLACK * file.longest_bytes / bytes_per_s
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
            return self._moved(file, layout, bytes_per_s)
        if answer.status == _BUSY or "resource busy" in said.lower():
            return Move("busy", "somebody has it open")
        if answer.status == _GONE:
            return Move("gone")
        reason = said.splitlines()[-1][:200] if said else f"lfs migrate ended with {answer.status}"
        return Move("failed", reason)


def _why_skipped(state: int | None) -> str | None:
    if state is None:
        return "nobody tells whether it is archived"
    # Recorded (lov-hsm-migrate): a move makes it dirty, and it is archived once more.
    return "it is archived, and would be once more" if state else None
