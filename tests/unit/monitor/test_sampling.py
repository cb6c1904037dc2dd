"""What is read of this node is what its processes and devices moved; what hangs is named, and no more."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gridwright.messages import decode, encode
from gridwright.monitor.frame import frame_of
from gridwright.monitor.job_sources import JobSources
from gridwright.monitor.rates import rates
from gridwright.monitor.readings import LABELS, NodeSamples, Reading, Request, Snapshot
from gridwright.monitor.sampler import FACTS_S, HeldReads, KernelSources, Sampler
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
