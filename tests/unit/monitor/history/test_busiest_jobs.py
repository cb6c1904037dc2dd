"""However many jobs there are, 100 have a series each, and the sums over all are exact at each width."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import signal
import sqlite3
import stat
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gridwright.monitor.history import store
from gridwright.monitor.history.measured import OTHERS, BusiestJobs, busiest
from gridwright.monitor.history.questions import RangeQuestion
from gridwright.monitor.history.reading import StoredHistories
from gridwright.monitor.history.steady import HistoryWriter, SteadyWriter
from gridwright.monitor.history.store import NUMBER, Generation
from gridwright.monitor.job_rows import MOST_JOBS
from gridwright.monitor.readings import LABELS
from gridwright.monitor.views import notes, views
from tests.support.as_user import ALICE, MALLORY, as_user, open_to_all
from tests.support.skips import root_only
from tests.unit.monitor.history.nodes import DISK, START, SampledNode
from tests.unit.monitor.history.test_faults import known

READ, PROCESSES = "gridwright_job_read_bytes_total", "gridwright_job_processes"
NEAR = 1 / 1000


def test_thousands_of_jobs_that_come_and_go_keep_exact_sums_and_few_series(tmp_path: Path) -> None:
    """Each minute 120 jobs begin and 120 end, and every job moves another amount."""
    file, node = tmp_path / "n1.history", SampledNode()
    moved: dict[int, float] = defaultdict(float)
    with HistoryWriter(file) as writer:
        for number in range(1330):
            jobs = [f"{number // 60}.{each}" for each in range(120)]
            rises = {(READ, job): 1e5 * (1 + each) for each, job in enumerate(jobs)}
            node.counters = {key: value for key, value in node.counters.items() if key in rises}
            is_first = number % 60 == 0
            writer.add(node.sample(rises, {(PROCESSES, job): 1.0 for job in jobs}))
            writer.work()
            if not is_first:
                moved[number // 10] += sum(rises.values())
            node.passes()
    histories = StoredHistories({"n1": file})
    for step in (10, 600):
        question = RangeQuestion((READ,), START, START + 1200, step, most=100_000)
        (answer,) = histories.courses(question)
        labels = [each.labels for each in answer.series]
        # Two blocks, each with its own busiest.
        assert len(labels) <= 2 * (MOST_JOBS + 1)
        (few,) = histories.courses(RangeQuestion((READ,), START, START + 1200, step, most=3))
        assert len(few.series) == 4
        assert sum(each.values[1] or 0.0 for each in few.series) == pytest.approx(
            sum(each.values[1] or 0.0 for each in answer.series), rel=NEAR
        )
        (summed,) = histories.courses(RangeQuestion((READ,), START, START + 1200, step, by=()))
        (total,) = summed.series
        for number, mean in enumerate(total.values):
            tens = range(number * step // 10, (number + 1) * step // 10)
            assert mean is not None
            # The first second of all was not seen.
            seen = step - 1 if number == 0 else step
            assert mean * seen == pytest.approx(sum(moved[each] for each in tens), rel=NEAR)
    frame = histories.frame(START + 1329, 5)
    assert len(frame.jobs) == MOST_JOBS + 1
    assert sum(row.processes for row in frame.jobs) == 120
    assert {row.job for row in frame.jobs[:50]} <= {OTHERS, *(f"22.{each}" for each in range(120))}


def test_who_moved_most_in_the_minute_before_is_chosen() -> None:
    chooses = BusiestJobs(most=2)
    values = [((READ, job), rate, 0) for job, rate in (("a", 1.0), ("b", 2.0), ("c", 9.0))]
    first = {key[1]: rate for key, rate, _ in chooses.fold(values, 0)}
    assert first == {"a": 1.0, "b": 2.0, OTHERS: 9.0}, "nothing is known of a minute before"
    second = {key[1]: rate for key, rate, _ in chooses.fold(values, 1)}
    assert second == {"c": 9.0, "b": 2.0, OTHERS: 1.0}


def test_a_job_that_is_named_like_the_sum_is_in_the_sum() -> None:
    chooses = BusiestJobs(most=1)
    values = [((READ, job), rate, 0) for job, rate in ((OTHERS, 5.0), ("a", 1.0), ("b", 2.0))]
    for minute in (0, 1, 2):
        told = {key[1]: rate for key, rate, _ in chooses.fold(values, minute)}
        assert sum(told.values()) == 8.0
        assert len(told) == 2
    assert busiest({(OTHERS,): 9.0, ("a",): 1.0}, 1) == {(OTHERS,), ("a",)}


def test_a_job_of_a_few_seconds_counts_for_what_it_moved_and_no_more(tmp_path: Path) -> None:
    file, node = tmp_path / "n1.history", SampledNode()
    with HistoryWriter(file) as writer:
        for number in range(700):
            job = {(READ, "7"): 100e6} if 300 <= number <= 310 else {}
            if number > 310:
                node.counters = {}
            writer.add(node.sample(job, {("node_load1",): 1.0}))
            writer.work()
            node.passes()
    (answer,) = StoredHistories({"n1": file}).courses(RangeQuestion((READ,), START, START + 600, 600))
    (job_7,) = answer.series
    # Ten seconds of ten minutes, the first of which was not seen.
    assert list(job_7.values) == pytest.approx([10 * 100e6 / 599], rel=NEAR)
    assert list(job_7.highest) == pytest.approx([100e6], rel=NEAR)


def test_jobs_of_targets_and_groups_are_bounded_by_their_own_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As servers tell them: a series for each job of each target; and a limit is no sum."""
    written, limit = "test_job_written_bytes_total", "test_group_limit_bytes"
    monkeypatch.setitem(LABELS, written, ("component", "target", "jobid"))
    monkeypatch.setitem(LABELS, limit, ("group", "device"))
    file, node = tmp_path / "n1.history", SampledNode()
    with HistoryWriter(file) as writer:
        for number in range(730):
            rises = {
                (written, "ost", f"T{target}", f"{number // 60}.{job}"): 1e4 * job
                for target in range(2)
                for job in range(110)
            }
            node.counters = {key: value for key, value in node.counters.items() if key in rises}
            gauges = {(limit, "slice", "sda"): 5e6} if number < 300 else {}
            writer.add(node.sample(rises, gauges))
            writer.work()
            node.passes()
    histories = StoredHistories({"n1": file})
    question = RangeQuestion((written, limit), START, START + 600, 600, most=100_000)
    (answer,) = histories.courses(question)
    jobs = [each for each in answer.series if each.metric == written]
    assert len(jobs) == 2 * (MOST_JOBS + 1)
    assert {each.labels[1] for each in jobs} == {"T0", "T1"}
    assert {each.labels[0] for each in jobs} == {"ost"}
    # The first second of each minute is that of jobs that were not seen before.
    each_target = 1e4 * sum(range(110)) * (600 - 10) / 599
    for target in ("T0", "T1"):
        told = sum(each.values[0] or 0.0 for each in jobs if each.labels[1] == target)
        assert told == pytest.approx(each_target, rel=NEAR)
    (held,) = [each for each in answer.series if each.metric == limit]
    assert list(held.values) == pytest.approx([5e6], rel=NEAR)
    (few,) = histories.courses(RangeQuestion((written,), START, START + 600, 600, by=("jobid",), most=5))
    assert sorted(each.labels[0] for each in few.series)[-1] == OTHERS
    assert sum(each.values[0] or 0.0 for each in few.series) == pytest.approx(2 * each_target, rel=NEAR)


