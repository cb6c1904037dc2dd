"""iotest on several nodes: real workers and a real coordinator on this machine, and what can befall them."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from gridwright.errors import ExitStatus
from gridwright.iotest.coordinator.coordinator import Authority, HandedOver, Limits
from gridwright.iotest.options import NullVolume
from gridwright.runs.directory import load_run
from gridwright.runs.iotest_events import LibraryDone, PhaseBegun, SampleTaken
from gridwright.runs.phase_record import PhaseRecord
from gridwright.runs.records import IotestRecord
from tests.support.command import wait_until
from tests.support.fleet import QUICK, ROOT, GridTest, LocalLauncher

MIB = 1 << 20
NAMES = ["node1", "node2", "node3"]


@pytest.fixture
def library(tmp_path: Path) -> Path:
    directory = tmp_path / "library"
    directory.mkdir()
    return directory


def is_phase(op: str) -> Any:
    return lambda event: isinstance(event, PhaseBegun) and event.op == op


def is_sample(op: str) -> Any:
    return lambda event: isinstance(event, SampleTaken) and event.op == op


def phases_of(record: IotestRecord) -> list[PhaseRecord]:
    (library,) = record.libraries
    return library.phases


def names(record: IotestRecord) -> set[str]:
    return {finding.name for finding in record.findings}


def text(record: IotestRecord, name: str) -> str:
    (found,) = [finding.text for finding in record.findings if finding.name == name]
    return found


def scratch_of(library: Path, node: str) -> Path:
    """The scratch directory that a node has made."""
    for marker in library.glob("*/gridwright-iotest.json"):
        if json.loads(marker.read_text()).get("node") == node:
            return marker.parent
    raise AssertionError(f"no directory of {node}: {list(library.iterdir())}")


def flip(file: Path, at: int) -> None:
    with file.open("r+b") as data:
        data.seek(at)
        byte = data.read(1)
        data.seek(at)
        data.write(bytes([byte[0] ^ 1]))


def with_launcher(test: GridTest, launcher: LocalLauncher) -> GridTest:
    test.launcher = launcher
    test._fleet = replaced(test._fleet, launcher=launcher)
    return test


def test_figures_of_all_nodes_and_of_each(tmp_path: Path, library: Path) -> None:
    test = GridTest(tmp_path, library)
    record, status = test(size_bytes=4 * MIB, phases=("write", "read", "mixed", "metadata"), verify=True)
    assert status == ExitStatus.DONE, record.findings
    write, read, mixed, metadata = phases_of(record)
    for phase in (write, read):
        assert [node.node for node in phase.nodes] == NAMES
        assert phase.bytes == sum(node.bytes or 0 for node in phase.nodes) == 3 * 2 * 4 * MIB
        assert phase.used.streams == 6
        assert len(phase.per_stream_bytes_per_s) == 6
        assert phase.rate_last_bytes_per_s == pytest.approx((phase.bytes or 0) / (phase.seconds_last or 0))
        assert phase.per_core_bytes_per_s == pytest.approx((phase.rate_last_bytes_per_s or 0) / 6)
        assert (phase.seconds_last or 0) >= max(node.seconds_last or 0 for node in phase.nodes)
        assert (phase.latency_us.max or 0) == max(node.latency_us.max or 0 for node in phase.nodes)
        assert (phase.latency_us.p50 or 0) <= max(node.latency_us.p50 or 0 for node in phase.nodes)
        # All started at one instant; a machine of two cores that runs six streams is late by some.
        assert all(abs(node.start_offset_s or 9.0) < 0.25 for node in phase.nodes)
    assert read.verified_bytes == 3 * 2 * 4 * MIB
    assert mixed.read_bytes == mixed.written_bytes == 3 * 4 * MIB
    assert metadata.operations is not None
    assert metadata.operations["create"].count > 0
    assert [node.cores for node in record.nodes] == [2, 2, 2]
    assert all(abs(node.clock_offset_s or 9.0) < 0.05 for node in record.nodes)
    assert list(library.iterdir()) == []


def test_samples_name_their_node_and_a_run_is_loaded_as_it_was(tmp_path: Path, library: Path) -> None:
    test = GridTest(tmp_path, library)
    record, _ = test(seconds=1.2)
    rows = pq.read_table(test.run.path / "samples.parquet").to_pylist()
    assert {row["node"] for row in rows} == set(NAMES)
    write = phases_of(record)[0]
    assert sum(row["written_bytes"] for row in rows if row["op"] == "write") == write.bytes
    assert load_run(test.run.path).iotest == record
    # Times are of one clock: no phase begins before the one before it has ended.
    ends = [max(row["time"] for row in rows if row["op"] == op) for op in ("write", "read")]
    starts = [
        min(row["time"] - row["interval_s"] for row in rows if row["op"] == op) for op in ("write", "read")
    ]
    assert starts[1] > ends[0]


class Curious(LocalLauncher):
    """Looks at the keys when workers are started."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory
        self.modes: set[int] = set()
        self.keys: list[str] = []

    def start(
        self, commands: Mapping[str, Sequence[str]], logs: Path, inputs: Mapping[str, bytes] | None = None
    ) -> None:
        (directory,) = self._directory.iterdir()
        files = list(directory.iterdir())
        self.modes = {file.stat().st_mode & 0o777 for file in files}
        # The second line of a key's PEM block is of this key alone.
        self.keys = [file.read_text().splitlines()[1] for file in files]
        super().start(commands, logs)


