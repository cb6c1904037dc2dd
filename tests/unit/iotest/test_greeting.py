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
from gridwright.services.connections import listen_on
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


@pytest.mark.root
def test_silent_strangers_take_no_more_than_so_many_files_and_are_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "_STRANGERS", 4)
    monkeypatch.setattr(coordinator, "_TELL_S", 1.0)
    told: list[IotestEvent] = []
    listener = listen_on("127.0.0.1")
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

    with silent_connections(listener.getsockname()[1], 40):
        asyncio.run(gather())
    assert max(greeted) <= 2 * (1 + 4), "those that end have their files until the loop comes to them"
    assert "a connection was refused: " in (test.nodes["node1"].failure or "")
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


class ComesBehind(Comes):
    """A launcher whose worker comes when the strangers are there, who come again when they are shut."""

    def __init__(self, port: int, strangers: ExitStack) -> None:
        self._port = port
        self._strangers = strangers

    def start(
        self, commands: Mapping[str, Sequence[str]], logs: Path, inputs: Mapping[str, bytes] | None = None
    ) -> None:
        self.of_this_user = self._strangers.enter_context(socket.create_connection(("127.0.0.1", self._port)))
        self._strangers.enter_context(silent_connections(self._port, 1500, again=True))
        super().start(commands, logs, inputs)


@pytest.mark.root
def test_a_user_of_this_machine_who_connects_again_and_again_shuts_no_node_out(tmp_path: Path) -> None:
    """Nor does it have anybody shut who came before: those of one user make room for each other."""
    listener = listen_on("127.0.0.1")
    here: list[str] = []
    with ExitStack() as strangers:
        launcher = ComesBehind(listener.getsockname()[1], strangers)
        limits = Limits(gather_s=60.0, greet_s=60.0)
        fleet = Fleet(
            [GridNode("node1")], launcher, lambda: (listener, "127.0.0.1"), secrets=None, limits=limits
        )
        test = Coordinator(fleet, threading.Event(), tmp_path, lambda _: None)

        async def gather() -> None:
            async with test:
                here.extend(node.name for node in test.here)
                with pytest.raises(BlockingIOError):
                    launcher.of_this_user.recv(1, socket.MSG_DONTWAIT)

        asyncio.run(gather())
    launcher.worker.wait(20)
    assert here == ["node1"]
