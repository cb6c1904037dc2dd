"""Volumes that both servers of a pair have: iSCSI, udev and systemd on two machines, one of which dies."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.vm.conftest import MakeUml
from tests.vm.iscsi_server import IscsiServer
from tests.vm.iscsi_target import IscsiTarget, iqn
from tests.vm.network import Network
from tests.vm.scratch_node import DESIRED, content

pytestmark = pytest.mark.vm

DEVICES = {"volume-a": "/dev/oracleoci/oraclevdb", "volume-b": "/dev/oracleoci/oraclevdc"}
BYTES = 64 << 20
MARK = b"NSD ID of another cluster"
_NO_CHANGE = {"schema": 1, "steps": [], "troubles": []}
_ANY_SCSI = {**DESIRED, "arrays": [{"name": "scratch", "mount_point": "/scratch", "members": 2,
                                    "match": [{"transport": "scsi"}]}]}  # fmt: skip
"""What a site asks for that takes every SCSI disk for a local one."""
_OF_IMAGE = (
    f'SUBSYSTEM=="block", ENV{{ID_PATH}}=="ip-*-iscsi-{iqn("volume-b")}-lun-*", '
    f'SYMLINK+="oracleoci/oraclevdb", OPTIONS+="link_priority=100"\n'
)
"""A rule that gives the first volume's name to the disk of the other one."""


@dataclass(frozen=True)
class Pair:
    target: IscsiTarget
    first: IscsiServer
    second: IscsiServer
    network: Network

    @property
    def both(self) -> tuple[IscsiServer, IscsiServer]:
        return self.first, self.second

    def assert_same_disks(self) -> None:
        """A name leads to one disk on both, by its serial number and its WWN, and two names to two."""
        told = ("ID_SERIAL", "ID_SCSI_SERIAL", "ID_WWN_WITH_EXTENSION", "ID_PATH")
        first, second = (
            {name: tuple(server.disk(name)[each] for each in told) for name in DEVICES}
            for server in self.both
        )
        assert first == second
        assert len({words for disk in first.values() for words in disk}) == len(DEVICES) * len(told)


@pytest.fixture
def pair(make_uml: MakeUml, network: Network, tmp_path: Path) -> Pair:
    target = IscsiTarget(make_uml, tmp_path, network.port(3), list(DEVICES), BYTES)
    first, second = (
        IscsiServer(
            f"iqn.2016-01.test:nsd{at}", make_uml({}, port=network.port(at), with_systemd=True), DEVICES
        )
        for at in (1, 2)
    )
    return Pair(target, first, second, network)


def test_both_servers_have_each_volume_by_one_name_and_outlive_each_other(pair: Pair) -> None:
    """One story, as each step needs the one before."""
    with pair.target.files["volume-a"].open("r+b") as file:
        file.write(MARK)
    pair.target.boot()
    for server in pair.both:
        server.boot_first()
    for server in pair.both:
        server.wait()
    both_have_them_and_nobody_writes(pair)
    what_one_writes_the_other_reads(pair)
    a_cable_is_pulled(pair)
    the_first_dies(pair)
    it_has_them_again_at_its_start(pair)
    the_second_leaves(pair)
    a_name_that_leads_elsewhere_is_said(pair)


def both_have_them_and_nobody_writes(pair: Pair) -> None:
    first, second = pair.both
    before = {name: content(path) for name, path in pair.target.files.items()}
    first.configure(pair.target, *DEVICES)
    unit = first.machine.start("systemctl start gridwright-volumes")
    # The second one has them in another order, so that the kernel's names are not those of the first.
    second.configure(pair.target, "volume-b")
    assert second.joined()
    second.configure(pair.target, *DEVICES)
    assert "/dev/oracleoci/oraclevdb: log in" in second.joined()
    first.machine.wait(unit, timeout_s=120).ok()
    for server in pair.both:
        assert pair.target.sessions(server.initiator) == len(DEVICES)
        assert json.loads(server.volumes().ok()) == _NO_CHANGE
    pair.assert_same_disks()
    for name in DEVICES:
        assert first.disk(name)["DEVNAME"] != second.disk(name)["DEVNAME"]

    # Another's mark stays: this program writes to no volume, and what formats local disks takes none for one.
    for server in pair.both:
        assert server.machine.run(f"head -c {len(MARK)} {DEVICES['volume-a']}").ok() == MARK.decode()
        standings = server.scratch_standings(_ANY_SCSI)
        assert {standings[server.disk(name)["DEVNAME"]] for name in DEVICES} == {"no instance store"}
    pair.target.sync()
    assert {name: content(path) for name, path in pair.target.files.items()} == before