@pytest.mark.parametrize("hidden_mb", [0.0, 40.0], ids=["it moves nothing there", "it moves much there"])
def test_a_job_that_a_node_has_in_a_sum_is_said_to_have_moved_at_least_so_much(
    tmp_path: Path, hidden_mb: float
) -> None:
    """Job 17 is among the busiest of n1, and one of 120 on n2, where others move more. 18 is on n1 alone."""
    files = {name: tmp_path / f"{name}.history" for name in ("n1", "n2")}
    told = ("cpu_seconds", "read_bytes", "written_bytes")
    jobs = {
        "n1": {"17": 100.0, "18": 1e6},
        "n2": {"17": hidden_mb, **{f"b{each}": 50.0 for each in range(120)}},
    }
    for name, file in files.items():
        node = SampledNode()
        with HistoryWriter(file) as writer:
            for _ in range(100):
                rises = {
                    (f"gridwright_job_{each}_total", job): mb * 1e6
                    for job, mb in jobs[name].items()
                    for each in told
                }
                writer.add(node.sample(rises, {(PROCESSES, job): 1.0 for job in jobs[name]}))
                node.passes()
    # The minute that has begun knows who moved most in the one before.
    frame = StoredHistories(files).frame(START + 95, 5)
    rows = {row.job: row for row in frame.jobs}
    moved = 2 * 1e6 * (hidden_mb + 50 * 20)
    assert rows["17"].nodes == ("n1",)
    assert rows["17"].read_bytes_per_s == pytest.approx(100e6, rel=NEAR)
    assert rows["17"].more_on == ("n2",)
    assert rows["17"].more_bytes_per_s == pytest.approx(moved, rel=NEAR)
    assert rows["17"].may_be_more
    # What n2 kept together is too little to be seen beside what this one moved.
    assert not rows["18"].may_be_more
    assert rows["b0"].more_on == (), "n1 has all of its jobs, and n2 has this one"
    assert rows[OTHERS].more_on == ()
    assert sum(row.read_bytes_per_s or 0.0 for row in frame.jobs) == pytest.approx(
        sum(mb * 1e6 for each in jobs.values() for mb in each.values()), rel=NEAR
    )
    (table,) = (each for each in views(frame) if each.caption == "Jobs")
    cells = {row.key: row.cells[5].text for row in table.rows}
    assert (cells["17"], cells["18"], cells["b0"]) == ("≥100.0", "1000000", "50.0")
    assert any(each.startswith("n2 has kept the sum of some jobs alone") for each in notes(frame))


