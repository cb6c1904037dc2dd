"""Layouts of Lustre files and directories: read by `lfs getstripe`, given by `lfs setstripe` and `migrate`.

What `lfs setstripe` would refuse or quietly change is found before. Files that are laid out otherwise are
found by a search on a node, and laid out anew by `lfs migrate`: it copies a file into one without a name and
swaps the layouts of both in one step, so that what is killed leaves the file as it was.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gridwright.commands import CommandStopped
from gridwright.errors import ExitStatus, GridwrightError, environment_error
from gridwright.filesystems.allocation import PARTS, THRESHOLD
from gridwright.filesystems.health import Run
from gridwright.filesystems.layout import (
    ALL,
    Component,
    FileLayout,
    FilePlacement,
    FileSearch,
    LayoutProblem,
    Move,
    layout_options,
)
from gridwright.filesystems.lustre_client.attribute import ATTRIBUTES
from gridwright.filesystems.lustre_client.metadata_servers import archive_states
from gridwright.filesystems.lustre_client.parameters import read_parameters, whole_number
from gridwright.filesystems.lustre_client.search_program import SearchAnswer, SearchOrder
from gridwright.messages import MessageError, decode, encode
from gridwright.units import format_bytes

if TYPE_CHECKING:
    from gridwright.spec.library import LayoutPart


LIMIT_S = 10.0
"""For `lfs getstripe` of one path, which asks the metadata server only."""
_NO_DEVICE = 25
"""ENOTTY, which lfs ends with where a path is on no Lustre."""


def read_layout(run: Run, path: str) -> FileLayout:
    """The layout of a file, or of a directory itself.

    Raises GridwrightError (status ENVIRONMENT) where the path is not there, is on no Lustre, or the metadata
    server does not answer in time.
    """
    # One path a command: --yaml prints neither names nor separators. -d: the directory itself, not its files.
    answer = run(["lfs", "getstripe", "-d", "--yaml", path], timeout_s=LIMIT_S)
    layout = parse_layout(answer.stdout.decode(errors="replace"))
    if answer.status == 0 and layout is not None:
        return layout
    said = answer.stderr.decode(errors="replace").strip().splitlines()
    reason = said[-1][:200] if said else f"lfs getstripe ended with {answer.status} and told no layout"
    if answer.status == _NO_DEVICE:
        raise environment_error(f"{path} is on no Lustre", where=path, remedy="mount the file system there")
    raise environment_error(
        f"the layout of {path} is not told: {reason}", where=path, remedy="see gridwright doctor"
    )


def parse_layout(text: str) -> FileLayout | None:
    """What `lfs getstripe` printed of one path, as text or with --yaml, of Lustre 2.10 or later.

    The fields have the same names in all of these forms, so they are read by name and in their order. None
    where there is no layout in it.
    """
    components: list[Component] = []
    fields: dict[str, str] = {}
    osts: list[int] = []
    for name, value in _fields(text):
        if name == "ost":
            osts.append(int(value))
            continue
        if name == "lcme_id" or (name == "stripe_count" and name in fields):
            components += _component(fields, osts)
            fields, osts = {}, []
        fields[name] = value
    components += _component(fields, osts)
    if not components:
        return None
    plain = len(components) == 1 and "lcme_id" not in fields
    return FileLayout(tuple(components), is_default=plain and fields.get("pattern") == "0")


_KNOWN = frozenset(
    {
        "lcme_id",
        "lcme_mirror_id",
        "lcme_flags",
        "lcme_extent.e_start",
        "lcme_extent.e_end",
        "stripe_count",
        "stripe_size",
        "pattern",
        "pool",
    }
)


def _fields(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        if row := re.match(r"\s+(\d{1,5})\s+\d+\s+0x[0-9a-f]+\s+\S+\s*$", line):
            # The table of objects of a plain layout: obdidx, objid, objid, group.
            yield "ost", row[1]
            continue
        for name, value in re.findall(r"([A-Za-z_][\w.]*):\s+([^\s{]+)", line):
            if name == "l_ost_idx" and (index := re.match(r"\d{1,5}", value)):
                yield "ost", index[0]
            elif (short := name.removeprefix("lmm_")) in _KNOWN:
                yield short, value


def _component(fields: dict[str, str], osts: Iterable[int]) -> list[Component]:
    count = _whole(fields.get("stripe_count", ""))
    if count is None:
        return []
    pattern = fields.get("pattern", "").split(",")
    return [
        Component(
            start=_whole(fields.get("lcme_extent.e_start", "")) or 0,
            end=_whole(fields.get("lcme_extent.e_end", "")),
            stripe_count=count,
            stripe_bytes=_whole(fields.get("stripe_size", "")) or None,
            pool=fields.get("pool") or None,
            on_metadata_server="mdt" in pattern,
            overstriped="overstriped" in pattern,
            mirror=_whole(fields.get("lcme_mirror_id", "")) or 0,
            flags=tuple(flag for flag in fields.get("lcme_flags", "").split(",") if flag not in ("", "0")),
            osts=tuple(osts),
        )
    ]


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch("-?[0-9]{1,20}", text, re.ASCII) else None


STRIPE_STEP = 64 * 1024
"""Stripe sizes and ends of components are multiples of it (LOV_MIN_STRIPE_SIZE; lfs-setstripe(1))."""
LARGEST_STRIPE = 4 * 2**30 - STRIPE_STEP
"""The stripe size has 32 bits (lfs-setstripe(1))."""
MOST_STRIPES = 2000
"""LOV_MAX_STRIPE_COUNT; lfs refuses 2001 (recorded with 2.17)."""
LARGEST_ON_METADATA_SERVER = 2**30
"""The upper limit of lod.*.dom_stripesize, whose default is 1 MiB (Lustre manual, Data on MDT)."""
_POOL = r"[A-Za-z0-9_-]{1,15}"
"""Names of pools have at most 15 characters (LOV_MAXPOOLNAME)."""


def plain(stripe_count: int = 1, stripe_bytes: int | None = None, pool: str | None = None) -> FileLayout:
    """Every file over `stripe_count` targets, from its first byte; -1 is all."""
    return FileLayout((Component(stripe_count=stripe_count, stripe_bytes=stripe_bytes, pool=pool),))


def progressive(
    *parts: tuple[int | None, int], stripe_bytes: int | None = None, pool: str | None = None
) -> FileLayout:
    """Files that are striped wider as they grow, out of `(end in bytes, stripe count)` for each part.

    None is the end of the file: with `progressive((64 * 2**20, 1), (None, -1))` small files are on one
    target, and what lies beyond 64 MiB on all.
    """
    components: list[Component] = []
    start = 0
    for end, count in parts:
        components.append(
            Component(start=start, end=end, stripe_count=count, stripe_bytes=stripe_bytes, pool=pool)
        )
        start = end or start
    return FileLayout(tuple(components))


ADVISED = progressive((64 * 2**20, 1), (4 * 2**30, 4), (None, ALL))
"""For libraries whose files are of all sizes: a small file costs one object, a large one has all targets.

