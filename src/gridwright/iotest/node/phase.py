"""One phase on one node of several: prepared, held until the coordinator lets all nodes go, reported live."""

from __future__ import annotations

import queue
import threading
import time

from gridwright.interference.watch import LoadWatch
from gridwright.iotest.client_view import ClientView
from gridwright.iotest.drive import Driven, Stalled, drive
from gridwright.iotest.engine import Phase
from gridwright.iotest.messages import Armed, Report, RunPhase, Started
from gridwright.iotest.node.link import NodeLink
from gridwright.iotest.options import IotestOptions
from gridwright.runs.iotest_events import Progress
from gridwright.runs.samples import Measured

GO_S = 300.0
"""How long a node that is prepared waits for the others; the coordinator gives up on them earlier."""
_LOOK_S = 0.002
_UNARMED_S = 2.0


class NodePhase:
    """Runs the phase that an order describes."""

    def __init__(
        self, order: RunPhase, options: IotestOptions, link: NodeLink, stop: threading.Event
    ) -> None:
        self._order = order
        self._options = options
        self._link = link
        self._stop = stop
        self._phase: Phase | None = None
        self._watch: LoadWatch
        self._samples: list[Measured] = []
        self._sent = 0.0

    def run(self, device: str | None, watch: LoadWatch, client: ClientView | None = None) -> Driven:
        """Run it to its end. Raises Stalled, OSError, and CoordinatorGone."""
        self._watch = watch
        self._link.finish.clear()
        self._drop_old_go()
        driven = drive(
            self._order.plan,
            self._options,
            device=device,
            watch=watch,
            client=client,
            live=self._take,
            stop=self._stop,
            gate=self._gate,
        )
        if self._samples:
            self._report(None)
        return driven

    def _drop_old_go(self) -> None:
        try:
            while True:
                self._link.go.get_nowait()
        except queue.Empty:
            return

    def _gate(self, phase: Phase) -> None:
        """Say when the streams are prepared, and let them go at the moment that the coordinator names."""
        self._phase = phase
        deadline = time.monotonic() + self._options.stall_s
        while not phase.armed():
            if phase.wait(_LOOK_S):
                # A stream could not prepare; its failure is in the result.
                return
            if self._stop.is_set():
                phase.stop(discard=True)
                return
            if time.monotonic() > deadline:
                phase.stop(discard=False)
                raise Stalled(self._options.stall_s, hung=not phase.wait(_UNARMED_S))
        self._watch.look()
        self._link.send(Armed(re=self._order.id))
        at = self._moment()
        if at is None:
            phase.stop(discard=True)
            return
        while (left := at - time.monotonic()) > 0 and not self._stop.is_set():
            time.sleep(min(left, 0.05))
        phase.open()
        while not (elapsed := phase.progress().elapsed_s) and not phase.wait(0.0005):
            pass
        self._link.send(Started(time.monotonic() - elapsed, re=self._order.id))

    def _moment(self) -> float | None:
        """When to start, by this node's clock; None if there will be no start."""
        deadline = time.monotonic() + GO_S
        while not self._stop.is_set() and time.monotonic() < deadline:
            try:
                return self._link.go.get(timeout=0.02)
            except queue.Empty:
                continue
        return None

    def _take(self, live: Measured | Progress) -> None:
        """Collect samples, and send them with the progress, no more often than was asked for."""
        if isinstance(live, Measured):
            self._samples.append(live)
            return
        if self._link.finish.is_set() and self._phase is not None:
            self._phase.finish()
        if time.monotonic() - self._sent >= self._order.report_s:
            self._report(live)

    def _report(self, progress: Progress | None) -> None:
        self._sent = time.monotonic()
        samples, self._samples = self._samples, []
        self._link.send(Report(samples, progress, re=self._order.id))