def test_keys_are_in_private_files_until_all_have_come_and_nowhere_else(
    tmp_path: Path, library: Path
) -> None:
    test = GridTest(tmp_path, library)
    curious = Curious(test.secrets / "iotest")
    left: list[list[Path]] = []
    test.seen.when(is_phase("write"), lambda: left.append(list((test.secrets / "iotest").iterdir())))
    _, status = with_launcher(test, curious)(size_bytes=MIB)
    assert status == ExitStatus.DONE
    assert curious.modes == {0o600}
    assert len(set(curious.keys)) == len(NAMES)
    said = [*curious.commands["node1"], *(test.log(name) for name in NAMES)]
    said += [file.read_text() for file in test.run.path.glob("*.json")]
    assert all(key not in each for key in curious.keys for each in said)
    assert left == [[]]


@pytest.mark.thorough
def test_in_pairs_each_node_reads_what_another_one_wrote(tmp_path: Path, library: Path) -> None:
    test = GridTest(tmp_path, library)
    test.seen.when(is_phase("read"), lambda: flip(scratch_of(library, "node1") / "stream-1.dat", 777_777))
    record, status = test(size_bytes=4 * MIB, pairs=True, verify=True)
    assert status == ExitStatus.MISSED
    wrong = text(record, "wrong-data")
    assert wrong.startswith("node node2: "), "node2 is the one that reads what node1 wrote"
    assert "stream-1.dat: 1 bytes from offset 777777" in wrong
    assert list(library.iterdir()) == []


def test_pairs_verify_what_is_right(tmp_path: Path, library: Path) -> None:
    record, status = GridTest(tmp_path, library)(size_bytes=2 * MIB, pairs=True, verify=True)
    assert status == ExitStatus.DONE, record.findings
    assert phases_of(record)[1].verified_bytes == 3 * 2 * 2 * MIB


@pytest.mark.few(1)
@pytest.mark.parametrize("engine", ["buffered", "direct"])
def test_all_streams_of_all_nodes_share_one_file(tmp_path: Path, library: Path, engine: str) -> None:
    test = GridTest(tmp_path, library)
    seen: list[tuple[str, int]] = []

    def look() -> None:
        seen.extend((file.name, file.stat().st_size) for file in library.glob("*/*.dat"))

    test.seen.when(is_phase("read"), look)
    record, status = test(size_bytes=2 * MIB, shared_file=True, pairs=True, verify=True, engine=engine)
    assert status == ExitStatus.DONE, record.findings
    assert seen == [("shared-1.dat", 3 * 2 * 2 * MIB)]
    assert phases_of(record)[1].verified_bytes == 3 * 2 * 2 * MIB
    assert list(library.iterdir()) == []


