"""The program of the head node: one file, Python 3.9, boto3 alone, and the unit that starts it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from gridwright.providers.aws.machine_files import ROLL
from tests.support.oldest_python import beyond_python_3_9
from tests.support.one_file_program import complaints_of_systemd, imports_beyond_python, sections_of_unit

SOURCE = Path(__file__).parents[5] / "src" / "gridwright"
OURS = ("gridwright.providers.aws.roll.", "gridwright.node_programs.")


def test_it_is_the_same_bytes_each_time() -> None:
    assert ROLL.archive() == ROLL.archive()


def test_python_3_9_has_all_that_it_uses(tmp_path: Path) -> None:
    assert beyond_python_3_9(ROLL.archive(), tmp_path) == ""


def test_it_runs_without_gridwright_and_says_what_is_wrong(tmp_path: Path) -> None:
    program = tmp_path / "roll.pyz"
    program.write_bytes(ROLL.archive())
    with zipfile.ZipFile(program) as archive:
        found = {name.rpartition("/")[0] for name in archive.namelist() if not name.endswith("__init__.py")}
    packages = {f"gridwright/node_programs{each}" for each in ("", "/health", "/scratch")}
    assert found == {"", "gridwright/providers/aws/roll", *packages}
    argv = [sys.executable, "-I", "-S", str(program), "--config", str(tmp_path / "none.json")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "none.json: No such file or directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_each_module_imports_little() -> None:
    modules = [
        *(SOURCE / "providers/aws/roll").glob("*.py"),
        SOURCE / "node_programs/drain.py",
    ]
    assert len(modules) > 4
    for module in modules:
        assert imports_beyond_python(module, OURS, {"boto3", "botocore"}) == [], module


def test_the_unit_is_ended_before_up_takes_the_head_node_for_silent(tmp_path: Path) -> None:
    unit = sections_of_unit(ROLL.unit_text())
    assert unit["Service"]["ExecStart"] == f"/usr/bin/python3 {ROLL.path}"
    assert unit["Service"]["TimeoutStartSec"] == "10min"
    assert complaints_of_systemd(ROLL.unit_text(), ROLL.path, tmp_path) == ""
