"""What a console shows, gathered from a grid, or from this machine where there is none."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.errors import GridwrightError

if TYPE_CHECKING:
    from gridwright.grid.grid import Grid
    from gridwright.monitor.console.marks import MarkState, TimeMark
    from gridwright.monitor.console.viewers import JobFacts
    from gridwright.monitor.console.watching import HourlyCost, OpenFinding, RepositoryFacts, Watching
    from gridwright.monitor.history.questions import Histories
    from gridwright.monitor.libraries import WatchedLibrary
    from gridwright.spec.model import GridSpec

_JOBS_S, _FINDINGS_S, _REMOTE_S = 10.0, 10.0, 20.0
"""How often a scheduler is asked for its jobs, a watch for what it found, and nodes for their history."""


@contextmanager
def opened(grid: Grid | None, runs: Path, *, live: bool) -> Iterator[Watching]:
    """What is to be shown. Samplers that were started for it end with it.

    Raises GridwrightError (status ENVIRONMENT) where the grid is not up.
    """
    from gridwright.monitor.console.marks import MOST_MARKS, RunMarks
    from gridwright.monitor.console.watching import HourlyCost, Remembered, Watching
    from gridwright.monitor.gathering import mounted_here, watched_libraries
    from gridwright.monitor.history.grid_histories import GridHistories

    run_marks = RunMarks(runs)

    def marks(start_s: float, end_s: float) -> Sequence[TimeMark]:
        found = [
            *run_marks.within(start_s, end_s),
            *_findings(None if grid is None else grid.spec, start_s, end_s),
        ]
        return sorted(found, key=lambda each: each.start_s)[-MOST_MARKS:]

    nothing_open: Sequence[OpenFinding] = ()
    spec = None if grid is None else grid.spec
    findings = Remembered(lambda: _open_findings(spec), nothing_open, _FINDINGS_S)
    with _histories(grid, live=live) as histories:
        absences = partial(getattr, histories, "absent", {})
        if grid is None:
            yield Watching(
                name=socket.gethostname(),
                histories=histories,
                marks=marks,
                absences=absences,
                findings=findings.get,
                explain=explaining(histories, mounted_here(), runs),
                cost=HourlyCost(None, "there is no grid spec"),
                is_machine=True,
            )
            return
        libraries = watched_libraries(grid)
        no_jobs: Sequence[JobFacts] = ()
        jobs = Remembered(lambda: _jobs(grid), no_jobs, _JOBS_S)
        yield Watching(
            name=grid.spec.name,
            histories=histories,
            refresh_s=_REMOTE_S if isinstance(histories, GridHistories) else 2.0,
            libraries=libraries,
            marks=marks,
            absences=absences,
            findings=findings.get,
            explain=explaining(histories, libraries, runs, grid.spec),
            jobs=jobs.get,
            cost=_cost(grid.spec),
            repositories=_repositories(grid.spec),
        )


@contextmanager
def _histories(grid: Grid | None, *, live: bool) -> Iterator[Histories]:
    """What nodes have kept; where none of them keeps anything, they are sampled from here."""
    from gridwright.monitor.gathering import commands_of, directories_of
    from gridwright.monitor.history.choosing import watched_histories
    from gridwright.monitor.history.live_histories import LiveHistories

    if not live:
        with watched_histories(grid) as histories:
            yield histories
        return
    with LiveHistories(commands_of(grid), () if grid is None else directories_of(grid)) as sampled:
        yield sampled


def _jobs(grid: Grid) -> Sequence[JobFacts]:
    """Jobs that run. Raises GridwrightError where the scheduler does not answer."""
    from gridwright.monitor.console.viewers import JobFacts

    if not grid.has_queue:
        return []
    return [
        JobFacts(
            job=job.id,
            user=job.user,
            name=job.name,
            state=str(job.state),
            node=job.node,
            started=job.started,
        )
        for job in grid.scheduler.jobs()
        if job.started is not None and job.ended is None
    ]


def _findings(spec: GridSpec | None, start_s: float, end_s: float) -> Iterator[TimeMark]:
    """What a watch of the grid found; nothing where none runs."""
    from gridwright.monitor.console.marks import TimeMark
    from gridwright.watch.change_log import marks
    from gridwright.watch.state import watch_directory

    states: dict[str, MarkState] = {"opened": "bad", "closed": "good", "flapping": "doubt"}
    for mark in marks(watch_directory(spec), start_s, end_s):
        yield TimeMark(
            kind="finding",
            name=mark.link,
            text=f"{mark.what} ({mark.where})" if mark.where else mark.what,
            state=states.get(mark.kind, "other"),
            start_s=mark.time,
            end_s=mark.time,
        )


def explaining(
    histories: Histories, libraries: Sequence[WatchedLibrary], runs: Path, spec: GridSpec | None = None
) -> Callable[[float, float], str]:
    """What says in words why something is slow."""

    def explain(at_s: float, seconds: float) -> str:
        from rich.text import Text

        from gridwright.cli.watch.slow_findings import watch_of
        from gridwright.cli.watch.slow_question import SlowQuestion, explained_history
        from gridwright.monitor.causes.words import explanation_text

        watch = watch_of(spec)
        question = SlowQuestion(None, None, None, at_s, max(10.0, seconds), None, runs, watch=watch)
        # The colours of a terminal that the console was started in are none of the page's.
        told = explanation_text(explained_history(question, histories, at_s, libraries))
        return "\n".join(line.rstrip() for line in Text.from_ansi(told).plain.splitlines())

    return explain


def _open_findings(spec: GridSpec | None) -> Sequence[OpenFinding]:
    """What a watch of the grid knows to be wrong; nothing where none runs. Raises GridwrightError."""
    from gridwright.monitor.console.watching import OpenFinding
    from gridwright.watch.notifications import folded, place
    from gridwright.watch.state import read_state, watch_directory

    state = read_state(watch_directory(spec))
    if state is None:
        return ()
    rows = folded(
        (("flapping" if each.is_flapping else "open", each, "") for each in state.open), state.explained
    )
    return [
        OpenFinding(
            level=row.level,
            name=row.name,
            where=place(row).rstrip(": "),
            found=row.found,
            since_s=row.since_s,
            is_flapping=row.change == "flapping",
        )
        for row in rows
    ]


def _cost(spec: GridSpec) -> HourlyCost:
    """The bill by listed prices."""
    from gridwright.catalog import load_catalog
    from gridwright.model.grid import grid_model
    from gridwright.monitor.console.watching import HourlyCost
    from gridwright.plan.design import price_dates

    if not spec.is_cloud:
        return HourlyCost(None, "the grid is not in a cloud")
    try:
        hourly = grid_model(spec).usd_per_hour
        names = [group.instance for group in spec.nodes.values() if group.instance]
        dates = price_dates(load_catalog(spec.file.parent if spec.file else None), names, spec.region or "")
    except GridwrightError as error:
        return HourlyCost(None, str(error).splitlines()[0])
    if hourly is None:
        return HourlyCost(None, "a price is missing")
    return HourlyCost(hourly, f"listed prices of {dates or 'an unknown date'} in {spec.region}")


def _repositories(spec: GridSpec) -> Sequence[RepositoryFacts]:
    """All repositories of the spec."""
    from gridwright.monitor.console.watching import RepositoryFacts
    from gridwright.spec.linked import linked_directories

    facts = [
        RepositoryFacts(
            name,
            str(repository.library),
            repository.bucket,
            "the file system's own link" if spec.is_linked(name) else "gridwright repo",
        )
        for name, repository in spec.repositories.items()
    ]
    return [
        *facts,
        *(
            RepositoryFacts(
                name,
                f"on {linked_directory.filesystem}",
                linked_directory.link.bucket,
                "the file system's own link",
            )
            for name, linked_directory in linked_directories(spec).items()
            if name not in spec.repositories
        ),
    ]
