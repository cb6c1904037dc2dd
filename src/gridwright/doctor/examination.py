"""Looks at every node of a grid, read-only, and says what is wrong."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import ValidationError

from gridwright.doctor.check import CheckResult
from gridwright.doctor.checks import all_checks
from gridwright.doctor.checks.tuning import settings_asked, tuning_topic
from gridwright.doctor.facts.gather import LOOK_S
from gridwright.doctor.facts.node_facts import NodeFacts, node_facts
from gridwright.doctor.file_system_health import asked_of_nodes, health_of_filesystems
from gridwright.doctor.observation import Promised, Seen
from gridwright.doctor.probes.findings import PairFindings
from gridwright.doctor.probes.pairs import Attach, probe_pairs
from gridwright.doctor.results import counts, results_of
from gridwright.filesystems.commands import run_here
from gridwright.filesystems.health import Run
from gridwright.spec.model import GridSpec

FACTS = (sys.executable, "-P", "-m", "gridwright.doctor.facts.gather")
ANSWER_S = 15.0
"""For a node that is slow to start a program, beyond the time that its looks may take."""

NodeAnswer = tuple[int, bytes, bytes]
"""Exit status, output, errors."""


Reach = Callable[[Sequence[str], bytes, float], Mapping[str, NodeAnswer | None]]
"""Runs a command with an input on all nodes, each within some seconds; None where one is silent."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """How a grid of several nodes is reached."""

    reach: Reach
    run: Run
    """On the head node."""
    down: Mapping[str, str] = field(default_factory=dict)
    """Nodes that the scheduler gives no jobs, and its word for why."""
    attach: Attach | None = None
    """The command line that runs a command on a node from here; None: no trials of pairs."""
    promised: Mapping[str, Promised] = field(default_factory=dict)
    """What the scheduler takes each node for."""
    scheduler_silent: str | None = None
    """Why it says nothing, where it does not answer."""


def examine(spec: GridSpec | None, rounds: Rounds | None, *, pairs: bool = False) -> list[CheckResult]:
    """Every check of the nodes of a grid and of what they share; without `rounds`, of this node.

    `pairs`: nodes also try their shared file systems together. Takes LOOK_S where something hangs, and never
    hangs itself.
    """
    return results_of(see(spec, rounds, pairs=pairs), all_checks())


def see(spec: GridSpec | None, rounds: Rounds | None, *, pairs: bool) -> Seen:
    """Look at all that the checks judge."""
    libraries = {str(name): str(spec.library_directory(name)) for name in spec.libraries} if spec else {}
    filesystems = asked_of_nodes(spec) if spec else {}
    if rounds is None:
        facts = node_facts(libraries, settings_asked(), filesystems)
        seen = Seen(spec, {socket.gethostname(): facts}, {}, {})
        return replace(seen, filesystems=health_of_filesystems(seen, run_here)) if spec else seen
    if spec is None:
        raise ValueError("rounds are made over the nodes of a spec")
    before = time.time()
    request = {"libraries": libraries, "settings": settings_asked(), "filesystems": filesystems}
    answers = rounds.reach(FACTS, json.dumps(request).encode(), ANSWER_S + LOOK_S)
    seen = seen_of(spec, answers, before, time.time())
    tried = probe_pairs(seen, rounds.attach) if pairs and rounds.attach else None
    return replace(
        seen,
        down=rounds.down,
        promised=rounds.promised,
        scheduler_silent=rounds.scheduler_silent,
        pairs=tried,
        clock_offsets_s=_clocks(seen.clock_offsets_s, tried),
        filesystems=health_of_filesystems(seen, rounds.run),
    )


def _clocks(offsets: Mapping[str, float], tried: PairFindings | None) -> Mapping[str, float]:
    """By the round, or closer by the trials, whose questions are answered within milliseconds."""
    return {**offsets, **(tried.clock_offsets_s if tried else {})}


def seen_of(spec: GridSpec, answers: Mapping[str, NodeAnswer | None], before: float, after: float) -> Seen:
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


TUNING_DRIFT = "tuning-drift"


def faults(results: Sequence[CheckResult], silence: Collection[str] = ()) -> list[CheckResult]:
    """What is wrong and not silenced, for a proof: settings that drifted are one line of it."""
    settings = {check.name for check in tuning_topic().checks}
    wrong = [each for each in results if counts(each) and each.level != "info"]
    drifted = [each for each in wrong if each.name in settings]
    drift = [] if TUNING_DRIFT in silence else _drift(drifted)
    return [each for each in wrong if each.name not in settings] + drift


def _drift(drifted: Sequence[CheckResult]) -> list[CheckResult]:
    if not drifted:
        return []
    names = list(dict.fromkeys(each.name for each in drifted))
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return [
        CheckResult(
            name=TUNING_DRIFT,
            level="warning",
            nodes=tuple(dict.fromkeys(node for each in drifted for node in each.nodes)),
            found=f"{len(names)} settings differ from the tuning table: {shown}",
            expected="nodes as gridwright setup leaves them",
            reason="What is measured here is the grid as it is, not as it could be.",
            source="docs/doctor.md",
            remedy="see each with its reason: gridwright doctor; set them: gridwright setup",
            ok=False,
        )
    ]
