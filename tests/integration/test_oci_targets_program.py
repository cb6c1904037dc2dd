"""Targets of a Lustre server: formatted once where blank, mounted ever after, and left alone otherwise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.node_programs.lustre_targets import (
    BLANK,
    ClaimError,
    DesiredTarget,
    Device,
    ManagementSilentError,
)
from gridwright.providers.oci.files import TARGETS
from gridwright.providers.oci.targets import MGS_S, Serving, TargetNote, read_targets
from tests.support.lustre_tools import FAKES
from tests.support.oci_instance import OciInstance
from tests.support.oldest_python import beyond_python_3_9
from tests.support.one_file_program import OWN_MOUNT_NAME_SPACE, complaints_of_systemd, sections_of_unit
from tests.support.skips import needs

MIB = 1 << 20
ADDRESS = "10.30.128.16"
IP = f"""
case "$*" in *"show to {ADDRESS}/32") echo '[{{"ifname": "ens3"}}]' ;; *) echo '[{{}}]' ;; esac
"""
NAMES = ("shared-MDT0000", "shared-OST0000")
DEVICES = dict(zip(NAMES, ("/dev/oracleoci/oraclevdb", "/dev/oracleoci/oraclevdc"), strict=True))


def target(name: str, **more: Any) -> dict[str, Any]:
    kind = "mdt" if "MDT" in name else "ost"
    return {
        **{"name": name, "kind": kind, "index": int(name[-4:], 16), "fsname": "shared"},
        **{"with_mgt": kind == "mdt", "mount": f"/srv/{name}", "device": DEVICES[name], **more},
    }


@dataclass
class LustreServer:
    """A machine in a directory, whose volumes and cloud outlive it."""

    world: Path
    cloud: OciInstance
    name: str = "first"
    tools: dict[str, str] = field(default_factory=lambda: {**FAKES, "ip": IP})

    def __post_init__(self) -> None:
        for directory in ("bin", "etc/gridwright", "dev/oracleoci", "run", "modprobe"):
            (self.machine / directory).mkdir(parents=True)
        (self.machine / "mounts").touch()
        (self.machine / "address").write_text(ADDRESS)
        for name, script in self.tools.items():
            (self.machine / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
            (self.machine / "bin" / name).chmod(0o755)
        boot = {"bucket": self.cloud.bucket, "namespace": self.cloud.namespace}
        (self.machine / "etc/gridwright/boot.json").write_text(json.dumps(boot))
        for name in NAMES:
            if not self.volume(name).exists():
                with self.volume(name).open("wb") as file:
                    file.truncate(64 * MIB)
            self.attach(name, name)

    @property
    def machine(self) -> Path:
        return self.world / self.name

    def volume(self, name: str) -> Path:
        return self.world / f"volume-{name}"

    def attach(self, name: str, at: str) -> None:
        """A volume at the device of a target."""
        link = self.machine / DEVICES[at].lstrip("/")
        link.unlink(missing_ok=True)
        link.symlink_to(self.volume(name))
        attached = {"lifecycleState": "ATTACHED", "device": DEVICES[at], "volumeId": f"ocid1.volume.{name}"}
        others = [each for each in self.cloud.attachments if each["device"] != DEVICES[at]]
        self.cloud.attachments = [*others, attached]
        self.cloud.volumes[f"ocid1.volume.{name}"] = "AVAILABLE"

    def run(self, *words: str, **more: Any) -> tuple[int, dict[str, Any]]:
        paths = {"dev": "dev", "modprobe": "modprobe", "run": "run", "mounts": "mounts"}
        config = {
            **{"schema": 1, "grid": "demo", "name": "shared-mds1", "address": ADDRESS},
            **{"mgs": f"{ADDRESS}@tcp", "targets": [self.target(name) for name in NAMES]},
            "directories": {name: str(self.machine / path) for name, path in paths.items()},
            **more,
        }
        path = self.machine / "targets.json"
        path.write_text(json.dumps(config))
        program = self.machine / "targets.pyz"
        program.write_bytes(TARGETS.archive())
        done = subprocess.run(
            [sys.executable, program, "--json", "--config", path, *words],
            env={
                **os.environ,
                **self.cloud.environment,
                "PATH": f"{self.machine}/bin:{os.environ['PATH']}:/usr/sbin:/sbin",
                "GRIDWRIGHT_ROOT": str(self.machine),
                "WORLD": str(self.world),
                "MACHINE": str(self.machine),
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, json.loads(done.stdout) if done.stdout else {}

    def target(self, name: str) -> dict[str, Any]:
        return target(name, mount=str(self.machine / "srv" / name))

    def commands(self, *words: str) -> list[str]:
        """Commands so far that begin with one of these words."""
        path = self.world / "commands"
        lines = path.read_text().splitlines() if path.exists() else []
        return [each for each in lines if each.startswith(words)]

    def noted(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.cloud.objects[f"targets/shared-mds1/{name}.json"])
        return found


@pytest.fixture
def cloud() -> Iterator[OciInstance]:
    found = OciInstance()
    yield found
    found.close()


@pytest.fixture
def server(tmp_path: Path, cloud: OciInstance) -> LustreServer:
    needs("mke2fs")
    return LustreServer(tmp_path, cloud)


def said(found: tuple[int, dict[str, Any]]) -> str:
    status, document = found
    assert status == 3, document
    return " ".join(f"{each['what']}; {each['remedy']}" for each in document["problems"])


@pytest.mark.root
def test_blank_volumes_are_formatted_once_and_a_second_run_does_nothing(server: LustreServer) -> None:
    status, document = server.run()
    assert (status, document["problems"]) == (0, [])
    assert server.commands("mkfs.lustre") == [
        f"mkfs.lustre --backfstype=ldiskfs --mgs --mdt --fsname=shared --index=0 {server.volume(NAMES[0])}",
        "mkfs.lustre --backfstype=ldiskfs --ost --fsname=shared --index=0 "
        f"--mgsnode={ADDRESS}@tcp {server.volume(NAMES[1])}",
    ]
    for name in NAMES:
        assert server.noted(name) == {"schema": 1, "volume": f"ocid1.volume.{name}", "state": "formatted"}
    options = (server.machine / "modprobe/61-gridwright-targets.conf").read_text()
    assert "options lnet networks=tcp(ens3)" in options
    assert server.run() == (0, {"schema": 1, "ok": True, "steps": [], "problems": []})


@pytest.mark.root
def test_a_machine_that_is_made_anew_mounts_what_is_there(server: LustreServer, tmp_path: Path) -> None:
    assert server.run()[0] == 0
    before = len(server.commands("mkfs.lustre"))
    other = LustreServer(tmp_path, server.cloud, "second")
    status, document = other.run()
    assert (status, len(other.commands("mkfs.lustre"))) == (0, before)
    assert [each for each in document["steps"] if not each.startswith(("mount", "bring"))] == []
    # Who lost what was written down knows targets by their labels.
    server.cloud.objects.clear()
    third = LustreServer(tmp_path, server.cloud, "third")
    assert third.run()[0] == 0
    assert len(third.commands("mkfs.lustre")) == before
    assert third.noted(NAMES[1])["state"] == "formatted"


@pytest.mark.root
@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (
            ("mke2fs", "-q", "-F", "-t", "ext4", "-L", "payroll"),
            "holds ext4 labelled 'payroll'; it is left alone",
        ),
        pytest.param(
            ("mke2fs", "-q", "-F", "-t", "ext4", "-L", "other-OST0000"),
            "holds target other-OST0000 of Lustre",
            marks=pytest.mark.thorough,
        ),
        pytest.param(("mkswap",), "holds swap", marks=pytest.mark.thorough),
        (("dd", "if=/dev/urandom", "bs=1M", "count=1", "seek=2", "conv=notrunc"), "data without a signature"),
    ],
)
def test_what_holds_anything_is_left_as_it_is(
    argv: tuple[str, ...], words: str, server: LustreServer
) -> None:
    volume = server.volume(NAMES[1])
    last = [f"of={volume}"] if argv[0] == "dd" else [str(volume)]
    subprocess.run([*argv, *last], check=True, capture_output=True)
    before = volume.read_bytes()
    assert words in said(server.run())
    assert volume.read_bytes() == before
    assert not [each for each in server.commands("mkfs.lustre") if str(volume) in each]


@pytest.mark.root
def test_a_volume_that_lost_its_data_is_not_formatted_again(server: LustreServer, tmp_path: Path) -> None:
    assert server.run()[0] == 0
    volume = server.volume(NAMES[1])
    volume.write_bytes(b"")
    with volume.open("wb") as file:
        file.truncate(64 * MIB)
    other = LustreServer(tmp_path, server.cloud, "second")
    assert "is blank, and it was formatted before" in said(other.run())
    assert len(other.commands("mkfs.lustre")) == 2


@pytest.mark.root
def test_volumes_that_are_swapped_are_told(server: LustreServer, tmp_path: Path) -> None:
    assert server.run()[0] == 0
    other = LustreServer(tmp_path, server.cloud, "second")
    other.attach(NAMES[0], NAMES[1])
    other.attach(NAMES[1], NAMES[0])
    text = said(other.run())
    assert "was on volume ocid1.volume.shared-MDT0000, and ocid1.volume.shared-OST0000 is attached" in text
    # Names that lead to the disks of others while the cloud says that all is well.
    third = LustreServer(tmp_path, server.cloud, "third")
    for at, name in zip(NAMES, NAMES[::-1], strict=True):
        link = third.machine / DEVICES[at].lstrip("/")
        link.unlink()
        link.symlink_to(third.volume(name))
    assert "the volume of shared-MDT0000 was overwritten or swapped" in said(third.run())
    assert len(third.commands("mkfs.lustre")) == 2


@pytest.mark.root
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_format_that_was_cut_off(server: LustreServer, is_whole: bool) -> None:
    (server.world / "kill").touch()
    assert server.run()[0] == -9
    assert server.noted(NAMES[0])["state"] == "formatting"
    if is_whole:
        assert server.run()[0] == 0
        assert len(server.commands("mkfs.lustre")) == 2
        return
    Path(f"{server.volume(NAMES[0])}.whole").unlink()
    refusal = said(server.run())
    assert "was cut off, and it has the label already" in refusal
    assert "tunefs.lustre says: tunefs.lustre FATAL" in refusal
    assert "wipefs" in refusal
    (server.world / "stock-libext2fs").touch()
    refusal = said(server.run())
    assert "cannot make or read a target such as" in refusal
    assert "wipefs" not in refusal
    (server.world / "stock-libext2fs").unlink()
    (server.world / "broken").write_text("error while loading shared libraries: libyaml-0.so.2")
    refusal = said(server.run())
    assert "tunefs.lustre does not read" in refusal
    assert "libyaml" in refusal
    assert "wipefs" not in refusal
    assert len(server.commands("mkfs.lustre")) == 1


@pytest.mark.root
def test_another_volume_is_taken_only_when_the_one_before_is_gone_for_certain(
    server: LustreServer, tmp_path: Path
) -> None:
    assert server.run()[0] == 0
    new = tmp_path / "volume-new"
    new.write_bytes(b"")
    os.truncate(new, 64 * MIB)
    other = LustreServer(tmp_path, server.cloud, "second")
    other.attach("new", NAMES[1])
    assert "was on volume ocid1.volume.shared-OST0000, and ocid1.volume.new is attached" in said(other.run())
    server.cloud.volumes["ocid1.volume.shared-OST0000"] = "TERMINATED"
    assert other.run()[0] == 0
    assert other.noted(NAMES[1]) == {"schema": 1, "volume": "ocid1.volume.new", "state": "formatted"}
    # What the cloud does not know any more, while it answers for others, is gone as well.
    del server.cloud.volumes["ocid1.volume.shared-OST0000"], server.cloud.volumes["ocid1.volume.new"]
    assert "is attached in its place" in said(with_volume(tmp_path, server.cloud, "newer", known=False))
    assert with_volume(tmp_path, server.cloud, "newest", known=True)[0] == 0


def with_volume(world: Path, cloud: OciInstance, name: str, *, known: bool) -> tuple[int, dict[str, Any]]:
    """A machine that gets another blank volume, of which the cloud says something or hides all."""
    volume = world / f"volume-{name}"
    volume.write_bytes(b"")
    os.truncate(volume, 64 * MIB)
    machine = LustreServer(world, cloud, f"machine-{name}")
    machine.attach(name, NAMES[1])
    if not known:
        cloud.volumes.clear()
    return machine.run()


@pytest.mark.root
def test_nothing_is_formatted_where_it_cannot_be_seen_what_was_before(server: LustreServer) -> None:
    """An object that may not be seen looks like one that is not there."""
    server.cloud.hides = ("targets/",)
    assert "says whether the volume was formatted, and is not read" in said(server.run())
    server.cloud.hides = ()
    server.cloud.objects[f"targets/shared-mds1/{NAMES[0]}.json"] = b'{"volume": "x", "state": "perhaps"}'
    assert "its state is 'perhaps'" in said(server.run())
    server.cloud.objects.clear()
    server.cloud.attachments = []
    text = said(server.run())
    assert all(f"no volume is attached to this machine as {each}" in text for each in DEVICES.values())
    assert server.commands("mkfs.lustre") == []


@pytest.mark.root
def test_stock_tools_and_a_network_of_another_address_are_told_before_anything_is_written(
    tmp_path: Path, cloud: OciInstance
) -> None:
    needs("mke2fs")
    tools = {name: script for name, script in FAKES.items() if name != "mke2fs"}
    stock = LustreServer(tmp_path, cloud, "stock", {**tools, "ip": IP})
    assert "Invalid filesystem option set: dirdata" in said(stock.run())
    elsewhere = LustreServer(tmp_path, cloud, "elsewhere", {**FAKES, "ip": "echo '[{}]'"})
    assert f"no network interface of this machine has {ADDRESS}" in said(elsewhere.run())
    other = LustreServer(tmp_path, cloud, "other")
    (other.machine / "nids").write_text("10.0.0.9@tcp")
    assert "Lustre's network is up as 10.0.0.9@tcp" in said(other.run())
    del tools["mkfs.lustre"]
    bare = LustreServer(tmp_path, cloud, "bare", {**tools, "ip": IP})
    assert "mkfs.lustre is not installed" in said(bare.run())
    assert bare.commands("mkfs.lustre") == []
    assert not [key for key in cloud.objects if key.endswith(".json")]


class PretendServer:
    """A machine whose management server does not answer, with a clock of its own."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.is_up = self.comes_up = False
        self.answers = True
        self.disk = "/nonexistent"
        self.mounts: set[str] = set()

    missing = staticmethod(lambda: ())
    nids = staticmethod(lambda: (f"{ADDRESS}@tcp",))
    cannot_make = staticmethod(lambda _: None)
    unreadable = staticmethod(lambda _: None)

    def link(self, address: str) -> str | None:
        raise AssertionError(address)

    def start_network(self, link: str) -> None:
        raise AssertionError(link)

    def mounted(self, target: DesiredTarget) -> str | None:
        return self.disk if target.name in self.mounts else None

    def device(self, path: str) -> Device:
        return Device(path, "target", label=NAMES[1])

    def reaches(self, _nid: str) -> bool:
        return self.answers

    def format(self, path: str, target: DesiredTarget, mgs: str | None) -> None:
        raise AssertionError(BLANK, path, target, mgs)

    def mount(self, path: str, target: DesiredTarget) -> None:
        if not self.is_up:
            raise ManagementSilentError
        self.mounts.add(target.name)

    def wait(self, seconds: float) -> None:
        self.seconds += seconds
        self.is_up = self.comes_up

    def now(self) -> float:
        return self.seconds


