"""Where control groups of jobs are made: in the nearest group that may have some, or where memory is held."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridwright.schedulers.local import processes
from gridwright.schedulers.local.processes import GroupPlaces, make_places

NAME = "gridwright-x"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The group of this process, on a machine that systemd does not manage; the kernel is played here."""
    own = tmp_path / "parent" / "own"
    own.mkdir(parents=True)
    for each in (own, own.parent):
        (each / "cgroup.procs").touch()
    monkeypatch.setattr(processes, "_SYSTEMD", tmp_path / "no-systemd")
    monkeypatch.setattr(processes, "_own_groups", lambda: [(2, own)])
    return own


def test_the_nearest_group_contains_jobs(own: Path) -> None:
    places = make_places(NAME)
    assert places == GroupPlaces(own / NAME)
    assert places.words() == [str(own / NAME), "no", ""]
    assert not (own.parent / NAME).exists()


def test_one_that_holds_memory_is_better(own: Path) -> None:
    """Such as the slice of a user, in which the group of this session has no controllers."""
    made = own.parent / NAME
    made.mkdir()
    (made / "cgroup.controllers").write_text("cpu memory pids\n")
    assert make_places(NAME) == GroupPlaces(made, unified_memory=True)
    assert (made / "cgroup.subtree_control").read_text() == "+memory"
    assert not (own / NAME).exists()


def test_systemd_s_groups_are_its_own_unless_it_delegates_them(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_SYSTEMD", tmp_path)
    delegated: set[Path] = set()
    monkeypatch.setattr(processes, "_is_delegated", lambda place: place in delegated)
    assert make_places(NAME) == GroupPlaces()
    delegated.add(own.parent)
    assert make_places(NAME).unified == own / NAME


def test_where_there_are_no_groups_there_is_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_own_groups", list)
    assert make_places(NAME).words() == ["", "no", ""]
