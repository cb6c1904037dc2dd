"""The machines of these tests themselves: what they promise to all others."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.vm.conftest import MakeUml
from tests.vm.images import Image
from tests.vm.machine import MachineError, blank_disk

pytestmark = pytest.mark.vm

_ROOT = Path(__file__).parents[2]
_BOOTS = """
import sys, time
from pathlib import Path
from tests.vm.images import Image
from tests.vm.uml import Uml
machine = Uml(Image(Path(sys.argv[1])), Path(sys.argv[2]), {})
machine.prepare = f"mount -t tmpfs tmpfs {sys.argv[3]}"
machine.boot()
print("up", flush=True)
time.sleep(600)
"""


def test_a_command_that_hangs_stops_no_other_and_what_is_synced_survives_a_power_cut(
    make_uml: MakeUml, tmp_path: Path
) -> None:
    machine = make_uml({"ubdb": blank_disk(tmp_path / "disk", 64 << 20)})
    machine.boot()
    with pytest.raises(MachineError, match="sleep 600"):
        machine.run("sleep 600", timeout_s=0.5)
    answer = machine.run("echo said; echo failed >&2; exit 7")
    assert (answer.status, answer.stdout, answer.stderr) == (7, "said\n", "failed\n")
    machine.run(
        "mkfs.ext4 -q /dev/ubdb; mount /dev/ubdb /mnt; echo kept > /mnt/a; sync; echo lost > /mnt/b"
    ).ok()
    machine.power_off()
    with pytest.raises(MachineError, match="does not run"):
        machine.run("true")
    machine.boot()
    assert machine.run("mount /dev/ubdb /mnt; cat /mnt/a").ok() == "kept\n"


def test_nothing_is_left_of_a_machine_whose_test_is_killed(image: Image, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    arguments = [str(image.directory), str(tmp_path / "machine"), str(tmp_path / "own")]
    test = subprocess.Popen([sys.executable, "-c", _BOOTS, *arguments], cwd=_ROOT, stdout=subprocess.PIPE)
    assert test.stdout is not None
    assert test.stdout.readline() == b"up\n"
    machine = psutil.Process(test.pid).children(recursive=True)
    assert machine
    test.kill()
    test.wait(10)
    test.stdout.close()
    deadline = time.monotonic() + 10
    while any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in machine):
        assert time.monotonic() < deadline, machine
        time.sleep(0.1)
    assert str(tmp_path / "own") not in Path("/proc/mounts").read_text()
