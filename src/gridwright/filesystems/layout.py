"""Layouts of files: over which targets their bytes lie, as people write them, want them, and find them.

On a command line they are the options of `lfs setstripe`, in its words: `-c 4`, or just `4`, is four stripes;
`-E 256M -c 1 -E 16G -c 4 -E -1 -c -1` has parts of each file, each up to its `-E`. `-C` overstripes, `-S` is
the stripe size, `-p` the pool, and `-L mdt` has a part on the metadata server. Sizes are binary, as there:
256M is 256 MiB. Files that lie otherwise are laid out anew by a `FileMover`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal, Protocol

from gridwright.errors import ExitStatus, GridwrightError, Problem
from gridwright.units import format_bytes, plural

ALL = -1
"""As a stripe count: all targets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A part of a file and how it is striped; a plain layout has one, from the start to the end."""

    start: int = 0
    end: int | None = None
    """Where it ends, in bytes; None for the end of the file."""
    stripe_count: int = 1
    """Targets (objects where overstriped); -1 is all; 0 for data on the metadata server."""
    stripe_bytes: int | None = None
    """Bytes on one target before the next; None for the default (4 MiB since Lustre 2.16, 1 MiB before)."""
    pool: str | None = None
    on_metadata_server: bool = False
    overstriped: bool = False
    """More than one stripe on a target."""
    mirror: int = 0
    flags: tuple[str, ...] = ()
    """Such as init (it has objects) and stale (a mirror that is behind)."""
    osts: tuple[int, ...] = ()
    """Indices of the targets of its objects; none before it is first written."""

    @property
    def targets(self) -> int:
        """Over how many different targets it goes; what it will, where it has no objects yet; -1 is all."""
        return len(set(self.osts)) if self.osts else self.stripe_count

    @property
    def text(self) -> str:
        """It in words, such as `4 OSTs (stripes of 1 MiB) until 4 GiB`."""
        return _words(self, first=True)


@dataclass(frozen=True, slots=True)
class FileLayout:
    """A layout; of a directory it is what new files in it get."""

    components: tuple[Component, ...]
    is_default: bool = False
    """A directory that has none of its own: new files get that of the whole file system."""

    @property
    def mirrors(self) -> int:
        """How many copies it keeps."""
        return len({component.mirror for component in self.components})

    @property
    def is_progressive(self) -> bool:
        """Whether files are striped wider as they grow."""
        return len(self.components) > self.mirrors

    def component_at(self, offset: int) -> Component:
        """The component (of the first mirror) that holds a byte; the last one beyond the end of all."""
        first = self.components[0].mirror
        parts = [component for component in self.components if component.mirror == first]
        return next((part for part in parts if part.end is None or offset < part.end), parts[-1])

    def is_as(self, desired: FileLayout) -> bool:
        """Whether new files in a directory with this layout are laid out as is wanted.

        A stripe size counts where it is wanted, so that the servers' own is none.
        """
        return len(self.components) == len(desired.components) and all(
            _is_as(mine, theirs) for mine, theirs in zip(self.components, desired.components, strict=True)
        )

    def within(self, targets: int) -> FileLayout:
        """The same where there are no more targets: what goes over as many goes over all."""
        parts: list[Component] = []
        for each in self.components:
            if each.stripe_count >= targets and each.pool is None and not each.overstriped:
                each = replace(each, stripe_count=ALL)  # noqa: PLW2901
            if parts and replace(parts[-1], start=each.start, end=each.end) == each:
                each = replace(each, start=parts.pop().start)  # noqa: PLW2901
            parts.append(each)
        return replace(self, components=tuple(parts))

    def wider_than(self, targets: int, filesystem: str) -> Iterator[LayoutProblem]:
        """Each part with more stripes than there are targets, where none is to have several."""
        for place, each in enumerate(self.components):
            if each.stripe_count > targets and not each.overstriped:
                yield LayoutProblem(
                    f"files are to have {each.stripe_count} stripes, and {filesystem} has "
                    f"{targets} {plural(targets, 'OST')}",
                    f"write {targets}, or -1 for all",
                    place,
                    "stripes",
                )

    @property
    def text(self) -> str:
        """The layout in words, such as `1 OST until 64 MiB, then 4 until 4 GiB, then all`."""
        mirrors: dict[int, list[Component]] = {}
        for component in self.components:
            mirrors.setdefault(component.mirror, []).append(component)
        said = (
            ", then ".join(_words(part, first=place == 0) for place, part in enumerate(parts))
            for parts in mirrors.values()
        )
        return "; mirrored: ".join(said) or "none"


def _is_as(component: Component, desired: Component) -> bool:
    same = (component.start, component.end, component.on_metadata_server) == (
        desired.start,
        desired.end,
        desired.on_metadata_server,
    )
    if not same or desired.on_metadata_server:
        return same
    if desired.stripe_bytes not in (None, component.stripe_bytes):
        return False
    return (component.stripe_count, component.overstriped, component.pool) == (
        desired.stripe_count,
        desired.overstriped,
        desired.pool,
    )


def _words(component: Component, *, first: bool) -> str:
    if component.on_metadata_server:
        where = "the metadata server"
    elif component.stripe_count == ALL:
        where = "all OSTs" if first else "all"
    elif first:
        unit = "stripe" if component.overstriped else "OST"
        where = f"{component.stripe_count} {unit}{'s' if component.stripe_count != 1 else ''}"
    else:
        where = f"{component.stripe_count}{' stripes' if component.overstriped else ''}"
    size = "" if component.stripe_bytes is None else f" (stripes of {format_bytes(component.stripe_bytes)})"
    pool = "" if component.pool is None else f" of pool {component.pool}"
    end = "" if component.end is None else f" until {format_bytes(component.end)}"
    return where + pool + size + end


@dataclass(frozen=True, slots=True)
class LayoutChoice:
    """The layout that the files of a library are to have, and why."""

    layout: FileLayout
    reason: str
    """A sentence for people, without a full stop."""
    stated: bool
    """Whether the grid spec says it; else the model chose."""


@dataclass(frozen=True, slots=True)
class LayoutProblem:
    """Something that is wrong with a layout, whoever wrote it and where."""

    what: str
    remedy: str
    component: int | None = None
    """Which component it is, from 0 on; None for the layout as a whole."""
    field: str = ""
    """What of the component it is, by its name in the grid spec, such as `until`."""

    @property
    def problem(self) -> Problem:
        """It, for people who wrote no grid spec: a component by its number from 1 on."""
        where = None if self.component is None else f"component {self.component + 1}"
        return Problem(self.what, where=where, remedy=self.remedy)


EXAMPLES = "4, -1, or '-E 256M -c 1 -E 16G -c 4 -E -1 -c -1'"
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_SIZE = re.compile(r"([0-9]{1,15})(?:([KMGT])(?:i?B)?)?", re.ASCII | re.IGNORECASE)
_ENDS = frozenset({"-1", "eof", "EOF"})
_FLAGS = ("-E", "-c", "-C", "-S", "-p", "-L")


def read_layout_text(text: str, where: str | None = None) -> FileLayout:
    """The layout that `lfs setstripe` would make of these options.

    Whether a file system takes it is for its kind to say. Raises GridwrightError (status INPUT) with all that
    cannot be read.
    """
    words = text.split()
    if len(words) == 1 and re.fullmatch(r"-?[0-9]{1,6}", words[0], re.ASCII):
        words = ["-c", words[0]]
    parts, problems = _Parts(), list[str]()
    for flag, value in zip(words[::2], [*words[1::2], ""], strict=False):
        if wrong := parts.take(flag, value):
            problems.append(wrong)
    problems += parts.unfinished() if words else ["it says nothing"]
    if problems:
        remedy = f"write what lfs setstripe takes: {EXAMPLES}"
        raise GridwrightError(
            *(Problem(f"layout {text!r}: {each}", where, remedy=remedy) for each in dict.fromkeys(problems)),
            status=ExitStatus.INPUT,
        )
    return FileLayout(tuple(parts.components()))


@dataclass(slots=True)
class _Part:
    end: int | None = None
    count: int | None = None
    size: int | None = None
    pool: str | None = None
    on_metadata_server: bool = False
    overstriped: bool = False


@dataclass(slots=True)
class _Parts:
    """The parts of a layout as its options come."""

    _found: list[_Part] = field(default_factory=list)
    _is_plain: bool = False

    def take(self, flag: str, value: str) -> str | None:
        """Account for an option; what is wrong with it."""
        if flag not in _FLAGS or not value:
            return f"{flag} has no value" if flag in _FLAGS else f"{flag} is none of {', '.join(_FLAGS)}"
        if flag == "-E":
            return self._begin(value)
        if not self._found:
            self._is_plain = True
            self._found.append(_Part())
        part = self._found[-1]
        if flag == "-p":
            part.pool = value
        elif flag == "-S":
            part.size = _size(value)
            return None if part.size else f"-S {value} is no size"
        elif flag == "-L":
            part.on_metadata_server = True
            return None if value == "mdt" else f"-L {value} is not mdt"
        elif count := re.fullmatch(r"-?[0-9]{1,6}", value, re.ASCII):
            part.count, part.overstriped = int(count[0]), flag == "-C"
        else:
            return f"{flag} {value} is no stripe count"
        return None

    def _begin(self, value: str) -> str | None:
        if self._is_plain:
            return "what comes before the first -E belongs to no part"
        end = None if value in _ENDS else _size(value)
        self._found.append(_Part(end))
        return f"-E {value} is no size" if end is None and value not in _ENDS else None

    def unfinished(self) -> list[str]:
        """Parts that do not say how they are striped."""
        bare = [each for each in self._found if each.count is None and not each.on_metadata_server]
        return ["each part needs -c, -C or -L mdt"] if bare else []

    def components(self) -> Iterator[Component]:
        """The parts, one after the other."""
        start = 0
        for each in self._found:
            yield Component(
                start=start,
                end=each.end,
                stripe_count=0 if each.on_metadata_server else each.count or 0,
                stripe_bytes=each.size,
                pool=each.pool,
                on_metadata_server=each.on_metadata_server,
                overstriped=each.overstriped,
            )
            start = each.end or start


def layout_text(layout: FileLayout) -> str:
    """A layout in the words of `lfs setstripe`; of a mirrored file the first mirror."""
    first = tuple(
        component for component in layout.components if component.mirror == layout.components[0].mirror
    )
    return " ".join(layout_options(FileLayout(first), _written))


def layout_options(
    layout: FileLayout, size: Callable[[int], str] = str, *, placed: bool = False
) -> list[str]:
    """A layout as the options that `lfs setstripe` and `lfs migrate` have for it; `size` writes bytes.

    With `placed` they name targets, too, where the layout does.
    """
    options: list[str] = []
    first = layout.components[0]
    is_plain = len(layout.components) == 1 and first.end is None and not first.on_metadata_server
    for component in layout.components:
        options += [] if is_plain else ["-E", "-1" if component.end is None else size(component.end)]
        options += _striping(component, size)
        options += ["-o", ",".join(map(str, component.osts))] if placed and component.osts else []
    return options


def _striping(component: Component, size: Callable[[int], str]) -> Iterator[str]:
    if component.on_metadata_server:
        yield from ("-L", "mdt")
        return
    yield from ("-C" if component.overstriped else "-c", str(component.stripe_count))
    if component.stripe_bytes is not None:
        yield from ("-S", size(component.stripe_bytes))
    if component.pool is not None:
        yield from ("-p", component.pool)


def _size(text: str) -> int | None:
    match = _SIZE.fullmatch(text)
    return int(match[1]) << _UNITS[(match[2] or "").upper()] if match else None


def _written(size: int) -> str:
    unit = next((unit for unit in ("T", "G", "M", "K") if size % (1 << _UNITS[unit]) == 0 and size), "")
    return f"{size >> _UNITS[unit]}{unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredLayout:
    """The layout that files of a library are to have, and what a target delivers."""

    library: str
    """Its name."""
    layout: FileLayout | None = None
    """None where nothing is wanted: files are then held against what their directory gives to new ones."""
    stated: bool = True
    """Whether the grid spec says it; else the model chose."""
    target_bytes_per_s: float | None = None
    """What one target delivers to readers, as the model has it; None where nothing is known."""
    spec_file: str = "grid.yaml"

    def command(self, verb: str) -> str:
        """The command of Gridwright that mends it, such as `gridwright layout set grid.yaml data`."""
        return f"gridwright layout {verb} {self.spec_file} {self.library}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutClass:
    """Files of a layout and a size; sizes in bytes."""

    layout: str
    """In words, such as `1 OST until 64 MiB, then all`."""
    below_bytes: int
    """Their size is below it, and at least half of it; 0 for empty files."""
    files: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryLayouts:
    """What a look through a library's directory found."""

    default: FileLayout | None
    """What new files get; None where the directory has none of its own."""
    default_unread: str | None = None
    """Why it is not known what new files get, such as that there is no such directory."""
    files: int
    bytes: int
    classes: Sequence[LayoutClass] = ()
    """Without files that are released, lie elsewhere, or tell no layout."""
    released: int = 0
    """Files whose data are in the archive only."""
    elsewhere: int = 0
    """Files whose data the file system does not hold (foreign layouts)."""
    without_layout: int = 0
    unread: int = 0
    targets: Mapping[str, int] = field(default_factory=dict)
    """Bytes by index of target."""
    metadata_server_bytes: int = 0
    complete: bool = True
    """Whether the look came to its end."""


