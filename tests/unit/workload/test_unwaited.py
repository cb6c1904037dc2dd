"""CPU time and I/O of processes that nobody waited for count once, and of no other process twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridwright.messages import decode
from gridwright.runs.worker_process import machine, process_facts
from gridwright.workload.launches import control_group, guard
from gridwright.workload.launches.control_group import ControlGroup, remove_stale_groups
from gridwright.workload.launches.guard import (
    IO,
    CpuTime,
    LaunchOutcome,
    Order,
    ProcessCounts,
    Unwaited,
    cpu_clock,
    cpu_unwaited,
    fork_guard,
)
from gridwright.workload.launches.traffic import LaunchTraffic

BURNT_S = 0.8
SIZE = 3_000_000
PROGRAM = """
import os, signal, sys, threading, time

def burn(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until: pass

def child(work):
    if not os.fork():
        work()
        os._exit(0)

def busy():
    open(sys.argv[2], "rb", buffering=0).read()
    burn(0.2)

def all_ended():
    try:
        while True: os.wait()
    except ChildProcessError: pass

def waited():
    for _ in range(4): child(busy)
    all_ended()

def ignored():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    waited()

def no_wait():
    import ctypes
    act = (ctypes.c_char * 152)()  # struct sigaction: a handler, a mask of 128 bytes, flags, a restorer
    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda number: None)
    ctypes.memmove(act, ctypes.addressof(handler), 8)
    ctypes.c_int.from_buffer(act, 136).value = 2  # SA_NOCLDWAIT
    assert ctypes.CDLL(None, use_errno=True).sigaction(signal.SIGCHLD, act, None) == 0
    waited()

def below():
    # Children that are waited for, of one that nobody waits for: lost with it.
    def middle():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        waited()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    child(middle)
    all_ended()

def inherited():
    # What is ignored stays ignored over exec.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.execv(sys.executable, [sys.executable, "-S", "-E", "-c", sys.argv[3], "waited", sys.argv[2]])

def daemons():
    # Four that are left to the guard, and are done before the launch is.
    read, write = os.pipe()
    def leave():
        os.setsid()
        for _ in range(4): child(lambda: (busy(), os.write(write, b"x")))
    child(leave)
    os.wait()
    for _ in range(4): os.read(read, 1)
    time.sleep(0.2)

def threads():
    def each():
        until = time.thread_time() + 0.2
        while time.thread_time() < until: pass
    def work():
        for _ in range(4): open(sys.argv[2], "rb", buffering=0).read()
        all = [threading.Thread(target=each) for _ in range(4)]
        for one in all: one.start()
        for one in all: one.join()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    child(work)
    all_ended()

