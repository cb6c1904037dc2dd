"""Reads what became of nodes that were set up from the lines that the playbook's callback writes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

State = Literal["ok", "changed", "failed", "unreachable", "unfinished"]


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One thing that was changed on a node, or would be."""

    task: str
    where: str
    """The file, where it is one."""
    name: str
    """The row of the tuning table, where it is one."""
    setting: str
    found: str
    wanted: str
    differences: tuple[tuple[str, str], ...] = ()
    """Contents before and after, where they were asked for."""

    @property
    def text(self) -> str:
        """The change on one line."""
        if self.setting:
            return f"{self.setting}: {self.found} -> {self.wanted}"
        task = self.task.rpartition(" : ")[2]  # the role before it says nothing to users
        return f"{self.where}: {task.lower()}" if self.where else task


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """What stopped a node."""

    task: str
    message: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """A setting that a node does not have, and what is said then."""

    name: str
    setting: str
    reason: str


@dataclass(slots=True)
class NodeSetup:
    """What became of one node."""

    name: str
    state: State = "unfinished"
    changes: list[SettingChange] = field(default_factory=list)
    failures: list[TaskFailure] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)


def read_report(lines: Iterable[str]) -> list[NodeSetup]:
    """The nodes in the order in which they were first heard of; a line that is cut off is left out."""
    nodes: dict[str, NodeSetup] = {}
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            _take(nodes, event)
    return list(nodes.values())


def last_task(lines: Sequence[str]) -> str:
    """The task that was begun last; empty where none was."""
    for line in reversed(lines):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and event.get("event") == "start":
            return str(event.get("task", ""))
    return ""


def _take(nodes: dict[str, NodeSetup], event: Mapping[str, Any]) -> None:
    kind = event.get("event")
    if kind == "end":
        for name, counts in dict(event.get("nodes", {})).items():
            _end(nodes.setdefault(name, NodeSetup(name)), counts)
        return
    if "node" not in event:
        return
    node = nodes.setdefault(str(event["node"]), NodeSetup(str(event["node"])))
    if kind == "changed":
        node.changes.append(_change(event))
    elif kind == "skipped":
        texts = [str(event.get(key, "")) for key in ("name", "setting", "skipped")]
        node.skipped.append(Skipped(*texts))
    elif kind in ("failed", "unreachable"):
        node.state = "failed" if kind == "failed" else "unreachable"
        # Which task found that a node is away says nothing about the node.
        task = str(event.get("task", "")) if kind == "failed" else ""
        message = str(event.get("message", "")).removeprefix("Task failed: ")
        node.failures.append(TaskFailure(task.rpartition(" : ")[2], message))


def _change(event: Mapping[str, Any]) -> SettingChange:
    sides = [
        (str(each.get("before", "")), str(each.get("after", ""))) for each in event.get("differences", [])
    ]
    task, where, name, setting, found, desired = (
        str(event.get(key, "")) for key in ("task", "where", "name", "setting", "found", "wanted")
    )
    return SettingChange(task, where, name, setting, found, desired, tuple(sides))


def _end(node: NodeSetup, counts: Mapping[str, Any]) -> None:
    """What Ansible counted says how the node came out, whatever the lines before say."""
    if counts.get("unreachable"):
        node.state = "unreachable"
    elif counts.get("failures"):
        node.state = "failed"
    else:
        node.state = "changed" if counts.get("changed") else "ok"
