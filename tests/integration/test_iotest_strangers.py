"""Strangers on the network of a test: they hear nothing, change nothing, and are not let in."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gridwright.errors import ExitStatus
from gridwright.iotest.coordinator.coordinator import Authority, HandedOver
from gridwright.iotest.wire import node_context
from gridwright.runs.iotest_events import SampleTaken
from gridwright.runs.records import IotestRecord
from tests.support.fleet import GridTest, LocalLauncher
from tests.support.proxy import Proxy

MIB = 1 << 20


@pytest.fixture
def library(tmp_path: Path) -> Path:
    directory = tmp_path / "library-of-the-test"
    directory.mkdir()
    return directory


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy() as proxy:
        yield proxy


class Tapped(LocalLauncher):
    """Has node2 reach its coordinator through a proxy."""

    def __init__(self, proxy: Proxy) -> None:
        super().__init__()
        self._proxy = proxy
        self.port = 0

    def start(
        self, commands: Mapping[str, Sequence[str]], logs: Path, inputs: Mapping[str, bytes] | None = None
    ) -> None:
        command = list(commands["node2"])
        at = command.index("--connect") + 1
        self.port = int(command[at].rpartition(":")[2])
        command[at] = f"127.0.0.1:{self._proxy.to(self.port)}"
        super().start({**commands, "node2": command}, logs)


def tapped(test: GridTest, proxy: Proxy) -> GridTest:
    test.launcher = Tapped(proxy)
    test._fleet = replace(test._fleet, launcher=test.launcher)
    return test


def lost(record: IotestRecord) -> list[str]:
    return [finding.text for finding in record.findings if finding.name == "node-lost"]


def during_write(test: GridTest, act: Callable[[], None]) -> None:
    test.seen.when(lambda event: isinstance(event, SampleTaken) and event.op == "write", act)


def test_who_listens_learns_nothing(tmp_path: Path, library: Path, proxy: Proxy) -> None:
    test = tapped(GridTest(tmp_path, library), proxy)
    record, status = test(size_bytes=MIB)
    assert status == ExitStatus.DONE, record.findings
    (kernel,) = {node.kernel for node in record.nodes}
    assert kernel is not None
    words = ["phase", "stream", "result", "elapsed_s", "say", "node2", library.name, kernel, "BEGIN"]
    for direction, heard in proxy.heard.items():
        assert len(heard) > 2000, direction
        assert [word for word in words if word.encode() in heard] == [], direction


def flip_once(direction: str, proxy: Proxy) -> Callable[[], None]:
    """Change one bit of the next bytes that go in a direction."""
    done = threading.Event()

    def change(way: str, _before: int, data: bytes) -> bytes:
        if way != direction or done.is_set():
            return data
        done.set()
        return data[:-1] + bytes([data[-1] ^ 1])

    def begin() -> None:
        proxy.change = change

    return begin


def repeat_once(direction: str, proxy: Proxy) -> Callable[[], None]:
    """Send the next bytes that go in a direction twice."""
    done = threading.Event()

    def change(way: str, _before: int, data: bytes) -> bytes:
        if way != direction or done.is_set():
            return data
        done.set()
        return data + data

    def begin() -> None:
        proxy.change = change

    return begin


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("meddle", "direction"),
    [
        (flip_once, "up"),
        (repeat_once, "down"),
        pytest.param(flip_once, "down", marks=pytest.mark.thorough),
        pytest.param(repeat_once, "up", marks=pytest.mark.thorough),
    ],
)
def test_who_changes_or_repeats_bytes_ends_that_connection_and_no_more(
    tmp_path: Path,
    library: Path,
    proxy: Proxy,
    meddle: Callable[[str, Proxy], Callable[[], None]],
    direction: str,
) -> None:
    test = tapped(GridTest(tmp_path, library), proxy)
    during_write(test, meddle(direction, proxy))
    record, status = test(seconds=2.0, phases=("write",))
    assert status == ExitStatus.ENVIRONMENT
    (said,) = lost(record)
    assert said.startswith(
        "node node2 was lost: its connection does not hold: what came is not what was sent ("
    )
    assert "bad record mac" in said
    assert [node.status for node in record.libraries[0].phases[0].nodes] == ["complete", "failed", "complete"]
    assert list(library.iterdir()) == []


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("direction", "at"),
    [
        ("up", 900),
        ("down", 12),
        pytest.param("up", 40, marks=pytest.mark.thorough),
        pytest.param("down", 300, marks=pytest.mark.thorough),
    ],
)
def test_who_changes_bytes_of_the_handshake_keeps_the_node_out_and_no_more(
    tmp_path: Path, library: Path, proxy: Proxy, direction: str, at: int
) -> None:
    def change(way: str, before: int, data: bytes) -> bytes:
        where = at - before
        if way != direction or not 0 <= where < len(data):
            return data
        return data[:where] + bytes([data[where] ^ 4]) + data[where + 1 :]

    proxy.change = change
    test = tapped(GridTest(tmp_path, library), proxy)
    record, status = test(size_bytes=MIB, phases=("write",))
    assert status == ExitStatus.ENVIRONMENT
    assert len(lost(record)) == 1
    assert "is out of reach: " in test.log("node2")
    assert [node.status for node in record.libraries[0].phases[0].nodes] == ["complete", "failed", "complete"]


def said_to(port: int, first: bytes) -> bytes:
    """What the coordinator says to one who says this."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as stranger:
        stranger.sendall(first)
        heard = b""
        try:
            while data := stranger.recv(1 << 16):
                heard += data
        except ConnectionResetError:
            pass
        return heard


