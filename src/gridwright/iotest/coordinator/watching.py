"""Watches over the nodes of a test: who is silent for too long is lost, and told with the cause at once."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping

from gridwright.errors import Finding
from gridwright.iotest.coordinator.blame import Blame
from gridwright.iotest.coordinator.heartbeats import PING_EVERY_S, SilenceJudge, cpu_pressure
from gridwright.iotest.coordinator.remote_node import RemoteNode
from gridwright.iotest.events import Emit

_LOOK_S = 0.5


class FleetWatch:
    """Has every node show that it lives, and gives up on those that do not; `run` goes on until cancelled."""

    def __init__(
        self, nodes: Mapping[str, RemoteNode], judge: SilenceJudge, blame: Blame, emit: Emit
    ) -> None:
        self._nodes = nodes
        self._judge = judge
        self._blame = blame
        self._emit = emit

    async def run(self) -> None:
        """Ping all nodes, and judge their silence."""
        woke = time.monotonic()
        while True:
            await asyncio.sleep(PING_EVERY_S)
            now, before = time.monotonic(), woke
            woke = now
            here = [node for node in self._nodes.values() if node.here]
            beats = [node.beats for node in here]
            self._judge.woke(beats, now, late_s=now - before - PING_EVERY_S, pressure=cpu_pressure())
            self._give_up(here, now)
            for node in here:
                node.ping()

    def _give_up(self, here: list[RemoteNode], now: float) -> None:
        """Give up on the nodes that are lost: their silence says so, or somebody who knows for certain."""
        suspects = [node.name for node in here if self._judge.is_suspect(node.beats, now)]
        if suspects:
            # What took one may have taken all that missed a beat.
            self._blame.begin([node.name for node in here if now - node.beats.heard > 2 * PING_EVERY_S])
        for node in here:
            known = node.name in suspects and self._blame.is_certain(node.name)
            # Who is silent is told with the cause; looking for that has a limit of time.
            if (known or self._judge.is_lost(node.beats, now)) and not self._blame.looks:
                node.fail(self._judge.verdict(node.beats, now))

    async def tell_as_it_happens(self, stop: threading.Event) -> None:
        """Name each node that is lost, soon, with its cause before it; not when the user ends the test."""
        while not stop.is_set():
            await asyncio.sleep(_LOOK_S)
            if news := self._news():
                await self._blame.settle([node.name for node in news])
                self.tell_of_lost()

    def tell_of_lost(self) -> None:
        """Name every node that is lost, once, and before them what they were lost by."""
        news = self._news()
        self._blame.tell_for([node.name for node in news])
        for node in news:
            node.told = True
            self._emit(_lost(node.name, node.failure or "", self._blame.of(node.name)))

    def _news(self) -> list[RemoteNode]:
        return [node for node in self._nodes.values() if node.failure is not None and not node.told]


def _lost(node: str, reason: str, cause: str | None) -> Finding:
    why = f"{cause}; {reason}" if cause else reason
    return Finding(
        "error",
        "node-lost",
        f"node {node} was lost: {why}; its figures are left out",
        "see whether the node is up and reaches this machine, and the log of its job",
    )
