"""Finds the Python that runs Gridwright's parts on each node: the node's own, or one that is copied to it."""

from __future__ import annotations

import platform
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from gridwright import __version__
from gridwright.commands import CommandOutput
from gridwright.grid.extensions import extension_versions
from gridwright.grid.fanout import on_nodes
from gridwright.grid.node_part import node_part
from gridwright.schedulers.head_node import HeadNode
from gridwright.schedulers.ssh_head import why_no_ssh

FIND_S = 20.0
"""For a node to say which Pythons it has."""
UNPACK_S = 120.0
"""For 6 MB over a slow line, and a start of Python from a shared home directory."""
_HERE = Path(__file__).parent


class NodePythons:
    """The Python of each node, looked up once; nodes without this Gridwright are given their part of it.

    Nothing is copied to nodes that have the same version at the same path, as where it is shared.
    """

    def __init__(self, head: HeadNode, extensions: tuple[str, ...] = ()) -> None:
        """`extensions` are names of the site's own packages that nodes need, too."""
        self._head = head
        self._extensions = extensions
        self._found: dict[str, str] = {}
        self._lost: dict[str, str] = {}

    def of(self, nodes: Collection[str]) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """The path of the Python of each node, and in words why others have none.

        A node that does not answer is in neither: it may answer later. Raises GridwrightError where the head
        node is not there.
        """
        if self._head.nodes_share_python:
            return dict.fromkeys(nodes, sys.executable), {}
        unknown = [node for node in nodes if node not in self._found and node not in self._lost]
        lacking, losses = self._find(unknown)
        for python in sorted(set(lacking.values())):
            losses |= self._bring([node for node, each in lacking.items() if each == python], python)
        self._lost |= losses
        return (
            {node: self._found[node] for node in nodes if node in self._found},
            {node: self._lost[node] for node in nodes if node in self._lost},
        )

    def _find(self, nodes: Collection[str]) -> tuple[dict[str, str], dict[str, str]]:
        """Ask nodes; returns the Pythons of those that lack their part, and losses."""
        lacking: dict[str, str] = {}
        losses: dict[str, str] = {}
        same = " ".join([__version__, *extension_versions(self._extensions)])
        own = (sys.executable, same, str(sys.version_info.minor))
        asked = script("find_python.sh", node_part(self._extensions).name, *own, *self._extensions)
        for node, answer in on_nodes(self._head, nodes, asked, timeout_s=FIND_S).items():
            if answer is None:
                continue
            word, _, rest = last_line(answer.stdout).partition(" ")
            machine, _, python = rest.partition(" ")
            if word == "has":
                self._found[node] = rest
            elif word == "lacks" and machine == platform.machine():
                lacking[node] = python
            elif word == "lacks":
                losses[node] = (
                    f"it is {machine}, and this Gridwright is for {platform.machine()}: install gridwright "
                    f"{__version__} there as {sys.executable}"
                )
            elif word == "old":
                losses[node] = f"it has {rest}, and Gridwright needs Python 3.11: install python3.11"
            else:
                losses[node] = _why(answer)
        return lacking, losses

    def _bring(self, nodes: Collection[str], python: str) -> dict[str, str]:
        """Copy their part to nodes; returns losses."""
        part = node_part(self._extensions)
        command = script("unpack_part.sh", part.name, python)
        answers = on_nodes(self._head, nodes, command, stdin=part.content, timeout_s=UNPACK_S)
        losses = {}
        for node, answer in answers.items():
            if answer is not None and answer.status == 0:
                self._found[node] = last_line(answer.stdout)
            else:
                losses[node] = f"gridwright {__version__} cannot be brought to it: {_why(answer)}"
        return losses


def script(name: str, *arguments: str) -> Sequence[str]:
    """The command that runs one of our scripts on another machine; all begin with what trusted.sh defines."""
    return ["sh", "-c", (_HERE / "trusted.sh").read_text() + (_HERE / name).read_text(), "sh", *arguments]


def _why(answer: CommandOutput | None) -> str:
    if answer is None:
        return f"no end within {UNPACK_S:.0f} s"
    return why_no_ssh(answer.stderr.decode(errors="replace")) or f"exit status {answer.status}"


def last_line(text: bytes) -> str:
    """The last line: what a login prints on its way comes before."""
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def with_python(python: str, command: Sequence[str]) -> list[str]:
    """A command of this Python as one of another Python; other commands as they are."""
    return [python, *command[1:]] if command[0] == sys.executable else list(command)
