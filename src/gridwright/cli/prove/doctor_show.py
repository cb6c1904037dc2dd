"""What `gridwright doctor` prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from gridwright.doctor.check import CheckResult
from gridwright.doctor.results import counts
from gridwright.schedulers.slurm.node_facts import fold

if TYPE_CHECKING:
    from rich.console import Console

    from gridwright.doctor.observation import Seen

_STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}


def document(results: Sequence[CheckResult]) -> dict[str, Any]:
    """The one JSON document; `nodes` are folded."""
    return {
        "schema": 1,
        "command": "doctor",
        "checks": [_record(each) for each in results],
        "silenced": [
            {"name": each.name, "nodes": _folded(each.nodes), "reason": each.silenced}
            for each in results
            if each.silenced is not None
        ],
        "met": not any(counts(each) and each.level == "error" for each in results),
    }


@cache
def _folded(nodes: tuple[str, ...]) -> str:
    """Of a large grid most checks have the same nodes, and folding takes its time."""
    return fold(nodes)


def _record(result: CheckResult) -> dict[str, Any]:
    return {
        "name": result.name,
        "level": result.level,
        "nodes": _folded(result.nodes),
        "found": result.found,
        "expected": result.expected,
        "reason": result.reason,
        "source": result.source,
        "remedy": result.remedy,
        "ok": result.ok,
        "applies": result.applies,
        "silenced": result.silenced,
    }


def print_results(results: Sequence[CheckResult], seen: Seen, *, everything: bool) -> None:
    """Print what is wrong, the gravest first, with reason and remedy; then what is not, in a line.

    Settings that drifted are a table, as one command mends them all, unless `everything` is to be shown.
    """
    from gridwright.doctor.checks.tuning import tuning_topic
    from gridwright.report.terminal.frame import terminal_console
    from gridwright.report.terminal.spelling import say

    console = terminal_console()
    wrong = [each for each in results if counts(each)]
    settings = frozenset() if everything else {check.name for check in tuning_topic().checks}
    for each in wrong:
        if each.name not in settings:
            _print_wrong(console, each)
    _print_drift(console, [each for each in wrong if each.name in settings])
    for each in results:
        if each.silenced is not None:
            say(console, f"silenced {each.name}: {_where(each)}{each.found} ({each.silenced})", "dim")
    if everything:
        for each in results:
            if each.ok:
                word = "ok" if each.applies else "--"
                say(console, f"{word} {each.name}: {_where(each)}{each.found}", "" if each.applies else "dim")
    say(console, _sum(results, seen))


def _print_wrong(console: Console, result: CheckResult) -> None:
    from gridwright.report.terminal.spelling import say

    say(console, f"{result.level} {result.name}: {_where(result)}{result.found}", _STYLES[result.level])
    if result.expected:
        say(console, f"expected: {result.expected}", indent=2)
    say(console, f"why: {result.reason} [{result.source}]", "dim", indent=2)
    say(console, f"mend: {result.remedy}", indent=2)


def _print_drift(console: Console, drifted: Sequence[CheckResult]) -> None:
    if not drifted:
        return
    from gridwright.report.terminal.frame import framed_table
    from gridwright.report.terminal.spelling import cell, say

    table = framed_table("Settings that differ from the tuning table", ["level", "check", "nodes"], [])
    table.add_column("found", overflow="fold")
    table.add_column("expected", overflow="fold")
    for each in drifted:
        level = cell(console, each.level, _STYLES[each.level])
        found = each.found.removeprefix("sysctl ")
        words = (each.name, _folded(each.nodes), found, each.expected.rpartition(" = ")[2])
        table.add_row(level, *(cell(console, word) for word in words))
    console.print(table)
    say(
        console,
        "why one matters, and what it costs: gridwright doctor --only CHECK, or docs/doctor.md",
        "dim",
    )
    say(console, "mend: gridwright setup sets them all; --check --diff shows what it would change")


def _where(result: CheckResult) -> str:
    return f"{_folded(result.nodes)}: " if result.nodes else ""


def _sum(results: Iterable[CheckResult], seen: Seen) -> str:
    known = list(results)
    wrong = {
        level: len({each.name for each in known if counts(each) and each.level == level}) for level in _STYLES
    }
    names = {each.name for each in known}
    failed = {each.name for each in known if counts(each)}
    silenced = {each.name for each in known if each.silenced is not None} - failed
    idle = {each.name for each in known if each.ok and each.applies}
    fine = len((names - failed - silenced) & idle)
    rest = len(names - failed - silenced) - fine
    nodes = len(seen.facts) + len(seen.silent)
    parts = [
        f"{count} {level}{'s'[: count != 1]}" for level, count in wrong.items() if count and level != "info"
    ]
    parts += [f"{wrong['info']} for information"] if wrong["info"] else []
    parts += [f"{len(silenced)} silenced"] if silenced else []
    return (
        f"{len(names)} check{'s'[: len(names) != 1]} on {nodes} node{'s'[: nodes != 1]}: "
        f"{', '.join(parts) or 'nothing wrong'}; "
        f"{fine} as they should be, {rest} do not apply here"
    )
