"""What the jobs of a run on several nodes have in common: their request, orders to stop, what they leave.

`python -m gridwright.workload.node_jobs.launch REQUEST.json` and `... .chore REQUEST.json` run on a
node. Each says that it started, does its work, and writes its result. A job that is started again, since its
node was lost after it had written that, has nothing to do.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from gridwright.messages import MessageError, decode
from gridwright.runs.workload_events import WORKLOAD_EVENTS, WorkloadEvent
from gridwright.schedulers.process_tree import adopt_orphans
from gridwright.workload.exchange import EVENTS, REQUEST, RESULT, STARTED, ExchangeDirectory, Heartbeat
from gridwright.workload.messages import JobStart

TICK_S = 0.2
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
        for key, _ in self.selector.select(TICK_S):
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