def test_a_wrong_byte_of_a_shared_file_is_named_by_its_place(tmp_path: Path, library: Path) -> None:
    test = GridTest(tmp_path, library)
    at = 4 * 2 * MIB + 5
    test.seen.when(is_phase("read"), lambda: flip(next(library.glob("*/shared-1.dat")), at))
    record, status = test(size_bytes=2 * MIB, shared_file=True, verify=True)
    assert status == ExitStatus.MISSED
    assert text(record, "wrong-data").startswith("node node3: ")
    assert f"from offset {at} " in text(record, "wrong-data")


def test_nodes_with_more_cores_have_more_streams(tmp_path: Path, library: Path) -> None:
    test = GridTest(tmp_path, library, nodes=2, cores=[1, 3], requires=1.0)
    record, status = test(size_bytes=MIB)
    assert status == ExitStatus.DONE
    (found,) = record.libraries
    assert (found.total_cores, found.met) == (4, True)
    write = found.phases[0]
    assert [node.streams for node in write.nodes] == [1, 3]
    assert write.per_core_bytes_per_s == pytest.approx((write.rate_last_bytes_per_s or 0) / 4)


@pytest.mark.parametrize(
    ("required", "met"), [(1.0, None), pytest.param(1e15, False, marks=pytest.mark.thorough)]
)
def test_a_killed_node_is_named_and_the_others_go_on(
    tmp_path: Path, library: Path, required: float, met: bool | None
) -> None:
    test = GridTest(tmp_path, library, requires=required)
    test.seen.when(is_sample("write"), lambda: test.launcher.signal("node2", signal.SIGKILL))
    record, status = test(seconds=1.5)
    assert status == ExitStatus.ENVIRONMENT
    assert record.status == "complete"
    # Its launcher and its connection both tell; either may be the first.
    assert re.search("node node2 was lost: its (connection|process) ended", text(record, "node-lost"))
    for phase in phases_of(record):
        assert phase.status == "complete"
        assert [node.status for node in phase.nodes] == ["complete", "failed", "complete"]
        assert phase.bytes == sum(node.bytes or 0 for node in phase.nodes if node.node != "node2")
        assert phase.nodes[1].bytes is None
        assert phase.nodes[1].reason
    assert record.libraries[0].met is met, "those that are left prove a miss, and nothing else"
    assert list(library.iterdir()) == [], "what the killed node left is removed by another one"


def test_a_node_that_hangs_is_named_and_not_waited_for(tmp_path: Path, library: Path) -> None:
    test = GridTest(tmp_path, library)
    test.seen.when(is_sample("write"), lambda: test.launcher.signal("node3", signal.SIGSTOP))
    began = time.monotonic()
    record, status = test(seconds=1.0)
    assert time.monotonic() - began < 25.0
    assert status == ExitStatus.ENVIRONMENT
    assert "node node3 was lost: nothing was heard of it for" in text(record, "node-lost")
    assert [phase.status for phase in phases_of(record)] == ["complete", "complete"]


@pytest.mark.thorough
def test_a_node_that_stands_still_for_a_moment_stays_and_its_stall_is_told(
    tmp_path: Path, library: Path
) -> None:
    test = GridTest(tmp_path, library, limits=Limits(gather_s=20.0, silence_s=15.0))

    def stop_for_a_moment() -> None:
        test.launcher.signal("node3", signal.SIGSTOP)
        threading.Timer(5.0, lambda: test.launcher.signal("node3", signal.SIGCONT)).start()

    test.seen.when(is_sample("write"), stop_for_a_moment)
    record, status = test(seconds=3.0, phases=("write",), engine="direct")
    assert status == ExitStatus.DONE, record.findings
    said = text(record, "stalled")
    assert said.startswith("library data, phase write on node node3: all streams stood still for up to ")
    (write,) = phases_of(record)
    assert [len(node.stalls) for node in write.nodes] == [0, 0, 1]
    (stall,) = write.nodes[2].stalls
    assert stall.seconds == pytest.approx(5.0, abs=1.0)
    assert stall.streams == 2


