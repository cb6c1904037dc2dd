"""The grid that status and down are about where no spec is named."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from gridwright.cli.build.up import down, resolve_grid
from gridwright.errors import ExitStatus, GridwrightError
from gridwright.providers.lab.provider import LabDown

OWN = """\
name: own
provider: lab
filesystems: {shared: {type: local, path: /mnt/grid}}
libraries: {data: {}}
scheduler: {type: ssh}
"""


@pytest.fixture
def labs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for records of labs, and a working directory without a spec."""
    monkeypatch.setattr("gridwright.providers.lab.record.LABS", tmp_path / "labs")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "labs"


def record(labs: Path, name: str) -> None:
    (labs / name).mkdir(parents=True)
    (labs / name / "lab.json").write_text("{}")


def test_without_a_grid_here_a_spec_is_asked_for(labs: Path) -> None:
    with pytest.raises(GridwrightError, match="there is no grid here"):
        resolve_grid(None)


def test_the_only_grid_here_is_meant(labs: Path) -> None:
    record(labs, "demo")
    assert resolve_grid(None).name == "demo"


def test_a_flag_for_data_is_refused_without_a_spec_as_it_is_with_one(labs: Path) -> None:
    record(labs, "demo")
    with pytest.raises(GridwrightError, match="grid demo is a lab, which keeps no data") as refused:
        resolve_grid(None).removal(frozenset({"scratch"}))
    assert refused.value.problems[0].where == "--delete-data"


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Labs that were taken away."""
    names: list[str] = []

    def take_away(name: str) -> LabDown:
        names.append(name)
        return LabDown(name, was_up=True)

    monkeypatch.setattr("gridwright.providers.lab.provider.take_away", take_away)
    return names


def test_a_lab_that_nobody_named_goes_only_where_somebody_says_so(
    labs: Path, taken: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record(labs, "demo")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(GridwrightError, match="nobody is there to be asked") as refused:
        down()
    assert (refused.value.status, refused.value.problems[0].where) == (ExitStatus.INPUT, "--yes")
    assert "lab demo goes" in capsys.readouterr().err
    for answer in ("n\n", "\n"):
        terminal = io.StringIO(answer)
        monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
        monkeypatch.setattr("sys.stdin", terminal)
        with pytest.raises(GridwrightError, match="nothing is removed"):
            down()
    assert taken == []
    down(yes=True, json=True)
    out, err = capsys.readouterr()
    assert (taken, json.loads(out)["command"]) == (["demo"], "down")
    assert "lab demo goes" in err


def test_a_lab_whose_spec_is_at_hand_goes_without_a_question(labs: Path, taken: list[str]) -> None:
    record(labs, "demo")
    Path("grid.yaml").write_text(OWN)
    down()
    assert taken == ["own"]


def test_of_several_grids_one_must_be_named(labs: Path) -> None:
    record(labs, "one")
    record(labs, "two")
    with pytest.raises(GridwrightError, match="there are 2 grids here, one, two"):
        resolve_grid(None)
