"""Which history is asked: the one that is kept; where none is, that is said, or nodes are watched."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from gridwright.cli.watch import top as verb
from gridwright.errors import ExitStatus, GridwrightError
from gridwright.grid.grid import Grid
from gridwright.monitor.history import choosing
from gridwright.monitor.history.grid_histories import GridHistories
from gridwright.monitor.history.live_histories import LiveHistories
from gridwright.monitor.history.places import history_file
from gridwright.monitor.history.stored import StoredHistories
from gridwright.spec import parse_spec
from tests.support.generated_history import generate_history
from tests.unit.monitor.history.nodes import START


def test_this_machine_is_asked_for_what_it_keeps_or_watched_from_now_on(tmp_path: Path) -> None:
    assert choosing.find_histories(None, tmp_path) is None
    with choosing.watched_histories(None, tmp_path) as histories:
        assert isinstance(histories, LiveHistories)
        assert histories.nodes() == [socket.gethostname()]
    generate_history(history_file(tmp_path), START, 3600)
    with choosing.watched_histories(None, tmp_path) as histories:
        assert isinstance(histories, StoredHistories)
        assert histories.reach() == (START - 3600, START)


def test_a_picture_of_then_is_printed_and_without_history_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(choosing.open_histories, "__defaults__", (tmp_path / "kept",))
    with pytest.raises(GridwrightError) as raised:
        verb.top(at="20m")
    assert raised.value.status is ExitStatus.ENVIRONMENT
    assert "monitoring: {history: true}" in str(raised.value)
    generate_history(history_file(tmp_path / "kept"), START, 86400)
    assert verb.top(at="2027-01-14T12:00:00+00:00", interval="1m", json=True) == 0
    document = json.loads(capsys.readouterr().out)
    (disk,) = document["disks"]
    assert disk["read_bytes_per_s"] == pytest.approx(400e6, rel=0.2)
    assert (document["time"], document["seconds"]) == (1799928000, 60)


@pytest.mark.parametrize(
    ("flags", "says"), [({"at": "later"}, "no time in the past"), ({"at": "5m", "play": Path("x")}, "--at")]
)
def test_times_that_cannot_be_are_told(flags: dict[str, object], says: str) -> None:
    with pytest.raises(GridwrightError, match=says) as raised:
        verb.top(**flags)  # type: ignore[arg-type]
    assert raised.value.status is ExitStatus.INPUT


class _Elsewhere(Grid):
    """A grid of other machines."""

    is_this_machine = False


@pytest.mark.parametrize("kept", [True, False])
def test_nodes_are_asked_where_the_spec_says_that_they_keep_it(
    kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"name": "demo", "filesystems": {"disk": {"type": "local", "path": "/data"}}}
    spec = parse_spec(json.dumps(values | {"monitoring": {"history": kept}}), base=Path("/base"))
    asked = GridHistories(["n1"], lambda *_: {})
    monkeypatch.setattr(choosing, "histories_of", lambda *_: asked)
    assert choosing.find_histories(_Elsewhere(lambda: spec)) is (asked if kept else None)
