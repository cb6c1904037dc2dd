"""The streams of a run: each starts its next launch as soon as the last has ended."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gridwright.errors import Finding
from gridwright.filesystems.mounts import describe_mount
from gridwright.runs.events import finding_event
from gridwright.workload.account import launch_record, oom_kills
from gridwright.workload.control_group import ControlGroup
from gridwright.workload.data_set import DataSet
from gridwright.workload.engines import engine_environment
from gridwright.workload.guard import GONE_S, Order, Outcome, fork_guard
from gridwright.workload.node_samples import NodeSampler
from gridwright.workload.private_directories import PrivateDirectories
from gridwright.workload.process_tree import children, descendants, kill_all
from gridwright.workload.scales import scale
from gridwright.workload.traffic import Traffic

_SAMPLE_S = 1.0
_COMMAND = [sys.executable, "-P", "-m", "gridwright.workload.launched"]
_PASSED_ON = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "TZ",
    "SHELL",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
)


@dataclass(slots=True)
class _Live:
    """A launch that runs."""

    launch: dict[str, Any]
    guard: int
    control: int
    result: int
    traffic: Traffic
    traffic_fd: int
    oom_kills: int
    group: ControlGroup | None
    answer: bytes = b""


class Running:
    """Runs all streams; the agent's loop calls `tick`, the selector what is registered with it."""

    def __init__(
        self,
        request: dict[str, Any],
        directories: PrivateDirectories,
        groups: ControlGroup | None,
        selector: selectors.BaseSelector,
        say: Callable[[dict[str, Any]], None],
    ) -> None:
        self._request = request
        self._directories = directories
        self._groups = groups
        self._selector = selector
        self._say = say
        self._pending = [list(stream) for stream in request["streams"]]
        self._live: dict[int, _Live] = {}
        self._stopping = False
        self._scale = scale(request["scale"])
        self._tables = self._load_tables()
        self._sampler = NodeSampler(self._devices())
        self._sampled = time.monotonic()

    @property
    def ended(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return not self._live and not any(self._pending)

    def begin(self) -> None:
        """Start the first launch of each stream. Raises OSError."""
        self._say({"event": "running", "time": time.time(), "streams": len(self._pending)})
        for stream in range(len(self._pending)):
            self._start_next(stream)

    def tick(self) -> None:
        """Sample, once a second."""
        if time.monotonic() - self._sampled >= _SAMPLE_S:
            self._sample()

    def stop(self, turn: Callable[[], None], seconds: float) -> None:
        """Have all launches ended, and wait for their last words as long as that takes, at most `seconds`."""
        self._stopping = True
        for live in self._live.values():
            os.close(live.control)
            live.control = -1
        deadline = time.monotonic() + seconds
        while self._live and time.monotonic() < deadline:
            turn()

    def close(self) -> None:
        """Take the last sample."""
        self._sample()

    def _sample(self) -> None:
        self._sampled = time.monotonic()
        for row in self._sampler.sample([live.traffic for live in self._live.values()], len(self._live)):
            self._say(row)

    def _load_tables(self) -> dict[int, dict[str, Any]]:
        data = DataSet.of(Path(self._request["libraries"]["data"]), self._scale, self._request["seed"])
        return {copy: data.facts(copy) for copy in range(self._request["copies"])}

    def _devices(self) -> dict[str, str | None]:
        found: dict[str, str | None] = {}
        for name, path in self._request["libraries"].items():
            mount = describe_mount(Path(path))
            found[name] = mount.device
            self._say({"event": "device", "library": name, "device": mount.to_record()})
        return found

    def _start_next(self, stream: int) -> None:
        if not self._pending[stream] or self._stopping:
            return
        launch = self._pending[stream].pop(0)
        group = self._groups.for_launch(launch["number"]) if self._groups else None
        traffic_fd = Traffic.create()
        before = oom_kills()
        guard, control, result = fork_guard(self._order(launch), traffic_fd, group)
        live = _Live(launch, guard, control, result, Traffic(traffic_fd), traffic_fd, before, group)
        self._live[launch["number"]] = live
        self._selector.register(result, selectors.EVENT_READ, lambda: self._hear(live))
        started = {"event": "launch-started", "time": time.time()}
        self._say(started | {key: launch[key] for key in ("number", "label", "stream")})

    def _order(self, launch: dict[str, Any]) -> Order:
        work, util = self._directories.of_launch(launch["number"], launch["label"])
        request = None
        if launch["test"] is not None:
            tables = {
                name: asdict(facts) | {"path": str(facts.path)}
                for name, facts in self._tables[launch["copy"]].items()
                if name in launch["tables"]
            }
            request = json.dumps(
                {
                    "test": launch["test"],
                    "work": str(work),
                    "util": str(util),
                    "tables": tables,
                    "cores": launch["cores"],
                    "memory_bytes": launch["memory_bytes"],
                    "settings": self._scale.settings,
                }
            ).encode()
        return Order(
            number=launch["number"],
            arguments=_COMMAND if launch["test"] is not None else launch["command"],
            environment=self._environment(launch, work, util),
            work=work,
            util=util,
            memory_bytes=launch["memory_bytes"],
            time_limit_s=launch["time_limit_s"],
            keep=self._request["keep"],
            request=request,
        )

    def _environment(self, launch: dict[str, Any], work: Path, util: Path) -> dict[str, str]:
        ours = {
            "GRIDWRIGHT_DATA": str(self._request["libraries"]["data"]),
            "GRIDWRIGHT_WORK": str(work),
            "GRIDWRIGHT_UTIL": str(util),
            "GRIDWRIGHT_CORES": str(launch["cores"]),
            "GRIDWRIGHT_MEMORY": str(launch["memory_bytes"]),
            "TMPDIR": str(work),
        }
        if launch["test"] is None:
            return dict(os.environ) | ours
        kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        return kept | ours | engine_environment(launch["cores"])

    def _hear(self, live: _Live) -> None:
        chunk = os.read(live.result, 1 << 16)
        live.answer += chunk
        if chunk:
            return
        self._selector.unregister(live.result)
        os.close(live.result)
        if live.control >= 0:
            os.close(live.control)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(live.guard, 0)
        if live.group is not None:
            live.group.remove()
        self._finish(live)

    def _finish(self, live: _Live) -> None:
        try:
            outcome: dict[str, Any] = json.loads(live.answer)
        except ValueError:
            self._end_strays()
            lost = Outcome(live.launch["number"], ended_by="lost")
            outcome = {name: getattr(lost, name) for name in Outcome.__slots__}
        kills = max(outcome["oom_kills"], oom_kills() - live.oom_kills)
        record = launch_record(
            live.launch, outcome, live.traffic.totals(), node=self._request["node"], oom_kills=kills
        )
        self._sampler.add_ended(live.traffic)
        live.traffic.close()
        os.close(live.traffic_fd)
        del self._live[live.launch["number"]]
        self._say({"event": "launch", "launch": record, "output": outcome["output"]})
        if outcome["left"]:
            text = f"directories of a launch could not be removed: {', '.join(outcome['left'])}"
            self._say(finding_event(Finding("warning", "workload-left", text, "remove them by hand")))
        self._start_next(live.launch["stream"] - 1)

    def _end_strays(self) -> None:
        """End what a launch left whose guard was killed: it is now below this process."""
        guards = {each.guard for each in self._live.values()}
        deadline = time.monotonic() + GONE_S
        while (strays := set(children(os.getpid())) - guards) and time.monotonic() < deadline:
            for pid in strays:
                kill_all(iter([pid, *descendants(pid)]), signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            time.sleep(0.005)
