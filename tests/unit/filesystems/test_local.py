"""Local file systems on md arrays and disks, in a tree like that of a recorded machine, and here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.commands import CommandOutput, run_here
from gridwright.errors import environment_error
from gridwright.filesystems import kind_of
from gridwright.filesystems.block_devices import below, local_mount, parse_diskstats, read_counts_below
from gridwright.filesystems.counters import traffic
from gridwright.filesystems.health import Condition, Health
from gridwright.filesystems.local.health import health, what_is_below
from gridwright.filesystems.local.kind import LocalFileSystem

RECORDED = Path(__file__).parents[2] / "fixtures" / "md"
DISKS = ("nvme0n1", "nvme1n1", "nvme2n1", "nvme3n1")
NUMBERS = {"md0": "9:0", "nvme0n1": "259:3", "nvme1n1": "259:2", "nvme2n1": "259:0", "nvme3n1": "259:1"}


def printed(name: str) -> str:
    return (RECORDED / f"{name}.out").read_text()


def put(root: Path, name: str, text: str) -> None:
    path = root / name.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def device(root: Path, name: str, number: str, above: str = "sys/devices/virtual/block") -> Path:
    here = root / above / name
    here.mkdir(parents=True)
    for link in (f"sys/class/block/{name}", f"sys/dev/block/{number}"):
        (root / link).parent.mkdir(parents=True, exist_ok=True)
        (root / link).symlink_to(here)
    return here


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The recorded machine: md0 of four NVMe disks, XFS mounted at /mnt/nvme, ext4 on a partition at /."""
    for name, number in NUMBERS.items():
        device(tmp_path, name, number)
    for disk in DISKS:
        slave = tmp_path / "sys/class/block/md0/slaves" / disk
        slave.parent.mkdir(exist_ok=True)
        slave.symlink_to(tmp_path / "sys/class/block" / disk)
        put(tmp_path, f"sys/class/block/md0/md/dev-{disk}/state", "in_sync\n")
    for line in (printed("866-md-sysfs") + printed("867-sysfs-nvme-model")).splitlines():
        name, _, value = line.partition(":")
        put(tmp_path, name.replace("/sys/block/", "/sys/class/block/"), value + "\n")
    whole = device(tmp_path, "vda", "254:0")
    put(tmp_path, "sys/class/block/vda/size", "6291456\n")
    part = device(tmp_path, "vda1", "254:1", str(whole.relative_to(tmp_path)))
    (part / "partition").write_text("1\n")
    xfs = printed("816-mount").splitlines()[1].split(" ")
    mountinfo = (
        "21 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro\n"
        f"40 21 9:0 / /mnt/nvme rw,noatime shared:2 - xfs /dev/md0 {xfs[3]}\n"
    )
    put(tmp_path, "proc/self/mountinfo", mountinfo)
    put(tmp_path, "proc/diskstats", printed("884-diskstats"))
    return tmp_path


