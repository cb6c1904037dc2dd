"""Volumes by iSCSI: the same names on both servers, twice the same, and nothing under a file system goes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gridwright.providers.oci.files import VOLUMES
from gridwright.providers.oci.volumes import Portal, VolumesError, attachments_of, flush_records, udev_rules
from tests.support.oci_instance import OciInstance

DOUBLES = Path(__file__).parents[1] / "support/iscsi_double"
NAMES = [f"/dev/oracleoci/oraclevd{letter}" for letter in ("b", "c", "aa")]


def attachment(number: int, device: str, **more: Any) -> dict[str, Any]:
    return {
        "id": f"ocid1.volumeattachment.oc1..{number}",
        "attachmentType": "iscsi",
        "lifecycleState": "ATTACHED",
        "device": device,
        "iqn": f"iqn.2015-12.com.oracleiaas:volume-{number}",
        "ipv4": f"169.254.2.{number}",
        "port": 3260,
        "isMultipath": False,
        **more,
    }


ATTACHED = [attachment(number, name) for number, name in enumerate(NAMES, start=1)]


@dataclass
class Server:
    """A machine in a directory, with doubles of iscsiadm and udevadm."""

    root: Path
    attachments: list[dict[str, Any]] | None = field(default_factory=lambda: list(ATTACHED))
    wanted: list[str] = field(default_factory=lambda: list(NAMES))
    wait_seconds: float = 0
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for directory in ("etc/gridwright", "run", "sys/block", "proc/self"):
            (self.root / directory).mkdir(parents=True)
        (self.root / "volumes.pyz").write_bytes(VOLUMES.archive())
        self.targets({each["iqn"]: f"{each['ipv4']}:{each['port']}" for each in ATTACHED})

    def targets(self, known: dict[str, str]) -> None:
        (self.root / "targets.json").write_text(json.dumps(known))

    def run(self, *words: str) -> tuple[int, dict[str, Any]]:
        volumes = [{"name": f"grid-p1-v{at:02}", "device": name} for at, name in enumerate(self.wanted)]
        config = {"schema": 1, "volumes": volumes, "wait_seconds": self.wait_seconds}
        config["attachments"] = self.attachments
        path = self.root / "etc/gridwright/volumes.json"
        path.write_text(json.dumps(config))
        done = subprocess.run(
            [sys.executable, self.root / "volumes.pyz", "--json", "--config", path, *words],
            env={
                **os.environ,
                "PATH": f"{DOUBLES}:{os.environ['PATH']}",
                "GRIDWRIGHT_ROOT": str(self.root),
                "GRIDWRIGHT_VOLUMES_PAUSE_S": "0.05",
                **self.environment,
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, json.loads(done.stdout)

    def disk(self, device: str) -> Path:
        return (self.root / device.lstrip("/")).resolve()

    def target(self, device: str) -> str:
        """Of the disk that a name leads to."""
        for session in (self.root / "sys/class/iscsi_session").iterdir():
            if list((session / "device").resolve().glob(f"target*/*/block/{self.disk(device).name}")):
                return (session / "targetname").read_text().strip()
        return ""


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path / "first")


def test_both_servers_have_each_volume_under_the_same_name_and_a_second_run_changes_nothing(
    server: Server, tmp_path: Path
) -> None:
    # Attachments of the other server come in another order, and its disks are found in another one.
    other = Server(tmp_path / "second", attachments=ATTACHED[::-1])
    for each in (server, other):
        status, said = each.run()
        assert (status, said["troubles"]) == (0, [])
        assert {name: each.target(name) for name in NAMES} == {one["device"]: one["iqn"] for one in ATTACHED}
        assert each.run() == (0, {"schema": 1, "steps": [], "troubles": []})
        # Nobody has written to a disk.
        assert {each.disk(name).read_text() for name in NAMES} == {"what is on it"}


def test_a_volume_that_is_attached_later_is_waited_for_and_a_missing_one_is_named(server: Server) -> None:
    server.attachments = ATTACHED[:1]
    status, said = server.run()
    assert status == 3
    assert said["troubles"] == [
        f"grid-p1-v{at:02} is not attached to this machine as {name}: look at attachments of this machine"
        for at, name in enumerate(NAMES[1:], start=1)
    ]
    assert server.target(NAMES[0])


def test_the_cloud_is_asked_where_nobody_says_what_is_attached(server: Server) -> None:
    cloud = OciInstance()
    try:
        cloud.attachments = ATTACHED[:1]
        server.attachments, server.wait_seconds, server.environment = None, 30, cloud.environment
        # The others are attached while the machine waits.
        cloud.later = ATTACHED
        status, said = server.run()
        assert (status, said["troubles"]) == (0, [])
    finally:
        cloud.close()


def test_a_name_that_leads_to_another_volume_stops_it(server: Server) -> None:
    assert server.run()[0] == 0
    link = server.root / NAMES[0].lstrip("/")
    there = server.disk(NAMES[1]).name
    link.unlink()
    link.symlink_to(f"../{there}")
    status, said = server.run()
    assert status == 3
    assert said["troubles"] == [
        f"{NAMES[0]} leads to {ATTACHED[1]['iqn']}, not to {ATTACHED[0]['iqn']}: "
        "detach one of the two, and restart the machine"
    ]


def used_by_a_daemon(server: Server, disk: str) -> None:
    process = server.root / "proc/4242"
    (process / "fd").mkdir(parents=True)
    (process / "comm").write_text("mmfsd\n")
    (process / "fd/17").symlink_to(f"/dev/{disk}")


def mounted(server: Server, disk: str) -> None:
    number = (server.root / f"sys/block/{disk}/dev").read_text().strip()
    (server.root / "proc/self/mountinfo").write_text(
        f"31 1 {number} / /srv/ost1 rw - lustre /dev/{disk} rw\n"
    )


def below_another(server: Server, disk: str) -> None:
    (server.root / f"sys/block/{disk}/holders/dm-3").mkdir()


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("use", "words"),
    [
        (used_by_a_daemon, "mmfsd (4242) has it open"),
        (mounted, "it is mounted on /srv/ost1"),
        (below_another, "dm-3 lies on it"),
    ],
)
def test_a_volume_in_use_is_not_logged_out_of(server: Server, use: Any, words: str) -> None:
    assert server.run()[0] == 0
    use(server, server.disk(NAMES[1]).name)
    status, said = server.run("--leave")
    assert (status, said["steps"]) == (3, [])
    end = "unmount it and shut its file system down first"
    assert said["troubles"] == [f"{NAMES[1]} is in use: {words}; {end}"]
    assert all(server.target(name) for name in NAMES)


def test_a_server_that_leaves_logs_out_of_its_own_targets_alone(server: Server) -> None:
    """The boot volume of a bare-metal machine is an iSCSI target, too."""
    boot = "iqn.2015-02.oracle.boot:uefi"
    server.targets({**{each["iqn"]: f"{each['ipv4']}:3260" for each in ATTACHED}, boot: "169.254.0.2:3260"})
    environment = {**os.environ, "GRIDWRIGHT_ROOT": str(server.root)}
    for words in (["-o", "new"], ["--login"]):
        command = [str(DOUBLES / "iscsiadm"), "-m", "node", "-T", boot, "-p", "169.254.0.2:3260", *words]
        subprocess.run(command, env=environment, check=True, timeout=10)
    assert server.run()[0] == 0
    assert server.run("--leave")[0] == 0
    left = {each.name for each in (server.root / "sys/class/iscsi_session").iterdir()}
    assert len(left) == 1
    assert server.run("--leave") == (0, {"schema": 1, "steps": [], "troubles": []})


@pytest.mark.few(1)
@pytest.mark.parametrize("is_logged_in", [True, False])
def test_a_record_that_a_power_cut_left_empty_is_made_anew(server: Server, is_logged_in: bool) -> None:
    assert server.run()[0] == 0
    if not is_logged_in:
        for place in ("sys/class/iscsi_session", "sys/devices/platform", "sys/block"):
            shutil.rmtree(server.root / place)
    record = server.root / f"etc/iscsi/nodes/{ATTACHED[0]['iqn']}/169.254.2.1,3260"
    others = [each for each in (server.root / "etc/iscsi/nodes").glob("*/*") if each != record]
    before = [each.stat().st_mtime_ns for each in others]
    record.write_text("")
    status, said = server.run()
    assert (status, said["troubles"]) == (0, [])
    assert f"{NAMES[0]}: remove its record, which is damaged" in said["steps"]
    assert record.read_text()
    assert [each.stat().st_mtime_ns for each in others] == before
    assert server.run() == (0, {"schema": 1, "steps": [], "troubles": []})


def test_a_target_that_answers_no_more_is_told_and_waited_for(server: Server) -> None:
    assert server.run()[0] == 0
    state = server.root / "sys/class/iscsi_session/session2/state"
    state.write_text("FAILED\n")
    assert server.run() == (3, {"schema": 1, "steps": [], "troubles": [
        f"grid-p1-v01 is there as {NAMES[1]}, but 169.254.2.2:3260 does not answer any more: "
        "look at attachments of this machine"
    ]})  # fmt: skip
    state.write_text("LOGGED_IN\n")
    assert server.run()[0] == 0


def test_records_are_on_the_disk_before_the_program_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda number: flushed.append(str(Path(f"/proc/self/fd/{number}").readlink()))
    )
    nodes = tmp_path / "var/lib/iscsi/nodes"
    for target, path in (("iqn.a", "10.0.0.1,3260"), ("iqn.b", "10.0.0.1,3260,1/default"), ("iqn.c", "x,1")):
        (nodes / target / path).parent.mkdir(parents=True)
        (nodes / target / path).write_text("")
    flush_records([("iqn.a", Portal("10.0.0.1", 3260)), ("iqn.b", Portal("10.0.0.1", 3260))], tmp_path)
    group = nodes / "iqn.b/10.0.0.1,3260,1"
    wanted = {
        nodes / "iqn.a/10.0.0.1,3260",
        nodes / "iqn.a",
        group / "default",
        group,
        nodes / "iqn.b",
        nodes,
    }
    assert set(flushed) == {str(each) for each in wanted}


def test_a_volume_that_was_detached_is_forgotten(server: Server) -> None:
    assert server.run()[0] == 0
    server.attachments, server.wanted = ATTACHED[:2], NAMES[:2]
    assert server.run()[0] == 0
    assert ATTACHED[2]["iqn"] not in (server.root / "iscsi-records.json").read_text()


def test_what_the_agent_logs_in_to_is_left_to_it(server: Server) -> None:
    more = [{"ipv4": "169.254.2.9", "iqn": "iqn.2015-12.com.oracleiaas:volume-1b", "port": 3260}]
    server.attachments = [attachment(1, NAMES[0], isMultipath=True, multipathDevices=more)]
    server.wanted = NAMES[:1]
    status, said = server.run()
    assert (status, said["steps"]) == (3, ["names of volumes written"])
    assert "is its Block Volume Management plugin on?" in said["troubles"][0]


def test_a_target_that_does_not_answer_is_told_with_the_words_of_iscsiadm(server: Server) -> None:
    server.targets({})
    status, said = server.run()
    assert status == 3
    assert "status 8: iscsiadm: initiator reported error (8 - connection timed out)" in said["troubles"][0]


@pytest.mark.parametrize(
    "wrong",
    [
        attachment(1, "/dev/sdb"),
        attachment(1, "/dev/oracleoci/oraclevda"),
        attachment(1, "/dev/oracleoci/oraclevdah"),
        attachment(1, NAMES[0], iqn='iqn.2015-12.x:"; RUN+="/bin/sh'),
        attachment(1, NAMES[0], iqn="iqn.2015-12.x:*"),
        attachment(1, NAMES[0], ipv4="host; reboot"),
    ],
)
def test_nothing_unknown_gets_into_a_rule_or_a_command(wrong: dict[str, Any]) -> None:
    with pytest.raises(VolumesError):
        attachments_of([wrong])


def test_two_volumes_never_share_a_name() -> None:
    with pytest.raises(VolumesError, match="two volumes are attached as"):
        attachments_of([attachment(1, NAMES[0]), attachment(2, NAMES[0])])
    rules = udev_rules(attachments_of(ATTACHED))
    assert rules.count('DEVTYPE}=="disk"') == 3
    # One target whose name begins another one's is not taken for it.
    assert all(f"-iscsi-{each['iqn']}-lun-*" in rules for each in ATTACHED)


def test_what_is_not_there_yet_is_no_attachment() -> None:
    states = ("ATTACHING", "DETACHING", "DETACHED")
    gone = [attachment(1, NAMES[0], lifecycleState=state) for state in states]
    assert attachments_of([*gone, attachment(1, NAMES[0], attachmentType="paravirtualized")]) == ()
