"""Runs of the workload on the nodes of a grid, with everything real but the grid itself."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gridwright.errors import ExitStatus
from gridwright.runs.directory import LoadedRun, RunDirectory, load_run
from gridwright.runs.workload_events import WORKLOAD_EVENTS, WorkloadEvent
from gridwright.workload.matrix import load_matrix
from gridwright.workload.messages import GridSource, scale
from gridwright.workload.options import WorkloadOptions
from gridwright.workload.session import OnGrid, run_workload

Event = dict[str, Any]
ROOT = Path(__file__).parents[2]
SPEC = """\
name: own
state: {place}/state
filesystems: {{disk: {{type: local, path: {place}}}}}
libraries: {{data: {{filesystem: disk}}, work: {{filesystem: disk}}, util: {{filesystem: disk}}}}
"""


class GridRuns:
    """A grid below a directory, on which the workload is run; its events are kept."""

    def __init__(self, place: Path, nodes: dict[str, int] | None) -> None:
        """`nodes` are pretended, with their cores; None for the local scheduler on this machine."""
        self.place = place
        self.control = place / "control"
        self.control.mkdir()
        self.libraries = {name: place / name for name in ("data", "work", "util")}
        for directory in self.libraries.values():
            directory.mkdir()
        state = str(place / "state")
        if nodes is not None:
            known = {"control": str(self.control), "pretended": nodes}
            self.grid = OnGrid(state, known, list(nodes), 4, agent="tests.support.pretend_grid")
        else:
            self.grid = OnGrid(state, GridSource(SPEC.format(place=place), None), ["here"], 2)
        self.events: list[Event] = []
        self.stop = threading.Event()
        self.when: list[tuple[Callable[[Event], bool], Callable[[], None]]] = []

    def on(self, wanted: Callable[[Event], bool], do: Callable[[], None]) -> None:
        """Do something with the first event of a kind."""
        self.when.append((wanted, do))

    def order(self, words: str) -> None:
        """Make the pretended grid fail; see `tests.support.pretend_grid`."""
        (self.control / words).touch()

    def take(self, told: WorkloadEvent) -> None:
        event = WORKLOAD_EVENTS.plain(told)
        self.events.append(event)
        for each in [each for each in self.when if each[0](event)]:
            self.when.remove(each)
            each[1]()

    def run(
        self, *streams: Sequence[Any], grid: bool = True, keep: bool = False
    ) -> tuple[ExitStatus, LoadedRun]:
        """Run a matrix to its end, on the grid or on this node; an entry is a command, or its fields."""
        entries = [
            [each if isinstance(each, dict) else {"command": list(each)} for each in s] for s in streams
        ]
        file = self.place / "matrix.yaml"
        file.write_text(json.dumps({"name": "own", "streams": entries}))
        options = WorkloadOptions(
            matrix=load_matrix(str(file)), scale=scale("tiny"), keep=keep, allow_disturbed=True
        )
        run = RunDirectory.create(self.place / "runs", "own", command=["x"], what=["workload"])
        status = run_workload(
            run,
            options,
            self.libraries,
            observers=[self],
            stop=self.stop,
            grid=self.grid if grid else None,
        )
        ends = {ExitStatus.DONE: "complete", ExitStatus.INTERRUPTED: "interrupted"}
        run.finish(ends.get(status, "failed"))  # type: ignore[arg-type]
        return status, load_run(run.path)

    def of(self, kind: str) -> list[Event]:
        """The events of a kind."""
        return [event for event in self.events if event["event"] == kind]

    def findings(self) -> dict[str, str]:
        """The findings by name."""
        return {event["name"]: event["text"] for event in self.of("finding")}

    def left(self) -> list[Path]:
        """What a run has left in the libraries and between coordinator and jobs."""
        work = [path for name in ("work", "util") for path in self.libraries[name].iterdir()]
        place = self.place / "state" / "workload"
        # A directory goes while it is looked at.
        with suppress(FileNotFoundError):
            work += place.iterdir()
        return work

    def wait_until_clean(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self.left() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert self.left() == []


def started(label: str) -> Callable[[Event], bool]:
    """The start of a launch of a name."""
    return lambda event: event["event"] == "launch-started" and event["label"] == label
