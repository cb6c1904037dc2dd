"""What is read of this node is what its processes and devices moved; what hangs is named, and no more."""

from __future__ import annotations

import json
import math
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gridwright._native import readings_json
from gridwright.interference.processes import TICK_S
from gridwright.messages import decode, encode
from gridwright.monitor.frame import frame_of
from gridwright.monitor.job_sources import GroupSources, JobSources, JobWaits
from gridwright.monitor.readings import LABELS, Key, NodeSamples, Reading, Request, Snapshot, rates
from gridwright.monitor.sampler import (
    FACTS_S,
    HeldReads,
    KernelSources,
    OtherSources,
    Sampler,
    parse_queue,
    queue_limits,
)
from gridwright.monitor.views import views
from tests.support.command import wait_until
from tests.support.disks import run
from tests.support.skips import root_only

BLOCK, COUNT = 1 << 20, 32
WRITER = f"""
import mmap, os, sys
block = mmap.mmap(-1, {BLOCK})
block.write(os.urandom({BLOCK}))
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT)
for order in sys.stdin:
    os.lseek(file, 0, os.SEEK_SET)
    for _ in range({COUNT}):
        os.write(file, block) if order.strip() == "write" else os.readv(file, [block])
    print(open("/proc/self/io").read().replace(chr(10), " "), flush=True)
"""
"""Moves a known number of bytes past the page cache for each order, and says what Linux counted."""


def own(job: str) -> str:
    """A name of this process alone: other tests of this machine have jobs, too, and root sees them all."""
    return f"{job}.{os.getpid()}"


class Job:
    """A job that moves bytes when it is told to."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def moves(self, order: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{order}\n")
        self.process.stdin.flush()
        assert "write_bytes" in self.process.stdout.readline()


@pytest.fixture
def started() -> Iterator[Callable[[Path, str], Job]]:
    jobs: list[Job] = []

    def start(file: Path, name: str) -> Job:
        process = subprocess.Popen(
            # Below a shell: processes of a job have others below them.
            ["sh", "-c", '"$@"; true', "sh", sys.executable, "-c", WRITER, str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "GRIDWRIGHT_JOB_ID": name},
        )
        jobs.append(Job(process))
        return jobs[-1]

    yield start
    for each in jobs:
        each.process.communicate(timeout=10)


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    image = tmp_path / "disk.img"
    image.write_bytes(b"")
    os.truncate(image, 2 * BLOCK * COUNT)
    device = run("losetup", "--find", "--show", image).strip()
    yield device
    run("losetup", "--detach", device)


@root_only
def test_a_job_and_its_disk_are_read_to_have_moved_what_they_moved(
    loop: str, started: Callable[[Path, str], Job]
) -> None:
    job = started(Path(loop), own("17_3"))
    job.moves("read")
    sampler = Sampler(brief=True)
    before = sampler.sample()
    job.moves("write")
    job.moves("write")
    job.moves("read")
    after = sampler.sample()
    frame = frame_of([NodeSamples("n1", before, after)])
    (row,) = [each for each in frame.jobs if each.job == own("17_3")]
    (disk,) = [each for each in frame.disks if each.device == Path(loop).name]
    assert row.processes == 2
    moved = {"read": BLOCK * COUNT, "written": 2 * BLOCK * COUNT}
    for seen, series in (
        (row, ("gridwright_job_{}_bytes_total", own("17_3"))),
        (disk, ("node_disk_{}_bytes_total", disk.device)),
    ):
        for way, expected in moved.items():
            rate = getattr(seen, f"{way}_bytes_per_s")
            # Over the time of the source itself, which is read a moment before the snapshot is complete.
            span = _read_at(after, series[0].format(way), series[1]) - _read_at(
                before, series[0].format(way), series[1]
            )
            assert rate * span == pytest.approx(expected, rel=0.03)


def _read_at(snapshot: Snapshot, metric: str, label: str) -> float:
    (reading,) = [each for each in snapshot.readings if each.key == (metric, label)]
    return reading.at_s


def test_what_processes_moved_that_have_ended_stays_with_their_job(
    tmp_path: Path, started: Callable[[Path, str], Job]
) -> None:
    job = started(tmp_path / "file", own("8"))
    job.moves("write")
    sources = JobSources()
    before = [each for each in sources.readings() if each.labels == (own("8"),)]
    job.moves("write")
    assert job.process.stdin is not None
    (writer,) = _children(job.process.pid)
    os.kill(writer, 9)
    job.process.wait(10)
    # The shell that waited for it has ended, too: nothing is told of a job that is over.
    after = [each for each in sources.readings() if each.labels == (own("8"),)]
    assert before != []
    assert after == []
    assert rates(before, after) == {}


SHORT = """
read -r _
for _ in $(seq 40); do
    dd if=/dev/zero "of=$1" bs=65536 count=4 oflag=direct conv=notrunc 2>/dev/null
    (dd if=/dev/zero "of=$1" bs=65536 count=2 oflag=direct conv=notrunc 2>/dev/null; true)