def default_in_words(layout: FileLayout | None) -> str:
    """What new files get."""
    if layout is None or layout.is_default:
        return "that of the whole file system"
    return layout.text


def details(layout: FileLayout) -> list[str]:
    """A line for each component: where it lies, its stripes, their size, and their targets."""
    lines = []
    for part in layout.components:
        end = "the end" if part.end is None else format_bytes(part.end)
        words = [f"{format_bytes(part.start)} to {end}: {replace(part, end=None).text}"]
        if part.osts:
            words.append("targets " + " ".join(map(str, part.osts)))
        words += part.flags
        lines.append(", ".join(words))
    return lines


MoveState = Literal["moved", "busy", "gone", "failed"]
"""busy: somebody has the file open, or opened it meanwhile; it stays as it was, as it does if it failed."""


@dataclass(frozen=True, slots=True)
class FilePlacement:
    """A file and where it lies."""

    path: str
    size_bytes: int
    """What of it takes room: of a sparse file not its holes."""
    layout: FileLayout
    kept: str | None = None
    """Why it has to be left alone, such as that it is archived; None where it may be moved."""
    length_bytes: int = 0
    """How far it reaches, for time limits: servers that compress have more bytes to move than take room."""

    @property
    def longest_bytes(self) -> int:
        """What moving it may take at most."""
        return max(self.size_bytes, self.length_bytes)


