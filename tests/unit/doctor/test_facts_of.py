"""What a node tells of itself: facts that are so, and parsers of what the kernel and its tools print."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.bounded import Hangs, call_bounded
from gridwright.doctor.examination import FACTS
from gridwright.doctor.facts import filesystems
from gridwright.doctor.facts import gather as facts_of
from gridwright.doctor.facts.filesystems import library, locks
from gridwright.doctor.facts.gather import gather
from gridwright.doctor.facts.node_facts import NodeFacts, Trouble
from gridwright.doctor.messages import FactsRequest
from gridwright.filesystems.mounts import unescaped
from gridwright.messages import decode

MOUNTINFO = """\
22 28 0:20 / /proc rw,nosuid shared:12 - proc proc rw
28 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro
31 28 0:25 / /dev/shm rw shared:4 - tmpfs tmpfs rw
36 28 0:44 / /tmp rw - tmpfs tmpfs rw,size=4g
40 28 7:0 / /snap/core/1 ro - squashfs /dev/loop0 ro
41 28 259:2 /home /home\\040of\\040all rw - ext4 /dev/nvme0n1p2 rw
52 28 0:61 / /mnt/grid rw,noatime - lustre 10.0.0.1@tcp:/scratch rw,flock,lazystatfs
53 28 0:62 / /mnt/home rw - nfs4 nfs1:/home rw,vers=4.2,hard
garbage
"""


def test_this_machine_tells_of_itself(tmp_path: Path) -> None:
    facts = gather(
        FactsRequest({"data": str(tmp_path)}, {"sysctl": ["vm.swappiness", "no.such"], "limit": ["nofile"]})
    )
    assert facts.system is not None and facts.system.kernel == os.uname().release
    assert facts.kernels is not None
    assert facts.processors is not None and 1 <= facts.processors.cores <= facts.cpus
    assert facts.memory is not None and facts.memory.total_bytes == pytest.approx(
        facts.memory_bytes, rel=0.01
    )
    assert facts.settings["sysctl"]["vm.swappiness"] == Path("/proc/sys/vm/swappiness").read_text().strip()
    assert facts.settings["sysctl"]["no.such"] is None
    assert facts.libraries["data"].locks == {"flock": None, "fcntl": None}
    assert facts.libraries["data"].read_only is False
    assert any(mount.mount_point == "/" for mount in facts.mounts or ())
    assert list(tmp_path.iterdir()) == []


def test_a_node_answers_a_request_within_seconds_and_imports_nothing_slow(tmp_path: Path) -> None:
    request = json.dumps({"libraries": {"data": str(tmp_path)}})
    began = time.monotonic()
    done = subprocess.run(FACTS, input=request, capture_output=True, text=True, timeout=60, check=True)
    assert time.monotonic() - began < 20
    assert decode(done.stdout, NodeFacts).libraries["data"].path == str(tmp_path)
    look = "import sys, gridwright.doctor.facts.gather; print('pydantic' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", look], text=True) == "False\n"


def test_settings_that_a_command_prints_are_told_as_it_printed_them() -> None:
    asked = {
        "one": ["sh", "-c", "echo one 1; exit 2"],
        "gone": ["no-such-command", "get"],
        "silent": ["sleep", "60"],
    }
    found = gather(FactsRequest({}, commands={"of-a-kind": asked})).settings["of-a-kind"]
    assert found == {"one": "one 1\n", "gone": None, "silent": "?sleep does not answer"}


def test_files_of_a_library_have_the_time_of_this_node(tmp_path: Path) -> None:
    assert library(tmp_path).file_times_off_s == 0.0


def test_locks_work_on_a_local_disk(tmp_path: Path) -> None:
    assert locks(tmp_path) == {"flock": None, "fcntl": None}


def test_mounts_that_hold_data_are_told_once_and_those_of_the_kernel_not() -> None:
    found = filesystems.data_mounts(MOUNTINFO.splitlines())
    assert [(each.mount_point, each.type, each.local) for each in found] == [
        ("/", "ext4", True),
        ("/tmp", "tmpfs", True),
        ("/mnt/grid", "lustre", False),
        ("/mnt/home", "nfs4", False),
    ]
    assert found[2].options.split(",") == ["flock", "lazystatfs", "noatime", "rw"]
    assert unescaped("/home\\040of\\040all") == "/home of all"


def test_a_target_that_a_server_mounts_is_no_disk_of_the_node() -> None:
    """It is full where the OST is, and du finds no file on it."""
    (found,) = filesystems.data_mounts(
        ["61 29 253:32 / /srv/ost1 rw - lustre_tgt /dev/vdd rw,svname=testfs-OST0001"]
    )
    assert (found.mount_point, found.local) == ("/srv/ost1", False)


def test_each_mount_of_a_lustre_that_has_its_own_options_is_judged() -> None:
    """All of one node's have one number; those of a container are the same file system once more."""
    line = "70 29 0:52 {root} {point} rw,{more} - lustre mgs@tcp:/testfs rw,{lock},lazystatfs"
    found = filesystems.data_mounts(
        [
            line.format(root="/", point="/mnt/one", more="noatime", lock="flock"),
            line.format(root="/", point="/mnt/two", more="noatime", lock="localflock"),
            line.format(root="/", point="/mnt/three", more="noatime", lock="flock"),
            line.format(root="/home", point="/srv/container/home", more="nosuid", lock="flock"),
        ]
    )
    assert [each.mount_point for each in found] == ["/mnt/one", "/mnt/two"]


