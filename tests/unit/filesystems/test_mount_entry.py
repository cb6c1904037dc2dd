"""What fstab gets for a file system of the spec."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridwright.errors import GridwrightError
from gridwright.filesystems import kind_of
from gridwright.filesystems.mount_table import mount_of, parse_mounts
from gridwright.spec.load import parse_spec
from tests.fixtures.lustre_node import printed


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
