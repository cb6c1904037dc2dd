"""What a check of the doctor is: declared once with its reason and source, answered for each node."""

from __future__ import annotations

from dataclasses import dataclass

from gridwright.errors import Level


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check as it came out on some nodes; those that came out alike are one result."""

    name: str
    """Stable, as `silence` in the spec has it."""
    level: Level
    nodes: tuple[str, ...]
    """Empty for what is not of a node, such as a file system as a whole."""
    found: str
    expected: str
    reason: str
    """Why it matters, and what it costs."""
    source: str
    """Where the reason comes from: a fact of a paper (`003.tun.45`), a manual page, a kernel document."""
    remedy: str
    ok: bool
