"""Why nodes of a grid went silent: machines, head node, scheduler and nodes are asked, in this order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence

import pytest

from gridwright.commands import CommandOutput
from gridwright.errors import environment_error
from gridwright.grid import outages as module
from gridwright.grid.grid import Grid
from gridwright.grid.outages import OutageCauses, causes
from gridwright.providers import provider_of
from gridwright.providers.provider import MachineOutage
from gridwright.schedulers.head_node import HeadNodeUnreachable
from gridwright.schedulers.job import NodeState
from gridwright.schedulers.ssh.kind import KIND as SSH
from gridwright.spec import parse_spec

SPEC = "name: g\nprovider: lab\nnodes: {compute: {count: 3}}\nscheduler: {type: ssh}\n"
SPEC += "filesystems: {disk: {type: local, path: /disk}}\nlibraries: {data: {}}\n"
SILENT = ["compute1", "compute2"]


class Head:
    """A head node that is there, or not."""

    name = "controller"

    def __init__(self, run: Callable[[], CommandOutput]) -> None:
        self._run = run

    def run(self, command: Sequence[str], **_: object) -> CommandOutput:
        return self._run()


def well() -> CommandOutput:
    return CommandOutput(0, b"", b"")


@pytest.fixture
def grid(monkeypatch: pytest.MonkeyPatch) -> Grid:
    monkeypatch.setattr(module, "LOOK_S", 0.5)
    grid = Grid(lambda: parse_spec(SPEC), head=Head(well))  # type: ignore[arg-type]
    machines(monkeypatch, grid)
    return grid


def machines(monkeypatch: pytest.MonkeyPatch, grid: Grid, *outages: MachineOutage) -> None:
    grids = provider_of(grid.spec).on_this_machine
    monkeypatch.setattr(type(grids), "outages", lambda *_: list(outages))


def ssh_says(monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, int | None]) -> list[list[str]]:
    asked: list[list[str]] = []

    def on_nodes(_head: Head, nodes: Collection[str], *_: object, **__: object) -> dict[str, object]:
        asked.append(list(nodes))
        return {
            node: None if (status := answers[node]) is None else CommandOutput(status, b"", b"")
            for node in nodes
        }

    monkeypatch.setattr(module, "on_nodes", on_nodes)
    return asked


def test_a_head_node_that_is_off_explains_all_silence_and_nobody_behind_it_is_asked(
    grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines(
        monkeypatch, grid, MachineOutage("node controller", "is powered off", "power it on", is_head=True)
    )
    asked = ssh_says(monkeypatch, {})
    (cause,) = causes(grid, SILENT)
    assert cause.what == "node controller is powered off"
    assert (cause.nodes, cause.reaches_them, asked) == (frozenset(SILENT), True, [])


def test_a_head_node_that_cannot_be_reached_is_the_cause_though_no_provider_knows(grid: Grid) -> None:
    def away() -> CommandOutput:
        raise HeadNodeUnreachable("ssh does not reach head: Connection timed out", "head", "try it")

    grid.head._run = away  # type: ignore[attr-defined]
    (cause,) = causes(grid, SILENT)
    assert cause.what == "ssh does not reach head: Connection timed out"
    assert cause.reaches_them


def test_a_head_node_that_hangs_is_the_cause_in_bounded_time(grid: Grid) -> None:
    hangs = threading.Event()

    def hang() -> CommandOutput:
        hangs.wait(20)
        return well()

    grid.head._run = hang  # type: ignore[attr-defined]
    (cause,) = causes(grid, SILENT)
    hangs.set()
    assert "has not answered" in cause.what


def test_a_head_node_that_was_started_anew_is_the_cause_though_it_answers(
    grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(ticks: int) -> Callable[[], CommandOutput]:
        stat = f"1 (init (x) y) S {' '.join(['0'] * 18)} {ticks} 7\n"
        return lambda: CommandOutput(0, f"boot\n{stat}".encode(), b"")

    ssh_says(monkeypatch, dict.fromkeys(SILENT, 0))
    grid.head._run = started(100)  # type: ignore[attr-defined]
    asked = OutageCauses(grid)
    assert not any(cause.reaches_them for cause in asked(SILENT))
    grid.head._run = started(900)  # type: ignore[attr-defined]
    (cause,) = asked(SILENT)
    assert (cause.what, cause.certain) == ("node controller was restarted meanwhile", True)


def test_a_server_that_is_off_is_told_with_its_file_system_and_explains_no_silent_node(
    grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines(monkeypatch, grid, MachineOutage("node storage1", "is powered off", "on", serves=("disk",)))
    ssh_says(monkeypatch, dict.fromkeys(SILENT, 0))
    server, nodes = causes(grid, SILENT)
    assert (server.filesystems, server.nodes) == (("disk",), frozenset())
    assert nodes.nodes == frozenset(SILENT)
    assert [each.what for each in causes(grid, [])] == ["node storage1 is powered off"]


def test_a_node_that_ssh_does_not_reach_is_told_apart_from_one_whose_process_is_gone(
    grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh_says(monkeypatch, {"compute1": 255, "compute2": 0})
    away, there = causes(grid, SILENT)
    assert (away.nodes, there.nodes) == (frozenset({"compute1"}), frozenset({"compute2"}))
    assert "compute1 does not answer controller by ssh either" in away.what
    assert "compute2 can be reached by ssh" in there.what


def test_what_the_scheduler_says_of_a_node_is_its_cause(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    down = NodeState(
        name="compute1", up=False, state="down*", cores=1, memory_bytes=1, free_cores=0,
        free_memory_bytes=0, reason="Not responding",
    )  # fmt: skip
    monkeypatch.setattr(Grid, "has_queue", property(lambda _: True))
    monkeypatch.setattr(type(SSH), "nodes", lambda *_: [down])
    asked = ssh_says(monkeypatch, {"compute2": None})
    scheduler, _ = causes(grid, SILENT)
    assert "node compute1 is down*" in scheduler.what
    assert "Not responding" in scheduler.what
    assert asked == [["compute2"]], "who is explained is not asked"


def test_a_scheduler_that_is_silent_is_said_and_the_nodes_are_asked_all_the_same(
    grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object) -> list[NodeState]:
        raise environment_error("slurmctld does not answer")

    monkeypatch.setattr(Grid, "has_queue", property(lambda _: True))
    monkeypatch.setattr(type(SSH), "nodes", silent)
    ssh_says(monkeypatch, dict.fromkeys(SILENT))
    scheduler, nodes = causes(grid, SILENT)
    assert scheduler.what == "the scheduler does not answer: slurmctld does not answer"
    assert nodes.nodes == frozenset(SILENT)