def welcomed(port: int, context: ssl.SSLContext) -> bool:
    """Whether one who knows TLS is told anything."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="coordinator") as tls:
                tls.sendall(b'\0\0\0\x10{"say": "hello"}')
                return bool(tls.recv(1))
        except OSError:
            return False


def test_who_has_no_certificate_of_the_test_is_not_let_in_and_it_goes_on(
    tmp_path: Path, library: Path, proxy: Proxy
) -> None:
    test = tapped(GridTest(tmp_path, library), proxy)
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname, bare.verify_mode = False, ssl.CERT_NONE
    foreign = node_context(HandedOver(Authority(), tmp_path / "foreign", ["node1"]).file_of("node1"))
    foreign.check_hostname, foreign.verify_mode = False, ssl.CERT_NONE
    let_in: list[bool] = []
    heard: list[bytes] = []

    def knock() -> None:
        assert isinstance(test.launcher, Tapped)
        port = test.launcher.port
        let_in.extend(welcomed(port, context) for context in (bare, foreign))
        heard.append(said_to(port, b"GET / HTTP/1.1\r\n\r\n"))
        # All that node2 has said, once more.
        heard.append(said_to(port, bytes(proxy.heard["up"])))

    knocking = threading.Thread(target=knock)
    during_write(test, knocking.start)
    record, status = test(seconds=2.0)
    knocking.join(30)
    assert status == ExitStatus.DONE, record.findings
    assert {finding.name for finding in record.findings} <= {"disturbed"}
    assert let_in == [False, False]
    plain, replayed = heard
    assert len(plain) < 100
    assert b"{" not in plain
    assert len(replayed) < 4000, "the coordinator's part of a handshake, and an alert"
    for phase in record.libraries[0].phases:
        assert [node.status for node in phase.nodes] == ["complete"] * 3


def test_a_node_is_who_its_certificate_says_it_is(tmp_path: Path, library: Path) -> None:
    class Pretending(LocalLauncher):
        def start(
            self, commands: Mapping[str, Sequence[str]], logs: Path, inputs: Mapping[str, bytes] | None = None
        ) -> None:
            own = {node: list(command) for node, command in commands.items()}
            # node2 says that it is node1, whom nobody starts.
            own["node2"][-1] = "node1"
            del own["node1"]
            super().start(own, logs)

    test = GridTest(tmp_path, library)
    test.launcher = Pretending()
    limits = replace(test._fleet.limits, gather_s=8.0)
    test._fleet = replace(test._fleet, launcher=test.launcher, limits=limits)
    record, status = test(size_bytes=MIB)
    assert status == ExitStatus.ENVIRONMENT
    assert [text.partition(":")[0] for text in lost(record)] == ["node node1 was lost"]
    assert [node.status for node in record.libraries[0].phases[0].nodes] == ["failed", "complete", "complete"]
