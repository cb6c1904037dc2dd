"""Has nodes sampled: this machine by a process of its own, the nodes of a grid through `Grid.ask`."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping, Sequence

from gridwright.commands import CommandOutput, run_bounded
from gridwright.grid.grid import SILENT, Grid
from gridwright.messages import MessageError, decode, encode
from gridwright.monitor.libraries import WatchedLibrary
from gridwright.monitor.readings import NodeSamples, Request, Snapshot

PROGRAM = (sys.executable, "-P", "-m", "gridwright.monitor.node_program")
ANSWER_S = 15.0
"""For a node that is slow to start a program, beyond the time between its samples."""


def sample_here(request: Request) -> NodeSamples:
    """Two snapshots of this machine. Raises GridwrightError (status ENVIRONMENT) where that fails."""
    answer = run_bounded(
        PROGRAM,
        stdin=encode(request) + b"\n",
        timeout_s=request.interval_s + ANSWER_S,
        name="the sampler of this machine",
    )
    return samples_of(socket.gethostname(), answer)


def sample_grid(grid: Grid, request: Request, servers: Sequence[str] = ()) -> list[NodeSamples]:
    """Two snapshots of each node of a grid, and of servers of its file systems that its head node reaches.

    Those that are away are named, with the reason. Raises GridwrightError (status ENVIRONMENT) where the grid
    is not up.
    """
    if grid.is_this_machine:
        return [sample_here(request), *_sample_servers(grid, request, servers)]
    known = grid.known()
    servers = [name for name in servers if name not in set(known.names)]
    asleep = dict.fromkeys(known.asleep, "it is off until a job waits for it")
    asked = [*(name for name in known.names if name not in asleep), *servers]
    answers = grid.ask(asked, PROGRAM, stdin=encode(request) + b"\n", timeout_s=request.interval_s + ANSWER_S)
    nodes = [
        NodeSamples(name, absent=asleep[name]) if name in asleep else _with_cause(name, answers, known.down)
        for name in known.names
    ]
    return [*nodes, *(samples_of(name, answers.get(name)) for name in servers)]


def _sample_servers(grid: Grid, request: Request, servers: Sequence[str]) -> list[NodeSamples]:
    timeout_s = request.interval_s + ANSWER_S
    answers = (
        grid.ask(servers, PROGRAM, stdin=encode(request) + b"\n", timeout_s=timeout_s) if servers else {}
    )
    return [samples_of(name, answers.get(name)) for name in servers]


def _with_cause(
    name: str, answers: Mapping[str, CommandOutput | None], down: Mapping[str, str]
) -> NodeSamples:
    """What a node answered; of a silent one also the scheduler's word for it."""
    samples = samples_of(name, answers.get(name))
    if not samples.absent or name not in down:
        return samples
    return NodeSamples(name, absent=f"{samples.absent}; its scheduler says that it is {down[name]}")


def samples_of(name: str, answer: CommandOutput | None) -> NodeSamples:
    """The snapshots of an answer, under the name that the grid has for the node."""
    if answer is None:
        return NodeSamples(name, absent=SILENT)
    lines = answer.stdout.splitlines()
    try:
        snapshots: Sequence[Snapshot] = [decode(line, Snapshot) for line in lines]
    except MessageError as error:
        return NodeSamples(name, absent=f"what it answered cannot be read: {error}")
    if len(snapshots) < 2:
        last = answer.stderr.decode(errors="replace").strip().splitlines()
        return NodeSamples(
            name, absent=last[-1][:200] if last else f"exit status {answer.status}, no samples"
        )
    return NodeSamples(name, snapshots[-2], snapshots[-1])


def directories_of(grid: Grid) -> tuple[str, ...]:
    """The directories of the libraries of a grid, as its nodes have them."""
    return tuple(str(grid.spec.library_directory(name)) for name in grid.spec.libraries)


def watched_libraries(grid: Grid) -> list[WatchedLibrary]:
    """The libraries of a grid with what each core needs of them, and what the model says of their way."""
    from gridwright.monitor.causes.model_limits import stated_limits

    limits = stated_limits(grid.spec)
    return [
        WatchedLibrary(
            str(name),
            library.filesystem,
            str(grid.spec.library_directory(name)),
            None if library.requires is None else float(library.requires.bytes_per_s),
            limits.get(library.filesystem, ()),
        )
        for name, library in grid.spec.libraries.items()
    ]


def mounted_here() -> list[WatchedLibrary]:
    """The file systems of this machine, one for each disk or server, by the shortest path to it.

    They stand for libraries where there is no spec: nothing is required of them.
    """
    from gridwright.filesystems.mounts import is_served
    from gridwright.monitor.mount_sources import place_of, shown_mounts

    libraries: dict[str, WatchedLibrary] = {}
    for mount in sorted(shown_mounts(), key=lambda each: len(each.point)):
        device = "" if is_served(mount.type) else place_of(mount.point).device
        if device or is_served(mount.type):
            watched = WatchedLibrary(mount.point, mount.point, mount.point, None)
            libraries.setdefault(device or mount.source, watched)
    return list(libraries.values())


def commands_of(grid: Grid | None, servers: Sequence[str] = ()) -> Mapping[str, Sequence[str]]:
    """What runs the sampler on each node that is on, and keeps it running: this machine, or by ssh.

    `servers` are reached from the grid's head node.

    Raises GridwrightError (status ENVIRONMENT) where the grid is not up.
    """
    if grid is None:
        return {socket.gethostname(): PROGRAM}
    if grid.is_this_machine:
        return {socket.gethostname(): PROGRAM, **grid.attached(servers, PROGRAM)}
    known = grid.known()
    on = [name for name in known.names if name not in set(known.asleep)]
    return grid.attached([*on, *servers], PROGRAM)
