"""What the node tells of the file system below a path."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.filesystems import kind_of, library_directories
from gridwright.filesystems.library_directories import make_library_directories
from gridwright.filesystems.mounts import LibraryMount, describe_mount, mount_of, parse_mounts
from gridwright.spec import GridSpec, load_spec
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


# Directories of libraries that are missing: which are made, and which are an error, told once.

LIBRARIES = ("data", "work", "util")


def spec_at(directory: Path, path: str, kind: str = "local", more: str = "") -> GridSpec:
    directory.mkdir(exist_ok=True)
    file = directory / "grid.yaml"
    file.write_text(f"filesystems:\n  disk: {{type: {kind}, path: {path}{more}}}\n")
    return load_spec(file)


def refused(spec: GridSpec) -> str:
    with pytest.raises(GridwrightError) as caught:
        make_library_directories(spec)
    assert caught.value.status is ExitStatus.ENVIRONMENT
    (problem,) = caught.value.problems
    assert problem.remedy
    return f"{problem.where}: {problem.what}"


def test_libraries_below_the_directory_of_the_spec_are_made(tmp_path: Path) -> None:
    spec = spec_at(tmp_path / "new", "./grid-disk")
    disk = tmp_path / "new" / "grid-disk"
    assert make_library_directories(spec) == [str(disk / name) for name in LIBRARIES]
    assert sorted(path.name for path in disk.iterdir()) == sorted(LIBRARIES)
    assert make_library_directories(spec) == [], "once they are there, nothing is done or said"


def test_only_what_is_missing_is_made(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    (disk / "data").mkdir(parents=True)
    (disk / "work").write_text("a file in its place is for the test to tell of")
    assert make_library_directories(spec_at(tmp_path / "spec", str(disk))) == [str(disk / "util")]
    assert (disk / "work").is_file()


def test_a_directory_elsewhere_that_is_missing_is_told_of_once(tmp_path: Path) -> None:
    said = refused(spec_at(tmp_path / "spec", str(tmp_path / "none")))
    assert said == f"{tmp_path}/none: file system disk: there is no such directory"
    assert not (tmp_path / "none").exists()


def test_a_mount_point_of_fstab_that_nothing_is_mounted_on_stays_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were libraries made there, the root disk would be measured in the place of the disk that is meant."""
    point = tmp_path / "spec" / "scratch"
    (point / "grid").mkdir(parents=True)
    fstab = tmp_path / "fstab"
    fstab.write_text(f"# what is where\nLABEL=scratch\t{point}  xfs   noatime 0 2\n")
    monkeypatch.setattr(library_directories, "_FSTAB", fstab)
    said = refused(spec_at(tmp_path / "spec", "./scratch/grid"))
    assert f"{point} is a mount point in {fstab}, and nothing is mounted there" in said
    assert list((point / "grid").iterdir()) == []


def test_an_empty_directory_where_disks_are_mounted_by_custom_is_taken_for_a_mount_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = tmp_path / "mnt"
    (places / "scratch").mkdir(parents=True)
    monkeypatch.setattr(library_directories, "_MOUNT_PLACES", (places,))
    monkeypatch.setattr(library_directories, "_ROOT", os.geteuid())
    spec = spec_at(tmp_path / "spec", str(places / "scratch"))
    assert "an empty directory where file systems are mounted" in refused(spec)
    (places / "scratch" / "in-use").touch()
    assert len(make_library_directories(spec)) == 3


def test_a_parallel_file_system_that_is_not_mounted_is_no_place_to_make_libraries(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    spec = spec_at(tmp_path / "spec", str(tmp_path / "shared"), "nfs", ", server: nfs1, export: /x")
    assert "no nfs4 or nfs is mounted here" in refused(spec)
    assert list((tmp_path / "shared").iterdir()) == []


@pytest.mark.root
def test_in_the_directory_of_another_user_nothing_is_made(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    os.chown(disk, 12345, 12345)
    assert "belongs to 12345" in refused(spec_at(tmp_path / "spec", str(disk)))
    assert list(disk.iterdir()) == []


def test_several_file_systems_are_told_of_at_once(tmp_path: Path) -> None:
    file = tmp_path / "grid.yaml"
    file.write_text(
        "filesystems:\n  a: {type: local, path: /no/a}\n  b: {type: local, path: /no/b}\n"
        "libraries: {data: {filesystem: a}, work: {filesystem: b}, util: {filesystem: b}}\n"
    )
    with pytest.raises(GridwrightError) as caught:
        make_library_directories(load_spec(file))
    assert [problem.where for problem in caught.value.problems] == ["/no/a", "/no/b"]
