"""Connections of a service stay below its limit of open files, and a flood keeps nobody out."""

from __future__ import annotations

import errno
import http.client
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from gridwright.services.connections import LOCAL, Bounds, Listener
from gridwright.services.listening import ListeningChoice, listening_of
from tests.support.as_user import ALICE, MALLORY, as_user
from tests.support.command import GRIDWRIGHT
from tests.support.strangers import flood, silent_connections

FILES = 96
"""Descriptors of the service, where a flood has 600."""
REQUESTS = 8
"""Each waits behind a thousand connections, which take the service a second or more of one core."""


@contextmanager
def console(place: Path, files: int) -> Iterator[tuple[int, str, subprocess.Popen[str], Path]]:
    """The real one, which may have so many descriptors: port, token, process and log."""
    log = place / "log"
    limited = ["prlimit", f"--nofile={files}:{files}", GRIDWRIGHT]
    with log.open("wb") as error:
        process = subprocess.Popen(
            [*limited, "console", "--port", "0", "--runs", str(place / "runs")], cwd=place,
            stdout=subprocess.PIPE, stderr=error, stdin=subprocess.DEVNULL, text=True,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r":(\d+)/\?token=(\S+)", line)
        assert found is not None, line + log.read_text()
        yield int(found[1]), found[2], process, log
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.root
@pytest.mark.parametrize("again", [False, True], ids=["once", "again-and-again"])
def test_a_flood_beyond_the_limit_of_open_files_keeps_no_request_out(tmp_path: Path, again: bool) -> None:
    with console(tmp_path, FILES) as (port, token, process, log), silent_connections(port, 600, again=again):
        for _ in range(REQUESTS):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/api/about", headers={"Authorization": f"Bearer {token}"})
            assert connection.getresponse().status == 200
            connection.close()
        of_process = psutil.Process(process.pid)
        assert of_process.num_fds() <= FILES
        used, began = sum(of_process.cpu_times()[:2]), time.monotonic()
        time.sleep(1)
        if not again:
            busy = (sum(of_process.cpu_times()[:2]) - used) / (time.monotonic() - began)
            assert busy < 0.5, "it accepts in a busy loop"
        assert log.read_text() == ""


BEGUN = "GET /api/about HTTP/1.1\r\nHost: localhost\r\nX: "
WHOLE = "GET /api/about HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.root
@pytest.mark.parametrize(
    ("says", "files"),
    [
        pytest.param(BEGUN, 4096, id="a-part"),
        *(
            pytest.param(says, files, id=f"{name}-{files}", marks=pytest.mark.thorough)
            for name, says, files in (
                ("nothing", "", 4096),
                ("without-token", WHOLE, 4096),
                ("nothing", "", FILES),
                ("a-part", BEGUN, FILES),
                ("without-token", WHOLE, FILES),
            )
        ),
    ],
)
def test_a_user_who_floods_has_none_of_another_users_requests_shut(
    tmp_path: Path, says: str, files: int
) -> None:
    with console(tmp_path, files) as (port, token, _, log), flood(port, says):

        def alice() -> None:
            for _ in range(REQUESTS):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                connection.request("GET", "/api/about", headers={"Authorization": f"Bearer {token}"})
                assert connection.getresponse().status == 200
                connection.close()

        as_user(ALICE, alice)
        assert log.read_text() == ""


@pytest.mark.root
def test_users_of_one_machine_are_counted_by_themselves_whatever_their_address() -> None:
    def connects(where: tuple[str, int], of: str, stays: bool) -> None:
        with socket.create_connection(where, timeout=20, source_address=(of, 0)) as made:
            assert not stays or made.recv(1) == b""

    with listening_of(ListeningChoice(port=0)).bind(Bounds(64, 64, 60.0, 60.0)) as listener:
        where = listener.getsockname()
        peers = []
        for user, of in ((ALICE, "127.0.0.1"), (MALLORY, "127.0.0.1"), (MALLORY, "127.9.0.1")):
            open_one = threading.Thread(target=as_user, args=(user, lambda of=of: connects(where, of, True)))
            open_one.start()
            with listener.accept()[0] as accepted:
                peers.append(accepted.peer)
            open_one.join()
        assert peers == [f"user {ALICE}", f"user {MALLORY}", f"user {MALLORY}"]
        for of in ("127.0.0.1", "127.9.0.1"):
            as_user(MALLORY, lambda of=of: connects(where, of, False))  # type: ignore[misc]
            with listener.accept()[0] as accepted:
                assert accepted.peer == LOCAL, "what was closed is root's for the kernel"


def test_bounds_leave_descriptors_for_files() -> None:
    code = (
        "import resource, sys\n"
        "from gridwright.services.connections import Bounds, within_descriptors\n"
        "soft, hard = map(int, sys.argv[1:])\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))\n"
        "found = within_descriptors(Bounds(512, 64, 1.0, 1.0))\n"
        "print(found.in_all, found.of_one_peer, resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n"
    )

    def limits(soft: int, hard: int) -> list[int]:
        command = [sys.executable, "-P", "-c", code, str(soft), str(hard)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return [int(each) for each in done.stdout.split()]

    in_all, of_one, raised = limits(64, 4096)
    assert (in_all, of_one) == (512, 64)
    assert 1024 < raised < 4096, "as far as needed"
    for hard in (32, 96, 256, 1024):
        in_all, of_one, raised = limits(32, hard)
        assert raised == hard
        assert 1 <= of_one <= in_all
        assert 2 * in_all <= hard - min(256, hard // 2)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ECONNABORTED])
def test_an_error_of_accepting_is_an_aborted_connection_after_a_pause(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fails(self: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Listener, "_accept", fails)
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    listening = listening_of(ListeningChoice(port=0))
    with listening.bind(Bounds(4, 4, 1.0, 1.0)) as listener, pytest.raises(ConnectionAbortedError):
        listener.accept()
    assert len(pauses) == 1
    assert pauses[0] > 0


def test_who_has_asked_makes_no_room() -> None:
    """The event loop accepts many before it reads of any: the owner's request waits in the kernel then."""
    with listening_of(ListeningChoice(port=0)).bind(Bounds(4, 4, 60.0, 60.0)) as listener:
        where = listener.getsockname()
        with socket.create_connection(where) as owner:
            owner.sendall(b"GET / HTTP/1.1\r\n\r\n")
            accepted, _ = listener.accept()
            silent = [socket.create_connection(where) for _ in range(20)]
            others: list[socket.socket] = []
            while len(others) < 20:
                try:
                    others.append(listener.accept()[0])
                except ConnectionAbortedError:
                    for each in list(listener.ending):
                        each.close()
            assert accepted.recv(100)
            accepted.sendall(b"answer")
            assert owner.recv(10) == b"answer"
            for one in (*silent, *others, accepted):
                one.close()
            assert not listener.ending
