"""What the node tells of the file system below a path."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from gridwright.errors import GridwrightError
from gridwright.filesystems import kind_of
from gridwright.filesystems.mount_table import mount_of, parse_mounts
from gridwright.filesystems.mounts import LibraryMount, describe_mount
from gridwright.spec.load import parse_spec
from tests.fixtures.lustre_node import printed


def facts(kind: str) -> LibraryMount:
    return LibraryMount("/data", kind, "rw", "source", None, None, None, None, None, 0, 0, 0)


def part(device: str, mountpoint: str, fstype: str, opts: str) -> SimpleNamespace:
    return SimpleNamespace(device=device, mountpoint=mountpoint, fstype=fstype, opts=opts)


def test_the_root_is_described(tmp_path: Path) -> None:
    found = describe_mount(Path("/"))
    assert found.mount_point == "/"
    assert found.filesystem_type
    status = os.statvfs("/")
    assert found.total_bytes == status.f_blocks * status.f_frsize
    assert 0 < found.available_bytes <= found.total_bytes - found.used_bytes


def test_a_path_is_described_by_the_deepest_mount_above_it() -> None:
    assert describe_mount(Path("/proc/self")).filesystem_type == "proc"
    assert describe_mount(Path("/dev/shm")).memory_backed


def test_links_are_followed_to_where_the_data_is(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/dev/shm")
    assert describe_mount(link).mount_point == "/dev/shm"


def test_what_is_missing_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        describe_mount(tmp_path / "nothing")


def test_of_two_mounts_on_one_point_the_last_is_on_top(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [
        part("/dev/vda", "/", "ext4", "rw"),
        part("/dev/below", str(tmp_path), "xfs", "rw"),
        part("/dev/above", str(tmp_path), "lustre", "ro"),
        part("/dev/other", f"{tmp_path}-other", "nfs", "rw"),
    ]
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: parts)
    found = describe_mount(tmp_path)
    assert (found.source, found.filesystem_type, found.options) == ("/dev/above", "lustre", "ro")


@pytest.mark.parametrize(
    ("kind", "memory", "network"),
    [
        ("tmpfs", True, False),
        ("ramfs", True, False),
        ("ext4", False, False),
        ("lustre", False, True),
        ("nfs4", False, True),
        ("gpfs", False, True),
        ("fuse.sshfs", False, True),
    ],
)
def test_memory_and_servers_are_told_apart(kind: str, memory: bool, network: bool) -> None:
    assert (facts(kind).memory_backed, facts(kind).served_over_network) == (memory, network)


# What fstab gets for a file system of the spec.


def entry(text: str) -> tuple[str, str, str, str] | None:
    spec = parse_spec(f"filesystems:\n  fs: {{{text}}}\n", base=Path("/base"))
    found = kind_of(spec.filesystems["fs"]).mount_entry(spec.filesystems["fs"])
    return None if found is None else (found.source, found.mount_point, found.type, found.option_text)


def test_lustre_is_mounted_with_locks_for_all_nodes() -> None:
    assert entry('type: lustre, path: /l, source: "10.0.0.1@tcp:10.0.0.2@tcp:/scratch"') == (
        "10.0.0.1@tcp:10.0.0.2@tcp:/scratch",
        "/l",
        "lustre",
        "flock,noatime,_netdev",
    )


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ("", "vers=4.2,proto=tcp,hard,rsize=1048576,wsize=1048576,_netdev"),
        (
            ", connections: 8, version: 4.1",
            "vers=4.1,proto=tcp,hard,nconnect=8,rsize=1048576,wsize=1048576,_netdev",
        ),
        (", version: 3", "vers=3,proto=tcp,hard,rsize=1048576,wsize=1048576,_netdev"),
    ],
)
def test_nfs_is_mounted_hard_and_with_the_version_of_the_spec(fields: str, options: str) -> None:
    assert entry(f"type: nfs, path: /g, server: nfs1, export: /srv{fields}") == (
        "nfs1:/srv",
        "/g",
        "nfs",
        options,
    )


@pytest.mark.parametrize(
    "text",
    [
        "type: local, path: /scratch, disks: {type: instance-store}",
        "type: lustre, path: /l, oss: {instance: c5n.9xlarge, disks: {type: gp3, size: 1 TiB}}",
        "type: moosefs, path: /m",
    ],
)
def test_what_fstab_has_no_part_in_has_no_entry(text: str) -> None:
    assert entry(text) is None


def test_mounts_are_found_by_path() -> None:
    mounts = parse_mounts(printed("005-proc-mounts"))
    found = mount_of("/mnt/scratch/work", mounts)
    assert found is not None
    assert (found.source, found.type) == ("192.168.77.1@tcp:/scratch", "lustre")
    assert (found.option("flock"), found.option("nosuch")) == ("", None)
    server = mount_of("/mnt/ost1", mounts)
    assert server is not None
    assert server.option("svname") == "scratch-OST0001"
    assert mount_of("/mnt/scratches", mounts) is None


@pytest.mark.parametrize(
    "text",
    [
        "type: fsx-lustre, capacity: 2.4 TiB, path: /l",
        "type: lustre, path: /l, oss: {instance: c6in.8xlarge, count: 2}",
        'type: lustre, path: /l, source: "10.20.64.10@tcp:/made"',
    ],
)
def test_a_lustre_that_is_yet_to_be_built_is_mounted_once_its_source_is_known(text: str) -> None:
    filesystem = parse_spec(f"filesystems:\n  fs: {{{text}}}\n").filesystems["fs"]
    if "source" not in text:
        assert kind_of(filesystem).mount_entry(filesystem) is None
    # What the spec says goes first.
    known = "10.0.0.9@tcp:/other" if "source" in text else "10.20.64.10@tcp:/made"
    found = kind_of(filesystem).mount_entry(filesystem, known)
    assert found is not None
    assert (found.source, found.mount_point, found.type) == ("10.20.64.10@tcp:/made", "/l", "lustre")
    assert found.option_text == "flock,noatime,_netdev"


def test_programs_on_a_mount_make_nobody_somebody_else_unless_the_spec_says_so() -> None:
    spec = parse_spec('filesystems:\n  fs: {type: lustre, path: /l, source: "10.0.0.1@tcp:/scratch"}\n')
    found = kind_of(spec.filesystems["fs"]).mount_entry(spec.filesystems["fs"])
    assert found is not None
    assert spec.filesystems["fs"].suid is False
    assert found.for_nodes(suid=False).option_text == "flock,noatime,nosuid,nodev,_netdev"
    assert found.for_nodes(suid=True).option_text == "flock,noatime,_netdev"
    assert found.for_nodes(suid=False).for_nodes(suid=True).options == found.options


def test_disks_of_nodes_never_have_programs_that_make_somebody_else() -> None:
    with pytest.raises(GridwrightError, match="disks of nodes with nosuid"):
        parse_spec("filesystems:\n  fs: {type: local, path: /scratch, suid: true}\n")
