"""The templates of grids on AWS as cfn-lint sees them, with the resource schemas of CloudFormation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gridwright.providers.aws.files import GRID_TEMPLATE, STORAGE_TEMPLATE, aws_files
from gridwright.spec import parse_spec

EXAMPLES = Path(__file__).parents[2] / "examples"
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
    "fsx": FSX,
    "lustre": LUSTRE,
    "everything": aws(LUSTRE, certificate=CERTIFICATE, kms_key=KEY, key="admins", hyperthreads=False),
    "proxy": aws(FSX, proxy="http://proxy.example:3128", replace_nodes=False, placement_group=False),
    "adapter": aws(FSX.replace("i3en.2xlarge", "i3en.24xlarge"), efa=True),
    "paper-000": (EXAMPLES / "papers/000-all-on-lustre.yaml").read_text(),
    "paper-002": (EXAMPLES / "papers/002-fsx-lustre.yaml").read_text(),
}


@pytest.mark.parametrize("name", SPECS)
def test_cfn_lint_finds_nothing(name: str, tmp_path: Path) -> None:
    files = aws_files(parse_spec(SPECS[name]))[0]
    paths = [tmp_path / each for each in (STORAGE_TEMPLATE, GRID_TEMPLATE)]
    for path in paths:
        path.write_text(str(files[path.name]))
    done = subprocess.run(
        [Path(sys.executable).with_name("cfn-lint"), "--regions", "us-east-1", "--", *paths],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
