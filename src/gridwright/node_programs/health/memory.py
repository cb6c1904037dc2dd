"""What one check leaves for the next one, in /run: it is gone after a restart, as the mounts are."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.node_programs.health.looking import LeftBehind

MEMORY = Path("/run/gridwright/health.json")
SCHEMA = 1


@dataclass(frozen=True)
class Memory:
    """What the last check saw."""

    unsure: frozenset[str] = frozenset()
    """Paths that answered slowly or with an error."""
    hanging: Mapping[str, LeftBehind] = field(default_factory=dict)
    may_be_drained: bool = True
    """Whether it may be drained for what an earlier check said; without a memory nobody knows."""


def read_memory(path: Path) -> Memory:
    """What the last check left; as much as nothing where it cannot be read."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            return Memory()
        hanging = {name: LeftBehind(int(pid), int(start)) for name, (pid, start) in data["hanging"].items()}
        return Memory(frozenset(map(str, data["unsure"])), hanging, bool(data["may_be_drained"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Memory()


def write_memory(path: Path, memory: Memory) -> None:
    """Leave it for the next check, whole or not at all. A full /run costs a question to Slurm."""
    content = {
        "schema": SCHEMA,
        "unsure": sorted(memory.unsure),
        "hanging": {name: [each.pid, each.start] for name, each in memory.hanging.items()},
        "may_be_drained": memory.may_be_drained,
    }
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(content) + "\n", encoding="utf-8")
        part.replace(path)
