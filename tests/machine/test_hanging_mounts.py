"""A file system that does not answer hangs a worker, never the command."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from gridwright.errors import ExitStatus, Problem
from gridwright.iotest.drive import _STOP_S
from gridwright.iotest.options import IotestOptions, LibraryTarget
from gridwright.iotest.recorded import Session
from gridwright.runs import worker_process
from gridwright.runs.iotest_events import IOTEST_EVENTS, IotestEvent, PhaseDone
from tests.support.command import Command
from tests.support.disks import loop_mount, run, unmount, visible
from tests.support.skips import needs

pytestmark = pytest.mark.root


class Watcher:
    """Keeps the events, and acts when one of a kind comes."""

    def __init__(self, on: str = "", act: Any = None) -> None:
        self.events: list[IotestEvent] = []
        self._on, self._act = on, act

    def take(self, event: IotestEvent) -> None:
        self.events.append(event)
        if IOTEST_EVENTS.plain(event)["event"] == self._on and self._act:
            act, self._act = self._act, None
            act()

    def texts(self) -> list[str]:
        return [event.what for event in self.events if isinstance(event, Problem)]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(worker_process, "SILENCE_S", 3.0)
    monkeypatch.setattr(worker_process, "GRACE_S", 1.0)
    yield
    for child in psutil.Process().children(recursive=True):
        child.kill()
        child.wait(20)


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[Path]:
    """A disk that the test may freeze; it is thawed in any case."""
    with loop_mount(tmp_path, mib=256) as disk:
        yield disk
        subprocess.run(["fsfreeze", "-u", str(disk)], capture_output=True, check=False)
        for child in psutil.Process().children(recursive=True):
            child.kill()
            child.wait(20)


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[tuple[Path, psutil.Process]]:
    """A file system in user space, and the process that may be stopped to make it hang."""
    needs("bindfs")
    below, library = tmp_path / "below", tmp_path / "fuse"
    below.mkdir()
    library.mkdir()
    daemon = subprocess.Popen(["bindfs", "-f", str(below), str(library)])
    deadline = time.monotonic() + 10
    while not os.path.ismount(library) and time.monotonic() < deadline:
        time.sleep(0.05)
    process = psutil.Process(daemon.pid)
    try:
        yield library, process
    finally:
        process.resume()
        for child in psutil.Process().children(recursive=True):
            if child.pid != daemon.pid:
                child.kill()
                child.wait(20)
        unmount(library)
        daemon.wait(10)


def test_session(
    library: Path,
    tmp_path: Path,
    watcher: Watcher,
    options: IotestOptions,
    stop: threading.Event | None = None,
) -> tuple[ExitStatus, float]:
    """Test one library as the command does; returns the status and how long it took."""
    target = LibraryTarget("work", str(library), None, None, cores=2)
    logs = tmp_path / "logs"
    logs.mkdir(exist_ok=True)
    began = time.monotonic()
    status = Session([watcher], logs, stop or threading.Event()).run([target], options)
    return status, time.monotonic() - began


test_session.__test__ = False  # type: ignore[attr-defined]
OPTIONS = IotestOptions(seconds=60, stall_s=2.0, phases=("write",))


def freeze(disk: Path) -> Any:
    """Freeze it once the phase has begun to write."""

    def act() -> None:
        time.sleep(0.5)
        run("fsfreeze", "-f", disk)

    return act


def test_a_disk_that_freezes_in_the_middle_of_a_phase(frozen: Path, tmp_path: Path) -> None:
    watcher = Watcher("phase", freeze(frozen))
    status, took = test_session(frozen, tmp_path, watcher, OPTIONS)
    assert status == ExitStatus.ENVIRONMENT
    (text,) = watcher.texts()
    assert "library work: the file system does not answer" in text
    assert took < 40
    problem = next(event for event in watcher.events if isinstance(event, Problem))
    assert problem.where == str(frozen)
    assert problem.remedy
    run("fsfreeze", "-u", frozen)


def test_a_frozen_disk_is_noticed_while_other_disks_are_busy(frozen: Path, tmp_path: Path) -> None:
    """Pages that others dirty must not be taken for a sign of life."""
    busy = threading.Event()

    def write_elsewhere() -> None:
        with (tmp_path / "elsewhere").open("wb", buffering=0) as file:
            while not busy.is_set():
                file.write(b"x" * (256 << 10))
                time.sleep(0.02)

    thread = threading.Thread(target=write_elsewhere)
    thread.start()
    try:
        status, took = test_session(frozen, tmp_path, Watcher("phase", freeze(frozen)), OPTIONS)
    finally:
        busy.set()
        thread.join()
        run("fsfreeze", "-u", frozen)
    assert status == ExitStatus.ENVIRONMENT
    assert took < 40


def test_an_fsync_that_hangs_is_noticed_while_others_write(tmp_path: Path) -> None:
    """What holds the image of the library's disk freezes: blocks fit into memory, and none gets out of it."""
    done = threading.Event()

    def write_elsewhere() -> None:
        with (tmp_path / "elsewhere").open("wb", buffering=0) as file:
            while not done.is_set():
                file.write(b"x" * (256 << 10))
                time.sleep(0.02)

    with loop_mount(tmp_path, mib=256) as outer, loop_mount(outer, mib=128) as inner:
        thread = threading.Thread(target=write_elsewhere)
        thread.start()
        try:
            watcher = Watcher("phase", partial(run, "fsfreeze", "-f", outer))
            options = replace(OPTIONS, seconds=None, size_bytes=16 << 20, streams=1, engine="buffered")
            status, took = test_session(inner, tmp_path, watcher, options)
        finally:
            done.set()
            thread.join()
            run("fsfreeze", "-u", outer)
            for child in psutil.Process().children(recursive=True):
                child.kill()
                child.wait(20)
    assert status == ExitStatus.ENVIRONMENT
    (text,) = watcher.texts()
    assert "library work: the file system does not answer" in text
    assert took < 40