@dataclass(frozen=True, slots=True)
class Move:
    """What became of a file that was to be moved."""

    state: MoveState
    why: str = ""


@dataclass(slots=True)
class FileSearch:
    """What a search found."""

    looked_at: int = 0
    misplaced: list[FilePlacement] = field(default_factory=list)
    """More than half of their bytes lie otherwise than wanted; some may have to be left alone."""
    on_full: list[FilePlacement] = field(default_factory=list)
    """They lie as they should, on targets that are too full."""
    more: int = 0
    """Smaller files that the next search will find: there are too many for one."""
    unread: int = 0
    """Files and directories that could not be looked at."""


class FileMover(Protocol):
    """Finds files by their layouts, and lays one out anew without anybody noticing.

    Failure contract. All end in bounded time. What is not told of a file leaves it out. `search` and
    `targets` raise GridwrightError (status ENVIRONMENT) where nothing answers; `move` never changes what a
    file holds: it has the new layout, or the old one whatever happened.
    """

    def targets(self) -> int:
        """Over how many targets a file can lie."""

    def excess(self) -> Mapping[int, int]:
        """Bytes that targets hold beyond their share, by index; only of those that are fuller by far."""

    def search(
        self,
        places: Sequence[str],
        at_least_bytes: int,
        desired: FileLayout,
        full: Collection[int],
        *,
        may_be_gone: bool = False,
    ) -> FileSearch:
        """Files of a size that lie otherwise than wanted, below these directories, or named themselves.

        `full` are targets from which others are to be taken, too. Where places `may_be_gone`, as files that
        an earlier search has found, it is no error that there is nothing any more.
        """

    def move(self, file: FilePlacement, layout: FileLayout, bytes_per_s: float) -> Move:
        """Lay a file out anew, at no more than a rate in bytes/s."""