def test_a_job_that_is_in_a_sum_for_a_part_of_the_time_says_so(tmp_path: Path) -> None:
    """The minute before had it among the others: what it moved then is not in its row."""
    file, node = tmp_path / "n1.history", SampledNode()
    with HistoryWriter(file) as writer:
        for number in range(100):
            of_17 = 900.0 if number > 30 else 1.0
            rises = {
                (f"gridwright_job_{each}_total", f"b{job}"): 5e6
                for job in range(120)
                for each in ("cpu_seconds", "read_bytes")
            }
            rises |= {
                (f"gridwright_job_{each}_total", "z17"): of_17 * 1e6 for each in ("cpu_seconds", "read_bytes")
            }
            writer.add(node.sample(rises, {(PROCESSES, key[1]): 1.0 for key in rises}))
            node.passes()
    rows = {row.job: row for row in StoredHistories({"n1": file}).frame(START + 80, 40).jobs}
    assert rows["z17"].read_bytes_per_s == pytest.approx(450e6, rel=NEAR), "of 900 in each second, half"
    assert rows["z17"].may_be_more
    assert rows["z17"].more_bytes_per_s >= 450e6
    now = {row.job: row for row in StoredHistories({"n1": file}).frame(START + 95, 5).jobs}
    assert now["z17"].read_bytes_per_s == pytest.approx(900e6, rel=NEAR)
    assert not now["z17"].may_be_more


# A history that other users read: whatever they lock, it is written, keeps its limit, and can be read.

MOST = 1_000_000
SHARED: dict[str, Any] = {"shared": True}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    open_to_all(tmp_path)
    (tmp_path / "history").mkdir(mode=0o755)
    return tmp_path / "history" / "n1.history"


@contextmanager
def mallory(file: Path) -> Iterator[None]:
    """What mallory does until the end: a transaction that stays open, and all locks that readers can have."""
    begun, begins = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            # The locks of the writer are those of its open files, which a fork has, too.
            os.closerange(3, begins)
            os.closerange(begins + 1, 256)
            as_user(MALLORY, lambda: hold_all(file, begins))
        os._exit(0)
    os.close(begins)
    try:
        assert os.read(begun, 1) == b"!"
        yield
    finally:
        os.close(begun)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def hold_all(file: Path, begins: int) -> None:
    parent, files = os.getppid(), dict[str, int]()
    with contextlib.suppress(sqlite3.Error):
        base = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, isolation_level=None)
        base.execute("BEGIN")
        base.execute("SELECT count(*) FROM pieces").fetchone()
    while os.getppid() == parent:
        for each in file.parent.iterdir():
            with contextlib.suppress(OSError):
                files[each.name] = os.open(each, os.O_RDONLY) if each.name not in files else files[each.name]
                fcntl.flock(files[each.name], fcntl.LOCK_EX | fcntl.LOCK_NB)
                if each.name != file.name:
                    fcntl.lockf(files[each.name], fcntl.LOCK_SH | fcntl.LOCK_NB)
        with contextlib.suppress(OSError):
            os.write(begins, b"!")
            os.close(begins)
        time.sleep(0.05)