def reader():
    def work():
        open(sys.argv[2], "rb", buffering=0).read()
        time.sleep(1.0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    child(work)
    all_ended()

globals()[sys.argv[1]]()
"""


@pytest.fixture
def group() -> Iterator[ControlGroup]:
    run = ControlGroup.for_run()
    if run is None:
        pytest.skip("not as root")
    found = run.for_launch(1)
    assert found is not None
    yield found
    run.remove()


def outcome(tmp_path: Path, kind: str, group: ControlGroup | None) -> LaunchOutcome:
    blob = tmp_path / "blob"
    blob.write_bytes(bytes(SIZE))
    command = [sys.executable, "-S", "-E", "-c", PROGRAM, kind, str(blob), PROGRAM]
    order = Order(1, command, dict(os.environ), tmp_path / "work", tmp_path / "util", 1 << 30, 120.0, False)
    traffic = LaunchTraffic.create()
    pid, control, result = fork_guard(order, traffic, group)
    with os.fdopen(result, "rb") as file:
        answer = file.read()
    os.waitpid(pid, 0)
    os.close(control)
    os.close(traffic)
    found = decode(answer, LaunchOutcome)
    assert found.exit_status == 0, found.output
    return found


KINDS = ["waited", "ignored", "no_wait", "below", "inherited", "daemons", "threads"]
WAITED = {"waited", "daemons"}


def check(found: LaunchOutcome, kind: str, least: float = BURNT_S) -> None:
    assert least <= found.user_s + found.system_s < 1.5 * BURNT_S + 0.5
    assert found.read_bytes is not None
    # All four read the file, once each, and Python reads its own start.
    assert found.read_bytes < 5 * SIZE
    assert kind not in WAITED or found.read_bytes >= 4 * SIZE
    assert (found.unwaited_counted is None) == (kind in WAITED), found
    assert (found.unwaited_cpu_s >= 0.5 * least) == (kind not in WAITED), found


@pytest.mark.parametrize("kind", KINDS)
def test_a_control_group_counts_every_process(tmp_path: Path, group: ControlGroup, kind: str) -> None:
    found = outcome(tmp_path, kind, group)
    check(found, kind)
    assert found.unwaited_counted in (None, "control group")


@pytest.mark.parametrize("kind", ["waited", "ignored"])
def test_so_does_a_perf_event_where_there_is_no_group(tmp_path: Path, kind: str) -> None:
    if (clock := cpu_clock(None)) is None:
        pytest.skip("not as root")
    clock.close()
    found = outcome(tmp_path, kind, None)
    check(found, kind, 0.9 * BURNT_S)
    assert found.unwaited_counted in (None, "perf event")


@pytest.mark.parametrize("kind", ["ignored", "below"])
def test_without_either_looks_count_what_they_saw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(guard, "cpu_clock", lambda _: None)
    found = outcome(tmp_path, kind, None)
    # A look may come up to 0.1 s before the end of each, on a busy machine later.
    check(found, kind, 0.25 * BURNT_S)
    assert found.unwaited_counted in (None, "looks")


def test_what_a_process_that_nobody_waits_for_read_is_counted(tmp_path: Path) -> None:
    # It lives for ten looks.
    found = outcome(tmp_path, "reader", None)
    assert found.read_bytes is not None
    assert SIZE <= found.read_bytes < 2 * SIZE


def test_a_guard_whose_own_parent_ignores_sigchld_counts_as_well(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        order = Order(1, ["sh", "-c", "exit 3"], {}, tmp_path / "w", tmp_path / "u", 1 << 30, 60.0, False)
        traffic = LaunchTraffic.create()
        _, control, result = fork_guard(order, traffic, None)
        with os.fdopen(result, "rb") as file:
            found = decode(file.read(), LaunchOutcome)
        os.close(control)
        os.close(traffic)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert found.exit_status == 3
    assert found.user_s + found.system_s > 0.0


def counts(parent: int, cpu_s: float = 0.0, waited_s: float = 0.0, read: int = 0) -> ProcessCounts:
    return ProcessCounts(parent, 1, cpu_s, waited_s, (read, 0, read // 100, 0, 0, 0))


def gone(
    before: dict[int, ProcessCounts], now: dict[int, ProcessCounts], **latest: ProcessCounts
) -> Unwaited:
    """What is found when `before` turns into `now`; `latest` are second looks by number."""
    unwaited = Unwaited()
    seen = now | {int(name[1:]): each for name, each in latest.items()}
    unwaited.take(before, seen.get)
    unwaited.take(now, seen.get)
    return unwaited


def test_what_the_parent_took_over_is_not_counted_again() -> None:
    before = {10: counts(1), 11: counts(10, cpu_s=5.0, read=700)}
    taken = gone(before, {10: counts(1, cpu_s=5.1, waited_s=5.1, read=720)})
    assert (taken.processes, taken.cpu_s, taken.io) == (0, 0.0, [0] * len(IO))
    lost = gone(before, {10: counts(1)})
    assert (lost.processes, lost.cpu_s, lost.io[0]) == (1, 5.0, 700)
    # The parent itself read as much, but it has no CPU time of the child.
    assert gone(before, {10: counts(1, cpu_s=9.0, read=9000)}).processes == 1


def test_a_child_that_is_waited_for_between_the_looks_at_both_is_not_lost() -> None:
    before = {10: counts(1), 11: counts(10, cpu_s=5.0, read=700)}
    found = gone(before, {10: counts(1)}, p10=counts(1, cpu_s=5.0, waited_s=5.0, read=700))
    assert found.processes == 0


def test_what_one_child_left_does_not_pay_for_two() -> None:
    before = {10: counts(1), 11: counts(10, cpu_s=5.0), 12: counts(10, cpu_s=5.0)}
    assert gone(before, {10: counts(1, cpu_s=5.0, waited_s=5.0)}).processes == 1


def test_a_number_that_another_process_has_now_is_another_process() -> None:
    before = {10: counts(1), 11: counts(10, cpu_s=5.0)}
    other = ProcessCounts(10, 2, 0.0, 0.0, (0,) * len(IO))
    assert gone(before, {10: counts(1), 11: other}).cpu_s == 5.0


def test_what_the_guard_waits_for_itself_is_its_own_matter() -> None:
    before = {11: counts(1, cpu_s=5.0, read=700), 12: counts(11, cpu_s=2.0)}
    assert gone(before, {}).processes == 0


@pytest.mark.parametrize(
    ("total", "seen_s", "expected"),
    [
        (None, 0.0, (0.0, 0.0)),
        (None, 0.7, (0.7, 0.0)),
        (CpuTime(10.05, 3.0), 0.0, (0.0, 0.0)),
        (CpuTime(12.0, 3.5), 0.0, (1.5, 0.5)),
        (CpuTime(12.0, None), 0.5, (2.0, 0.0)),
        (CpuTime(9.0, 2.0), 0.0, (0.0, 0.0)),
    ],
    ids=["no clock", "looks alone", "clocks differ", "both kinds", "no division", "less than waited for"],
)
def test_the_time_that_is_missing(
    total: CpuTime | None, seen_s: float, expected: tuple[float, float]
) -> None:
    assert cpu_unwaited(7.0, 3.0, total, seen_s=seen_s) == pytest.approx(expected)


# Groups that killed runs left are ended; those of other containers, and of nodes of a lab, are not.


def test_only_groups_of_dead_processes_of_this_namespace_are_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    started = process_facts()["started"]
    prefix = "gridwright-workload-"
    names = {
        "dead": f"{prefix}{machine()}-{ended.pid}-{started}",
        "alive": f"{prefix}{machine()}-{os.getpid()}-{started}",
        # Process 1 of a container is not process 1 here: it may well run.
        "elsewhere": f"{prefix}{'0' * 16}-{ended.pid}-{started}",
        "other": "system.slice",
    }
    for name in names.values():
        (tmp_path / name).mkdir()
    removed: list[str] = []
    monkeypatch.setattr(control_group, "_own", lambda: tmp_path)
    monkeypatch.setattr(ControlGroup, "remove", lambda group: removed.append(group.directory.name))
    remove_stale_groups()
    assert removed == [names["dead"]]


def test_a_group_of_a_run_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_group, "_own", lambda: tmp_path)
    group = ControlGroup.for_run()
    assert group is not None
    removed: list[str] = []
    monkeypatch.setattr(ControlGroup, "remove", lambda group: removed.append(group.directory.name))
    remove_stale_groups()
    assert removed == [], "its process runs"
    monkeypatch.setattr(control_group, "is_alive", lambda _: False)
    remove_stale_groups()
    assert removed == [group.directory.name]
