"""What the stand-ins of Lustre's tools do with a volume is what the real ones do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.lustre_tools import FAKES
from tests.support.lustre_vm import LustreMachine
from tests.support.skips import root_only

NID = "192.168.77.1@tcp"
FORMATTED = """
cd PLACE && truncate -s 300M blank && truncate -s 300M target
tunefs.lustre --dryrun blank >/dev/null 2>&1 && echo blank is whole
mkfs.lustre --KIND --fsname=other --index=3 --mgsnode=192.168.77.1@tcp --device-size=300000 target >log 2>&1
echo made: $?
e2label target
tunefs.lustre --dryrun target >/dev/null 2>&1 && echo target is whole
rm blank target log
"""


def installed(directory: Path) -> None:
    """Write the stand-ins into a directory, which is their world, with a machine."""
    for name, script in FAKES.items():
        (directory / name).write_text(f"#!/bin/sh\n{script}")
        (directory / name).chmod(0o755)
    (directory / "machine").mkdir()


def environment_of(directory: Path) -> dict[str, str]:
    places = {"WORLD": str(directory), "MACHINE": f"{directory}/machine"}
    return {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}", **places}


@root_only
@pytest.mark.parametrize("kind", ["ost", "mdt"])
def test_a_volume_that_is_formatted_looks_the_same(lustre: LustreMachine, tmp_path: Path, kind: str) -> None:
    installed(tmp_path)
    text = FORMATTED.replace("KIND", kind)
    ended = subprocess.run(
        ["sh", "-c", text.replace("PLACE", str(tmp_path))],
        env=environment_of(tmp_path), capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    real = lustre.run(text.replace("PLACE", "/root")).out
    assert ended.stdout == real
    assert f"other:{kind.upper()}0003" in real


def test_a_target_that_was_mounted_has_the_label_of_a_registered_one(lustre: LustreMachine) -> None:
    assert lustre.run("e2label /dev/vdb; e2label /dev/vdc").out.split() == [
        "testfs-MDT0000",
        "testfs-OST0000",
    ]


TRIAL = """
from gridwright.node_programs.lustre_targets import LustreTools
print(*(LustreTools().cannot_make(kind) for kind in ("mgt", "mdt", "ost")), sep="|")
"""


@pytest.mark.thorough
def test_a_machine_is_proven_to_make_and_read_targets_before_a_volume_is_formatted(
    lustre: LustreMachine,
) -> None:
    """Also what keeps the tools from it, such as the plug-in with libext2fs that is not there."""
    assert lustre.python(TRIAL) == "None|None|None\n"
    plugin = lustre.run("find / -xdev -name mount_osd_ldiskfs.so").out.strip()
    lustre.run(f"mv {plugin} {plugin}.away")
    try:
        said = lustre.python(TRIAL).split("|")
    finally:
        lustre.run(f"mv {plugin}.away {plugin}")
    assert all("mkfs.lustre FATAL: unhandled/unloaded OSD plugin" in each for each in said)
    assert lustre.run("losetup -a | grep -c trial || true").out == "0\n"


SERVED = """
import subprocess, sys
from dataclasses import replace
from pathlib import Path
from gridwright.node_programs.lustre_targets import DesiredTarget
from gridwright.node_programs.lustre_targets import LustreTools
volume, mount, mounts, nid = sys.argv[1:]
tools = LustreTools()
tools.mounts = Path(mounts)
target = DesiredTarget("other-OST0003", "ost", 3, "other", False, Path(mount))
print(tools.nids(), tools.reaches(nid))
subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-L", "other:OST0003", volume], check=True)
print(tools.unreadable(volume).replace(volume, "VOLUME"))
subprocess.run(["wipefs", "-q", "-a", volume], check=True)
tools.format(volume, target, nid)
print(tools.unreadable(volume), replace(tools.device(volume), path=""), tools.mounted(target))
tools.mount(volume, target)
print(tools.mounted(target) == volume)
subprocess.run(["umount", mount], check=True)
print(replace(tools.device(volume), path=""))
"""
"""What `gridwright-targets` does with a volume whose format was cut off, up to a target that is served."""


@root_only
@pytest.mark.thorough
def test_a_target_is_formatted_mounted_and_registered(lustre: LustreMachine, tmp_path: Path) -> None:
    installed(tmp_path)
    (tmp_path / "umount").write_text('#!/bin/sh\nsed -i "\\@ $1 @d" "$MACHINE/mounts"\n')
    (tmp_path / "umount").chmod(0o755)
    machine, volume = tmp_path / "machine", tmp_path / "volume"
    (machine / "mounts").touch()
    (machine / "nids").write_text(f"{NID}\n")
    volume.touch()
    os.truncate(volume, 300 << 20)
    ended = subprocess.run(
        [sys.executable, "-c", SERVED, volume, tmp_path / "mnt", machine / "mounts", NID],
        env=environment_of(tmp_path), capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    device = lustre.run("truncate -s 300M /root/volume && losetup --show -f /root/volume").out.strip()
    try:
        real = lustre.python(SERVED, device, "/srv/other", "/proc/self/mounts", NID)
    finally:
        lustre.run(f"umount /srv/other 2>/dev/null; losetup -d {device}; rm /root/volume")
    assert ended.stdout == real
    assert "registered=True" in real.splitlines()[-1]


NETWORK = """
import sys
from pathlib import Path
from gridwright.node_programs.lustre_targets import LustreTools
tools = LustreTools()
tools.modprobe = Path(sys.argv[1])
print(tools.nids())
for _ in range(2):
    tools.start_network(sys.argv[2])
    print(tools.nids(), [tools.reaches(each) for each in tools.nids()])
print((tools.modprobe / tools.options_file).read_text())
"""
UNLOADED = "mv /etc/modprobe.d/lustre.conf /root/ && lustre-vm unload"
LOADED = """
lustre_rmmod
rm -f /etc/modprobe.d/61-gridwright-claim.conf
mv /root/lustre.conf /etc/modprobe.d/ && lustre-vm up
"""


@root_only
@pytest.mark.thorough
def test_the_network_is_started_from_the_options_that_are_written(
    lustre: LustreMachine, tmp_path: Path
) -> None:
    """And a second start changes nothing. The address is that of the interface, which no option names."""
    installed(tmp_path)
    (tmp_path / "machine/address").write_text(NID.removesuffix("@tcp"))
    ended = subprocess.run(
        [sys.executable, "-c", NETWORK, tmp_path, "eth1"],
        env=environment_of(tmp_path), capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    try:
        lustre.run(UNLOADED)
        real = lustre.python(NETWORK, "/etc/modprobe.d", "eth1")
    finally:
        lustre.run(LOADED, ok=False)
    assert ended.stdout == real
    assert f"('{NID}',) [True]" in real
