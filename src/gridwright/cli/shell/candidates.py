"""What may stand for an argument or the value of a flag, by its metavar: what shells offer at a TAB."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gridwright.errors import GridwrightError

if TYPE_CHECKING:
    from gridwright.spec import GridSpec

Paths = Literal["none", "grids", "files", "directories"]
"""Which paths a shell offers itself; `grids` are YAML files."""
Context = Any
"""typer hides its class."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Words with what they mean, and paths that the shell finds itself."""

    words: Mapping[str, str] = field(default_factory=dict)
    paths: Paths = "none"


def candidates(context: Context, name: str, metavar: str) -> Candidates:
    """What may stand for a parameter of a command: `name` is its long flag, or that of an argument."""
    found = _BY_NAME.get(name) or _BY_METAVAR.get(metavar)
    if found is None:
        choices = metavar.split("|")
        all_words = len(choices) > 1 and metavar == metavar.lower()
        return Candidates(dict.fromkeys(choices, "") if all_words else {})
    look, paths = found
    try:
        return Candidates(dict(look(context)), paths)
    except (GridwrightError, OSError):
        # No grid spec, or one that is being written: what the command itself will say in full.
        return Candidates(paths=paths)


def _nothing(_context: Context) -> Iterator[tuple[str, str]]:
    return iter(())


def _runs(context: Context) -> Iterator[tuple[str, str]]:
    """The newest first: `last` is what is wanted most. What has no name of a run is not offered."""
    from gridwright.cli.arguments import DEFAULT_RUNS
    from gridwright.runs.place import NAME, find_run, run_directories

    runs = Path(context.params.get("runs") or os.environ.get("GRIDWRIGHT_RUNS") or DEFAULT_RUNS)
    names = [path.name for path in reversed(run_directories(runs)) if NAME.fullmatch(path.name)]
    with suppress(GridwrightError):
        yield "last", find_run(runs, "last").name
    yield from ((name, "") for name in names)


def _spec(context: Context) -> GridSpec:
    from gridwright.cli.spec_file import load

    return load(context.params.get("grid") or context.params.get("file"))


def _jobs(context: Context) -> Iterator[tuple[str, str]]:
    """The jobs that the command could be about, the newest first."""
    from gridwright.cli.grid_file import open_grid

    wants_waiting = context.info_name in {"cancel", "wait"}
    jobs = open_grid(context.params.get("grid")).scheduler.jobs()
    for job in sorted(jobs, key=lambda job: job.submitted or 0.0, reverse=True):
        if not (wants_waiting and job.state.final):
            yield str(job.id), f"{job.state} {job.name}"


def _nodes(context: Context) -> Iterator[tuple[str, str]]:
    """The nodes of a lab as it runs, for its commands; else those of the grid spec."""
    from gridwright.cli.build import lab

    if context.parent is not None and context.parent.info_name == lab.NAME:
        yield from lab.nodes_as_it_runs(context.params.get("grid"))
        return
    for group, nodes in _spec(context).nodes.items():
        for name in nodes.node_names(group):
            yield name, group


def _libraries(context: Context) -> Iterator[tuple[str, str]]:
    """The directories of libraries, which are named by role."""
    spec = _spec(context)
    for role in spec.libraries if spec.is_placed else ():
        yield str(spec.library_directory(role)), f"library {role}"


def _file_systems(context: Context) -> Iterator[tuple[str, str]]:
    for name, filesystem in _spec(context).filesystems.items():
        yield name, filesystem.type


def _matrices(_context: Context) -> Iterator[tuple[str, str]]:
    from gridwright.workload.matrix import BUILT_IN

    return ((name, "") for name in BUILT_IN)


def _scales(_context: Context) -> Iterator[tuple[str, str]]:
    from gridwright.workload.messages import SCALES

    return ((name, "") for name in SCALES)


def _parts(_context: Context) -> Iterator[tuple[str, str]]:
    from gridwright.cli.prove.prove import PARTS

    return ((name, "") for name in PARTS)


def _checks(_context: Context) -> Iterator[tuple[str, str]]:
    from gridwright.doctor.checks import all_checks

    return ((check.name, "") for check in all_checks())


def _topics(_context: Context) -> Iterator[tuple[str, str]]:
    from gridwright.cli.shell.pages import findings, pages

    yield from pages().items()
    yield from ((name, "finding") for name in findings())


_Look = Callable[[Context], Iterator[tuple[str, str]]]
_BY_NAME: Mapping[str, tuple[_Look, Paths]] = {
    "file": (_nothing, "grids"),
    "--grid": (_nothing, "grids"),
    "--matrix": (_matrices, "grids"),
    "--workload": (_matrices, "grids"),
    "--scale": (_scales, "none"),
    "--delete-data": (_file_systems, "none"),
    "--directory": (_libraries, "directories"),
}
_BY_METAVAR: Mapping[str, tuple[_Look, Paths]] = {
    **dict.fromkeys(("FILE", "OUT", "LOG...", "-- COMMAND..."), (_nothing, "files")),
    "DIR": (_nothing, "directories"),
    **dict.fromkeys(("RUN", "RUN...", "A", "B"), (_runs, "directories")),
    **dict.fromkeys(("JOB", "JOB...", "[JOB...]"), (_jobs, "none")),
    **dict.fromkeys(("NODE", "NODES", "SET"), (_nodes, "none")),
    "CHECK": (_checks, "none"),
    "[TOPIC]": (_topics, "none"),
    "PART": (_parts, "none"),
}
