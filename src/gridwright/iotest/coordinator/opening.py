"""Opens a library on all nodes of a test, and finds out whether they see the same one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gridwright.errors import Finding, Problem
from gridwright.iotest.coordinator.members import Members
from gridwright.iotest.events import Emit
from gridwright.iotest.measure import LibraryFailed
from gridwright.iotest.messages import KeptSet, Open, See, Seen
from gridwright.iotest.messages import Opened as OpenedThere
from gridwright.iotest.options import IotestOptions, LibraryTarget
from gridwright.iotest.scratch import MARKER
from gridwright.iotest.space import Room
from gridwright.runs.iotest_events import DeviceDetected


@dataclass(slots=True)
class OpenedLibrary:
    """What the nodes say of a library."""

    memory_backed: bool = False
    rooms: dict[str, Room] = field(default_factory=dict)
    kept: dict[str, KeptSet | None] = field(default_factory=dict)
    """The newest set of files that each node kept."""


async def open_library(
    members: Members,
    target: LibraryTarget,
    options: IotestOptions,
    run: str,
    emit: Emit,
    *,
    called: str = "",
) -> OpenedLibrary:
    """Have all nodes look at the library. Raises LibraryFailed and NodesFailed."""
    # Whether a rate is steady is seen on all nodes together.
    order = Open(target, replace(options, until_steady_s=None), run, called)
    answers = await members.ask(order, OpenedThere, "opening the library")
    opened = OpenedLibrary()
    told = set()
    for name, answer in answers.items():
        if not opened.rooms:
            emit(DeviceDetected(device=answer.device))
        opened.rooms[name] = answer.room
        opened.kept[name] = answer.kept
        opened.memory_backed |= answer.memory_backed
        for finding in answer.findings:
            if finding.text not in told:
                told.add(finding.text)
                emit(finding)
    return opened


async def is_shared(members: Members, target: LibraryTarget, options: IotestOptions, emit: Emit) -> bool:
    """Find out whether all nodes see the directory that one of them has made.

    Raises LibraryFailed where the test needs that and it is not so.
    """
    first, *others = members.shares_here
    if not others:
        return True
    paths = [f"{first.directory}/{MARKER}"]
    answers = await members.ask(See(paths), Seen, "looking for a directory")
    blind = [name for name, answer in answers.items() if name != first.node and not all(answer.seen)]
    if not blind or members.stopped:
        return not blind
    who = f"{', '.join(blind[:3])}{' and others' if len(blind) > 3 else ''}"
    see = f"{who} {'does' if len(blind) == 1 else 'do'} not see what {first.node} has made"
    if options.pairs or options.shared_file:
        flag = "--pairs" if options.pairs else "--shared-file"
        raise LibraryFailed(
            Problem(
                what=f"library {target.library}: {flag} needs one that all nodes share, and {see} there",
                where=target.path,
                remedy=f"mount the same file system on all nodes, or leave out {flag}",
            )
        )
    if len(blind) < len(others):
        emit(_partly_shared(target, see))
    return False


def _partly_shared(target: LibraryTarget, see: str) -> Finding:
    return Finding(
        "warning",
        "library-not-shared",
        f"library {target.library}: {see} in {target.path}, though other nodes do",
        "mount the same file system on all nodes",
    )
