"""The lab that tests share is there as long as a process uses it, and no longer, however its users end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.lab import NODES_ONLY, traces
from tests.support.shared_lab import shared_lab, wait_until_gone

pytestmark = pytest.mark.root

NAME = "keptlab"
SPEC = NODES_ONLY.format(name=NAME, network="10.97.1.0/24", count=1)
USE = """
import sys, time
from pathlib import Path
from tests.support.shared_lab import shared_lab
with shared_lab(Path(sys.argv[1]), sys.argv[2], sys.argv[3]) as lab:
    print(lab.run("compute1", "cat", "/proc/sys/kernel/random/boot_id", "/etc/hostname").out, flush=True)
    time.sleep(300)
"""


def user(directory: Path) -> subprocess.Popen[str]:
    """A worker of its own that uses the lab, once it does."""
    process = subprocess.Popen(
        [sys.executable, "-c", USE, str(directory), SPEC, NAME],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "compute1" in process.stdout.readline() + process.stdout.readline()
    return process


def test_the_lab_stays_while_one_of_two_workers_lives_and_goes_with_the_last_one(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "shared"
    first = user(directory)
    try:
        with shared_lab(directory, SPEC, NAME) as lab:
            made = lab.record.stat().st_ino
            first.kill()
            first.wait(30)
            assert lab.run("compute1", "true").status == 0
            assert lab.record.stat().st_ino == made
            second = user(directory)
    finally:
        first.kill()
    try:
        assert lab.run("compute1", "true").status == 0, "one still uses it"
    finally:
        second.kill()
        second.wait(30)
    wait_until_gone(directory)
    assert traces(lab) == []
