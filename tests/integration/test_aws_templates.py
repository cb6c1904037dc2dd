"""The templates of grids on AWS as cfn-lint sees them, with the resource schemas of CloudFormation.

Those of the examples are linted by `make lint-templates`; here are settings that no example has.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gridwright.providers.aws.files import GRID_TEMPLATE, STORAGE_TEMPLATE, aws_files
from gridwright.spec import parse_spec
from tests.support.aws_matrix import matrix
from tests.unit.providers.aws import storage_specs

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
FSX = (EXAMPLES / "aws-fsx.yaml").read_text()
LUSTRE = (EXAMPLES / "aws-lustre.yaml").read_text()
KEY = "arn:aws:kms:us-east-1:111122223333:key/00000000-0000-0000-0000-000000000000"
CERTIFICATE = "arn:aws:acm:us-east-1:111122223333:certificate/00000000-0000-0000-0000-000000000000"


def aws(text: str, **more: object) -> str:
    """A spec with more in its section aws."""
    return text.replace(
        "aws:\n", "aws:\n" + "".join(f"  {name}: {json.dumps(value)}\n" for name, value in more.items()), 1
    )


SPECS = {
    "everything": aws(LUSTRE, certificate=CERTIFICATE, kms_key=KEY, key="admins", hyperthreads=False),
    "proxy": aws(FSX, proxy="http://proxy.example:3128", replace_nodes=False, placement_group=False),
    "adapter": aws(FSX.replace("i3en.2xlarge", "i3en.24xlarge"), efa=True),
}


@pytest.mark.thorough
def test_cfn_lint_finds_nothing(tmp_path: Path) -> None:
    paths = []
    for name, text in SPECS.items():
        files = aws_files(parse_spec(text))[0]
        (tmp_path / name).mkdir()
        for template in (STORAGE_TEMPLATE, GRID_TEMPLATE):
            paths.append(tmp_path / name / template)
            paths[-1].write_text(str(files[template]))
    for name in storage_specs.LINTED:
        paths.append(tmp_path / f"{name}.template.yaml")
        paths[-1].write_text(storage_specs.text(storage_specs.SPECS[name]))
    wrong = tmp_path / "wrong.template.yaml"
    lustre = storage_specs.text(storage_specs.SPECS["lustre"])
    wrong.write_text(lustre.replace("VolumeType: gp3", "VolumeType: gp9"))
    cfn_lint = Path(sys.executable).with_name("cfn-lint")
    done = subprocess.run(
        [cfn_lint, "--regions", "us-east-1", "--format", "parseable", "--", *paths, wrong],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    complaints = (done.stdout + done.stderr).splitlines()
    assert [each for each in complaints if wrong.name not in each] == []
    assert [each for each in complaints if wrong.name in each and "gp9" in each] != []


@pytest.mark.thorough
def test_cfn_lint_and_checkov_find_nothing_in_any_of_the_matrix(tmp_path: Path) -> None:
    """Checks of checkov that are left out stand in .checkov.yaml, each with its reason."""
    paths = []
    for index, spec in enumerate(matrix().values()):
        files = aws_files(parse_spec(json.dumps(spec)))[0]
        for template in (STORAGE_TEMPLATE, GRID_TEMPLATE):
            paths.append(tmp_path / f"{index}-{template}")
            paths[-1].write_text(str(files[template]))
    venv = Path(sys.executable).parent.parent
    lint: list[str | Path] = [venv / "bin/cfn-lint", "--regions", "us-west-2", "--format", "parseable", "--"]
    judge: list[str | Path] = [venv / "checkov-venv/bin/checkov", "--config-file", ROOT / ".checkov.yaml"]
    judge += ["--skip-download", "--framework", "cloudformation"]
    for command in ([*lint, *paths], [*judge, *(part for path in paths for part in ("--file", path))]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
