"""Commands of remedies are about the grid that the user named."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridwright.cli import named_spec
from gridwright.cli.named_spec import naming_spec, with_named_spec
from gridwright.errors import Problem


@pytest.fixture(autouse=True)
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_spec, "_file", Path("my grids/site.yaml"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("root: gridwright setup; or not", "root: gridwright setup 'my grids/site.yaml'; or not"),
        ("gridwright setup FILE, or so", "gridwright setup 'my grids/site.yaml', or so"),
        ("see `gridwright doctor`", "see `gridwright doctor 'my grids/site.yaml'`"),
        ("gridwright doctor -v", "gridwright doctor 'my grids/site.yaml' -v"),
        ("gridwright jobs --all", "gridwright jobs --grid 'my grids/site.yaml' --all"),
        *(
            (same, same)
            for same in (
                "sudo gridwright setup --local",
                "gridwright help doctor",
                "gridwright iotest --directory DIR",
                "gridwright up 'my grids/site.yaml'",
                "gridwright plan my grids/site.yaml --write OUT",
                "gridwright up other.yaml",
            )
        ),
    ],
)  # fmt: skip
def test_a_command_of_a_remedy_names_the_spec_that_was_named(text: str, expected: str) -> None:
    assert with_named_spec(text) == expected
    assert naming_spec(Problem("what", remedy=text)).remedy == expected


def test_where_the_spec_was_not_named_remedies_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_spec, "_file", None)
    assert with_named_spec("gridwright setup FILE") == "gridwright setup FILE"
    assert naming_spec(Problem("what")).remedy is None