def what_one_writes_the_other_reads(pair: Pair) -> None:
    for at, name in enumerate(DEVICES, start=10):
        pair.first.write(name, "F", at)
        assert pair.second.read(name, at) == "F"
        pair.second.write(name, "S", at)
        assert pair.first.read(name, at) == "S"
        pair.target.sync()
        with pair.target.files[name].open("rb") as file:
            file.seek(at * 4096)
            assert file.read(4096) == b"S" * 4096


def a_cable_is_pulled(pair: Pair) -> None:
    """The second one goes on; the first one's read is answered when it is plugged in again."""
    pair.network.plug(1, to="down")
    waiting = pair.first.machine.start(pair.first.reading("volume-a", 20))
    pair.second.write("volume-a", "C", 20)
    assert pair.second.read("volume-a", 20) == "C"
    assert not (pair.first.machine.share / f"{waiting}.status").exists()
    silent = "until grep -q FAILED /sys/class/iscsi_session/*/state; do sleep 0.2; done"
    pair.first.machine.run(silent, timeout_s=120).ok()
    pair.first.configure(pair.target, *DEVICES, wait_seconds=0)
    said = pair.first.volumes()
    assert (said.status, "does not answer any more" in said.stderr) == (3, True), said
    pair.network.plug(1, to="up")
    assert pair.first.machine.wait(waiting, timeout_s=60).ok() == "C"


def the_first_dies(pair: Pair) -> None:
    """While it writes. The second one reads what both had written, and writes on both volumes."""
    # What a power cut leaves of a record that was not on the disk yet.
    pair.first.machine.run(f": > $(find /etc/iscsi/nodes/{iqn('volume-b')} -type f); sync").ok()
    writes = f"dd if=/dev/zero of={DEVICES['volume-a']} bs=1M seek=32 count=16 oflag=direct"
    pair.first.machine.start(f"while {writes}; do :; done")
    pair.first.machine.power_off()
    for at, name in enumerate(DEVICES, start=30):
        pair.second.write(name, "D", at)
        assert pair.second.read(name, at) == "D"
        assert pair.second.read(name, at - 20) == "S"


def it_has_them_again_at_its_start(pair: Pair) -> None:
    """The system logs in to what it has a record of; names are there before what serves volumes starts."""
    pair.first.machine.boot()
    pair.first.wait()
    assert pair.first.machine.run("cat /run/found-by-daemon").ok().split() == ["oraclevdb", "oraclevdc"]
    logins = pair.first.machine.run("journalctl --boot --unit open-iscsi --no-pager").ok()
    assert f"target: {iqn('volume-a')}, portal: {pair.target.address},3260] successful" in logins
    assert iqn("volume-b") not in logins
    pair.assert_same_disks()
    assert pair.first.read("volume-b", 31) == "D"
    assert json.loads(pair.first.volumes().ok()) == _NO_CHANGE


def the_second_leaves(pair: Pair) -> None:
    """A disk that something has open is not taken from under it; the first one loses nothing."""
    first, second = pair.both
    opens = f"sleep 600 < {DEVICES['volume-a']} > /dev/null 2>&1 & echo $! > /run/opener"
    second.machine.run(opens).ok()
    left = second.volumes("--leave")
    assert (left.status, "/dev/oracleoci/oraclevdb is in use: sleep" in left.stderr) == (3, True), left
    assert pair.target.sessions(second.initiator) == len(DEVICES)
    second.machine.run("kill $(cat /run/opener)").ok()
    second.volumes("--leave").ok()
    assert pair.target.sessions(second.initiator) == 0
    assert not second.machine.run("ls /dev/oracleoci; ls /sys/class/iscsi_session").stdout
    first.write("volume-a", "L", 40)
    assert first.read("volume-a", 40) == "L"


def a_name_that_leads_elsewhere_is_said(pair: Pair) -> None:
    (pair.first.machine.share / "image.rules").write_text(_OF_IMAGE)
    pair.first.machine.run(
        "cp /vm/image.rules /etc/udev/rules.d/95-image.rules; udevadm control --reload;"
        "udevadm trigger --subsystem-match=block --action=change; udevadm settle"
    ).ok()
    misled = pair.first.volumes()
    assert misled.status == 3
    assert f"/dev/oracleoci/oraclevdb leads to {iqn('volume-b')}, not to {iqn('volume-a')}" in misled.stderr
