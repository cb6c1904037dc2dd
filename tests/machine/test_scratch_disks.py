"""Scratch storage on real disks of the kernel (loop devices): made, kept, refused, cut off, two at a time.

This kernel may have no md: one disk is the array here, and stripes are proven in tests/vm.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gridwright.node_programs.one_file import SCRATCH
from tests.support.disks import loop_mount, run, unmount
from tests.support.skips import needs

pytestmark = pytest.mark.root
MIB = 1 << 20
SIZE = 400 * MIB
"""mkfs.xfs wants 300 MiB."""


@dataclass
class Node:
    """A machine with one disk of an instance store, and its program."""

    directory: Path
    image: Path
    device: str
    config: Path
    is_held: bool = False
    """Whether the test itself has somebody hold the disk."""

    @property
    def mount_point(self) -> Path:
        return self.directory / "scratch"

    def start(self, *flags: str) -> subprocess.Popen[str]:
        argv = [
            sys.executable,
            "-I",
            str(self.directory / "scratch.pyz"),
            "--config",
            str(self.config),
            *flags,
        ]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __call__(self, *flags: str) -> tuple[int, str, str]:
        """Run it, again while a lab of another test that has just begun still has this test's mounts."""
        deadline = time.monotonic() + 30
        while True:
            process = self.start(*flags)
            out, err = process.communicate(timeout=60)
            is_held = "held by something" in err and not self.is_held
            if not is_held or time.monotonic() > deadline:
                return process.returncode, out, err
            time.sleep(0.5)

    def plan(self, *flags: str) -> Any:
        return json.loads(self("--dry-run", "--json", *flags)[1])

    def wish(self, **changed: Any) -> None:
        array = {
            "name": "scratch",
            "mount_point": str(self.mount_point),
            "directories": [{"path": "work"}, {"path": "below/util", "mode": "2770", "group": "65534"}],
            "match": [{"transport": "loop", "serial": f"{self.image}"}],
            **changed,
        }
        state = str(self.directory / "state.json")
        content = {"schema": 1, "state_file": state, "wait_seconds": 0, "arrays": [array]}
        self.config.write_text(json.dumps(content))

    def is_mounted(self) -> bool:
        return self.mount_point.is_mount()

    def checksum(self) -> str:
        """Of all that is neither a hole nor zero."""
        os.sync()
        digest, at = hashlib.sha256(), 0
        with self.image.open("rb") as file:
            while True:
                try:
                    start = os.lseek(file.fileno(), at, os.SEEK_DATA)
                except OSError:
                    return digest.hexdigest()
                at = os.lseek(file.fileno(), start, os.SEEK_HOLE)
                data = os.pread(file.fileno(), at - start, start)
                if data.strip(b"\0"):
                    digest.update(f"{start}:".encode() + data)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    needs("mkfs.xfs", "wipefs")
    image = tmp_path / "disk.img"
    with image.open("wb") as file:
        file.truncate(SIZE)
    device = run("losetup", "--find", "--show", image).strip()
    made = Node(tmp_path, image, device, tmp_path / "scratch.json")
    (tmp_path / "scratch.pyz").write_bytes(SCRATCH.archive())
    made.wish()
    try:
        yield made
    finally:
        if made.mount_point.exists() and made.is_mounted():
            unmount(made.mount_point)
        run("losetup", "--detach", device)


def write_on(node: Node, offset: int, data: bytes) -> None:
    with open(node.device, "r+b") as disk:  # noqa: PTH123 - a device
        disk.seek(offset)
        disk.write(data)
        disk.flush()
        os.fsync(disk.fileno())


@pytest.mark.parametrize("kind", ["xfs", "ext4"])
def test_a_blank_disk_is_made_mounted_and_kept(node: Node, kind: str) -> None:
    node.wish(format=kind)
    status, out, err = node()
    assert (status, err) == (0, ""), err
    assert f"array scratch is mounted on {node.mount_point}" in out
    kind_found, options = run("findmnt", "-no", "FSTYPE,OPTIONS", node.mount_point).split(maxsplit=1)
    assert kind_found == kind
    assert {"noatime", "nodev", "nosuid"} <= set(options.strip().split(","))
    work, util = (node.mount_point / path for path in ("work", "below/util"))
    assert stat.S_IMODE(work.stat().st_mode) == 0o1777
    assert (stat.S_IMODE(util.stat().st_mode), util.stat().st_gid) == (0o2770, 65534)
    read_ahead = Path("/sys/block") / Path(node.device).name / "queue" / "read_ahead_kb"
    assert read_ahead.read_text().strip() == "8192"
    (work / "data").write_text("kept")

    status, out, err = node()
    assert status == 0, err
    assert "nothing to do" in out

    unmount(node.mount_point)
    assert stat.S_IMODE(node.mount_point.stat().st_mode) == 0, "no job writes to the root disk instead"
    status, out, err = node()
    assert status == 0, err
    assert "mkfs" not in out
    assert (work / "data").read_text() == "kept"