def space(text: str = "4096 1030016 1014514 2092800 2092797\n") -> object:
    def run(command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        assert list(command[:3]) == ["stat", "-f", "-c"]
        assert timeout_s <= 5
        return CommandOutput(0, text.encode(), b"")

    return run


def asked(root: Path, path: str = "/mnt/nvme/work", run: object = None) -> Health:
    return health(run or space(), path, root)  # type: ignore[arg-type]


def names(found: Health) -> list[str]:
    return [each.name for each in found.findings]


def array(root: Path, name: str, value: str) -> None:
    put(root, f"sys/class/block/md0/md/{name}", value + "\n")


def test_an_array_that_is_well_has_nothing_to_say(root: Path) -> None:
    found = asked(root)
    assert (found.condition, names(found)) == (Condition.HEALTHY, [])
    assert [(each.name, each.up, each.state, each.capacity_bytes) for each in found.targets] == [
        (disk, True, "in_sync", 2**30) for disk in DISKS
    ]
    assert (found.capacity_bytes, found.available_bytes) == (1030016 * 4096, 1014514 * 4096)


def test_what_a_mount_lies_on_is_followed_to_the_disks(root: Path) -> None:
    found = what_is_below("/mnt/nvme/work", root)
    assert found is not None
    assert [each.name for each in found.disks] == list(DISKS)
    assert found.disks[0].model == "QEMU NVMe Ctrl"
    assert (found.arrays[0].level, found.arrays[0].chunk_bytes, found.arrays[0].disks) == ("raid0", 65536, 4)
    assert (found.mount.sectors("sunit"), found.mount.sectors("swidth")) == (65536, 4 * 65536)
    system = what_is_below("/home", root)
    assert system is not None
    assert (system.device, [each.name for each in system.disks]) == ("vda1", ["vda"])
    assert below(root, "md0") == ["md0", *DISKS]


def test_a_raid_0_that_lost_a_disk_is_broken_though_it_has_no_count_of_them(root: Path) -> None:
    array(root, "array_state", "broken")
    put(root, "sys/class/block/md0/md/dev-nvme3n1/state", "faulty\n")
    found = asked(root)
    assert (found.condition, names(found)) == (Condition.BROKEN, ["raid-broken"])
    assert "nvme3n1 (faulty)" in found.findings[0].text
    assert [each.up for each in found.targets] == [True, True, True, False]


def test_an_array_that_misses_a_disk_is_degraded_and_says_when_it_rebuilds(root: Path) -> None:
    array(root, "level", "raid5")
    array(root, "degraded", "1")
    # Its stripes carry data on three disks, so the recorded geometry would be wrong for it.
    info = (root / "proc/self/mountinfo").read_text().replace("swidth=512", "swidth=384")
    put(root, "proc/self/mountinfo", info)
    found = asked(root)
    assert (found.condition, names(found)) == (Condition.DEGRADED, ["raid-degraded"])
    assert "misses 1 of 4 disks" in found.findings[0].text
    array(root, "degraded", "0")
    array(root, "sync_action", "recover")
    found = asked(root)
    assert (found.condition, names(found)) == (Condition.HEALTHY, ["raid-rebuilding"])


@pytest.mark.parametrize("state", ["dead", "offline", "resetting"])
def test_a_disk_that_its_driver_gave_up_is_told(root: Path, state: str) -> None:
    put(root, "sys/class/block/nvme1n1/device/state", f"{state}\n")
    found = asked(root)
    assert (found.condition, names(found)) == (Condition.BROKEN, ["disk-bad"])
    assert f"nvme1n1 (QEMU NVMe Ctrl) is {state}" in found.findings[0].text


def test_a_file_system_that_the_kernel_made_read_only_is_told(root: Path) -> None:
    info = (root / "proc/self/mountinfo").read_text().replace("ext4 /dev/vda1 rw", "ext4 /dev/vda1 ro")
    put(root, "proc/self/mountinfo", info)
    put(root, "sys/fs/ext4/vda1/errors_count", "3\n")
    found = asked(root, "/home")
    assert (found.condition, names(found)) == (
        Condition.BROKEN,
        ["filesystem-read-only", "filesystem-errors"],
    )


@pytest.mark.parametrize("options", ["sunit=128,swidth=256", "sunit=1024,swidth=4096", "noquota"])
def test_xfs_that_does_not_know_its_stripes_is_told(root: Path, options: str) -> None:
    info = (root / "proc/self/mountinfo").read_text().replace("sunit=128,swidth=512", options)
    put(root, "proc/self/mountinfo", info)
    found = asked(root)
    assert names(found) == ["filesystem-misaligned"]
    assert "mkfs.xfs -d su=64k,sw=4" in found.findings[0].remedy


def test_a_disk_that_hangs_is_a_finding_and_no_hang(root: Path) -> None:
    def run(command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        raise environment_error("stat -f /mnt/nvme has not answered for 5 s")

    found = asked(root, run=run)
    assert (found.condition, names(found)) == (Condition.SILENT, ["filesystem-silent"])
    assert len(found.targets) == 4


def test_a_full_file_system_is_told(root: Path) -> None:
    found = asked(root, run=space("4096 1030016 51500 2092800 2092797\n"))
    assert (found.condition, names(found)) == (Condition.DEGRADED, ["filesystem-full"])
    assert "95 % in use" in found.findings[0].text
    assert names(asked(root, run=space("4096 1030016 0 2092800 2092797\n"))) == ["filesystem-full"]


def test_devices_that_point_at_each_other_end(root: Path) -> None:
    slaves = root / "sys/class/block/nvme0n1/slaves"
    slaves.mkdir()
    (slaves / "md0").symlink_to(root / "sys/class/block/md0")
    assert sorted(below(root, "md0")) == sorted(["md0", *DISKS])


def test_a_mount_on_top_of_another_is_the_one_that_counts(root: Path) -> None:
    info = (root / "proc/self/mountinfo").read_text() + "41 40 0:50 / /mnt/nvme rw - tmpfs tmpfs rw\n"
    put(root, "proc/self/mountinfo", info)
    found = local_mount(root, "/mnt/nvme/x")
    assert found is not None
    assert found.type == "tmpfs"
    assert names(asked(root)) == []
    odd = "42 40 0:51 / /mnt/a\\040b rw - tmpfs tmpfs rw\n"
    put(root, "proc/self/mountinfo", info + odd)
    spaced = local_mount(root, "/mnt/a b/c")
    assert spaced is not None
    assert spaced.point == "/mnt/a b"


def test_disks_moved_what_was_written_and_read() -> None:
    before, written, read = (
        parse_diskstats(printed(f"{name}-n-diskstats"), at)
        for name, at in (("310-before", 0.0), ("330-after-write", 8.0), ("350-after-read", 18.0))
    )
    first = {each.target: each for each in traffic(before, written)}
    # 100 MiB each, and what the file system adds.
    for disk in ("vdd", "vde"):
        assert 100 * 2**20 <= first[disk].written_bytes < 105 * 2**20
        assert first[disk].seconds == 8.0
        assert 0 < (first[disk].busy or 0) < 1
        assert (first[disk].in_flight or 0) > 0
    assert first["nvme0n1"].written_bytes == 0
    assert first["nvme0n1"].busy == 0
    second = {each.target: each for each in traffic(written, read)}
    assert second["vdd"].written_bytes < 5 * 2**20
    assert traffic(written, before) == [], "time went back"


def test_counts_that_began_anew_give_no_figure() -> None:
    old = parse_diskstats("8 0 sda 100 0 800 5 100 0 800 5 0 10 10\n8 16 sdb 1 0 8 1 1 0 8 1 0 1 1\n", 0.0)
    new = parse_diskstats("8 0 sda 1 0 8 1 1 0 8 1 0 1 1\n8 32 sdc 1 0 8 1 1 0 8 1 0 1 1\n", 1.0)
    assert traffic(old, new) == []


def test_of_an_array_the_array_is_counted_and_not_its_disks(root: Path) -> None:
    rows = "".join(f"259 0 {name} 1 0 8 1 1 0 8 1 0 1 1\n" for name in ("md0", *DISKS, "vda"))
    put(root, "proc/diskstats", rows)
    assert list(read_counts_below("/mnt/nvme/work", root)) == ["md0"]
    assert read_counts_below("/proc", root) == {}


def test_this_machine_can_be_asked(tmp_path: Path) -> None:
    spec = LocalFileSystem.model_validate({"type": "local", "path": tmp_path})
    found = kind_of(spec).health(spec, run_here, str(tmp_path))
    assert found is not None
    status = os.statvfs(tmp_path)
    assert found.capacity_bytes == status.f_blocks * status.f_frsize
    counts = read_counts_below(str(tmp_path))
    assert all(each.at_s > 0 and name == each.target for name, each in counts.items())


@given(
    st.text(max_size=300) | st.sampled_from([printed("884-diskstats")]),
    st.integers(0, 1300),
    st.text(max_size=9),
)
def test_garbled_counts_never_break_the_parser(text: str, at: int, put_in: str) -> None:
    reading = parse_diskstats(text[:at] + put_in + text[at:], 1.0)
    assert all(each.read_bytes >= 0 for each in reading.values())
