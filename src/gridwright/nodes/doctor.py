"""Looks at every node of a grid, read-only, and says what is wrong."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from pydantic import ValidationError

from gridwright.nodes.checks import NodeFinding, Seen, check_nodes
from gridwright.nodes.facts import LOOK_S, NodeFacts, node_facts
from gridwright.spec.model import GridSpec

FACTS = (sys.executable, "-P", "-m", "gridwright.nodes.facts")

Reach = Callable[[Sequence[str], bytes, float], Mapping[str, "tuple[int, bytes, bytes] | None"]]
"""Runs a command with an input on all nodes, each within some seconds: exit status and output of each."""


def examine(spec: GridSpec, reach: Reach | None) -> list[NodeFinding]:
    """What is wrong with the nodes of a grid; with no way to reach others, with this one.

    Takes LOOK_S for each library that hangs, and never hangs itself.
    """
    libraries = {str(name): str(spec.library_directory(name)) for name in spec.libraries}
    if reach is None:
        facts = {socket.gethostname(): node_facts(libraries)}
        return check_nodes(Seen(spec, facts, {}, {}))
    before = time.time()
    request = json.dumps({"libraries": libraries}).encode()
    answers = reach(FACTS, request, 15.0 + LOOK_S * len(libraries))
    return check_nodes(seen_of(spec, answers, before, time.time()))


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
    lines: Collection[str] = text.decode(errors="replace").strip().splitlines()
    return [*lines][-1][:200] if lines else ""