def relieving(files: Sequence[FilePlacement], excess: Mapping[int, int], targets: int) -> list[FilePlacement]:
    """Files whose move takes from targets what they hold beyond their share, the largest first.

    What lies on all targets takes nothing from any. A file counts for each target with its bytes by the
    number of targets that it lies on.
    """
    left = dict(excess)
    chosen: list[FilePlacement] = []
    for file in sorted(files, key=lambda each: -each.size_bytes):
        osts = {index for component in file.layout.components for index in component.osts}
        full = [index for index in osts if left.get(index, 0) > 0]
        if full and len(osts) < targets:
            chosen.append(file)
            for index in full:
                left[index] -= file.size_bytes // len(osts)
    return chosen


def misplaced_bytes(file: FilePlacement, desired: FileLayout, targets: int) -> int:
    """Bytes of a file that lie over another number of targets, or in another pool, than is wanted."""
    edges = {0, file.size_bytes}
    for component in (*file.layout.components, *desired.components):
        edges |= {each for each in (component.start, component.end) if each and each < file.size_bytes}
    ordered = sorted(edges)
    wrong = 0
    for start, end in pairwise(ordered):
        has, should = file.layout.component_at(start), desired.component_at(start)
        same_pool = should.pool is None or has.pool == should.pool
        same_server = has.on_metadata_server == should.on_metadata_server
        on_others = not should.on_metadata_server and not _is_as_wide(has.targets, should, targets)
        if not same_pool or not same_server or on_others:
            wrong += end - start
    return wrong


def _is_as_wide(has: int, should: Component, targets: int) -> bool:
    """Whether a file lies over as many targets as it should; nearly all of them are all.

    A target that is full, away or new when a file is made has none of it, and a move would not change that
    while it is full. Lustre itself may lack a quarter of a directory's stripes without calling them too few
    (min_stripe_count in lustre/lod/lod_qos.c). How many targets a pool has is not known here.
    """
    if should.stripe_count == ALL and should.pool is not None:
        return True
    width, lies = counted(should.stripe_count, targets), counted(has, targets)
    return lies == width or (width == targets and lies >= width - width // 4)


def counted(stripes: int, targets: int) -> int:
    """Over how many of `targets` so many stripes lie; -1 is all."""
    return targets if stripes == ALL else min(stripes, targets)