class PretendLedger:
    """Knows one formatted volume."""

    def note(self, _target: str) -> TargetNote | None:
        return TargetNote("ocid1.volume", "formatted")

    def write(self, target: str, note: TargetNote) -> None:
        raise AssertionError(target, note)

    def volumes(self) -> dict[str, str]:
        return {DEVICES[NAMES[1]]: "ocid1.volume"}

    def is_gone(self, volume: str, known: str) -> bool:
        raise AssertionError(volume, known)


@pytest.mark.parametrize("answers", [True, False])
def test_a_target_waits_for_its_management_server_and_not_for_ever(answers: bool, tmp_path: Path) -> None:
    """That its machine answers says nothing of the server; a mount does."""
    device = tmp_path / "oracleoci/oraclevdc"
    device.parent.mkdir()
    device.touch()
    file = tmp_path / "targets.json"
    file.write_text(json.dumps({**CONFIGURATION, "directories": {"dev": str(tmp_path)}}))
    machine = PretendServer()
    machine.answers = answers
    with pytest.raises(ClaimError, match=f"does not answer; waited {MGS_S:.0f} s"):
        Serving(read_targets(file), machine, PretendLedger()).run()
    assert MGS_S <= machine.seconds < MGS_S + 60
    machine = PretendServer()
    machine.comes_up, machine.disk = True, str(device)
    Serving(read_targets(file), machine, PretendLedger()).run()
    assert machine.mounts == {NAMES[1]}


