"""Which nodes of a grid `gridwright iotest` tests, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gridwright.cli.prove.iotest import IotestFlags, run_iotest
from gridwright.errors import ExitStatus, GridwrightError
from gridwright.grid.grid import Grid
from gridwright.grid.nodes import known_nodes, nodes_for_test, nodes_of_spec
from gridwright.iotest.coordinator.coordinator import fleet_of
from gridwright.schedulers.job import NodeState
from gridwright.spec import parse_spec

GRID = """\
name: demo
provider: {provider}
nodes:
  compute: {{count: {count}}}
filesystems: {{disk: {{type: local, path: /srv/demo}}}}
libraries: {{data: {{}}}}
scheduler: {{type: {scheduler}}}
"""


def spec(provider: str = "local", scheduler: str = "slurm", count: int = 2) -> Any:
    return parse_spec(GRID.format(provider=provider, scheduler=scheduler, count=count), base=Path("/base"))


def state(name: str, *, up: bool = True, free: int = 8) -> NodeState:
    return NodeState(
        name=name,
        up=up,
        state="idle" if up else "down*",
        cores=8,
        memory_bytes=1 << 34,
        free_cores=free,
        free_memory_bytes=1 << 34,
        reason=None if up else "Not responding",
    )


def test_one_machine_is_tested_as_ever() -> None:
    assert fleet_of(Grid.open(spec(scheduler="local", count=1))) is None


def test_a_node_that_is_down_is_named_and_not_waited_for() -> None:
    found = nodes_for_test(spec(), [state("n1"), state("n2", up=False)])
    assert [(node.name, node.cores) for node in found] == [("n1", 8), ("n2", 8)]
    assert found[0].absent is None
    assert found[1].absent == "its scheduler says that it is down* (Not responding)"


def off(name: str) -> NodeState:
    return replace(state(name, up=False), state="idle+cloud+powered_down", reason=None, asleep=True)


def test_nodes_that_are_off_until_jobs_wait_are_neither_tested_nor_down() -> None:
    states = [off("n1"), state("n2"), state("n3", up=False)]
    assert [node.name for node in nodes_for_test(spec(count=3), states)] == ["n2", "n3"]
    known = known_nodes(spec(count=3), states)
    assert known.asleep == ["n1"]
    assert set(known.down) == {"n3"}
    with pytest.raises(GridwrightError) as error:
        nodes_for_test(spec(), [off("n1"), off("n2")])
    (problem,) = error.value.problems
    assert "off until a job waits" in (problem.remedy or "")


def test_of_a_larger_cluster_as_many_are_tested_as_the_grid_has() -> None:
    known = [state("n1", up=False), state("n2", free=0), state("n3"), state("n4")]
    assert [node.name for node in nodes_for_test(spec(count=2), known)] == ["n3", "n4"]
    assert [node.name for node in nodes_for_test(spec(count=3), known)] == ["n2", "n3", "n4"]


def test_a_cluster_without_a_node_that_is_up_is_no_grid_to_test() -> None:
    with pytest.raises(GridwrightError, match="has no node that is up \\(n1 is down\\*\\)") as raised:
        nodes_for_test(spec(), [state("n1", up=False)])
    assert raised.value.status == ExitStatus.ENVIRONMENT


def test_without_a_queue_nodes_have_the_names_of_their_groups() -> None:
    assert [node.name for node in nodes_of_spec(spec(provider="lab", scheduler="ssh", count=3))] == [
        "compute1",
        "compute2",
        "compute3",
    ]


def test_pairs_need_several_nodes(tmp_path: Path) -> None:
    grid = tmp_path / "grid.yaml"
    grid.write_text(GRID.format(provider="local", scheduler="local", count=1))
    for place in ({"file": grid}, {"file": None, "directory": tmp_path}):
        with pytest.raises(GridwrightError, match="--pairs") as raised:
            run_iotest(IotestFlags(**place, pairs=True, runs=tmp_path / "runs"))
        assert raised.value.status == ExitStatus.INPUT
    assert not (tmp_path / "runs").exists()


def test_a_shared_file_cannot_be_kept(tmp_path: Path) -> None:
    flags = IotestFlags(
        file=None, directory=tmp_path, shared_file=True, keep=True, runs=tmp_path, on_node_failure="contine"
    )
    with pytest.raises(GridwrightError) as raised:
        run_iotest(flags)
    said = str(raised.value)
    assert "the parts of a shared file are not kept" in said
    assert "did you mean continue?" in said
