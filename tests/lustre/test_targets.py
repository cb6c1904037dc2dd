"""What the stand-ins of Lustre's tools do with a volume is what the real ones do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.lustre_tools import FAKES
from tests.support.lustre_vm import LustreMachine
from tests.support.skips import root_only

FORMATTED = """
cd PLACE && truncate -s 300M blank && truncate -s 300M target
tunefs.lustre --dryrun blank >/dev/null 2>&1 && echo blank is whole
mkfs.lustre --KIND --fsname=other --index=3 --mgsnode=192.168.77.1@tcp --device-size=300000 target >log 2>&1
echo made: $?
e2label target
tunefs.lustre --dryrun target >/dev/null 2>&1 && echo target is whole
rm blank target log
"""


@root_only
@pytest.mark.parametrize("kind", ["ost", "mdt"])
def test_a_volume_that_is_formatted_looks_the_same(lustre: LustreMachine, tmp_path: Path, kind: str) -> None:
    for name, script in FAKES.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}")
        (tmp_path / name).chmod(0o755)
    text = FORMATTED.replace("KIND", kind)
    (tmp_path / "machine").mkdir()
    places = {"WORLD": str(tmp_path), "MACHINE": f"{tmp_path}/machine"}
    ended = subprocess.run(
        ["sh", "-c", text.replace("PLACE", str(tmp_path))],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", **places},
        capture_output=True, text=True, timeout=60, check=True,
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
from gridwright.node_programs.lustre_targets.tools import LustreTools
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