def test_files_below_the_mount_point_are_told_and_stay(node: Node) -> None:
    node.mount_point.mkdir()
    (node.mount_point / "left-behind").write_text("by a job")
    status, out, err = node()
    assert status == 0, err
    assert "holds files on the disk below" in out
    unmount(node.mount_point)
    assert (node.mount_point / "left-behind").read_text() == "by a job"
    assert stat.S_IMODE(node.mount_point.stat().st_mode) != 0, "a directory of somebody's keeps its mode"


def test_directories_are_put_right_again(node: Node) -> None:
    assert node()[0] == 0
    (node.mount_point / "work").chmod(0o700)
    (node.mount_point / "below" / "util").rmdir()
    assert node()[0] == 0
    assert stat.S_IMODE((node.mount_point / "work").stat().st_mode) == 0o1777
    assert (node.mount_point / "below" / "util").is_dir()


def test_a_symbolic_link_does_not_lead_root_away(node: Node) -> None:
    assert node()[0] == 0
    elsewhere = node.directory / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (node.mount_point / "work").rmdir()
    (node.mount_point / "work").symlink_to(elsewhere)
    status, _, err = node()
    assert status == 3
    assert "make the directories" in err
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o700


def test_a_dry_run_prints_the_plan_and_does_nothing(node: Node) -> None:
    before = node.checksum()
    planned = node.plan()
    assert planned["ok"]
    (array,) = planned["arrays"]
    assert array["case"] == "make"
    assert [step["action"] for step in array["steps"]][:3] == ["intend", "format", "record"]
    assert array["steps"][1]["argv"][-1] == node.device
    assert array["steps"][1]["destroys"] == [node.device]
    assert node.checksum() == before
    assert not node.mount_point.exists()
    assert not (node.directory / "state.json").exists()


PARTITION_TABLE = (
    bytes(446) + bytes([0, 0, 2, 0, 0x83, 0, 8, 0, 0, 8, 0, 0, 0, 16, 0, 0]) + bytes(48) + b"\x55\xaa"
)
LVM = b"LABELONE" + (1).to_bytes(8, "little") + bytes(4) + (32).to_bytes(4, "little") + b"LVM2 001"


@pytest.mark.parametrize(
    ("offset", "data", "said"),
    [
        (0, PARTITION_TABLE, "a partition table (DOS)"),
        (1 << 20, b"a database that uses the raw disk", "data without a signature"),
        (SIZE - 4096, b"x", "data without a signature"),
        (1024 + 0x38, b"", "ext4 'theirs'"),
        (0, b"LUKS\xba\xbe\x00\x01" + bytes(160) + b"0" * 36, "crypto_LUKS"),
    ],
)
def test_what_somebody_has_on_the_disk_stays_to_the_byte(
    node: Node, offset: int, data: bytes, said: str
) -> None:
    if data:
        write_on(node, offset, data)
    else:
        run("mkfs.ext4", "-q", "-F", "-L", "theirs", node.device)
    before = node.checksum()
    status, _, err = node()
    assert status == 3
    assert said in err
    assert f"gridwright node scratch --wipe {node.device}" in err
    assert node.checksum() == before
    assert not node.mount_point.exists()
    status, out, err = node("--wipe", node.device)
    assert (status, err) == (0, "")
    assert f"--wipe names it (serial {node.image}" in out
    assert node.is_mounted()


def test_our_file_system_is_not_made_anew_because_the_configuration_has_changed(node: Node) -> None:
    assert node()[0] == 0
    (node.mount_point / "work" / "data").write_text("kept")
    unmount(node.mount_point)
    node.wish(format="ext4")
    status, _, err = node()
    assert status == 3
    assert "it holds xfs, and format is ext4" in err
    node.wish()
    assert node()[0] == 0
    assert (node.mount_point / "work" / "data").read_text() == "kept"


