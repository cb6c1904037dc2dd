"""What is refused before the machines of a grid are stopped."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gridwright.errors import ExitStatus, GridwrightError, environment_error
from gridwright.grid import grid
from gridwright.grid.grid import Grid
from gridwright.providers.provider import pausing_of
from gridwright.schedulers.job import NodeState
from gridwright.spec import parse_spec

SPEC = """\
name: demo
provider: local
nodes: {compute: {count: 3}}
filesystems: {disk: {type: local, path: /srv/demo}}
libraries: {data: {}}
scheduler: {type: slurm}
"""


def node(name: str, free: int) -> NodeState:
    return NodeState(
        name=name,
        up=True,
        state="mixed",
        cores=8,
        memory_bytes=1 << 34,
        free_cores=free,
        free_memory_bytes=1 << 34,
    )


def refused(monkeypatch: pytest.MonkeyPatch, states: object) -> GridwrightError | None:
    def told(_self: Grid) -> object:
        if isinstance(states, Exception):
            raise states
        return states

    monkeypatch.setattr(Grid, "states", property(told))
    try:
        grid.refuse_busy(parse_spec(SPEC, base=Path("/base")))
    except GridwrightError as error:
        return error
    return None


def test_a_grid_without_jobs_may_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(monkeypatch, [node("compute1", 8), node("compute2", 8)]) is None


def test_one_core_of_one_node_is_enough_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    error = refused(monkeypatch, [node("compute1", 8), node("compute2", 7), node("compute3", 0)])
    assert error
    assert error.status is ExitStatus.ENVIRONMENT
    assert "jobs use 9 cores on compute[2-3]" in str(error)
    assert "--now" in str(error)


def test_a_silent_scheduler_is_not_taken_for_an_idle_one(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = environment_error("slurmctld does not answer", where="controller", remedy="start it")
    error = refused(monkeypatch, silent)
    assert error
    assert error.status is ExitStatus.ENVIRONMENT
    assert "nobody tells whether jobs run" in str(error)
    assert "slurmctld does not answer" in str(error)


@pytest.mark.parametrize("verb", ["stop", "start"])
def test_machines_that_are_not_paid_by_the_hour_are_not_stopped(verb: str) -> None:
    spec = parse_spec(SPEC, base=Path("/base"))
    with pytest.raises(GridwrightError, match=re.escape("provider local has none")) as caught:
        pausing_of(spec, verb)
    assert caught.value.status is ExitStatus.INPUT