def test_an_fsync_that_hangs_does_not_hold_an_order_to_stop_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "GRACE_S", 9.0)
    stop = threading.Event()
    with loop_mount(tmp_path, mib=256) as outer, loop_mount(outer, mib=128) as inner:
        asked: list[float] = []

        def stop_it() -> None:
            asked.append(time.monotonic())
            stop.set()

        def hang() -> None:
            run("fsfreeze", "-f", outer)
            threading.Timer(2.0, stop_it).start()

        options = replace(OPTIONS, seconds=None, size_bytes=16 << 20, streams=1, stall_s=60.0)
        try:
            status, _ = test_session(inner, tmp_path, Watcher("phase", hang), options, stop)
            took = time.monotonic() - asked[0]
        finally:
            run("fsfreeze", "-u", outer)
            for child in psutil.Process().children(recursive=True):
                child.kill()
                child.wait(20)
    assert status == ExitStatus.INTERRUPTED
    # Neither the time that any stream may take to stop, nor that which any worker may take to end.
    assert took < worker_process.GRACE_S < _STOP_S, took


def test_a_disk_that_is_frozen_from_the_start(frozen: Path, tmp_path: Path) -> None:
    run("fsfreeze", "-f", frozen)
    watcher = Watcher()
    status, took = test_session(frozen, tmp_path, watcher, OPTIONS)
    assert status == ExitStatus.ENVIRONMENT
    assert watcher.texts() == ["library work: the file system does not answer: its worker hangs"]
    assert took < 40
    run("fsfreeze", "-u", frozen)


def test_a_file_system_whose_daemon_stops(stopped: tuple[Path, psutil.Process], tmp_path: Path) -> None:
    library, daemon = stopped
    watcher = Watcher("progress", daemon.suspend)
    status, took = test_session(library, tmp_path, watcher, OPTIONS)
    assert status == ExitStatus.ENVIRONMENT
    assert all("library work: the file system does not answer" in text for text in watcher.texts())
    assert watcher.texts()
    assert took < 60


@pytest.mark.alone  # a worker that gets no core for three seconds would be told as silent
def test_a_hanging_file_system_can_be_interrupted(
    stopped: tuple[Path, psutil.Process], tmp_path: Path
) -> None:
    library, daemon = stopped
    stop = threading.Event()

    def hang_and_interrupt() -> None:
        daemon.suspend()
        stop.set()

    watcher = Watcher("progress", hang_and_interrupt)
    options = IotestOptions(seconds=60, phases=("write",))
    status, took = test_session(library, tmp_path, watcher, options, stop)
    assert status == ExitStatus.INTERRUPTED
    assert took < 40


@pytest.mark.alone  # a worker that gets no core for three seconds would be told as silent
def test_the_library_after_a_hanging_one_is_still_tested(
    stopped: tuple[Path, psutil.Process], tmp_path: Path
) -> None:
    library, daemon = stopped
    other = tmp_path / "other"
    other.mkdir()
    daemon.suspend()
    watcher = Watcher()
    logs = tmp_path / "logs"
    logs.mkdir()
    targets = [
        LibraryTarget("data", str(library), None, None, cores=2),
        LibraryTarget("work", str(other), None, None, cores=2),
    ]
    options = IotestOptions(size_bytes=1 << 20, phases=("write",))
    status = Session([watcher], logs, threading.Event()).run(targets, options)
    assert status == ExitStatus.ENVIRONMENT
    assert [event.phase.status for event in watcher.events if isinstance(event, PhaseDone)] == ["complete"]
    assert visible(other) == []


@pytest.mark.alone  # a worker that gets no core for three seconds would be told as silent
def test_a_file_system_whose_daemon_died(stopped: tuple[Path, psutil.Process], tmp_path: Path) -> None:
    library, daemon = stopped
    watcher = Watcher("progress", lambda: daemon.send_signal(signal.SIGKILL))
    status, _ = test_session(library, tmp_path, watcher, OPTIONS)
    assert status == ExitStatus.ENVIRONMENT
    assert any("connection is lost" in text for text in watcher.texts()), watcher.texts()


def test_the_command_itself_never_looks_at_the_directory(
    gridwright: Command, stopped: tuple[Path, psutil.Process]
) -> None:
    """A second interrupt ends it at once even here: only its worker hangs."""
    library, daemon = stopped
    daemon.suspend()
    with gridwright.start("iotest", "--directory", library, "--seconds", "1") as running:
        running.worker()
        time.sleep(0.5)
        running.signal(signal.SIGINT)
        time.sleep(0.5)
        running.signal(signal.SIGINT)
        ended = running.end(10)
        daemon.resume()
    assert ended.status == 130