def test_a_mounted_disk_is_not_wiped(node: Node) -> None:
    run("mkfs.ext4", "-q", "-F", node.device)
    other = node.directory / "other"
    other.mkdir()
    run("mount", node.device, other)
    try:
        status, _, err = node("--wipe", node.device)
        assert status == 2
        assert f"mounted on {other}" in err
    finally:
        unmount(other)


def test_a_disk_held_in_another_name_space_is_in_use(node: Node) -> None:
    run("mkfs.ext4", "-q", "-F", node.device)
    script = f"mount {node.device} /mnt && echo ready && read -r _"
    holder = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        node.is_held = True
        status, _, err = node("--wipe", node.device)
        assert status == 2
        assert "held by something, perhaps mounted in a container" in err
    finally:
        holder.communicate("\n", timeout=20)


def test_a_disk_that_is_held_for_a_moment_is_waited_for(node: Node) -> None:
    """As udev does when it looks at a new disk."""
    held = os.open(node.device, os.O_RDONLY | os.O_EXCL)
    process = node.start()
    time.sleep(1.0)
    os.close(held)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert node.is_mounted()


@pytest.mark.parametrize(("kind", "seconds"), [("xfs", 0.0), ("ext4", 0.01), ("xfs", 0.03), ("ext4", 0.06)])
def test_killed_at_any_moment_the_next_start_finishes(node: Node, kind: str, seconds: float) -> None:
    node.wish(format=kind)
    process = node.start()
    state = node.directory / "state.json"
    while process.poll() is None and not state.exists():
        time.sleep(0.001)
    time.sleep(seconds)
    process.kill()
    process.communicate()
    # mkfs has its own group, and survives the kill of its parent for a moment.
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        status, _, err = node()
        if "held by something" not in err and "in use" not in err:
            break
    assert (status, err) == (0, "")
    assert node.is_mounted()
    assert json.loads((node.directory / "state.json").read_text())["intents"] == []


def test_half_made_by_mkfs_and_cut_off_it_is_made_again(node: Node) -> None:
    """The disk as mkfs.ext4 leaves it half way: bytes, but no signature yet."""
    assert node()[0] == 0
    unmount(node.mount_point)
    state = json.loads((node.directory / "state.json").read_text())
    state["intents"], state["made"] = state["made"], []
    (node.directory / "state.json").write_text(json.dumps(state))
    write_on(node, 0, bytes(SIZE))
    write_on(node, 1 << 20, b"half a file system")
    status, out, err = node()
    assert (status, err) == (0, "")
    assert "an interrupted build is begun again" in out


def test_sigterm_ends_it_in_good_order(node: Node) -> None:
    process = node.start()
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    assert process.returncode in (0, 143, -signal.SIGTERM)
    assert "Traceback" not in err
    assert node()[0] == 0


def test_two_at_a_time_make_one(node: Node) -> None:
    both = [node.start(), node.start()]
    ended = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], ended
    assert sum("mkfs" in out for out, _ in ended) == 1
    assert sum("nothing to do" in out for out, _ in ended) == 1


def test_a_disk_that_fails_is_named_and_the_build_goes_on_later(tmp_path: Path) -> None:
    """The image lies on a file system that is full: what mkfs writes fails as on a broken disk."""
    needs("mkfs.xfs", "wipefs")
    with loop_mount(tmp_path, mib=24) as small:
        image = small / "disk.img"
        with image.open("wb") as file:
            file.truncate(SIZE)
        filler = small / "filler"
        device = run("losetup", "--find", "--show", image).strip()
        node = Node(tmp_path, image, device, tmp_path / "scratch.json")
        (tmp_path / "scratch.pyz").write_bytes(SCRATCH.archive())
        node.wish(format="ext4")
        try:
            subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=64K"], capture_output=True, check=False)
            status, _, err = node()
            assert status == 3
            assert "mkfs.ext4" in err
            assert f"{device} has serial {image}" in err
            assert "it goes on from there" in err
            filler.unlink()
            status, out, err = node()
            assert (status, err) == (0, ""), err
            assert "an interrupted build is begun again" in out
        finally:
            if node.is_mounted():
                unmount(node.mount_point)
            run("losetup", "--detach", device)