def write(writer: SteadyWriter, node: SampledNode, seconds: int) -> None:
    """Figures that cannot be packed."""
    for number in range(seconds):
        rises = {
            (DISK[0], f"xd{disk}"): math.sin((node.time + number) * disk) * 1e6 + 2e6 for disk in range(20)
        }
        writer.add(node.sample({**rises, DISK: 1e6}))
        node.passes()


@root_only
def test_a_reader_that_holds_a_transaction_and_all_locks_holds_up_nothing(file: Path) -> None:
    node, said, sizes = SampledNode(), list[str](), list[int]()
    writer = SteadyWriter(file, said.append, MOST, **SHARED)
    write(writer, node, 120)
    with mallory(file):
        for _ in range(16):
            write(writer, node, 250)
            sizes.append(sum(each.stat().st_size for each in file.parent.iterdir()))
        end = int(node.time)
        as_user(ALICE, lambda: all_is_there(file, end))
        writer.close()
        # A service that starts again is not kept from its file.
        writer = SteadyWriter(file, said.append, MOST, **SHARED)
        write(writer, node, 10)
        writer.close()
    assert said == []
    assert max(sizes) <= MOST, sizes
    # The first second of a writer has nothing before it.
    assert set(known(file, end - 600, end + 10)) >= {*range(end - 599, end + 9)} - {end}


def all_is_there(file: Path, end: int) -> None:
    found = known(file, end - 900, end)
    assert set(found) >= set(range(end - 899, end - 1))
    assert list(found.values()) == pytest.approx([1e6] * len(found), rel=1e-3)


@root_only
def test_no_lock_of_a_history_is_others_to_take(file: Path) -> None:
    writer = SteadyWriter(file, print, **SHARED)
    write(writer, SampledNode(), 3)
    lock = Path(f"{file}-lock")
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    assert not Path(f"{file}-shm").exists()
    writer.close()
    lock.chmod(0o644)  # as an earlier release made it
    writer = SteadyWriter(file, print, **SHARED)
    write(writer, SampledNode(time=START + 10.5), 3)
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    writer.close()


def test_what_is_read_while_the_log_is_moved_is_read_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOVE_S", 0.0)
    writer = SteadyWriter(file, print, **SHARED)
    node = SampledNode()
    write(writer, node, 70)
    blocks, reads = store.HistoryStore.blocks, list[int]()

    def meanwhile(self: store.HistoryStore, *values: int) -> list[store.StoredBlock]:
        found = blocks(self, *values)
        if len(reads) < 3:
            reads.append(1)
            # Those of the writer are not among the reads that are counted.
            monkeypatch.setattr(store.HistoryStore, "blocks", blocks)
            write(writer, node, 1)
            monkeypatch.setattr(store.HistoryStore, "blocks", meanwhile)
        return found

    monkeypatch.setattr(store.HistoryStore, "blocks", meanwhile)
    question = RangeQuestion((DISK[0],), START + 1, START + 69, 1)
    (answer,) = StoredHistories({"n1": file}).courses(question)
    assert answer.absent == ""
    assert len(reads) == 3
    assert all(value is not None for value in answer.series[0].values)
    writer.close()


def test_a_writer_that_died_while_it_moved_the_log_is_named_until_it_is_back(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BUSY_S", 0.1)
    writer = SteadyWriter(file, print, **SHARED)
    write(writer, SampledNode(), 20)
    writer.close()
    generation = Generation(file)
    with contextlib.suppress(KeyboardInterrupt), generation.moving():
        raise KeyboardInterrupt
    generation.close()
    question = RangeQuestion((DISK[0],), START + 1, START + 19, 1)
    (answer,) = StoredHistories({"n1": file}).courses(question)
    assert "its writer was ended while it wrote" in answer.absent
    writer = SteadyWriter(file, print, **SHARED)
    write(writer, SampledNode(time=START + 30.5), 2)
    writer.close()
    assert set(known(file, START, START + 20)) >= set(range(START + 1, START + 19))
    assert int.from_bytes(Path(f"{file}{NUMBER}").read_bytes(), "little") % 2 == 0
