"""SIGINT and SIGTERM end a test soon, in every phase, and leave nothing behind."""

from __future__ import annotations

import signal
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from gridwright.runs.directory import load_run
from tests.support.command import Command, Running, wait_until

pytestmark = pytest.mark.alone
SOON_S = 5.0
"""An order to stop is heeded within a second; the rest is for a machine that is busy."""
LATENCIES: list[float] = []
_FSYNC = ("74", "75")
"""fsync(2) and fdatasync(2) in /proc/PID/task/TID/syscall on x86-64."""


@pytest.fixture(scope="module", autouse=True)
def _tell_the_median() -> Any:
    yield
    if LATENCIES:
        worst = max(LATENCIES)
        print(f"\nstopped after {statistics.median(LATENCIES):.2f} s (median), {worst:.2f} s (worst)")  # noqa: T201


def in_phase(op: str) -> Callable[[Running], None]:
    def wait(running: Running) -> None:
        running.says(f"directory: {op} (")
        time.sleep(0.3)

    return wait


def in_closing_fsync(running: Running) -> None:
    worker = running.worker()

    def syncs() -> bool | None:
        for task in Path(f"/proc/{worker.pid}/task").iterdir():
            try:
                if (task / "syscall").read_text().split()[0] in _FSYNC:
                    return True
            except OSError:
                continue
        return None

    running.says("directory: write (")
    wait_until(syncs, seconds=30, what="the closing fsync", last=worker.status)


def stop(running: Running, number: signal.Signals) -> float:
    began = time.monotonic()
    running.signal(number)
    running.process.wait(60)
    took = time.monotonic() - began
    LATENCIES.append(took)
    return took


@pytest.mark.parametrize(
    ("op", "number"),
    [
        pytest.param(op, number, marks=() if quick else pytest.mark.thorough, id=f"{op}-{number.name}")
        for at, op in enumerate(("write", "read", "mixed", "metadata"))
        for number, quick in ((signal.SIGINT, at % 2 == 0), (signal.SIGTERM, at % 2 == 1))
    ],
)
def test_a_phase_can_be_stopped(gridwright: Command, library: Path, op: str, number: signal.Signals) -> None:
    phases = {"write": "write", "read": "write,read", "mixed": "write,mixed", "metadata": "metadata"}[op]
    flags = ("--streams", "2", "--phases", phases, "--json")
    # The phase before it ends by its size, the last by nobody but us.
    size = ("--seconds", "60") if op in {"write", "metadata"} else ("--size", "8MiB")
    if op in {"read", "mixed"}:
        gridwright("iotest", "--directory", library, "--phases", "write", "--keep", "--size", "8MiB")
        flags, size = ("--streams", "2", "--phases", op, "--json"), ("--seconds", "60")
    kept = set(library.iterdir())
    with gridwright.start("iotest", "--directory", library, *flags, *size) as running:
        in_phase(op)(running)
        workers = running.workers()
        took = stop(running, number)
        ended = running.end()
    assert ended.status == 130, ended.err
    assert took < SOON_S, f"it took {took:.2f} s to stop in {op}"
    assert set(library.iterdir()) == kept
    assert not any(worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE for worker in workers)
    document = ended.json
    assert document["status"] == "interrupted"
    assert document["met"] is None
    (phase,) = document["libraries"][0]["phases"]
    assert (phase["op"], phase["status"]) == (op, "interrupted")
    run = load_run(Path(document["run"]))
    assert run.run.status == "interrupted"
    assert run.iotest is not None
    assert run.iotest.libraries[0].phases[0].bytes == phase["bytes"]


def test_the_phases_before_the_interrupt_are_kept(gridwright: Command, library: Path) -> None:
    flags = ("--phases", "write,read,metadata", "--size", "4MiB", "--json", "--requires", "1kB/s/core")
    with gridwright.start("iotest", "--directory", library, *flags) as running:
        in_phase("metadata")(running)
        stop(running, signal.SIGINT)
        ended = running.end()
    assert ended.status == 130
    phases = ended.json["libraries"][0]["phases"]
    assert [(phase["op"], phase["status"]) for phase in phases] == [
        ("write", "complete"),
        ("read", "complete"),
        ("metadata", "interrupted"),
    ]
    assert phases[1]["rate_last_bytes_per_s"] > 0
    assert list(library.iterdir()) == []


@pytest.mark.parametrize(
    "number",
    [pytest.param(signal.SIGINT, marks=pytest.mark.thorough), signal.SIGTERM],
    ids=lambda number: number.name,
)
def test_the_closing_fsync_can_be_stopped(gridwright: Command, library: Path, number: signal.Signals) -> None:
    flags = ("--size", "1GiB", "--streams", "1", "--phases", "write", "--json")
    # A signal that comes when the fsync has just ended proves nothing.
    for _ in range(5):
        with gridwright.start("iotest", "--directory", library, *flags) as running:
            in_closing_fsync(running)
            took = stop(running, number)
            ended = running.end()
        assert took < SOON_S, f"it took {took:.2f} s to stop in the closing fsync"
        assert list(library.iterdir()) == []
        if ended.status != 0:
            break
    assert ended.status == 130, ended.err
    (phase,) = ended.json["libraries"][0]["phases"]
    assert phase["status"] == "interrupted"
    assert phase["rate_last_bytes_per_s"] is None, "what was never durable has no rate"


def test_the_libraries_after_an_interrupt_are_not_begun(gridwright: Command, tmp_path: Path) -> None:
    for name in ("data", "work"):
        (tmp_path / name).mkdir()
    spec = tmp_path / "grid.yaml"
    spec.write_text(
        f"name: two\nfilesystems:\n  disk: {{type: local, path: {tmp_path}}}\n"
        "libraries:\n  data: {filesystem: disk}\n  work: {filesystem: disk}\n"
    )
    flags = ("--skip", "workload", "--seconds", "60", "--phases", "write", "--json")
    with gridwright.start("prove", spec, *flags) as running:
        running.says("data: write (")
        time.sleep(0.3)
        took = stop(running, signal.SIGINT)
        ended = running.end()
    assert ended.status == 130, ended.err
    assert took < SOON_S + 2, f"with its report it took {took:.2f} s"
    document = ended.json
    assert [library["library"] for library in document["iotest"]["libraries"]] == ["data"]
    assert document["workload"] is None
    assert Path(document["report"]).stat().st_size > 1000
    assert [list((tmp_path / name).iterdir()) for name in ("data", "work")] == [[], []]


def test_a_second_interrupt_ends_the_command_at_once(gridwright: Command, library: Path) -> None:
    with gridwright.start(
        "iotest", "--directory", library, "--seconds", "60", "--phases", "write"
    ) as running:
        running.says("directory: write (")
        worker = running.worker()
        worker.suspend()
        running.signal(signal.SIGINT)
        time.sleep(0.3)
        running.signal(signal.SIGINT)
        time.sleep(0.3)
        worker.resume()
        ended = running.end(30)
    assert ended.status == 130, ended.err
    wait_until(
        lambda: True if not list(library.iterdir()) else None,
        seconds=20,
        what="an empty library",
        last=lambda: list(library.rglob("*")),
    )
