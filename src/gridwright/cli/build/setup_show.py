"""What `gridwright setup` prints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from difflib import unified_diff
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from gridwright.setup.outcome import Change
    from gridwright.setup.running import SetupResult
    from gridwright.spec import GridSpec

_STATES = {
    "ok": "as they should be",
    "changed": "changed",
    "failed": "FAILED",
    "unreachable": "NOT REACHED",
    "unfinished": "NOT FINISHED",
}
_DRIFTED = "differ"
_SHOWN_LINES = 12


def print_json(spec: GridSpec, result: SetupResult, *, check: bool) -> None:
    """Print one JSON document."""
    document = {
        "schema": 1,
        "command": "setup",
        "file": str(spec.file) if spec.file else None,
        "check": check,
        "met": not result.failed and not (check and result.changed),
        "nodes": [asdict(node) for node in result.nodes],
    }
    typer.echo(json.dumps(document, indent=2))


def print_result(result: SetupResult, *, check: bool, diff: bool, root: bool) -> None:
    """Print each change once with the nodes that it is of, then failures, then how the nodes came out."""
    from gridwright.schedulers.slurm.node_facts import fold

    changes: dict[Change, list[str]] = {}
    failures: dict[tuple[str, str], list[str]] = {}
    for node in result.nodes:
        for change in node.changes:
            changes.setdefault(change, []).append(node.name)
        for failure in node.failures:
            failures.setdefault((failure.task, failure.message), []).append(node.name)
    for change, names in changes.items():
        typer.echo(f"{fold(names)}: {change.text}")
        if diff:
            for line in _lines(change):
                typer.echo(f"    {line}")
    for (task, message), names in failures.items():
        first, *others = [*([task] if task else []), *message.splitlines()[:_SHOWN_LINES]]
        typer.echo(f"error: {fold(names)}: {first}", err=True)
        for line in others:
            typer.echo(f"  {line}", err=True)
    if changes:
        typer.echo("")
    for state, meaning in _STATES.items():
        named = [node.name for node in result.nodes if node.state == state]
        if named:
            typer.echo(f"{fold(named)}: {_DRIFTED if check and state == 'changed' else meaning}")
    if check and result.changed:
        typer.echo(
            "nothing was changed; gridwright setup without --check does it" + ("" if root else ", as root")
        )


def _lines(change: Change) -> Iterator[str]:
    for before, after in change.differences:
        yield from (
            line
            for line in unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
            if not line.startswith(("---", "+++", "@@"))
        )