Ends and counts follow the example of the Lustre manual (Progressive File Layout); tables of an analytics
grid are read whole, so from some GiB on only more targets make them faster.
"""


def set_layout_command(layout: FileLayout, path: str) -> list[str]:
    """The command that gives a directory `layout`. Raises GridwrightError with all that is wrong with it."""
    problems = layout_problems(layout)
    if problems:
        raise GridwrightError(*(each.problem for each in problems), status=ExitStatus.INPUT)
    return ["lfs", "setstripe", *layout_options(layout), path]


def apply_layout(run: Run, directory: str, layout: FileLayout) -> FileLayout:
    """Give a directory a layout, which files made from now on get, and return what it has then.

    More stripes than there are targets are no error: a file gets as many as there are. Raises
    GridwrightError: status INPUT for a layout that cannot be, ENVIRONMENT where it was refused or nothing
    answers.
    """
    answer = run(set_layout_command(layout, directory), timeout_s=LIMIT_S)
    if answer.status != 0:
        said = answer.stderr.decode(errors="replace").strip().splitlines()
        reason = said[-1][:200] if said else f"exit status {answer.status}"
        raise environment_error(
            f"the layout of {directory} was not set: {reason}",
            where=directory,
            remedy="a pool has to exist (lfs pool_list), and the directory be yours and on Lustre",
        )
    return read_layout(run, directory)


def layout_problems(layout: FileLayout) -> list[LayoutProblem]:
    """All that is wrong with a layout, whichever servers are to have it."""
    return list(_problems(layout))


def _problems(layout: FileLayout) -> Iterator[LayoutProblem]:
    if not layout.components:
        yield LayoutProblem("a layout has no component", "give it one")
    for place, each in enumerate(layout.components):
        yield from _component_problems(each, place)
    yield from _order_problems(layout.components)


def _component_problems(each: Component, place: int) -> Iterator[LayoutProblem]:
    if each.on_metadata_server:
        if place > 0 or each.end is None or each.end > LARGEST_ON_METADATA_SERVER:
            yield LayoutProblem(
                "data on the metadata server have to begin a layout, and end by "
                f"{format_bytes(LARGEST_ON_METADATA_SERVER)}",
                "make it the first component, with an end such as 1 MiB",
                place,
                "where",
            )
    elif each.stripe_count != ALL and not 1 <= each.stripe_count <= MOST_STRIPES:
        yield LayoutProblem(
            f"a stripe count of {each.stripe_count}",
            f"write 1 to {MOST_STRIPES}, or -1 for all targets",
            place,
            "stripes",
        )
    size = each.stripe_bytes
    if size is not None and (size % STRIPE_STEP or not STRIPE_STEP <= size <= LARGEST_STRIPE):
        yield LayoutProblem(
            f"a stripe size of {format_bytes(size)}",
            f"write a multiple of {format_bytes(STRIPE_STEP)} below 4 GiB, such as 4 MiB",
            place,
            "stripe_size",
        )
    if each.pool is not None and not re.fullmatch(_POOL, each.pool, re.ASCII):
        yield LayoutProblem(
            "a pool's name has 1 to 15 letters, digits, - and _",
            "see lfs pool_list for names without that of the file system",
            place,
            "pool",
        )


def _order_problems(components: Sequence[Component]) -> Iterator[LayoutProblem]:
    last = 0
    for place, each in enumerate(components):
        if each.end is None:
            if place + 1 < len(components):
                yield LayoutProblem(
                    "it has no end, and another one follows", "end it where that begins", place, "until"
                )
            return
        if each.end <= last or each.end % STRIPE_STEP:
            end = f"{each.end} bytes" if each.end % STRIPE_STEP else format_bytes(each.end)
            above = f" above {format_bytes(last)}" if last else ""
            yield LayoutProblem(
                f"it ends at {end}",
                f"write a multiple of {format_bytes(STRIPE_STEP)}{above}",
                place,
                "until",
            )
        last = max(last, each.end)
    if components:
        yield LayoutProblem(
            f"it ends at {format_bytes(last)}: longer files cannot be written",
            "let the last component have no end",
            len(components) - 1,
            "until",
        )


def stated_layout(parts: list[LayoutPart] | None, stripe_count: int | None) -> FileLayout | None:
    """The layout of a library, else that of the stripe count; None where the model chooses."""
    if parts is None and stripe_count is not None:
        return FileLayout((Component(stripe_count=stripe_count),))
    if not parts:
        return None
    components: list[Component] = []
    start = 0
    for part in parts:
        end = None if part.until is None else int(part.until)
        on_mdt = part.where == "mdt"
        components.append(
            Component(
                start=start,
                end=end,
                stripe_count=0 if on_mdt else ALL if part.stripes is None else part.stripes,
                stripe_bytes=None if part.stripe_size is None else int(part.stripe_size),
                pool=part.pool,
                on_metadata_server=on_mdt,
            )
        )
        start = end or start
    return FileLayout(tuple(components))


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
