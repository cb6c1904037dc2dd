"""`gridwright layout show | check | set | rebalance`: over which targets files of libraries lie."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gridwright.cli.arguments import Json, Reader, SpecFile, read_path
from gridwright.cli.data.desired_layouts import desired_layouts, layout_wishes, opened
from gridwright.cli.interrupt import stop_on_signals
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.spec_file import load_placed
from gridwright.cli.verbosity import say
from gridwright.cli.verbs import plain_app
from gridwright.errors import ExitStatus, Finding, GridwrightError, Problem, input_error

if TYPE_CHECKING:
    from gridwright.commands import CommandOutput
    from gridwright.doctor.access import RunOn
    from gridwright.filesystems.health import Run
    from gridwright.filesystems.layout import DesiredLayout, FileLayout, LibraryLayouts
    from gridwright.layouts.rebalance import Rebalance, RebalanceOrder
    from gridwright.spec import GridSpec


_STAT_S = 10.0
"""A file system that answers later than this tells nothing of a path."""

layout = plain_app(
    "Show, check and set over which targets files of libraries lie, and move them.", no_args_is_help=True
)


@layout.command()
def show(
    file: SpecFile = None,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH", parser=read_path, help="Files or directories; without any, all libraries."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show the layout of files and directories, or of libraries with all that lies in them.

    Of a library: what new files get, what the spec states or the model chooses, and files and bytes by
    layout and size, by a look of at most 20 s through its directory, on the head node, or on a node that
    has mounted it. No file is opened.

    Examples: gridwright layout show; gridwright layout show grid.yaml /grid/data/claims.dat
    """
    spec, run_on = opened(file)
    output = Output("layout show", json=json)
    if paths:
        layouts: dict[str, FileLayout] = {}
        problems: list[Problem] = []
        status = ExitStatus.DONE
        for path in paths:
            try:
                layouts[str(path)] = _layout_of(spec, run_on, path)
            except GridwrightError as error:
                problems += error.problems
                status = max(status, error.status)
        if layouts:
            output.show(
                LazyResult(document=lambda: _paths_document(layouts), text=lambda: _paths_text(layouts))
            )
        if problems:
            raise GridwrightError(*problems, status=status)
        return
    shown = _libraries(spec, run_on)
    output.show(LazyResult(document=lambda: _libraries_document(shown), text=lambda: _libraries_text(shown)))


@layout.command()
def check(file: SpecFile = None, json: Json = False) -> int:
    """Say what is wrong with the layouts of files in libraries, as gridwright doctor does.

    A look of some seconds through each library, the largest files by name. Nothing is changed. Exit status 1
    where something is found that the spec does not silence.

    Example: gridwright layout check grid.yaml
    """
    from gridwright.filesystems import kind_of
    from gridwright.filesystems.kind import Layouts
    from gridwright.filesystems.library_directories import directory_findings, layout_in_spec

    spec, run_on = opened(file)
    wishes = layout_wishes(spec)
    found: list[tuple[str, Finding]] = []
    for role, library in spec.libraries.items():
        described = spec.filesystems[library.filesystem or ""]
        kind, directory = kind_of(described), str(spec.library_directory(role))
        if not isinstance(kind, Layouts):
            continue
        wish = wishes.get(str(role)) or layout_in_spec(described, str(role), library)
        run = run_on(described)
        findings = directory_findings(described, run, directory, wish)
        findings += kind.library_findings(described, run, directory, wish)
        found += [(str(role), each) for each in findings]
    found += _unevenly_full(spec, run_on)
    found = [each for each in found if each[1].name not in spec.silence]
    Output("layout check", json=json).show(
        LazyResult(document=lambda: _document(found), text=lambda: _text(found))
    )
    return int(ExitStatus.MISSED if found else ExitStatus.DONE)


