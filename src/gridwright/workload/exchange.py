"""The directory by which a run on several nodes and its jobs exchange requests, results and samples.

It lies in the grid's state directory, which all nodes and the coordinator see at the same path:

    STATE/workload/RUN/
        run.json                 who runs it
        alive                    touched by the coordinator every few seconds; removed, an order to stop
        NAME.request.json        what a job is to do
        NAME.started             a line for each start of the job: node and time
        NAME.events              what it says meanwhile, a JSON document a line
        NAME.result.json         what came of it
        NODE.samples             samples of a node, a JSON document a line

`python -m gridwright.workload.node_jobs.launch REQUEST.json` and `... .chore REQUEST.json` run on a node.
Each says that it started, does its work, and writes its result. A job that is started again, since its
node was lost after it had written that, has nothing to do.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from gridwright.atomic import write_atomically
from gridwright.beneath import owner_of, remove_tree
from gridwright.errors import GridwrightError
from gridwright.messages import MessageError, decode, encode
from gridwright.runs.worker_process import is_alive, process_facts
from gridwright.runs.workload_events import WORKLOAD_EVENTS, WorkloadEvent
from gridwright.schedulers.process_tree import adopt_orphans
from gridwright.state_parts import fresh_directory
from gridwright.trusted import open_directory
from gridwright.workload.messages import JobStart

_HOME = "workload"
BEAT_S = 5.0
SILENT_S = 60.0
"""A job whose coordinator gave no heartbeat for so long ends."""
_LOOK_S = 1.0
DEAD_S = 600.0
"""A run of another host that is silent for so long is dead."""
_MARKER = "run.json"
_ALIVE = "alive"
REQUEST, STARTED, EVENTS, RESULT, SAMPLES = (
    ".request.json",
    ".started",
    ".events",
    ".result.json",
    ".samples",
)


@dataclass(frozen=True, slots=True)
class ExchangeDirectory:
    """The directory of one run."""

    path: Path

    @classmethod
    def create(cls, state: Path) -> ExchangeDirectory:
        """Make one in a grid's state directory. Raises OSError and GridwrightError."""
        path = fresh_directory(state, _HOME)
        write_atomically(path / _MARKER, json.dumps({"process": process_facts()}) + "\n")
        (path / _ALIVE).touch()
        return cls(path)

    @property
    def run_id(self) -> str:
        """Names the run; the names of its jobs begin with it."""
        return self.path.name

    def beat(self) -> None:
        """Give a heartbeat. Raises OSError."""
        os.utime(self.path / _ALIVE)

    def order_stop(self) -> None:
        """Have all jobs of the run end, in order.

        A scheduler's own order need not reach them: Slurm tells the batch script alone, and kills
        the others some seconds later.
        """
        with contextlib.suppress(OSError):
            (self.path / _ALIVE).unlink(missing_ok=True)

    def file(self, name: str, kind: str) -> Path:
        """Where a job, or a node, has its file of a kind."""
        return self.path / f"{name}{kind}"

    def write(self, name: str, kind: str, message: object) -> None:
        """Write a message so that it is there whole, or not at all. Raises OSError."""
        write_atomically(self.file(name, kind), encode(message).decode() + "\n")

    def read(self, name: str, kind: str) -> object:
        """Read a message, as plain data; None if it is not there, or not whole. Raises OSError."""
        try:
            found: object = json.loads(self.file(name, kind).read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        return found

    def append(self, name: str, kind: str, *messages: object) -> None:
        """Add a line for each message. Raises OSError."""
        lines = [encode(message) + b"\n" for message in messages]
        fd = os.open(self.file(name, kind), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, b"".join(lines))
        finally:
            os.close(fd)

    def lines(self, name: str, kind: str) -> list[dict[str, Any]]:
        """All lines; none if there is no such file. Raises OSError."""
        return Tail(self.file(name, kind)).read()

    def names(self, kind: str) -> set[str]:
        """The jobs, or nodes, that have a file of a kind. Raises OSError."""
        found = os.listdir(self.path)  # noqa: PTH208 - several times a second
        return {each.removesuffix(kind) for each in found if each.endswith(kind)}

    def forget(self, name: str) -> None:
        """Remove all files of a job."""
        for kind in (REQUEST, STARTED, EVENTS, RESULT):
            with contextlib.suppress(OSError):
                self.file(name, kind).unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove it with all in it."""
        remove_tree(self.path)


@dataclass(slots=True)
class Tail:
    """Reads a file of JSON lines as it grows."""

    path: Path
    _offset: int = 0

    def read(self) -> list[dict[str, Any]]:
        """The lines that were added and are whole. Raises OSError."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                content = file.read()
        except FileNotFoundError:
            return []
        whole = content[: content.rfind(b"\n") + 1]
        self._offset += len(whole)
        found = []
        for line in whole.splitlines():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
        return found


@dataclass(slots=True)
class Heartbeat:
    """A job's view of the heartbeat, by the node's own clock, since clocks of nodes may differ."""

    directory: Path
    _seen: int = -1
    _changed: float = field(default_factory=time.monotonic)
    _looked: float = 0.0

    def lost(self) -> bool:
        """Whether the run was told to stop, or its coordinator has been silent for too long."""
        now = time.monotonic()
        if now - self._looked < _LOOK_S:
            return False
        self._looked = now
        try:
            seen = (self.directory / _ALIVE).stat().st_mtime_ns
        except FileNotFoundError:
            return True
        except OSError:
            # The state directory does not answer: that says nothing of the coordinator.
            self._changed = now
            return False
        if seen != self._seen:
            self._seen, self._changed = seen, now
        return now - self._changed > SILENT_S


def dead_runs(state: Path) -> list[ExchangeDirectory]:
    """The runs of this user on a grid whose coordinator was killed."""
    return [
        ExchangeDirectory(marker.parent)
        for marker in sorted((state / _HOME).glob(f"*/{_MARKER}"))
        if _is_own(marker.parent) and not _lives(marker)
    ]


def _is_own(directory: Path) -> bool:
    """Whether a directory of the part that users share is this user's: anybody makes one there."""
    try:
        os.close(open_directory(directory))
        return owner_of(directory.lstat()) == os.geteuid()
    except (OSError, GridwrightError):
        return False


def _lives(marker: Path) -> bool:
    try:
        alive = is_alive(json.loads(marker.read_text())["process"])
        if alive is None:
            signs = [file for file in (marker, marker.parent / _ALIVE) if file.exists()]
            return time.time() - max(file.stat().st_mtime for file in signs) < DEAD_S
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # Another command has just removed it, or is making it.
        return True
    return alive


_TICK_S = 0.2
Asked = TypeVar("Asked")


class NodeJob(Generic[Asked]):
    """A job on a node: its loop, and whether it was told to stop."""

    def __init__(self, request: Asked, exchange: ExchangeDirectory, name: str) -> None:
        self.request = request
        self.exchange = exchange
        self.name = name
        self.node = socket.gethostname()
        self.selector = selectors.DefaultSelector()
        self.stopped = False
        self._heartbeat = Heartbeat(exchange.path)

    def say(self, event: WorkloadEvent) -> None:
        """Tell the coordinator something; without a coordinator the job ends soon."""
        with contextlib.suppress(OSError):
            self.exchange.append(self.name, EVENTS, WORKLOAD_EVENTS.plain(event))

    def turn(self) -> None:
        """Wait a moment for what happens."""
        for key, _ in self.selector.select(_TICK_S):
            key.data()
        if self._heartbeat.lost():
            self.stopped = True

    def heed_orders(self) -> None:
        """Have SIGTERM and its like stop the job in order, and orphans end here."""
        adopt_orphans()
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._ordered)
        self.selector.register(wake_read, selectors.EVENT_READ, lambda: os.read(wake_read, 512))

    def _ordered(self, *_: object) -> None:
        self.stopped = True


def serve(kind: type[Asked], work: Callable[[NodeJob[Asked]], object]) -> None:
    """Do what the request in argument 1 asks for, and write what came of it."""
    path = Path(sys.argv[1])
    exchange, name = ExchangeDirectory(path.parent), path.name.removesuffix(REQUEST)
    try:
        if exchange.file(name, RESULT).exists():
            return
        job = NodeJob(decode(path.read_bytes(), kind), exchange, name)
        job.heed_orders()
        exchange.append(name, STARTED, JobStart(job.node, time.time(), os.getpid()))
    except FileNotFoundError:
        # The run is over.
        return
    except MessageError as error:
        sys.exit(f"{path.name} is not as agreed: {error}: install the same gridwright on all nodes")
    result = work(job)
    with contextlib.suppress(FileNotFoundError):
        exchange.write(name, RESULT, result)