@pytest.mark.thorough
def test_a_lost_node_ends_the_test_if_the_user_wants_that(tmp_path: Path, library: Path) -> None:
    test = GridTest(tmp_path, library)
    test.seen.when(is_sample("write"), lambda: test.launcher.signal("node1", signal.SIGKILL))
    record, status = test(seconds=1.0, on_node_failure="stop")
    assert status == ExitStatus.ENVIRONMENT
    assert record.status == "failed"
    assert [phase.op for phase in phases_of(record)] == ["write"]
    assert phases_of(record)[0].bytes, "what the others measured is kept"
    assert list(library.iterdir()) == []


def test_all_nodes_lost_is_a_failure_and_no_hang(tmp_path: Path, library: Path) -> None:
    test = GridTest(tmp_path, library)

    def kill_all() -> None:
        for name in NAMES:
            test.launcher.signal(name, signal.SIGKILL)

    test.seen.when(is_sample("write"), kill_all)
    record, status = test(seconds=1.0)
    assert status == ExitStatus.ENVIRONMENT
    assert record.status == "failed"
    assert phases_of(record)[0].status == "failed"
    assert "no node is left" in text(record, "library-failed")


def test_an_order_to_stop_is_heeded_by_all_within_a_second(tmp_path: Path, library: Path) -> None:
    test = GridTest(tmp_path, library)
    told: list[float] = []

    def stop() -> None:
        told.append(time.monotonic())
        test.stop.set()

    test.seen.when(is_sample("write"), stop)
    ended: list[float] = []
    test.seen.when(lambda event: isinstance(event, LibraryDone), lambda: ended.append(time.monotonic()))
    record, status = test(seconds=60.0)
    assert status == ExitStatus.INTERRUPTED
    assert ended[0] - told[0] < 2.0, "a second to stop, and one to remove the files on a busy machine"
    (write,) = phases_of(record)
    assert write.status == "interrupted"
    assert write.bytes
    assert list(library.iterdir()) == []
    assert list((test.secrets / "iotest").iterdir()) == []


def test_workers_of_a_killed_coordinator_stop_and_leave_nothing(tmp_path: Path, library: Path) -> None:
    request = {"scratch": str(tmp_path), "library": str(library), "nodes": 3, "options": {"seconds": 60.0}}
    with (tmp_path / "err").open("wb") as err:
        coordinator = subprocess.Popen(
            [sys.executable, "-m", "tests.support.fleet", json.dumps(request)], cwd=ROOT, stderr=err
        )
    try:
        wait_until(
            lambda: True if len(list(library.glob("*/stream-*.dat"))) == 6 else None,
            seconds=30,
            what="six files",
            last=lambda: list(library.rglob("*")),
        )
        workers = psutil.Process(coordinator.pid).children()
        assert len(workers) == 3
        coordinator.kill()
        coordinator.wait(10)
        wait_until(
            lambda: None if list(library.iterdir()) else True,
            seconds=10,
            what="an empty library",
            last=lambda: list(library.rglob("*")),
        )
        _, alive = psutil.wait_procs(workers, 5)
        assert alive == []
        (run,) = (tmp_path / "runs").iterdir()
        loaded = load_run(run)
        assert loaded.run.status == "interrupted"
        assert loaded.iotest is not None
        assert [node.node for node in loaded.iotest.nodes] == NAMES
    finally:
        coordinator.kill()
        coordinator.wait(10)


class Meddler(LocalLauncher):
    """Starts one node's worker in another way than it is told to."""

    def __init__(self, node: str, replace: Any) -> None:
        super().__init__()
        self._node, self._replace = node, replace

    def start(
        self, commands: Mapping[str, Sequence[str]], logs: Path, inputs: Mapping[str, bytes] | None = None
    ) -> None:
        super().start({**commands, self._node: self._replace(list(commands[self._node]))}, logs)


_FAKE = """
import sys, time
from pathlib import Path
from gridwright.iotest.node.worker import connect
from gridwright.iotest.messages import Hello
host, port = sys.argv[5].split(":")
connect((host, int(port)), Path(sys.argv[7]), Hello("0.0.1", {"cores": "as they say in this release"}))
time.sleep(30)
"""


