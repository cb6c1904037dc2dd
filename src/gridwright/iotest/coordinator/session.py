"""A test of several libraries on all nodes of a grid: one worker on each, one library after the other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Sequence
from pathlib import Path

from gridwright.errors import ExitStatus, GridwrightError, Problem
from gridwright.iotest.coordinator.coordinator import Coordinator, Fleet
from gridwright.iotest.coordinator.library import GridLibraryTest
from gridwright.iotest.coordinator.members import NodesFailed
from gridwright.iotest.measure import LibraryFailed, WrongData
from gridwright.iotest.options import IotestOptions, LibraryTarget
from gridwright.iotest.stream_plan import NotEnoughSpace
from gridwright.messages import shared_fields
from gridwright.runs.iotest_events import Ended, IotestEvent, LibraryDone, NodesKnown
from gridwright.runs.journal import is_silenced
from gridwright.runs.phase_record import RecordedNode
from gridwright.runs.worker_process import Observer


class GridSession:
    """Tests libraries on all nodes and tells observers; `stop` may be set at any time."""

    def __init__(
        self,
        observers: Sequence[Observer[IotestEvent]],
        fleet: Fleet,
        logs: Path,
        stop: threading.Event,
        silenced: Collection[str] = (),
        run: str = "",
    ) -> None:
        """Make a session; findings named in `silenced` are told to nobody, unless they are errors."""
        self._observers = observers
        self._fleet = fleet
        self._logs = logs
        self._stop = stop
        self._silenced = silenced
        self._name = run

    def run(self, targets: Sequence[LibraryTarget], options: IotestOptions) -> ExitStatus:
        """Test each library; returns the worst status, 0 if all could be tested.

        Nodes that failed while others went on do not change it: they are named in findings, and their
        phases say so. Raises GridwrightError if workers cannot be started at all.
        """
        return asyncio.run(self._run(targets, options))

    async def _run(self, targets: Sequence[LibraryTarget], options: IotestOptions) -> ExitStatus:
        worst = ExitStatus.DONE
        async with Coordinator(self._fleet, self._stop, self._logs, self._emit) as coordinator:
            if not self._stop.is_set():
                coordinator.tell_of_lost()
            self._emit(NodesKnown(nodes=[_recorded(coordinator, name) for name in coordinator.nodes]))
            lost = [node.name for node in coordinator.nodes.values() if not node.here]
            if not self._stop.is_set() and (
                not coordinator.here or (lost and options.on_node_failure == "stop")
            ):
                self._emit(_none_came(len(lost), len(coordinator.nodes)))
                return ExitStatus.ENVIRONMENT
            for target in targets:
                if self._stop.is_set():
                    break
                if worst == ExitStatus.ENVIRONMENT and (
                    why := await _known_cause(coordinator, target.library)
                ):
                    # Its nodes would hang on it for minutes, one library after the other.
                    self._emit(_not_tested(target, why))
                    continue
                status = await self._library(coordinator, target, options)
                worst = max(worst, status)
                if not coordinator.here or (status == ExitStatus.ENVIRONMENT and _ends(coordinator, options)):
                    break
        return ExitStatus.INTERRUPTED if self._stop.is_set() else worst

    async def _library(
        self, coordinator: Coordinator, target: LibraryTarget, options: IotestOptions
    ) -> ExitStatus:
        status: Ended = "complete"
        exit_status = ExitStatus.DONE
        try:
            await GridLibraryTest(coordinator, target, options, self._emit, self._name).run()
        except (LibraryFailed, NotEnoughSpace) as failed:
            self._emit(failed.problem)
            status, exit_status = "failed", ExitStatus.ENVIRONMENT
        except NodesFailed:
            status, exit_status = "failed", ExitStatus.ENVIRONMENT
        except GridwrightError as error:
            for problem in error.problems:
                self._emit(problem)
            status, exit_status = "failed", error.status
        except WrongData:
            status, exit_status = "failed", ExitStatus.MISSED
        if self._stop.is_set() and exit_status == ExitStatus.DONE:
            status, exit_status = "interrupted", ExitStatus.INTERRUPTED
        self._emit(LibraryDone(status=status, exit=exit_status))
        return exit_status

    def _emit(self, event: IotestEvent) -> None:
        if is_silenced(event, self._silenced):
            return
        for observer in self._observers:
            observer.take(event)


def _ends(coordinator: Coordinator, options: IotestOptions) -> bool:
    """Whether a lost node ends the whole test."""
    lost = any(not node.here for node in coordinator.nodes.values())
    return lost and options.on_node_failure == "stop"


async def _known_cause(coordinator: Coordinator, library: str) -> str | None:
    """Why a library cannot be tested now, where machines that serve it are known to be off."""
    await coordinator.causes_for(library, [])
    return coordinator.cause_at(library)


def _not_tested(target: LibraryTarget, why: str) -> Problem:
    return Problem(
        what=f"library {target.library} was not tested: {why}",
        where=target.path,
        remedy="mend that, and test it again",
    )


def _recorded(coordinator: Coordinator, name: str) -> RecordedNode:
    node = coordinator.nodes[name]
    facts = shared_fields(node.facts, RecordedNode) if node.facts else {}
    facts |= {"node": name, "cores": node.cores if node.facts else node.wanted_cores}
    if node.here:
        facts |= {"clock_offset_s": node.clock.wall_s, "round_trip_s": node.clock.round_trip_s}
    return RecordedNode(**facts)


def _none_came(lost: int, nodes: int) -> Problem:
    what = "no node came" if lost == nodes else f"{lost} of {nodes} nodes did not come"
    return Problem(
        what=f"{what}, so that nothing was tested",
        remedy="see what is said of each node, and `gridwright status`",
    )
