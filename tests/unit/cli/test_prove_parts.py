"""`--skip workload` asks nothing of the workload: neither its engines nor its flags."""

from __future__ import annotations

import pytest

from gridwright.cli.prove.prove import ProveFlags, places_of, read_parts
from gridwright.errors import GridwrightError
from gridwright.grid.grid import Grid
from gridwright.spec import parse_spec
from gridwright.workload.programs import program


@pytest.fixture(autouse=True)
def without_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "ENGINES", {"duckdb": "no_such_module"})


def test_a_skipped_workload_needs_no_engines() -> None:
    parts = read_parts(ProveFlags(seconds="1s", skip=["workload"]))
    assert parts.workload is None
    assert parts.iotest is not None


def test_else_what_is_not_installed_is_named_with_what_to_do() -> None:
    grid = Grid.open(parse_spec("filesystems: {disk: {type: local, path: /disk}}\nlibraries: {data: {}}\n"))
    parts = read_parts(ProveFlags(seconds="1s", skip=["doctor", "iotest"]))
    with pytest.raises(GridwrightError) as caught:
        places_of(grid, parts)
    assert "duckdb" in str(caught.value)
    assert "pip install" in str(caught.value)