def test_a_node_of_another_release_is_named_and_left_out(tmp_path: Path, library: Path) -> None:
    test = GridTest(tmp_path, library)
    meddler = Meddler("node2", lambda command: [sys.executable, "-c", _FAKE, *command[1:]])
    record, status = with_launcher(test, meddler)(size_bytes=MIB)
    assert status == ExitStatus.ENVIRONMENT
    assert "node node2 was lost: it has gridwright 0.0.1, and " in text(record, "node-lost")
    assert "the coordinator does not let us in: it has gridwright 0.0.1, and " in test.log("node2")
    assert phases_of(record)[0].bytes == 2 * 2 * MIB


_STRANGE = """
import sys, time
from pathlib import Path
from gridwright.iotest.messages import Hello
from gridwright.iotest.node.worker import connect
from gridwright.iotest.node.worker import facts
from gridwright.iotest.wire import frame
from gridwright.messages import plain
from gridwright import __version__
host, port = sys.argv[5].split(":")
link = connect((host, int(port)), Path(sys.argv[7]), Hello(__version__, plain(facts("node2"))))
time.sleep(1.0)
link._call(link._tls.send, frame(b'{"say": "opened", "room": 7}'))
time.sleep(30)
"""


def test_a_node_that_does_not_speak_as_agreed_is_named_and_left_out(tmp_path: Path, library: Path) -> None:
    test = GridTest(tmp_path, library)
    meddler = Meddler("node2", lambda command: [sys.executable, "-c", _STRANGE, *command[1:]])
    record, status = with_launcher(test, meddler)(size_bytes=MIB, phases=("write",))
    assert status == ExitStatus.ENVIRONMENT
    assert "node node2 was lost: it sent a message that is not as agreed: " in text(record, "node-lost")
    assert phases_of(record)[0].bytes == 2 * 2 * MIB


def test_a_worker_with_a_certificate_of_another_test_is_not_let_in(tmp_path: Path, library: Path) -> None:
    other = HandedOver(Authority(), tmp_path / "other", ["node2"]).file_of("node2")

    def replace(command: list[str]) -> list[str]:
        command[command.index("--credentials") + 1] = str(other)
        return command

    test = GridTest(tmp_path, library)
    record, status = with_launcher(test, Meddler("node2", replace))(size_bytes=MIB)
    assert status == ExitStatus.ENVIRONMENT
    assert "node node2 was lost: its process ended with 3" in text(record, "node-lost")
    assert "its certificate is not of this test" in test.log("node2")


def test_a_node_that_never_comes_is_given_up(tmp_path: Path, library: Path) -> None:
    limits = Limits(gather_s=10.0, silence_s=10.0, order_s=20.0, stop_s=5.0)
    test = GridTest(tmp_path, library, limits=limits)
    record, status = with_launcher(test, Meddler("node3", lambda _: ["sleep", "30"]))(size_bytes=MIB)
    assert status == ExitStatus.ENVIRONMENT
    assert "it did not come within 10 s: nothing was heard of it" in text(record, "node-lost")
    assert record.nodes[2].clock_offset_s is None
    assert phases_of(record)[0].bytes == 2 * 2 * MIB


def test_no_node_at_all_is_said_so(tmp_path: Path, library: Path) -> None:
    test = GridTest(tmp_path, library, nodes=1)
    record, status = with_launcher(test, Meddler("node1", lambda _: ["false"]))(size_bytes=MIB)
    assert status == ExitStatus.ENVIRONMENT
    assert "no node came, so that nothing was tested" in text(record, "library-failed")
    assert record.libraries == []


@pytest.mark.thorough
def test_a_phase_ends_when_all_nodes_together_are_steady(tmp_path: Path, library: Path) -> None:
    volume = NullVolume(burst_bytes_per_s=400e6, steady_bytes_per_s=100e6, bucket_bytes=300e6)
    test = GridTest(tmp_path, library, nodes=2)
    record, status = test(
        engine="null", null=volume, until_steady_s=12.0, sample_s=0.1, phases=("write",), seconds=None
    )
    assert status == ExitStatus.DONE, record.findings
    (write,) = phases_of(record)
    assert write.steady is not None
    assert write.steady.peak_bytes_per_s > 1.5 * 200e6
    assert (write.seconds_last or 99.0) < 12.0