CONFIGURATION: dict[str, Any] = {
    **{"schema": 1, "grid": "demo", "name": "shared-oss1", "address": ADDRESS, "mgs": "10.30.128.9@tcp"},
    "targets": [target(NAMES[1])],
}


def test_all_that_is_wrong_with_the_file_is_told_at_once(tmp_path: Path) -> None:
    wrong = {
        **CONFIGURATION, "address": "10.30.128.300", "mgs": "somewhere", "more": 1,
        "targets": [target(NAMES[1], device="/dev/sdb"), target(NAMES[1], index=-1, kind="king")],
    }  # fmt: skip
    path = tmp_path / "targets.json"
    path.write_text(json.dumps(wrong))
    with pytest.raises(ClaimError) as error:
        read_targets(path)
    assert error.value.status == 2
    words = (
        "10.30.128.300",
        "somewhere",
        '"more"',
        "/dev/sdb",
        '"king"',
        "targets: name",
        "targets[1].index",
    )
    assert [each for each in words if each not in str(error.value)] == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(sorted(CONFIGURATION)), json_values)
def test_whatever_stands_in_the_file_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, key: str, value: object
) -> None:
    path = tmp_path_factory.getbasetemp() / "any-targets.json"
    path.write_text(json.dumps({**CONFIGURATION, key: value}))
    try:
        read_targets(path)
    except ClaimError as error:
        assert error.status == 2


