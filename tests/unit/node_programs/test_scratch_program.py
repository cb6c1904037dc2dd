"""The program for nodes: one file, the same bytes for the same sources, Python 3.9 and nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gridwright.errors import GridwrightError
from gridwright.node_programs.one_file import SCRATCH
from gridwright.node_programs.scratch.configuration import WAIT_SECONDS, parse_configuration
from gridwright.setup.node_specs import array_name, scratch_configuration
from gridwright.spec.load import parse_spec
from tests.support.oldest_python import beyond_python_3_9
from tests.support.one_file_program import (
    OWN_MOUNT_NAME_SPACE,
    complaints_of_systemd,
    imports_beyond_python,
    sections_of_unit,
)
from tests.support.scratch_world import World, disk

SOURCE = Path(__file__).parents[3] / "src" / "gridwright" / "node_programs" / "scratch"
MODULES = sorted(SOURCE.glob("*.py"))


def test_it_is_the_same_bytes_each_time() -> None:
    assert SCRATCH.archive() == SCRATCH.archive()


def test_it_runs_without_gridwright_and_says_what_is_wrong(tmp_path: Path) -> None:
    program = tmp_path / "scratch.pyz"
    program.write_bytes(SCRATCH.archive())
    with zipfile.ZipFile(program) as archive:
        assert "gridwright/node_programs/scratch/instance_stores.json" in archive.namelist()
    # -S: no site packages, so nothing of Gridwright but what is in the file.
    argv = [sys.executable, "-I", "-S", str(program), "--config", str(tmp_path / "none.json"), "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    document = json.loads(done.stdout)
    assert (document["schema"], document["command"], document["ok"]) == (1, "node scratch", False)
    assert "none.json: No such file or directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_python_3_9_has_all_that_it_uses(tmp_path: Path) -> None:
    assert beyond_python_3_9(SCRATCH.archive(), tmp_path) == ""


def test_each_module_imports_the_standard_library_only() -> None:
    beyond = {
        module: imports_beyond_python(module, ("gridwright.node_programs.scratch.",)) for module in MODULES
    }
    assert {module: names for module, names in beyond.items() if names} == {}


def test_the_modules_are_found() -> None:
    assert len(MODULES) > 8


def test_the_unit_starts_the_program_and_gives_it_time_for_two_arrays() -> None:
    service = sections_of_unit(SCRATCH.unit_text())["Service"]
    assert service["ExecStart"].split()[:2] == ["/usr/bin/python3", str(SCRATCH.path)]
    found = re.fullmatch(r"(\d+)min", service["TimeoutStartSec"])
    assert found is not None
    world = World.of([disk(name) for name in ("nvmea", "nvmeb")])
    for step in world.plan().steps():
        world.carry_out(step)
    world.restart()
    world.disks["nvmeb"] = disk("nvmeb", serial="replaced")
    longest = sum(step.limit_s for step in world.plan().steps() if step.argv)
    assert longest > 1000, "a rebuild that discards is the longest"
    assert int(found[1]) * 60 > WAIT_SECONDS + 2 * longest


def test_the_unit_keeps_the_mount_name_space_of_the_machine() -> None:
    assert not OWN_MOUNT_NAME_SPACE & set(sections_of_unit(SCRATCH.unit_text())["Service"])


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    assert complaints_of_systemd(SCRATCH.unit_text(), SCRATCH.path, tmp_path) == ""


SPEC = """
name: grid
provider: aws
region: us-west-2
nodes:
  compute: {{instance: i3en.6xlarge, count: 2}}
filesystems:
{filesystems}
libraries:
  work: {{filesystem: {name}, path: SASWORK}}
  util: {{filesystem: {name}, path: SASUTIL}}
"""


def spec_with(filesystems: str, name: str = "store") -> str:
    return SPEC.format(filesystems=filesystems, name=name)


def test_a_spec_becomes_a_configuration_that_the_program_takes() -> None:
    disks = "disks: {type: instance-store, count: 2}, chunk: 64 KiB"
    text = spec_with(f"  store: {{type: local, path: /scratch, {disks}}}")
    (array,) = parse_configuration(scratch_configuration(parse_spec(text))).arrays
    assert (array.name, array.mount_point, array.members) == ("store", Path("/scratch"), 2)
    assert (array.chunk_bytes, array.format, array.read_ahead_kib) == (65536, "xfs", 8192)
    assert {(each.path, each.mode) for each in array.directories} == {
        ("SASWORK", 0o1777),
        ("SASUTIL", 0o1777),
    }


def test_block_volumes_are_no_scratch() -> None:
    text = spec_with("  store: {type: local, path: /scratch, disks: {type: gp3, count: 2, size: 1 TiB}}")
    assert scratch_configuration(parse_spec(text)) == {"schema": 1, "arrays": []}


def test_two_file_systems_cannot_each_have_all_disks() -> None:
    both = "\n".join(
        f"  {name}: {{type: local, path: /{name}, disks: {{type: instance-store}}}}"
        for name in ("store", "more")
    )
    with pytest.raises(GridwrightError, match="store and more would each take all disks"):
        scratch_configuration(parse_spec(spec_with(both)))


def test_long_names_stay_apart() -> None:
    names = [f"a-very-long-name-of-a-file-system-{number}" for number in range(3)]
    assert len({array_name(name) for name in names}) == 3
    for name in [*names, "a" * 20, "x"]:
        desired = {"schema": 1, "arrays": [{"name": array_name(name), "mount_point": "/x"}]}
        assert parse_configuration(desired).arrays
    assert array_name("store") == "store"
