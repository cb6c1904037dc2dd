"""Where the workload runs, as its command decides it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridwright.cli.prove.workload_running import load_with_place
from gridwright.errors import ExitStatus, GridwrightError
from gridwright.grid.grid import Grid
from gridwright.schedulers.job import NodeState
from gridwright.spec import parse_spec
from gridwright.workload.messages import GridSource
from gridwright.workload.on_grid.place import on_grid

DISK = "filesystems: {disk: {type: local, path: /disk}}\nlibraries: {data: {}, work: {}, util: {}}\n"


def nodes(**cores: int) -> list[NodeState]:
    """Nodes as a scheduler tells them; one without cores is down."""
    return [
        NodeState(
            name=name, up=count > 0, state="idle" if count else "down*", cores=count, memory_bytes=1,
            free_cores=0, free_memory_bytes=0,
        )
        for name, count in cores.items()
    ]  # fmt: skip


def test_a_grid_of_one_machine_has_its_agent() -> None:
    assert on_grid(Grid.open(parse_spec(DISK)), None) is None


def test_a_grid_without_a_queue_is_refused_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "grid.yaml"
    file.write_text(f"provider: lab\nscheduler: {{type: ssh}}\n{DISK}")
    with pytest.raises(GridwrightError) as raised:
        load_with_place(file, None)
    assert raised.value.status == ExitStatus.INPUT
    (problem,) = raised.value.problems
    assert "has no queue" in problem.what
    assert "type: slurm" in (problem.remedy or "")
    assert problem.where == str(file)


def test_launches_fit_the_smallest_node_that_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Grid, "states", nodes(a=8, b=4, c=0))
    place = on_grid(Grid.open(parse_spec(f"scheduler: {{type: slurm}}\nstate: /shared/state\n{DISK}")), None)
    assert place is not None
    assert (place.nodes, place.cores) == (["a", "b"], 4)
    assert place.state == "/shared/state"
    assert isinstance(place.facts, GridSource)
    assert "type: slurm" in place.facts.spec_text


def test_a_grid_whose_nodes_are_down_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Grid, "states", nodes(a=0, b=0))
    with pytest.raises(GridwrightError) as raised:
        on_grid(Grid.open(parse_spec(f"scheduler: {{type: slurm}}\nstate: /shared/state\n{DISK}")), None)
    assert raised.value.status == ExitStatus.ENVIRONMENT
    assert "a is down*; b is down*" in raised.value.problems[0].what
