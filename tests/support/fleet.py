"""Nodes for tests: real workers, each a process of this machine under a name of its own.

`python -m tests.support.fleet REQUEST` is a coordinator in a process of its own, to be killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from gridwright.errors import ExitStatus
from gridwright.grid.nodes import GridNode
from gridwright.iotest.coordinator.coordinator import Fleet, Limits
from gridwright.iotest.options import IotestOptions, LibraryTarget, TriedLayout
from gridwright.iotest.recorded import record_iotest
from gridwright.runs.directory import RunDirectory
from gridwright.runs.iotest_events import IotestEvent
from gridwright.runs.records import IotestRecord
from gridwright.services.connections import Listener, listen_on

ROOT = Path(__file__).parents[2]
QUICK = Limits(gather_s=20.0, silence_s=8.0, longest_silence_s=12.0, order_s=20.0, stop_s=5.0)


class LocalLauncher:
    """Starts each worker as a process of this machine; `prefixes` has what stands before its command."""

    def __init__(self, prefixes: Mapping[str, Sequence[str]] | None = None) -> None:
        self.prefixes = dict(prefixes or {})
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.commands: dict[str, list[str]] = {}

    def start(
        self, commands: Mapping[str, Sequence[str]], logs: Path, inputs: Mapping[str, bytes] | None = None
    ) -> None:
        for node, command in commands.items():
            self.commands[node] = list(command)
            with (logs / f"iotest-{node}.log").open("ab") as log:
                self.processes[node] = subprocess.Popen(
                    [*self.prefixes.get(node, ()), *command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    cwd=ROOT,
                )

    def ended(self) -> dict[str, str]:
        return {
            node: f"its process ended with {process.returncode}"
            for node, process in self.processes.items()
            if process.poll() is not None
        }

    def waiting(self) -> dict[str, str]:
        return {}

    def stop(self) -> None:
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(3.0)
            if process.poll() is None:
                process.kill()
                process.wait(3.0)

    def signal(self, node: str, number: signal.Signals) -> None:
        """Send a signal to a worker, and to all that it started."""
        worker = psutil.Process(self.processes[node].pid)
        for process in [*worker.children(recursive=True), worker]:
            process.send_signal(number)


def here() -> tuple[Listener, str]:
    return listen_on("127.0.0.1"), "127.0.0.1"


class Seen:
    """An observer that keeps all events, and can act on one."""

    def __init__(self) -> None:
        self.events: list[IotestEvent] = []
        self._actions: list[tuple[Any, Any]] = []

    def when(self, matches: Any, act: Any) -> None:
        """Call `act` once, at the first event that `matches`."""
        self._actions.append((matches, act))

    def take(self, event: IotestEvent) -> None:
        self.events.append(event)
        for action in [each for each in self._actions if each[0](event)]:
            self._actions.remove(action)
            action[1]()


class GridTest:
    """A test on several nodes of this machine."""

    def __init__(
        self,
        scratch: Path,
        library: Path,
        *,
        nodes: int = 3,
        prefixes: Mapping[str, Sequence[str]] | None = None,
        limits: Limits = QUICK,
        requires: float | None = None,
        cores: Sequence[int] | None = None,
        layout: TriedLayout | None = None,
    ) -> None:
        self.launcher = LocalLauncher(prefixes)
        self.seen = Seen()
        self.stop = threading.Event()
        self.secrets = scratch / "state"
        self.nodes = [GridNode(f"node{number + 1}", cores[number] if cores else 2) for number in range(nodes)]
        self.library = library
        self._requires = requires
        self._layout = layout
        self._runs = scratch / "runs"
        self._fleet = Fleet(self.nodes, self.launcher, here, self.secrets, limits)
        self.run: RunDirectory

    def __call__(self, **options: Any) -> tuple[IotestRecord, ExitStatus]:
        """Run it: two streams on each node, for a second a phase, unless said otherwise."""
        path = str(self.library)
        target = LibraryTarget("data", path, "shared", self._requires, cores=2, layout=self._layout)
        defaults: dict[str, Any] = {"seconds": 1.0, "sample_s": 0.25} if "size_bytes" not in options else {}
        chosen = IotestOptions(**defaults | {"allow_disturbed": True} | options)
        self.run = RunDirectory.create(self._runs, "grid", command=["gridwright"], what=["iotest"])
        return record_iotest(
            self.run, [target], chosen, observers=[self.seen], stop=self.stop, fleet=self._fleet
        )

    def log(self, node: str) -> str:
        return (self.run.path / "logs" / f"iotest-{node}.log").read_text()


def main() -> None:
    """Coordinate a test whose description is a JSON document on the command line."""
    request = json.loads(sys.argv[1])
    test = GridTest(Path(request["scratch"]), Path(request["library"]), nodes=request["nodes"])
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: test.stop.set())
    _, status = test(**request["options"])
    os._exit(status)


if __name__ == "__main__":
    main()