done
echo done
read -r _
"""
"""Eighty processes and more, each of which ends before anybody looks twice."""


def test_processes_that_come_and_go_between_looks_are_counted_and_sums_never_fall(tmp_path: Path) -> None:
    job = subprocess.Popen(
        ["sh", "-c", SHORT, "sh", str(tmp_path / "file")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "GRIDWRIGHT_JOB_ID": own("short")},
    )
    assert job.stdin is not None
    assert job.stdout is not None
    sources, written = JobSources(), list[Reading]()
    begun, over = written_by(sources, own("short")), threading.Event()

    def look() -> None:
        while not over.is_set():
            written.append(written_by(sources, own("short")))

    watching = threading.Thread(target=look)
    watching.start()
    job.stdin.write(b"go\n")
    job.stdin.flush()
    assert job.stdout.readline() == b"done\n"
    over.set()
    watching.join()
    written.append(written_by(sources, own("short")))
    # The shell has waited for all of them, so that Linux has it all there (with what the file system adds).
    told = dict(line.split(": ") for line in Path(f"/proc/{job.pid}/io").read_text().splitlines())
    assert written[-1].value == int(told["write_bytes"]) >= begun.value + 40 * 6 * 65536
    assert [each.value for each in written] == sorted(each.value for each in written)
    assert {each.since_s for each in written} == {begun.since_s}, "each look has a rate"
    job.communicate(b"end\n", timeout=10)


def written_by(sources: JobSources, job: str) -> Reading:
    (found,) = [
        each for each in sources.readings() if each.key == ("gridwright_job_written_bytes_total", job)
    ]
    return found


def test_the_libraries_of_a_job_are_those_where_it_has_files_open(
    tmp_path: Path, started: Callable[[Path, str], Job]
) -> None:
    data, work = tmp_path / "data", tmp_path / "data/work"
    work.mkdir(parents=True)
    started(work / "file", own("9")).moves("write")
    sources = JobSources(directories=(str(data), str(work), "/nowhere"))
    opened = [each for each in sources.readings() if each.metric == "gridwright_job_open_files"]
    assert [(each.labels, each.value) for each in opened if each.labels[0] == own("9")] == [
        ((own("9"), str(work)), 1)
    ]


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_every_reading_is_of_a_metric_that_is_declared_with_its_labels() -> None:
    sampler = Sampler(("/tmp/anything",))
    readings = sampler.sample().readings
    assert {each.metric for each in readings} >= {"node_cpu_seconds_total", "node_memory_MemTotal_bytes"}
    for each in readings:
        assert len(each.labels) == len(LABELS[each.metric])
    assert len({each.key for each in readings}) == len(readings)


def test_what_cannot_be_understood_has_no_readings(tmp_path: Path) -> None:
    (tmp_path / "proc/net").mkdir(parents=True)
    assert KernelSources(tmp_path).readings() == []
    (tmp_path / "proc/stat").write_text("cpu one two\n")
    (tmp_path / "proc/meminfo").write_text("MemTotal: many kB\nDirty 7\n")
    (tmp_path / "proc/net/dev").write_text("eth0: 1 2\nheading without a colon\n")
    (tmp_path / "proc/diskstats").write_text("8 0 sda 1 2\n")
    assert KernelSources(tmp_path).readings() == []


def test_a_node_says_all_that_it_read_in_one_line() -> None:
    snapshot = Sampler(("/usr",)).sample()
    assert decode(encode(snapshot), type(snapshot)) == snapshot
    assert snapshot.places["/usr"].mount_point.startswith("/")


def test_the_message_of_a_sample_says_what_the_sample_says(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    for name in ("stat", "meminfo", "loadavg"):
        (tmp_path / "proc" / name).write_text(Path("/proc", name).read_text())
    sampler = Sampler(("/usr",), tmp_path)
    for _ in range(2):
        snapshot, message = sampler.sample(), decode(sampler.line(), Snapshot)
        assert [each.key for each in message.readings] == [each.key for each in snapshot.readings]
        assert (message.node, message.places, message.silent) == (
            snapshot.node, snapshot.places, snapshot.silent,
        )  # fmt: skip
        assert [each.value for each in message.readings] == [each.value for each in snapshot.readings]
        assert message.readings != ()


def test_a_read_that_hangs_is_named_holds_no_other_up_and_is_asked_again_when_it_answers() -> None:
    hanging, asked = threading.Event(), []

    def hang() -> str:
        asked.append(1)
        hanging.wait(60)
        return "late"

    reads: HeldReads[str] = HeldReads(0.2)
    reads.set_sources({"dead": hang, "well": lambda: "here", "broken": _broken})
    for _ in range(3):
        answers, silent = reads.read()
        assert answers == {"well": "here"}
        assert set(silent) == {"dead", "broken"}
        assert silent["dead"].startswith("no answer for ")
        assert silent["broken"] == "it fails"
    assert len(asked) == 1, "a dead mount holds one thread, however often it is read"
    hanging.set()
    while "dead" not in reads.read()[0]:
        pass
    assert reads.read() == ({"dead": "late", "well": "here"}, {"broken": "it fails"})
    assert len(asked) == 2


def test_what_is_not_asked_is_waited_for_where_it_has_not_answered() -> None:
    """A source is due or not; one that hangs is told, whether or not it is due again meanwhile."""
    answer, asked = threading.Event(), []

    def hang() -> str:
        asked.append(1)
        answer.wait(60)
        return "late"

    reads: HeldReads[str] = HeldReads(0.2)
    reads.set_sources({"dead": hang, "well": lambda: "here"})
    assert reads.read({"dead"}) == ({"well": "here"}, {})
    assert asked == []
    assert set(reads.read()[1]) == {"dead"}
    assert set(reads.read({"dead"})[1]) == {"dead"}
    answer.set()
    while "dead" not in (answers := reads.read({"dead", "well"})[0]):
        pass
    assert answers == {"dead": "late"}
    assert reads.read({"dead", "well"}) == ({}, {})


def test_a_card_or_disk_that_comes_is_looked_at_and_what_it_is_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    (tmp_path / "proc/net").mkdir(parents=True)

    def told() -> dict[tuple[str, ...], float]:
        return {each.key: each.value for each in kernel.readings()}

    def there(*names: str) -> None:
        rows = [f"  {name}: 5 0 0 0 0 0 0 0 5 0 0 0 0 0 0 0\n" for name in names]
        (tmp_path / "proc/net/dev").write_text("".join(rows))
        disks = [f"8 0 d{name} 1 0 8 1 1 0 8 1 0 1 1\n" for name in names]
        (tmp_path / "proc/diskstats").write_text("".join(disks))

    def speed(name: str, megabits: int) -> None:
        (tmp_path / "sys/class/net" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys/class/net" / name / "speed").write_text(f"{megabits}\n")

    kernel = KernelSources(tmp_path)
    there("eth0")
    speed("eth0", 8)
    assert told()["node_network_speed_bytes", "eth0"] == 1e6
    speed("eth1", 16)
    there("eth0", "eth1")
    speed("eth0", 80)
    found = told()
    assert (found["node_network_speed_bytes", "eth0"], found["node_network_speed_bytes", "eth1"]) == (
        1e6,
        2e6,
    )
    assert ("node_disk_reads_completed_total", "deth1") in found
    (tmp_path / "sys/class/block/deth1/partition").mkdir(parents=True)
    now[0] += FACTS_S
    found = told()
    assert found["node_network_speed_bytes", "eth0"] == 1e7
    assert ("node_disk_reads_completed_total", "deth1") not in found


def _broken() -> str:
    raise OSError("it fails\n  and what to do")


def test_the_program_ends_with_its_input_and_refuses_what_it_cannot_read() -> None:
    program = [sys.executable, "-P", "-m", "gridwright.monitor.node_program"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(encode(Request(interval_s=60, samples=0)) + b"\n")
        process.stdin.flush()
        assert process.stdout.readline().startswith(b'{"node":')
        process.stdin.close()
        assert process.wait(10) == 0
    asked = encode(Request(interval_s=3600, samples=2)) + b"\n"
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(asked)
        process.stdin.close()
        assert process.stdout.readline().startswith(b'{"node":')
        (sampler,) = _children(process.pid)
        # Whoever asked is killed: neither of the two samples for another hour.
        process.stdout.close()
        assert process.wait(10) == 0
        wait_until(
            lambda: None if Path(f"/proc/{sampler}").exists() else True,
            seconds=10, what="the end of the sampler", last=lambda: sampler,
        )  # fmt: skip
    wrong = subprocess.run(program, input=b'{"samples": "many"}\n', capture_output=True, check=False)
    assert (wrong.returncode, wrong.stdout) == (2, b"")
    assert b"samples" in wrong.stderr


def test_what_passes_a_bond_or_a_vlan_counts_at_the_cards_below_it_alone(tmp_path: Path) -> None:
    (tmp_path / "proc/net").mkdir(parents=True)
    moved = {"eth0": 10, "eth1": 20, "bond0": 30, "bond0.7": 30, "macvlan0": 5}
    rows = [f"  {name}: {number} 0 0 0 0 0 0 0 {number} 0 0 0 0 0 0 0\n" for name, number in moved.items()]
    (tmp_path / "proc/net/dev").write_text("Inter-| Receive\n face |bytes\n" + "".join(rows))
    # The card below the macvlan is in another network namespace.
    below = {"bond0": ("eth0", "eth1"), "bond0.7": ("bond0",), "macvlan0": ("eth9",), "eth0": (), "eth1": ()}
    for name, cards in below.items():
        (tmp_path / "sys/class/net" / name).mkdir(parents=True)
        for card in cards:
            (tmp_path / "sys/class/net" / name / f"lower_{card}").symlink_to(f"../{card}")
    told = {
        each.labels[0]: each.value
        for each in KernelSources(tmp_path).readings()
        if "receive_bytes" in each.metric
    }
    assert told == {"eth0": 10, "eth1": 20, "macvlan0": 5}


# What processes of no job move is read of real ones, and told to those who may know it.

MIB = 1 << 20
PROGRAM = f"""
import mmap, os, sys
block = mmap.mmap(-1, {MIB})
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT)
for order in sys.stdin:
    for number in range(int(order)):
        os.pwrite(file, block, number * {MIB})
    print("done", flush=True)
