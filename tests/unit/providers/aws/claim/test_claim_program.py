"""The program for machines: one file, Python 3.9, boto3 alone, and the unit that starts it."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

from gridwright.providers.aws.claim.deciding import DEVICE_S, LINK_S, MGS_S, SLOT_S, VOLUME_S
from gridwright.providers.aws.machine_files import CLAIM
from tests.support.oldest_python import beyond_python_3_9
from tests.support.one_file_program import (
    OWN_MOUNT_NAME_SPACE,
    complaints_of_systemd,
    imports_beyond_python,
    sections_of_unit,
)

SOURCE = Path(__file__).parents[5] / "src" / "gridwright" / "providers" / "aws" / "claim"
MODULES = sorted(SOURCE.glob("*.py"))
OURS = (
    "gridwright.providers.aws.claim.",
    "gridwright.node_programs.scratch.",
    "gridwright.node_programs.lustre_targets",
)


def test_it_is_the_same_bytes_each_time() -> None:
    assert CLAIM.archive() == CLAIM.archive()


def test_python_3_9_has_all_that_it_uses(tmp_path: Path) -> None:
    assert beyond_python_3_9(CLAIM.archive(), tmp_path) == ""


def test_it_runs_without_gridwright_and_says_what_is_wrong(tmp_path: Path) -> None:
    program = tmp_path / "claim.pyz"
    program.write_bytes(CLAIM.archive())
    with zipfile.ZipFile(program) as archive:
        modules = {name for name in archive.namelist() if not name.endswith("__init__.py")}
    assert {name.rpartition("/")[0] for name in modules} == {
        "",
        "gridwright/node_programs",
        "gridwright/node_programs/scratch",
        "gridwright/providers/aws/claim",
    }
    # -S: no site packages, so nothing of Gridwright but what is in the file.
    argv = [sys.executable, "-I", "-S", str(program), "--config", str(tmp_path / "none.json"), "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    document = json.loads(done.stdout)
    assert (document["schema"], document["command"], document["ok"]) == (1, "node claim", False)
    assert "none.json: No such file or directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_each_module_imports_little() -> None:
    for module in MODULES:
        assert imports_beyond_python(module, OURS, {"boto3", "botocore"}) == [], module
        # boto3 is imported late: what is wrong with the claim file is told without it.
        at_start = [
            node
            for node in ast.parse(module.read_text()).body
            if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        assert not [node for node in at_start if "boto" in ast.dump(node)], module


def test_the_modules_are_found() -> None:
    assert len(MODULES) > 4


def test_the_unit_gives_it_time_for_all_its_waits_and_ends_its_tries() -> None:
    unit = sections_of_unit(CLAIM.unit_text())
    service = unit["Service"]
    assert service["ExecStart"].split()[:2] == ["/usr/bin/python3", str(CLAIM.path)]
    assert service["Type"] == "oneshot"
    assert service["Restart"] == "on-failure"
    found = re.fullmatch(r"(\d+)min", service["TimeoutStartSec"])
    assert found is not None
    assert int(found[1]) * 60 > SLOT_S + LINK_S + VOLUME_S + DEVICE_S + MGS_S
    hours = re.fullmatch(r"(\d+)h", unit["Unit"]["StartLimitIntervalSec"])
    assert hours is not None
    # Shorter, and tries that last as long as they may would never count as too many.
    assert int(hours[1]) * 60 > int(unit["Unit"]["StartLimitBurst"]) * int(found[1])


def test_the_unit_keeps_the_mount_name_space_of_the_machine() -> None:
    assert not OWN_MOUNT_NAME_SPACE & set(sections_of_unit(CLAIM.unit_text())["Service"])


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    assert complaints_of_systemd(CLAIM.unit_text(), CLAIM.path, tmp_path) == ""
