"""What is said of a machine that cannot have a lab: all of it, each with its remedy."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gridwright.errors import Problem
from gridwright.filesystems import library_directories
from gridwright.providers.lab.layout import layout_of
from gridwright.providers.lab.preflight import Facts, look, memory_needed, problems
from gridwright.spec.model import GridSpec
from tests.unit.providers.lab_specs import moosefs, spec

FIT = Facts(
    is_root=True,
    kernel=(6, 1),
    missing_tools=frozenset(),
    has_image=True,
    has_keys=True,
    fuse=None,
    namespaces=None,
    networks=(),
    free_bytes=10**11,
    image_free_bytes=10**11,
    available_memory_bytes=10**11,
)
WITH_MOOSEFS = spec(filesystems={"shared": moosefs(3)})


def found(wanted: GridSpec, facts: Facts) -> list[Problem]:
    return list(problems(wanted, layout_of(wanted), facts))


def test_a_machine_that_has_everything_is_fit() -> None:
    assert found(WITH_MOOSEFS, FIT) == []


@pytest.mark.parametrize(
    ("facts", "what", "remedy"),
    [
        ({"is_root": False}, "only root", "sudo"),
        ({"kernel": (4, 18)}, "kernel of this machine is 4.18, and a lab needs 5.6", "newer"),
        ({"namespaces": "Operation not permitted"}, "namespaces: Operation not permitted", "--privileged"),
        (
            {"missing_tools": frozenset({"ip", "nsenter"})},
            "ip, nsenter",
            "apt-get install iproute2 util-linux",
        ),
        (
            {"missing_tools": frozenset({"debootstrap"}), "has_image": False},
            "debootstrap; the node image",
            "apt-get install debootstrap",
        ),
        ({"has_keys": False, "has_image": False}, "debian-archive-keyring", "apt-get install debian-archive"),
        ({"fuse": "No such device"}, "/dev/fuse cannot be used: No such device", "modprobe fuse"),
        ({"free_bytes": 10**8}, "100 MB are free, and a lab needs 500 MB", "room"),
        ({"image_free_bytes": 10**8, "has_image": False}, "making the node image needs 1500 MB", "XDG_CACHE"),
        ({"available_memory_bytes": 3 * 10**8}, "300 MB of memory are available", "472 MB"),
        (
            {"networks": ((ipaddress.IPv4Network("10.77.0.0/16"), "docker0"),)},
            "10.77.0.0/24, are in use on this machine: 10.77.0.0/16 on docker0",
            "write lab: {network: 10.78.0.0/24}",
        ),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_what_is_missing_is_named_with_its_remedy(facts: dict[str, Any], what: str, remedy: str) -> None:
    (problem,) = found(WITH_MOOSEFS, replace(FIT, **facts))
    assert what in problem.what
    assert problem.remedy is not None
    assert remedy in problem.remedy


def test_a_tool_is_asked_for_where_the_spec_needs_it() -> None:
    without = replace(FIT, missing_tools=frozenset({"tc", "losetup"}))
    assert found(WITH_MOOSEFS, without) == []
    (problem,) = found(spec(lab={"bandwidth": "100 MB/s"}), without)
    assert problem.what == "not installed here: tc"
    assert "apt-get install iproute2" in str(problem.remedy)


def test_all_that_is_missing_comes_at_once() -> None:
    none = replace(
        FIT,
        is_root=False,
        kernel=(3, 10),
        has_image=False,
        has_keys=False,
        fuse="x",
        available_memory_bytes=0,
    )
    assert len(found(WITH_MOOSEFS, none)) == 5


def test_what_is_not_needed_is_not_asked_for() -> None:
    """No FUSE without MooseFS, no debootstrap where there is an image, no range that only lies beside."""
    beside = (ipaddress.IPv4Network("10.78.0.0/24"), "eth0")
    facts = replace(
        FIT, fuse="x", missing_tools=frozenset({"debootstrap"}), has_keys=False, networks=(beside,)
    )
    assert found(spec(), facts) == []


@pytest.mark.parametrize("path", ["/usr", "/var", "/root", "/var/lib/gridwright/labs"])
def test_a_file_system_must_not_hide_what_nodes_need(path: str) -> None:
    (problem,) = found(spec(filesystems={"shared": {"type": "local", "path": path}}), FIT)
    assert f"{path} would hide" in problem.what
    assert problem.field == "filesystems.shared.path"


def test_the_state_must_be_where_this_machine_sees_it() -> None:
    (problem,) = found(spec(state="/mnt/grid/state"), FIT)
    assert problem.field == "state"


def test_a_moosefs_master_is_counted_once_for_each_file_system() -> None:
    def needed(**filesystems: dict[str, Any]) -> int:
        wanted = spec(filesystems=filesystems, libraries={"data": {"filesystem": next(iter(filesystems))}})
        return memory_needed(wanted, layout_of(wanted))

    none = needed(a={"type": "local", "path": "/mnt/a"})
    one, two = needed(a=moosefs(1, "/mnt/a")), needed(a=moosefs(1, "/mnt/a"), b=moosefs(1, "/mnt/b"))
    assert one - none > 450 << 20
    assert two - one == one - none


def test_looking_changes_nothing_and_finds_this_machine() -> None:
    facts = look()
    assert facts.kernel >= (4, 0)
    assert facts.available_memory_bytes > 0
    assert facts.free_bytes > 0
    assert all(not network.is_loopback for network, _ in facts.networks)


def test_a_disk_of_labs_that_is_not_mounted_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """After a boot without it: a new lab would hide the one that is on it."""
    fstab = tmp_path / "fstab"
    fstab.write_text("/dev/sdz1 /var/lib/gridwright ext4 defaults 0 2\n")
    monkeypatch.setattr(library_directories, "_FSTAB", fstab)
    (problem,) = found(WITH_MOOSEFS, FIT)
    assert "/var/lib/gridwright is a mount point in /etc/fstab, and nothing is mounted there" in problem.what
    assert problem.remedy == "mount it: mount /var/lib/gridwright"