@pytest.mark.thorough
def test_kept_sets_of_all_nodes_are_read_again(tmp_path: Path, library: Path) -> None:
    first, _ = GridTest(tmp_path, library)(size_bytes=2 * MIB, keep=True)
    assert len(list(library.iterdir())) == 3
    record, status = GridTest(tmp_path, library)(
        size_bytes=2 * MIB, phases=("read",), verify=True, pairs=True
    )
    assert status == ExitStatus.DONE, record.findings
    (read,) = phases_of(record)
    assert read.verified_bytes == 3 * 2 * 2 * MIB
    assert read.used.seed == phases_of(first)[0].used.seed
    assert len(list(library.glob("*/stream-*.dat"))) == 6, "kept files are never removed"


@pytest.mark.thorough
def test_a_sweep_raises_the_streams_of_every_node(tmp_path: Path, library: Path) -> None:
    test = GridTest(tmp_path, library, nodes=2, cores=[1, 1])
    record, status = test(seconds=0.3, sweep=True)
    assert status == ExitStatus.DONE, record.findings
    (found,) = record.libraries
    assert [point.streams for point in found.sweeps[0].points] == [1, 2, 4]
    assert [phase.used.streams for phase in found.phases if phase.op == "write"] == [2, 4, 8]


def test_a_library_that_is_not_there_is_named_by_its_nodes(tmp_path: Path) -> None:
    record, status = GridTest(tmp_path, tmp_path / "missing", nodes=2)(size_bytes=MIB)
    assert status == ExitStatus.ENVIRONMENT
    said = sorted(finding.text for finding in record.findings if finding.name == "node-failed")
    assert [each.split(":")[0] for each in said] == ["node node1", "node node2"]
    assert all("there is no such directory" in each for each in said)


def tmpfs_for(library: Path, size: str) -> list[str]:
    """What gives a worker a file system of its own at the library."""
    script = 'mount -t tmpfs -o "size=$1" own "$2" && shift 2 && exec "$@"'
    return ["unshare", "--mount", "--", "sh", "-c", script, "sh", size, str(library)]


@pytest.mark.root
def test_nodes_that_do_not_share_a_library_each_use_their_own(tmp_path: Path, library: Path) -> None:
    prefixes = {name: tmpfs_for(library, "64m") for name in NAMES}
    record, status = GridTest(tmp_path, library, prefixes=prefixes)(seconds=0.5, engine="direct")
    assert status == ExitStatus.DONE, record.findings
    assert "library-not-shared" not in names(record)
    write = phases_of(record)[0]
    assert (write.used.file_bytes or 0) * 2 <= 32 * MIB, "each node's room is its own"


@pytest.mark.few(1)
@pytest.mark.root
@pytest.mark.parametrize("flag", ["pairs", "shared_file"])
def test_what_needs_a_shared_library_is_refused_without_one(tmp_path: Path, library: Path, flag: str) -> None:
    prefixes = {"node2": tmpfs_for(library, "64m")}
    record, status = GridTest(tmp_path, library, prefixes=prefixes)(size_bytes=MIB, **{flag: True})
    assert status == ExitStatus.ENVIRONMENT
    assert "node2 does not see what node1 has made" in text(record, "library-failed")
    assert phases_of(record) == []
    assert list(library.iterdir()) == []


@pytest.mark.root
def test_a_node_whose_file_system_is_full_is_left_out(tmp_path: Path, library: Path) -> None:
    test = GridTest(tmp_path, library, prefixes={"node2": tmpfs_for(library, "40m")})

    def fill() -> None:
        worker = psutil.Process(test.launcher.processes["node2"].pid)
        target = f"/proc/{worker.pid}/root{library}/someone-else"
        subprocess.run(["dd", "if=/dev/zero", f"of={target}", "bs=1M"], capture_output=True, check=False)

    test.seen.when(is_phase("write"), fill)
    record, status = test(seconds=1.0)
    assert status == ExitStatus.ENVIRONMENT
    said = text(record, "node-failed")
    assert said.startswith("node node2: library data: no space is left on the file system")
    assert [node.status for node in phases_of(record)[1].nodes] == ["complete", "failed", "complete"]


def test_quick_limits_are_those_of_tests_only() -> None:
    longest_stall_s = 10.0
    assert Limits().silence_s > max(QUICK.silence_s, longest_stall_s)
