"""Looks at every node of a grid, read-only, and says what is wrong."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from gridwright.errors import GridwrightError, Level
from gridwright.filesystems import moosefs
from gridwright.filesystems.health import Health, Run
from gridwright.nodes.checks import NodeFinding, Seen, check_nodes
from gridwright.nodes.facts import LOOK_S, NodeFacts, node_facts
from gridwright.spec.filesystems import MooseFileSystem
from gridwright.spec.model import GridSpec

FACTS = (sys.executable, "-P", "-m", "gridwright.nodes.facts")

Reach = Callable[[Sequence[str], bytes, float], Mapping[str, tuple[int, bytes, bytes] | None]]
"""Runs a command with an input on all nodes, each within some seconds: exit status, output, errors."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """How a grid of several nodes is reached."""

    reach: Reach
    run: Run
    """On the head node."""
    down: Mapping[str, str]
    """Nodes that the scheduler gives no jobs, and its word for why."""


def examine(spec: GridSpec, rounds: Rounds | None) -> list[NodeFinding]:
    """What is wrong with the nodes of a grid, and with what they share; without `rounds`, with this node.

    Takes LOOK_S for each library that hangs, and never hangs itself.
    """
    libraries = {str(name): str(spec.library_directory(name)) for name in spec.libraries}
    if rounds is None:
        facts = {socket.gethostname(): node_facts(libraries)}
        return check_nodes(Seen(spec, facts, {}, {}))
    before = time.time()
    request = json.dumps({"libraries": libraries}).encode()
    answers = rounds.reach(FACTS, request, 15.0 + LOOK_S * len(libraries))
    seen = seen_of(spec, answers, before, time.time())
    return check_nodes(seen) + _down(rounds.down) + _filesystems(seen, rounds.run)


def seen_of(
    spec: GridSpec, answers: Mapping[str, tuple[int, bytes, bytes] | None], before: float, after: float
) -> Seen:
    """Sort answers into facts and silence; a clock that is right lies between `before` and `after`."""
    facts: dict[str, NodeFacts] = {}
    silent: dict[str, str] = {}
    for node, answer in answers.items():
        if answer is None:
            silent[node] = "no answer in time"
            continue
        status, out, error = answer
        try:
            facts[node] = NodeFacts.model_validate_json(out)
        except ValidationError:
            silent[node] = _last_line(error) or f"exit status {status} and no facts"
    offsets = {node: _outside(each.time, before, after) for node, each in facts.items()}
    return Seen(spec, facts, silent, offsets)


def _outside(moment: float, before: float, after: float) -> float:
    return min(moment - before, 0.0) + max(moment - after, 0.0)


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else ""


def _down(down: Mapping[str, str]) -> list[NodeFinding]:
    return [
        NodeFinding(
            "error",
            "node-down",
            (node,),
            f"its scheduler says {word}",
            "idle or at work",
            "no job starts there",
            f"see what the scheduler says of it (scontrol show node {node}), mend that, and resume it",
        )
        for node, word in down.items()
    ]


def _filesystems(seen: Seen, run: Run) -> list[NodeFinding]:
    """What the servers of shared file systems say, asked from the head node."""
    found = []
    for name, filesystem in seen.spec.filesystems.items():
        if not isinstance(filesystem, MooseFileSystem):
            continue
        try:
            health = moosefs.health(run, _master(seen, name))
        except GridwrightError as error:
            found.append(
                _unwell(name, "error", "filesystem-silent", str(error), "see whether its servers run")
            )
            continue
        found += _told(name, health)
    return found


def _told(name: str, health: Health) -> list[NodeFinding]:
    return [_unwell(name, each.level, each.name, each.text, each.remedy) for each in health.findings]


def _unwell(name: str, level: Level, finding: str, text: str, remedy: str) -> NodeFinding:
    why = "what every node reads and writes depends on it"
    return NodeFinding(level, finding, (), f"file system {name}: {text}", "all of it serves", why, remedy)


def _master(seen: Seen, filesystem: str) -> str:
    """The master that the nodes have mounted."""
    for facts in seen.facts.values():
        for role, library in seen.spec.libraries.items():
            source = facts.libraries[role].source if role in facts.libraries else None
            if library.filesystem == filesystem and source and (host := moosefs.master_of_mount(source)):
                return host
    return moosefs.MASTER
