"""Which machine of a grid is asked about a file system: one that has mounted it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gridwright.commands import CommandOutput, CommandSilent
from gridwright.errors import GridwrightError
from gridwright.filesystems import kind_of
from gridwright.filesystems.health import Run
from gridwright.filesystems.mount_table import Mount, mount_of, parse_mounts, read_mounts
from gridwright.grid.grid import Grid
from gridwright.spec.filesystem import FileSystem

RunOn = Callable[[FileSystem], Run]
"""What runs commands where a file system is mounted."""
MOST_ASKED = 32
"""Nodes asked at once whether they have mounted it: on a grid that works nearly any has."""


class MountingNodes:
    """Finds a machine of a grid for each file system that has mounted it."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._found: dict[str, Run] = {}

    def run_on(self, filesystem: FileSystem) -> Run:
        """The head node where it has mounted it, or no node has; else the first node that has.

        Raises GridwrightError (status ENVIRONMENT) where the head node is not there.
        """
        point = str(filesystem.path)
        if point not in self._found:
            self._found[point] = self._chosen(filesystem)
        return self._found[point]

    def _chosen(self, filesystem: FileSystem) -> Run:
        head, types = self._grid.head.run, kind_of(filesystem).kernel_types
        # A kind that may be shown as anything is asked on the head node.
        if not types or _is_there(read_mounts(head), filesystem, types):
            return head
        nodes = self._nodes()[:MOST_ASKED]
        answers = self._grid.ask(nodes, ["cat", "/proc/mounts"], timeout_s=10.0) if nodes else {}
        for node, answer in answers.items():
            mounts = parse_mounts(answer.stdout.decode(errors="replace")) if answer else []
            if _is_there(mounts, filesystem, types):
                return _OnNode(self._grid, node)
        return head

    def _nodes(self) -> Sequence[str]:
        """Nodes that are up, the first ones first; none where nobody says which there are."""
        try:
            return [node.name for node in self._grid.nodes() if node.absent is None]
        except GridwrightError:
            return []


def _is_there(mounts: Sequence[Mount], filesystem: FileSystem, types: Sequence[str]) -> bool:
    mount = mount_of(str(filesystem.path), mounts)
    # A server's own mounts are of the same type (Lustre: with the option svname), and hold no path of users.
    return mount is not None and mount.type in types and mount.point != "/" and mount.option("svname") is None


class _OnNode:
    """Runs commands on one node; this Python there is the node's own of the same version."""

    def __init__(self, grid: Grid, node: str) -> None:
        self._grid, self._node = grid, node

    def __call__(self, command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        answer = self._grid.ask([self._node], command, timeout_s=timeout_s)[self._node]
        if answer is None:
            what = f"{self._node} has not answered for {timeout_s:.0f} s"
            raise CommandSilent(what, self._node, "see gridwright doctor")
        return answer
