"""`gridwright explain-slow` on a lab with a real limit and a real stranger, and where all is well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Command, Ended, wait_until
from tests.support.loop_lab import LoopLab, loop_lab

pytestmark = pytest.mark.root

SLOW = 2_000_000
"""Bytes per second that a node is let read: far below what one busy core requires."""
STEADY = 20e6


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopLab]:
    place = tmp_path_factory.mktemp("explain")
    with loop_lab(Command(place), place, "slowlab", "10.97.57.0/24", "20 MB/s/core") as made:
        yield made


def explained(grid: LoopLab, *flags: str, spec: Path | None = None) -> tuple[Ended, Any]:
    ended = grid.lab.command("explain-slow", spec or grid.lab.spec, "--interval", "2s", "--json", *flags)
    assert ended.out, ended.err
    (filesystem,) = ended.json["filesystems"]
    return ended, filesystem


def test_a_library_that_is_throttled_is_named_with_the_limit_that_holds_it(grid: LoopLab) -> None:
    with grid.reads("compute1", "reader", job="17"):
        grid.throttle("read", SLOW)
        try:
            # A limit that is set pays back at first what was moved before it.
            ended, shared = wait_until(
                lambda: found if (found := explained(grid))[1]["binds"] else None,
                seconds=20, what="a limit that is reached", last=lambda: explained(grid)[1],
            )  # fmt: skip
            of_job, _ = explained(grid, "--job", "17")
            said = grid.lab.command("explain-slow", grid.lab.spec, "--interval", "2s", "--library", "data")
            top = grid.lab.command("top", grid.lab.spec, "--once", "--interval", "2s", "--json").json
        finally:
            grid.throttle("read", 0)
    assert (ended.status, ended.json["slow"], shared["slow"]) == (1, True, True)
    assert (shared["filesystem"], shared["libraries"]) == ("shared", ["data"])
    (limit,) = shared["binds"]
    assert (limit["sort"], limit["node"], limit["capacity"]) == ("control-group", "compute1", SLOW)
    assert limit["used"] == pytest.approx(SLOW, rel=0.1)
    assert shared["delivered"]["bytes_per_s_per_core"] < shared["asked"]["required_bytes_per_s_per_core"] / 5
    assert not shared["sharing"]["disturbs"]
    assert shared["since"]["at_s"] is None
    assert any(limit["text"] == each["text"] for each in ended.json["evidence"])
    # The same judge speaks in both commands.
    assert "control-group" in [each["sort"] for each in top["libraries"][0]["uses"] if each["binds"]]
    assert of_job.json["job"]["held_up"] is True
    assert "shared is slow" in of_job.json["job"]["text"]
    words = " ".join(said.out.split())
    assert "data on shared: slow" in words
    assert "what binds: control group / of compute1 may have 2 MB/s read from" in words
    assert "since: not known: no history of the nodes is kept" in words


def test_foreign_load_is_named_with_its_share(grid: LoopLab) -> None:
    # Much less than they can, so that both have the same share whatever else this machine does.
    with (
        grid.reads("compute1", "reader", job="17", bytes_per_s=STEADY),
        grid.reads("compute2", "nightly_backup", bytes_per_s=STEADY),
    ):
        ended, shared = explained(grid)
        said = grid.lab.command("explain-slow", grid.lab.spec, "--interval", "1s")
    sharing = shared["sharing"]
    assert sharing["disturbs"], sharing
    assert 0.3 < sharing["foreign_share"] < 0.7
    stranger = next(each for each in sharing["sharers"] if not each["is_job"])
    assert "nightly_backup.py" in stranger["name"]
    assert stranger["user"] == "root"
    job = next(each for each in sharing["sharers"] if each["is_job"])
    assert (job["name"], job["user"]) == ("17", "root")
    assert sharing["foreign_bytes_per_s"] == pytest.approx(stranger["bytes_per_s"], rel=0.4)
    assert "is of no job of the grid: most of all process" in " ".join(said.out.split())
    assert ended.status in {0, 1}


def test_nothing_is_named_where_all_is_well(grid: LoopLab) -> None:
    """Cores that others on this machine keep busy count as well: what is required leaves room for these."""
    spec = grid.lab.spec.with_name("modest.yaml")
    spec.write_text(grid.lab.spec.read_text().replace("20 MB/s/core", "1 MB/s/core"))
    with grid.reads("compute1", "reader", job="17"):
        ended, shared = explained(grid, spec=spec)
    assert (ended.status, ended.json["slow"], ended.json["told"]) == (0, False, True), ended.out
    assert (shared["slow"], shared["standing"]) == (False, "met")
    assert not shared["sharing"]["disturbs"]
    assert (shared["untold"], ended.json["evidence"], ended.json["changes"]) == ([], [], [])


def test_what_cannot_be_asked_is_refused_with_all_that_is_wrong(gridwright: Command, tmp_path: Path) -> None:
    flags = ("--at", "10m", "--interval", "0s", "--job", "1", "--library", "data", "--servers", "oss1")
    ended = gridwright("explain-slow", *flags)
    assert ended.status == 2
    for word in ("--interval", "--library", "--servers"):
        assert word in ended.err
    record = tmp_path / "none.top"
    record.write_text("{}\n")
    assert gridwright("explain-slow", "--play", record, cwd=tmp_path).status == 2
    nobody = gridwright("explain-slow", "--interval", "1s", "--job", "no-such-job", cwd=tmp_path)
    assert (nobody.status, 'no node has a process of job "no-such-job"' in nobody.err) == (2, True)