@layout.command("set")
def set_(
    file: SpecFile = None,
    libraries: Annotated[
        list[str] | None,
        typer.Argument(metavar="LIBRARY", help="Such as data; without any, all that have layouts."),
    ] = None,
    as_told: Annotated[
        str | None,
        typer.Option(
            "--layout",
            metavar="LAYOUT",
            help="Instead of the spec's: auto, a stripe count such as 4 or -1, or parts such as "
            "256MiB:1,16GiB:4,-1.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be set, and set nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Set the layout that new files in directories of libraries get, and show it before and after.

    It is what the spec states, else what the model chooses. Files that are there keep theirs: see gridwright
    layout rebalance. A directory that has it already is left alone. Runs on the head node, or on a
    node that has mounted it, as root or as the owner of the directory.

    Examples: gridwright layout set; gridwright layout set grid.yaml work --layout 4 --dry-run
    """
    from gridwright.layouts.setting import set_library_layout

    spec, run_on = opened(file)
    choices = desired_layouts(spec, libraries or [], as_told)
    on = {str(name): spec.filesystem_of(name) for name in spec.libraries}
    changes = [
        set_library_layout(spec, name, choice, run_on(on[name]), dry_run=dry_run)
        for name, choice in choices.items()
    ]
    Output("layout set", json=json).show(
        LazyResult(
            document=lambda: {"dry_run": dry_run, "libraries": [change.document() for change in changes]},
            text=lambda: "\n".join(change.text() for change in changes),
        ),
        following="" if dry_run else "gridwright layout rebalance --dry-run (files that are there)",
    )


@layout.command()
def rebalance(
    file: SpecFile = None,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="LIBRARY|PATH",
            help="Libraries, or files and directories of one; without any, all libraries that have layouts.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show which files, bytes and time, and move nothing.")
    ] = False,
    bandwidth: Annotated[
        str, typer.Option(metavar="RATE", help="Bytes to read, and to write, at most.")
    ] = "200MB/s",
    at_least: Annotated[
        str, typer.Option("--at-least", metavar="SIZE", help="Leave smaller files alone.")
    ] = "16MiB",
    verify: Annotated[
        bool, typer.Option("--verify", help="Read each file before and after, and compare SHA-256.")
    ] = False,
    while_busy: Annotated[
        bool, typer.Option("--while-busy", help="Go on though jobs run or others move data.")
    ] = False,
    json: Json = False,
) -> int:
    """Move files that lie otherwise than a file of their size should, by lfs migrate, the largest first.

    Runs on this machine, which has to have mounted the file system, as root. Files that are open, archived,
    released or mirrored, or that grew by appending (unless they are named), are left alone. It ends when
    jobs run, or when this machine moves much beside it, and goes on where it ended when it is run again,
    also after kill -9: a file has either its old layout or the new one. Exit status 0 where all was moved or
    left alone, 1 where files failed or the grid is busy, 3 where a file holds other bytes than before.

    Examples: gridwright layout rebalance grid.yaml data --dry-run; gridwright layout rebalance --verify
    """
    flags = _RebalanceFlags(bandwidth, at_least, verify, while_busy, dry_run)
    spec = load_placed(file)
    orders = list(_orders(spec, what or [], flags))
    done: list[Rebalance] = []
    with stop_on_signals() as stopping:
        for order in orders:
            done.append(_one(spec, order, flags, stopping))
            if done[-1].stopped:
                break
    Output("layout rebalance", json=json).show(
        LazyResult(
            document=lambda: {"dry_run": flags.dry_run, "libraries": [each.document() for each in done]},
            text=lambda: "\n\n".join(each.text() for each in done),
        )
    )
    if any(each.interrupted for each in done):
        return int(ExitStatus.INTERRUPTED)
    missed = any(each.stopped or each.count("failed") for each in done)
    return int(ExitStatus.MISSED if missed else ExitStatus.DONE)


def _unevenly_full(spec: GridSpec, run_on: RunOn) -> list[tuple[str, Finding]]:
    """What it costs that OSTs are unevenly full now; where that is not told, a note says so."""
    from gridwright.filesystems import kind_of
    from gridwright.filesystems.kind import Layouts
    from gridwright.model.grid import grid_model
    from gridwright.model.uneven_space import uneven_findings

    try:
        space = {
            name: tuple(kind.target_space(filesystem, run_on(filesystem), str(filesystem.path)))
            for name, filesystem in spec.filesystems.items()
            if isinstance(kind := kind_of(filesystem), Layouts)
        }
        return list(uneven_findings(grid_model(spec), space)) if space else []
    except GridwrightError as error:
        say(f"what the free space of OSTs costs is not known: {error.problems[0].what}")
        return []


def _document(found: Sequence[tuple[str, Finding]]) -> dict[str, Any]:
    return {"findings": [{"library": role, **asdict(finding)} for role, finding in found]}


def _text(found: Sequence[tuple[str, Finding]]) -> str:
    if not found:
        return "nothing is wrong with the layouts of what was looked at"
    return "\n".join(
        f"{finding.level}: {finding.name} ({role}): {finding.text}\n  {finding.remedy}"
        for role, finding in found
    )


@dataclass(frozen=True, slots=True)
class _RebalanceFlags:
    """The flags as they were typed."""

    bandwidth: str
    at_least: str
    verify: bool
    while_busy: bool
    dry_run: bool


def _orders(spec: GridSpec, what: Sequence[str], flags: _RebalanceFlags) -> Iterator[RebalanceOrder]:
    from gridwright.filesystems import kind_of
    from gridwright.filesystems.kind import Layouts
    from gridwright.layouts.rebalance import RebalanceOrder

    reader = Reader()
    rate = reader.rate("--bandwidth", flags.bandwidth)
    size = reader.size("--at-least", flags.at_least)
    if rate is not None and rate <= 0:
        reader.problem("nothing moves at that rate", "--bandwidth", "write a rate such as 200MB/s")
    reader.finish(True)
    places, wishes = _places(spec, what), layout_wishes(spec)
    for name, choice in desired_layouts(spec, list(places)).items():
        library = next(each for each in spec.libraries if str(each) == name)
        filesystem = spec.filesystem_of(library)
        whole = str(spec.library_directory(library))
        kind = kind_of(filesystem)
        yield RebalanceOrder(
            library=name,
            places=places.get(name) or [whole],
            layout=choice.layout,
            options=kind.layout_command(filesystem, choice.layout, whole)
            if isinstance(kind, Layouts)
            else (),
            at_least_bytes=size or 0,
            bytes_per_s=rate or 0.0,
            verify=flags.verify,
            dry_run=flags.dry_run,
            target_bytes_per_s=wishes[name].target_bytes_per_s if name in wishes else None,
        )


def _places(spec: GridSpec, what: Sequence[str]) -> Mapping[str, list[str]]:
    """What is named, by library; no place for a library that is meant as a whole."""
    from gridwright.commands import run_here

    places: dict[str, list[str]] = {}
    problems: list[Problem] = []
    for each in what:
        if "/" not in each:
            places.setdefault(each, [])
            continue
        path = Path(each).absolute()
        inside = [str(name) for name in spec.libraries if path.is_relative_to(spec.library_directory(name))]
        if not inside:
            remedy = "name a library, or what lies in one"
            problems.append(Problem("the path is in no library", where=each, remedy=remedy))
        elif _is_missing(run_here, path):
            problems.append(Problem(_MISSING[0], where=each, remedy=_MISSING[1]))
        else:
            places.setdefault(inside[0], []).append(str(path))
    if problems:
        raise GridwrightError(*problems)
    return places


_MISSING = ("no such file or directory", "name what is there")


def _is_missing(run: Run, path: Path) -> bool:
    """Whether the file system says that a path is not there; False where it does not answer."""
    with suppress(GridwrightError):
        looked = run(["stat", "--format=%i", "--", str(path)], timeout_s=_STAT_S)
        return looked.status != 0 and os.strerror(errno.ENOENT).encode() in looked.stderr
    return False


def _one(
    spec: GridSpec, order: RebalanceOrder, flags: _RebalanceFlags, stopping: threading.Event
) -> Rebalance:
    from gridwright.filesystems import kind_of
    from gridwright.filesystems.kind import Layouts
    from gridwright.filesystems.watching import watcher_of
    from gridwright.grid.grid import Grid
    from gridwright.layouts.rebalance import (
        BUSY_SHARE,
        MoveJournal,
        Rebalancer,
        first_of,
        jobs_run,
        measured_rate,
        traffic_beside,
    )

    filesystem = spec.filesystem_of(
        next(library for library in spec.libraries if str(library) == order.library)
    )
    run = partial(_run, stopping)
    kind = kind_of(filesystem)
    if not isinstance(kind, Layouts):
        raise input_error(
            f"files of library {order.library} cannot be laid out anew", remedy="name a library on Lustre"
        )
    grid = Grid.open(spec)
    watcher = watcher_of(kind.kernel_types[0])
    counters = watcher.mount_counters(run, str(filesystem.path)) if watcher else None
    ask = first_of(
        *([jobs_run(lambda: Grid.open(spec).states)] if grid.has_queue else []),
        traffic_beside(counters, BUSY_SHARE * order.bytes_per_s),
    )
    path = grid.state / "layouts" / f"{order.library}.jsonl"
    order = replace(order, measured_bytes_per_s=measured_rate(path))
    with nullcontext() if order.dry_run else MoveJournal(path) as journal:
        return Rebalancer(
            kind.mover(filesystem, run),
            run,
            journal,
            busy=(lambda: None) if flags.while_busy else ask,
            stop=stopping.is_set,
            tell=say,
        ).rebalance(order)


def _run(stopping: threading.Event, command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
    """A command on this machine, which an order to stop kills."""
    from gridwright.commands import CommandPlace, run_bounded

    environment: dict[str, Any] = {**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": ""}
    at = CommandPlace(stop=stopping.is_set)
    return run_bounded(command, environment=environment, timeout_s=timeout_s, at=at)


_MOST_ROWS = 30


def _layout_of(spec: GridSpec, run_on: RunOn, path: Path) -> FileLayout:
    from gridwright.filesystems import kind_of
    from gridwright.filesystems.kind import Layouts

    for role, library in spec.libraries.items():
        filesystem = spec.filesystems[library.filesystem or ""]
        if path.is_relative_to(spec.library_directory(role)):
            kind, run = kind_of(filesystem), run_on(filesystem)
            if isinstance(kind, Layouts):
                if _is_missing(run, path):
                    raise input_error(_MISSING[0], where=str(path), remedy=_MISSING[1])
                return kind.layout(filesystem, run, str(path))
    raise input_error(
        f"{path} is in no library whose file system lets its users choose layouts",
        where=str(path),
        remedy="name a path below a library on Lustre, with all its directories from / on",
    )


@dataclass(frozen=True, slots=True)
class _Library:
    """What is in a library, and what is wanted of it; None where nobody tells, or nothing is wanted."""

    found: LibraryLayouts | None
    wish: DesiredLayout | None


def _libraries(spec: GridSpec, run_on: RunOn) -> Mapping[str, _Library]:
    from gridwright.filesystems import kind_of
    from gridwright.filesystems.kind import Layouts

    wishes = layout_wishes(spec)
    shown = {}
    for role, library in spec.libraries.items():
        described = spec.filesystems[library.filesystem or ""]
        kind, directory = kind_of(described), str(spec.library_directory(role))
        found = (
            kind.library_layouts(described, run_on(described), directory)
            if isinstance(kind, Layouts)
            else None
        )
        shown[str(role)] = _Library(found, wishes.get(str(role)))
    return shown


def _paths_document(layouts: Mapping[str, FileLayout]) -> dict[str, Any]:
    from gridwright.messages import plain

    return {"paths": {path: plain(each) for path, each in layouts.items()}}


def _paths_text(layouts: Mapping[str, FileLayout]) -> str:
    from gridwright.filesystems.layout import default_in_words, details

    lines = []
    for path, each in layouts.items():
        lines.append(f"{path}: {default_in_words(each)}")
        lines += [f"  {line}" for line in details(each)]
    return "\n".join(lines)


def _libraries_document(shown: Mapping[str, _Library]) -> dict[str, Any]:
    from gridwright.messages import plain

    def one(library: _Library) -> dict[str, Any] | None:
        if library.found is None:
            return None
        wish = library.wish
        return {
            **plain(library.found),
            "wanted": None if wish is None or wish.layout is None else wish.layout.text,
            "wanted_by": None if wish is None else _whose(wish),
            "is_as_wanted": _is_as_desired(library.found, wish),
        }

    return {"libraries": {role: one(library) for role, library in shown.items()}}


def _libraries_text(shown: Mapping[str, _Library]) -> str:
    return "\n".join(
        line
        for role, library in shown.items()
        for line in (_library(role, library.found, library.wish) if library.found else [_none(role)])
    )


def _none(role: str) -> str:
    return (
        f"{role}: nothing is told: its file system has no layouts, or no node that has mounted it reads them"
    )


def _whose(wish: DesiredLayout) -> str:
    return "the spec" if wish.stated else "the model"


def _is_as_desired(layouts: LibraryLayouts, wish: DesiredLayout | None) -> bool | None:
    if wish is None or wish.layout is None or layouts.default_unread:
        return None
    return layouts.default is not None and layouts.default.is_as(wish.layout)


def _desired_lines(layouts: LibraryLayouts, wish: DesiredLayout | None) -> list[str]:
    if wish is None or wish.layout is None:
        return []
    says = "the spec states" if wish.stated else "the model chooses"
    if layouts.default_unread:
        return [f"  {says} {wish.layout.text}"]
    if _is_as_desired(layouts, wish):
        return [f"  as {says} it"]
    return [f"  {says} {wish.layout.text}: {wish.command('set')} sets that"]


def _library(role: str, layouts: LibraryLayouts, wish: DesiredLayout | None) -> list[str]:
    from gridwright.filesystems.layout import default_in_words
    from gridwright.units import format_bytes

    part = "" if layouts.complete else " (of those found in time)"
    lines = [
        f"{role}: what new files get is not known: {layouts.default_unread}"
        if layouts.default_unread
        else f"{role}: new files get {default_in_words(layouts.default)}",
        *_desired_lines(layouts, wish),
        f"  {layouts.files} files, {format_bytes(layouts.bytes)}{part}",
    ]
    for each in layouts.classes[:_MOST_ROWS]:
        size = f"below {format_bytes(each.below_bytes)}" if each.below_bytes else "empty"
        lines.append(f"  {each.files:>10} files {size:>16} {format_bytes(each.bytes):>10}  {each.layout}")
    more = len(layouts.classes) - _MOST_ROWS
    lines += [f"  and {more} more rows (--json has all)"] if more > 0 else []
    left = {
        "released to the archive": layouts.released,
        "kept elsewhere": layouts.elsewhere,
        "without a layout": layouts.without_layout,
        "not read": layouts.unread,
    }
    lines += [f"  {number:>10} {what}" for what, number in left.items() if number]
    return lines
