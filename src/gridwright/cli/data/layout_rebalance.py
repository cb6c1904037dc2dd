"""Moves files of libraries that lie otherwise than they should."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gridwright.cli.arguments import Reader
from gridwright.cli.data.desired_layouts import desired_layouts, layout_wishes
from gridwright.cli.interrupt import stop_on_signals
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.spec_file import load_placed
from gridwright.cli.verbosity import say
from gridwright.errors import ExitStatus, input_error
from gridwright.filesystems.kind import Layouts
from gridwright.filesystems.watching import watcher_of

if TYPE_CHECKING:
    from gridwright.commands import CommandOutput
    from gridwright.layouts.rebalance import Rebalance, RebalanceOrder
    from gridwright.spec import GridSpec


@dataclass(frozen=True, slots=True)
class RebalanceFlags:
    """The flags as they were typed."""

    bandwidth: str
    at_least: str
    verify: bool
    while_busy: bool
    dry_run: bool


def rebalance(file: Path | None, what: Sequence[str], flags: RebalanceFlags, *, json: bool) -> int:
    """Move files and print what became of them; the exit status. Raises GridwrightError."""
    spec = load_placed(file)
    orders = list(_orders(spec, what, flags))
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


def _orders(spec: GridSpec, what: Sequence[str], flags: RebalanceFlags) -> Iterator[RebalanceOrder]:
    from gridwright.filesystems import kind_of
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
    places: dict[str, list[str]] = {}
    for each in what:
        if "/" not in each:
            places.setdefault(each, [])
            continue
        path = Path(each).absolute()
        inside = [str(name) for name in spec.libraries if path.is_relative_to(spec.library_directory(name))]
        if not inside:
            raise input_error(
                "the path is in no library", where=each, remedy="name a library, or what lies in one"
            )
        places.setdefault(inside[0], []).append(str(path))
    return places


def _one(
    spec: GridSpec, order: RebalanceOrder, flags: RebalanceFlags, stopping: threading.Event
) -> Rebalance:
    from gridwright.filesystems import kind_of
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
    import os

    from gridwright.commands import CommandPlace, run_bounded

    environment: dict[str, Any] = {**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": ""}
    at = CommandPlace(stop=stopping.is_set)
    return run_bounded(command, environment=environment, timeout_s=timeout_s, at=at)
