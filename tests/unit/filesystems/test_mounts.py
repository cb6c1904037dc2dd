"""What the node tells of the file system below a path."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from gridwright.filesystems.mounts import LibraryMount, describe_mount


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