@given(st.lists(st.text(max_size=80), max_size=8))
def test_no_line_of_a_mount_table_breaks_the_look(lines: list[str]) -> None:
    filesystems.data_mounts(lines)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Out of memory: Killed process 12 (sas) total-vm:1kB", "memory-killed"),
        ("EXT4-fs error (device nvme1n1): ext4_find_entry:1455: reading directory lblock 0", "disk-error"),
        ('XFS (md0): metadata I/O error in "xlog_iodone" at daddr 0x40', "disk-error"),
        ("critical medium error, dev sda, sector 123 op 0x0:(READ)", "disk-error"),
        ("I/O error, dev nvme1n1, sector 65538 op 0x0:(READ) flags 0x8800", "disk-error"),
        ("nvme nvme1: I/O 21 QID 3 timeout, aborting", "nvme-timeout"),
        ("INFO: task sas:4242 blocked for more than 120 seconds.", "task-hung"),
        ("mce: [Hardware Error]: Machine check events logged", "machine-check"),
        ("nfs: server nfs1 not responding, still trying", "server-silent"),
        (
            "LustreError: 167-0: scratch-OST0000-osc: This client was evicted by scratch-OST0000",
            "server-silent",
        ),
    ],
)
def test_the_kernels_words_for_trouble_are_known(line: str, kind: str) -> None:
    assert facts_of.digest([line, line]) == {kind: Trouble(2, line)}


def test_a_target_that_an_administrator_switched_off_and_on_is_no_trouble() -> None:
    off = "Lustre: setting import scratch-OST0000_UUID INACTIVE by administrator request"
    evicted = "LustreError: 167-0: scratch-OST0000-osc: This client was evicted by scratch-OST0000; in"
    assert facts_of.digest([off, evicted]) == {}
    assert facts_of.digest([off, evicted, evicted])["server-silent"].count == 1
    assert facts_of.digest([off, evicted.replace("OST0000", "OST0001")])["server-silent"].count == 1


@pytest.mark.parametrize(
    "line",
    [
        "Memory cgroup out of memory: Killed process 1659 (python)",
        "I/O error, dev loop0, sector 65538 op 0x0:(READ)",
        "EXT4-fs (nvme0n1p2): mounted filesystem r/w with ordered data mode",
        "nfs: server nfs1 OK",
    ],
)
def test_what_is_no_trouble_is_passed_over(line: str) -> None:
    assert facts_of.digest([line]) == {}


