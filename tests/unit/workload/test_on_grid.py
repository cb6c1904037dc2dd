"""Where the workload runs, as its command decides it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gridwright.cli.prove.workload import load_with_place
from gridwright.errors import ExitStatus, GridwrightError
from gridwright.grid.grid import Grid
from gridwright.runs.directory import RunDirectory
from gridwright.schedulers.job import NodeState
from gridwright.spec import parse_spec
from gridwright.workload.matrix import load_matrix
from gridwright.workload.messages import GridSource, scale
from gridwright.workload.options import WorkloadOptions
from gridwright.workload.session import OnGrid, on_grid, run_workload

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


# What the command makes of an agent that says what was not agreed: its nodes may be of another release.

AGENT = """\
import sys
sys.stdin.readline()
print('{"event": "of the future"}')
print('{"event": "sample", "op": "workload", "time": "noon"}')
"""


def test_an_event_that_is_not_as_agreed_is_told_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent_of_another_release.py").write_text(AGENT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "matrix.yaml").write_text("name: own\nstreams: [[{command: ['true']}]]\n")
    options = WorkloadOptions(matrix=load_matrix(str(tmp_path / "matrix.yaml")), scale=scale("tiny"))
    run = RunDirectory.create(tmp_path / "runs", "own", command=["x"], what=["workload"])
    grid = OnGrid(str(tmp_path), {}, ["n1"], 1, agent="agent_of_another_release")
    libraries = dict.fromkeys(("data", "work", "util"), tmp_path)
    with pytest.raises(GridwrightError, match="an event of the workload is not as agreed") as raised:
        run_workload(run, options, libraries, observers=[], stop=threading.Event(), grid=grid)
    assert raised.value.status == ExitStatus.ENVIRONMENT
    assert raised.value.problems[0].remedy == "install the same gridwright on all nodes"
