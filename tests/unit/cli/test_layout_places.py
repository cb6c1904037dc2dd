"""Layouts are asked for where the file system is mounted: the head node may have none of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from gridwright.commands import CommandOutput
from gridwright.doctor.access import MountingNodes
from gridwright.errors import GridwrightError, environment_error
from gridwright.filesystems.lustre.model import LustreFileSystem
from gridwright.grid.grid import Grid
from gridwright.grid.nodes import GridNode

LUSTRE = LustreFileSystem.model_validate({"type": "lustre", "path": "/grid", "source": "h@tcp:/scratch"})
ROOT = "/dev/sda1 / ext4 rw 0 0\n"
CLIENT = ROOT + "h@tcp:/scratch /grid lustre rw,flock 0 0\n"
SERVER = ROOT + "/dev/sdb /grid lustre ro,svname=scratch-OST0000 0 0\n"


@dataclass
class Machines:
    """A grid whose nodes tell their mounts, and print their name when asked anything else."""

    mounts: Mapping[str, str]
    silent: Sequence[str] = ()
    lost: bool = False
    asked: list[str] = field(default_factory=list)

    @property
    def head(self) -> Machines:
        return self

    def run(self, command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        return self._answer("head", command)

    def _answer(self, node: str, command: Sequence[str]) -> CommandOutput:
        if list(command) == ["cat", "/proc/mounts"]:
            return CommandOutput(0, self.mounts[node].encode(), b"")
        return CommandOutput(0, node.encode(), b"")

    def nodes(self) -> list[GridNode]:
        if self.lost:
            raise environment_error("the scheduler does not answer")
        absent = {"compute1": "down"}
        return [GridNode(name, absent=absent.get(name)) for name in self.mounts if name != "head"]

    def ask(
        self, nodes: Collection[str], command: Sequence[str], *, timeout_s: float = 20.0
    ) -> dict[str, CommandOutput | None]:
        self.asked += nodes
        return {node: None if node in self.silent else self._answer(node, command) for node in nodes}

    def where(self) -> str:
        run: Any = MountingNodes(cast("Grid", self)).run_on(LUSTRE)
        return str(run(["hostname"]).stdout.decode())


def test_the_head_node_is_asked_where_it_has_mounted_the_file_system() -> None:
    machines = Machines({"head": CLIENT, "compute2": CLIENT})
    assert machines.where() == "head"
    assert machines.asked == []


def test_a_node_that_has_mounted_it_is_asked_where_the_head_node_has_not() -> None:
    mounts = {"head": ROOT, "compute1": CLIENT, "compute2": SERVER, "compute3": CLIENT, "compute4": CLIENT}
    machines = Machines(mounts, silent=["compute4"])
    assert machines.where() == "compute3"
    assert "compute1" not in machines.asked, "its scheduler says that it is down"


@pytest.mark.parametrize(
    "machines",
    [Machines({"head": ROOT, "compute2": ROOT}), Machines({"head": ROOT, "compute2": CLIENT}, lost=True)],
    ids=["nowhere", "no scheduler"],
)
def test_where_no_node_is_known_that_has_it_the_head_node_says_what_is_missing(machines: Machines) -> None:
    assert machines.where() == "head"


def test_a_node_that_falls_silent_is_named() -> None:
    machines = Machines({"head": ROOT, "compute2": CLIENT})
    run = MountingNodes(cast("Grid", machines)).run_on(LUSTRE)
    machines.silent = ["compute2"]
    with pytest.raises(GridwrightError, match="compute2 has not answered for 20 s"):
        run(["hostname"], timeout_s=20)