def test_python_3_9_has_all_that_the_program_uses(tmp_path: Path) -> None:
    assert TARGETS.archive() == TARGETS.archive()
    assert beyond_python_3_9(TARGETS.archive(), tmp_path) == ""


def test_it_runs_without_gridwright_and_says_what_is_wrong(tmp_path: Path) -> None:
    program = tmp_path / "targets.pyz"
    program.write_bytes(TARGETS.archive())
    with zipfile.ZipFile(program) as archive:
        assert "gridwright/providers/oci/targets.py" in archive.namelist()
    argv = [sys.executable, "-I", "-S", str(program), "--config", str(tmp_path / "none.json"), "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert json.loads(done.stdout)["ok"] is False
    assert "none.json: No such file or directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_unit_starts_behind_volumes_and_gives_it_time(tmp_path: Path) -> None:
    unit = sections_of_unit(TARGETS.unit_text())
    assert "gridwright-volumes.service" in unit["Unit"]["Wants"]
    assert {"gridwright-volumes.service", "gridwright-cards.service"} <= set(unit["Unit"]["After"].split())
    assert int(unit["Service"]["TimeoutStartSec"].removesuffix("min")) * 60 > MGS_S
    assert not OWN_MOUNT_NAME_SPACE & set(unit["Service"])
    program = Path("/usr/local/lib/gridwright/targets.pyz")
    assert complaints_of_systemd(TARGETS.unit_text(), program, tmp_path) == ""
