"""Layouts that are told by a flag are refused where a spec that states them would be."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridwright.cli.data.desired_layouts import desired_layouts
from gridwright.errors import ExitStatus, GridwrightError
from gridwright.spec.load import load_spec

SPEC = Path(__file__).parents[3] / "examples/aws-lustre.yaml"


@pytest.mark.parametrize(
    ("names", "told", "said"),
    [
        (["data"], "30", "files are to have 30 stripes, and shared has 24 OSTs"),
        ([], "1GiB:1,25", "files are to have 25 stripes, and shared has 24 OSTs"),
        (["work"], None, "library work lies on a file system that has no layouts"),
    ],
)
def test_what_no_file_can_have_is_refused(names: list[str], told: str | None, said: str) -> None:
    with pytest.raises(GridwrightError) as caught:
        desired_layouts(load_spec(SPEC), names, told)
    assert (caught.value.status, caught.value.problems[0].what) == (ExitStatus.INPUT, said)


@pytest.mark.parametrize("told", ["24", "-1", "1GiB:1,24", "auto"])
def test_what_fits_is_taken(told: str) -> None:
    assert list(desired_layouts(load_spec(SPEC), ["data"], told)) == ["data"]
