"""Strangers who connect to the coordinator of a test and say nothing."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from gridwright.grid.nodes import GridNode
from gridwright.iotest.coordinator import coordinator
from gridwright.iotest.coordinator.coordinator import Coordinator, Fleet, Limits
from gridwright.runs.iotest_events import IotestEvent, NodesAwaited
from tests.support.strangers import silent_connections


class NobodyComes:
    """A launcher whose workers never come."""

    def start(
        self, commands: Mapping[str, Sequence[str]], logs: Path, inputs: Mapping[str, bytes] | None = None
    ) -> None:
        """Start nothing."""

    def ended(self) -> dict[str, str]:
        return {}

    def waiting(self) -> dict[str, str]:
        return {"node1": "its job 7 waits: Resources"}

    def stop(self) -> None:
        """Stop nothing."""


def test_silent_strangers_take_no_more_than_so_many_files_and_are_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "_MOST_GREETING", 4)
    monkeypatch.setattr(coordinator, "_TELL_S", 1.0)
    told: list[IotestEvent] = []
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    fleet = Fleet(
        [GridNode("node1")],
        NobodyComes(),
        lambda: (listener, "127.0.0.1"),
        secrets=None,
        limits=Limits(gather_s=3.0, greet_s=1.0),
    )
    test = Coordinator(fleet, threading.Event(), tmp_path, told.append)
    greeted: list[int] = []

    async def look() -> None:
        while True:
            greeted.append(len(test._greeting))
            await asyncio.sleep(0.01)

    async def gather() -> None:
        looking = asyncio.create_task(look())
        async with test:
            looking.cancel()

    with ExitStack() as open_:
        for _ in range(10):
            open_.enter_context(socket.create_connection(listener.getsockname(), timeout=5))
        asyncio.run(gather())
    assert max(greeted) == 4
    assert (test.nodes["node1"].failure or "").endswith("a connection was refused: it was silent")
    awaited = [each.text for each in told if isinstance(each, NodesAwaited)]
    assert set(awaited) == {"waiting for node1 (its job 7 waits: Resources)"}


class Comes(NobodyComes):
    """A launcher of real workers, who come when the strangers are there."""

    def start(
        self, commands: Mapping[str, Sequence[str]], logs: Path, inputs: Mapping[str, bytes] | None = None
    ) -> None:
        """Start the worker of the one node."""
        assert inputs is not None
        self.worker = subprocess.Popen(commands["node1"], stdin=subprocess.PIPE)
        assert self.worker.stdin is not None
        self.worker.stdin.write(inputs["node1"])
        self.worker.stdin.close()


def test_a_node_is_let_in_behind_hundreds_of_silent_strangers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node gives up after 15 s; each stranger could take as many, and so could all that follow it."""
    monkeypatch.setattr(coordinator, "_MOST_GREETING", 64)
    monkeypatch.setattr(coordinator, "_PRESSED_S", 0.3, raising=False)
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    fleet = Fleet(
        [GridNode("node1")],
        launcher := Comes(),
        lambda: (listener, "127.0.0.1"),
        secrets=None,
        limits=Limits(gather_s=30.0),
    )
    test = Coordinator(fleet, threading.Event(), tmp_path, lambda _: None)
    here: list[str] = []

    async def gather() -> None:
        async with test:
            here.extend(node.name for node in test.here)

    with silent_connections(listener.getsockname()[1], 520):
        asyncio.run(gather())
    launcher.worker.wait(20)
    assert here == ["node1"]