"""


class Mover:
    """A process that writes so many MiB when it is told to."""

    def __init__(self, script: Path, file: Path, job: str) -> None:
        script.write_text(PROGRAM)
        environment = os.environ | ({"GRIDWRIGHT_JOB_ID": job} if job else {})
        self.process = subprocess.Popen(
            [sys.executable, script, file], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def writes(self, mib: int) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{mib}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"


@pytest.fixture
def movers(tmp_path: Path) -> Iterator[tuple[Mover, Mover]]:
    both = (
        Mover(tmp_path / "job_script.py", tmp_path / "one", "17"),
        Mover(tmp_path / "nightly_backup.py", tmp_path / "two", ""),
    )
    for each in both:
        each.writes(1)
    yield both
    for each in both:
        each.process.kill()
        each.process.wait(10)


class Sources:
    """All processes: those of jobs, and the others."""

    def __init__(self) -> None:
        self._jobs = JobSources()
        self._others = OtherSources(self._jobs.members)

    def readings(self) -> list[Reading]:
        return [*self._jobs.readings(), *self._others.readings()]


def moved(before: list[Reading], after: list[Reading]) -> dict[Key, float]:
    """Bytes between two readings, not their rates."""
    spans = {each.key: each.at_s for each in after}
    began = {each.key: each.at_s for each in before}
    latest = max(began.values())
    return {key: rate * (spans[key] - began.get(key, latest)) for key, rate in rates(before, after).items()}


def backup(found: dict[Key, float]) -> float:
    return sum(
        value for key, value in found.items()
        if key[0] == "gridwright_process_moved_bytes_total" and "nightly_backup.py" in key[1]
    )  # fmt: skip


@root_only
def test_a_stranger_has_its_bytes_and_a_job_has_none_of_them(movers: tuple[Mover, Mover]) -> None:
    job, stranger = movers
    sources = Sources()
    before = sources.readings()
    job.writes(8)
    stranger.writes(16)
    after = sources.readings()
    found = moved(before, after)
    assert backup(found) == pytest.approx(16 * MIB, rel=0.1), "it began to be told with what it moved since"
    assert found["gridwright_job_written_bytes_total", "17"] == pytest.approx(8 * MIB, rel=0.1)
    assert found["gridwright_others_written_bytes_total",] > 15 * MIB
    assert not any("job_script.py" in each.labels[0] for each in after if "process_moved" in each.metric)
    assert ("gridwright_job_user", "17", "root") in {each.key for each in after}
    stranger.writes(4)
    assert backup(moved(after, sources.readings())) == pytest.approx(4 * MIB, rel=0.1)


@root_only
def test_what_a_child_moved_that_has_ended_is_not_told_twice(tmp_path: Path) -> None:
    script = tmp_path / "parent_of_many.py"
    script.write_text(
        "import subprocess, sys\n"
        "child = ['dd', 'if=/dev/zero', f'of={sys.argv[1]}', 'bs=1M', 'count=16', 'oflag=direct']\n"
        "for order in sys.stdin:\n"
        "    subprocess.run(child, check=True, stderr=subprocess.DEVNULL)\n"
        "    print('done', flush=True)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, script, tmp_path / "file"], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    try:
        sources = Sources()
        before = sources.readings()
        parent.stdin.write("go\n")
        parent.stdin.flush()
        parent.stdout.readline()
        found = moved(before, sources.readings())
    finally:
        parent.kill()
        parent.wait(10)
    told = sum(
        value for key, value in found.items()
        if key[0] == "gridwright_process_moved_bytes_total" and "parent_of_many.py" in key[1]
    )  # fmt: skip
    assert told == pytest.approx(16 * MIB, rel=0.1)


# How long a job waits is told by the best that its node knows of it.

SLURM = "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n"
BESIDE_V1 = "9:name=systemd:/\n0::/slurm/uid_1000/job_7/step_batch\n"


def told(waits: JobWaits, job: str, at: float, *, delay: int = 0, waiting: int = 0) -> Reading:
    return waits.reading(job, [10], delay, waiting, at)


@pytest.mark.parametrize(
    ("line", "group"),
    [
        (SLURM, "cgroup/system.slice/slurmstepd.scope/job_7"),
        (BESIDE_V1, "cgroup/unified/slurm/uid_1000/job_7"),
    ],
)
def test_pressure_of_the_control_group_of_a_whole_job_comes_first(
    tmp_path: Path, line: str, group: str
) -> None:
    (tmp_path / "proc/10").mkdir(parents=True)
    (tmp_path / "proc/10/cgroup").write_text(line)
    (tmp_path / group).mkdir(parents=True)
    pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 total=1\n"
    (tmp_path / group / "io.pressure").write_text(pressure)
    waits = JobWaits(tmp_path / "proc", tmp_path / "cgroup")
    for job in ("7", "7_3"):
        found = told(waits, job, 1.0, delay=99)
        assert (found.labels, found.value) == ((job, "pressure"), 2.5)
    (tmp_path / "proc/10/cgroup").write_text(line.replace("job_7", "jobs"))
    assert told(waits, "8", 1.0).labels == ("8", "delay"), "a group of several jobs is nobody's"


def test_without_one_it_is_the_delays_that_the_kernel_counts_else_the_looks(tmp_path: Path) -> None:
    switch = tmp_path / "sys/kernel/task_delayacct"
    switch.parent.mkdir(parents=True)
    switch.write_text("1\n")
    found = told(JobWaits(tmp_path, tmp_path), "7", 1.0, delay=50)
    assert (found.labels, found.value) == (("7", "delay"), 50 * TICK_S)
    switch.write_text("0\n")
    waits = JobWaits(tmp_path, tmp_path)
    assert told(waits, "7", 10.0, waiting=1).value == 0
    assert told(waits, "7", 11.0, waiting=1).value == 1
    found = told(waits, "7", 13.0, waiting=0)
    assert (found.labels, found.value) == (("7", "state"), 1)
    waits.retain_only(set())
    assert told(waits, "7", 14.0, waiting=1).value == 0


def test_a_share_by_looks_alone_is_marked_and_of_several_nodes_the_longest_counts() -> None:
    def snapshot(node: str, at: float, waited: float, how: str) -> Snapshot:
        readings = (
            Reading("gridwright_job_processes", ("7",), 1, at),
            Reading("gridwright_job_waiting_seconds_total", ("7", how), waited, at),
        )
        return Snapshot(node, node, at, at, 1, 1, readings)

    def shown(how: str) -> str:
        samples = [
            NodeSamples(node, snapshot(node, 1.0, 0.0, how), snapshot(node, 3.0, waited, how))
            for node, waited in (("n1", 1.0), ("n2", 0.5))
        ]
        (view,) = [each for each in views(frame_of(samples)) if each.caption == "Jobs"]
        return view.rows[0].cells[[column.title for column in view.columns].index("waits")].text

    assert [shown(how) for how in ("pressure", "delay", "state")] == ["50%", "50%", "~50%"]


# Readings that the native part writes are those that Python's own JSON reads.

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
TIMES = st.sampled_from([0.0, -0.0, 1795228009.95, 5e-324, 1e300]) | st.floats(allow_nan=False)
READINGS = st.lists(
    st.builds(
        Reading,
        TEXTS,
        st.lists(TEXTS, max_size=3).map(tuple),
        st.integers(-(1 << 70), 1 << 70) | st.floats() | st.booleans(),
        TIMES,
        st.none() | TIMES,
    ),
    max_size=6,
)


@given(READINGS)
@example([Reading("a", ('"\\\n\x7fé😀',), math.inf, 1.0), Reading("b", (), -math.inf, 1.0, 1.0)])
def test_what_is_written_is_what_was_read(readings: list[Reading]) -> None:
    written = readings_json(readings)
    assert written.isascii()
    back = [Reading(each[0], tuple(each[1]), *each[2:]) for each in json.loads(b"[" + written + b"]")]
    assert repr(back) == repr([each._replace(value=_number(each.value)) for each in readings])


def _number(value: float) -> float:
    """A truth value is written as the number that it is."""
    return int(value) if isinstance(value, bool) else value


@pytest.mark.parametrize(
    "wrong", [[("a", (), 1.0, 1.0)], ["abcde"], [(1, (), 1.0, 1.0, None)], [("a", (), "1", 1.0, None)]]
)
def test_what_is_no_reading_is_refused(wrong: list[Reading]) -> None:
    with pytest.raises((TypeError, ValueError)):
        readings_json(wrong)


# Limits that somebody has set are read where they stand: control groups, and queues of cards.

FIRST = (
    "31 1 0:1 / /cg/blkio rw - cgroup cgroup rw,blkio\n32 1 0:2 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
)
SECOND = "31 1 0:1 / /cg rw - cgroup2 cgroup2 rw\n"


def put(root: Path, files: dict[str, str], mounts: str) -> GroupSources:
    for name, text in {"proc/self/mountinfo": mounts, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return GroupSources(root)


def values_told(sources: GroupSources) -> dict[tuple[str, ...], float]:
    readings = list(sources.readings())
    assert all(len(LABELS[each.metric]) == len(each.labels) for each in readings)
    return {each.key: each.value for each in readings}


VERSION_1 = {
    "cg/blkio/slurm/job_17/blkio.throttle.read_bps_device": "8:0 4000000\n",
    "cg/blkio/slurm/job_17/blkio.throttle.write_iops_device": "8:0 120\n",
    "cg/blkio/slurm/job_17/blkio.throttle.io_service_bytes": "8:0 Read 9\n8:0 Write 5\nTotal 14\n",
    "cg/blkio/slurm/job_17/blkio.throttle.io_serviced": "8:0 Read 3\n8:0 Write 6\nTotal 9\n",
    "cg/blkio/free/blkio.throttle.read_bps_device": "",
    "cg/cpu/slurm/job_17/cpu.cfs_quota_us": "50000\n",
    "cg/cpu/slurm/job_17/cpu.stat": "nr_periods 10\nnr_throttled 4\nthrottled_time 2000000000\n",
    "cg/cpu/free/cpu.cfs_quota_us": "-1\n",
    "cg/cpu/free/cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
}
VERSION_2 = {
    "cg/slurm/job_17/io.max": "8:0 rbps=4000000 wbps=max riops=max wiops=120\n",
    "cg/slurm/job_17/io.stat": "8:0 rbytes=9 wbytes=8 rios=7 wios=6 dbytes=0 dios=0\n8:16 rbytes=1\n",
    "cg/slurm/job_17/cpu.max": "50000 100000\n",
    "cg/slurm/job_17/cpu.stat": "usage_usec 1\nnr_periods 10\nnr_throttled 4\nthrottled_usec 2000000\n",
    "cg/free/cpu.max": "max 100000\n",
    "cg/free/io.max": "",
}


@pytest.mark.parametrize(
    ("files", "mounts"), [(VERSION_1, FIRST), (VERSION_2, SECOND)], ids=["version 1", "version 2"]
)
def test_groups_tell_their_own_limits_and_bytes(tmp_path: Path, files: dict[str, str], mounts: str) -> None:
    assert values_told(put(tmp_path, files, mounts)) == {
        ("gridwright_group_io_limit_bytes", "/slurm/job_17", "8:0", "read"): 4e6,
        ("gridwright_group_io_bytes_total", "/slurm/job_17", "8:0", "read"): 9,
        ("gridwright_group_io_limit_requests", "/slurm/job_17", "8:0", "write"): 120,
        ("gridwright_group_io_requests_total", "/slurm/job_17", "8:0", "write"): 6,
        ("gridwright_group_periods_total", "/slurm/job_17"): 10,
        ("gridwright_group_throttled_periods_total", "/slurm/job_17"): 4,
        ("gridwright_group_throttled_seconds_total", "/slurm/job_17"): 2.0,
    }


@given(st.text(max_size=60), st.text(max_size=60))
def test_what_cannot_be_understood_has_no_limits(
    tmp_path_factory: pytest.TempPathFactory, one: str, other: str
) -> None:
    root = tmp_path_factory.mktemp("groups")
    sources = put(root, {"cg/job/io.max": f"8:0 rbps={one}\n{other}", "cg/job/io.stat": other}, SECOND)
    for each in sources.readings():
        assert isinstance(each, Reading)
        assert each.value >= 0


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", len(data) + 4, kind) + data + b"\0" * (-len(data) % 4)


def queue(kind: bytes, options: bytes, parent: int = 0xFFFFFFFF) -> bytes:
    return struct.pack("=BxxxiIII", 0, 7, 0, parent, 0) + attribute(1, kind + b"\0") + attribute(2, options)


def test_the_rate_of_a_token_bucket_is_told_and_of_no_other_queue() -> None:
    parameters = attribute(1, struct.pack("=BBHhHI", 0, 1, 0, 0, 0, 10_000_000) + b"\0" * 24)
    assert parse_queue(queue(b"tbf", parameters)) == (7, 1e7)
    wide = parameters + attribute(4, struct.pack("=Q", 12_500_000_000))
    assert parse_queue(queue(b"tbf", wide)) == (7, 1.25e10)
    assert parse_queue(queue(b"fq_codel", parameters)) is None
    assert parse_queue(queue(b"tbf", parameters, parent=0x10001)) is None, "a part of another queue"


@given(st.binary(max_size=80))
def test_garbage_of_the_kernel_is_no_limit(body: bytes) -> None:
    parse_queue(body)
    parse_queue(queue(b"tbf", body))


@root_only
def test_a_limit_that_tc_sets_is_what_the_kernel_tells() -> None:
    program = "from gridwright.monitor.sampler import queue_limits; print(queue_limits())"
    script = (
        "ip link add d0 type veth peer name d1 && ip link set d0 up && "
        'tc qdisc add dev d0 root tbf rate 80mbit burst 256k latency 10ms && exec "$0" -P -c "$1"'
    )
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", script, sys.executable, program],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "{'d0': 10000000.0}"
    assert all(rate > 0 for rate in queue_limits().values())
