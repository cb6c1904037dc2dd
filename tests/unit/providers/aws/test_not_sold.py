"""What the region does not sell is refused before anything is written or asked of AWS."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.providers.aws.changes import deployment
from gridwright.providers.aws.files import aws_files
from gridwright.spec import parse_spec

EXAMPLE = (Path(__file__).parents[4] / "examples" / "aws-fsx.yaml").read_text()


@pytest.mark.parametrize("make", [aws_files, deployment], ids=["render", "up"])
@pytest.mark.parametrize(
    ("was", "now", "field"),
    [
        ("i3en.2xlarge", "i3en.2xlarg", "nodes.compute.instance"),
        ("aws:\n", "aws:\n  efa: true\n", "aws.efa"),
        ("aws:\n", "aws:\n  login: {instance: mac2.metal}\n", "aws.login.instance"),
        ("7200 GiB", "7000 GiB", "filesystems.shared.capacity"),
    ],
)
def test_it_is_refused_at_its_field(make: object, was: str, now: str, field: str) -> None:
    assert callable(make)
    with pytest.raises(GridwrightError) as refused:
        make(parse_spec(EXAMPLE.replace(was, now)))
    assert refused.value.status is ExitStatus.INPUT
    assert field in [problem.field for problem in refused.value.problems]
    assert all(problem.remedy for problem in refused.value.problems)