def test_only_the_kernel_itself_is_heard() -> None:
    assert facts_of.kernel_text("3,1234,5678,-;EXT4-fs error\n SUBSYSTEM=block") == "EXT4-fs error"
    assert facts_of.kernel_text("12,1234,5678,-;sas: EXT4-fs error") is None
    assert facts_of.kernel_text("no record") is None


def test_units_that_failed() -> None:
    printed = "munge.service loaded failed failed MUNGE\nscratch.mount loaded failed failed /scratch\n\n"
    assert facts_of.failed_units(printed) == ["munge.service", "scratch.mount"]


@pytest.mark.parametrize(
    ("text", "word"), [("always [madvise] never", "madvise"), ("[none] mq-deadline", "none"), ("0", "0")]
)
def test_the_chosen_word_of_several(text: str, word: str) -> None:
    assert facts_of.chosen(text) == word


def test_settings_that_cannot_be_named_are_not_looked_up() -> None:
    assert (
        facts_of.values(facts_of.sysctl, ["../../etc/passwd", "net/ipv4/tcp_sack"])["../../etc/passwd"]
        is None
    )
    assert facts_of.sysfs("../etc/hostname") is None
    assert facts_of.limit("no such limit") is None
    assert facts_of.limit("nofile hard") == facts_of.limit("hard nofile")


def test_media_of_disks() -> None:
    assert [
        facts_of.medium("nvme1n1", "0"),
        facts_of.medium("sda", "1"),
        facts_of.medium("vdb", "0"),
    ] == [
        "nvme",
        "rotational",
        "ssd",
    ]


def test_mount_points_of_the_scratch_configuration() -> None:
    text = json.dumps({"schema": 1, "arrays": [{"name": "work", "mount_point": "/scratch"}]})
    assert facts_of.mount_points(text) == ["/scratch"]
    for broken in ("", "[]", '{"arrays": [{}]}'):
        with pytest.raises(OSError, match="not understood"):
            facts_of.mount_points(broken)


def test_the_clock_of_this_machine_is_told() -> None:
    assert isinstance(facts_of.clock().synchronised, bool)


def test_a_look_at_a_library_that_is_killed_leaves_no_name_behind(tmp_path: Path) -> None:
    """With a storage target of Lustre away, whatever asks for attributes or locks of a file hangs."""
    asked = tmp_path / "asked"
    place = tmp_path / "place"
    place.mkdir()

    def hangs(*_: object) -> None:
        asked.write_text(",".join(each.name for each in place.iterdir()))
        signal.pause()

    def looks(module: ModuleType, name: str, what: Callable[[Path], object]) -> object:
        # In the child of the look alone: the test itself needs both.
        setattr(module, name, hangs)
        return what(place)

    with pytest.raises(Hangs):
        call_bounded(partial(looks, os, "fstat", library), 1.0)
    assert asked.read_text() == ""
    asked.unlink()
    with pytest.raises(Hangs):
        call_bounded(partial(looks, fcntl, "flock", locks), 1.0)
    assert (asked.read_text(), list(place.iterdir())) == ("", [])


def test_what_an_earlier_look_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    old = int(time.time()) - 3600
    for name in (
        f".gridwright-check-{old}-0123456789ab",
        f".gridwright-check-{old + 3590}-0123456789ab",
        "data",
    ):
        (tmp_path / name).touch()
    (tmp_path / ".gridwright-check-a8_x2k1q").touch()
    gather(FactsRequest({"data": str(tmp_path)}))
    left = {each.name for each in tmp_path.iterdir()}
    # An older release left the last one a moment ago: whoever looks may still need it.
    assert left == {f".gridwright-check-{old + 3590}-0123456789ab", "data", ".gridwright-check-a8_x2k1q"}


def test_locks_that_hang_are_no_locks_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gridwright.doctor.facts.gather.LOOK_S", 1.0)
    monkeypatch.setattr(fcntl, "flock", lambda *_: signal.pause())
    found = gather(FactsRequest({"data": str(tmp_path)})).libraries["data"]
    assert (found.hangs, found.locks, found.missing) == (True, None, None)
