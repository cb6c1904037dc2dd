"""`gridwright doctor`: what is wrong with nodes, what it costs, and how to mend it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gridwright.cli.arguments import Json, Reader, SpecFile
from gridwright.cli.named_spec import with_named_spec
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.spec_file import has_default_spec
from gridwright.errors import ExitStatus, input_error, nearest

if TYPE_CHECKING:
    from rich.console import Console

    from gridwright.doctor.check import CheckResult, Observation
    from gridwright.spec import GridSpec

_STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}


def doctor(
    file: SpecFile = None,
    nodes: Annotated[
        str | None, typer.Option("--nodes", metavar="SET", help="Only these nodes, such as compute[1-4].")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="CHECK", help="Only this check; may be repeated.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Show also the checks that found nothing wrong.")
    ] = False,
    json: Json = False,
) -> int:
    """Check this machine, or every node of a grid, and change nothing.

    Compares nodes with the tuning table, looks for what grids fail of, and has pairs of nodes try what they
    share. Without FILE and without ./grid.yaml it looks at this machine alone. Exit status 1 where a check
    of level error fails; the spec can silence a check by its name, with a reason.

    \b
    Examples:
      gridwright doctor
      gridwright doctor grid.yaml --nodes compute[1-4]
      gridwright doctor grid.yaml --only flock-alone --json
    """  # noqa: D301 - \b is a control character for click
    from gridwright.cli.spec_file import load_placed

    only = only or []
    _check_names(only)
    spec = load_placed(file) if file is not None or has_default_spec() else None
    seen = _see(spec, nodes, only)
    results = _judge(seen, only)
    Output("doctor", json=json).show(
        LazyResult(
            document=lambda: document(results),
            text=lambda: _text(results, seen, everything=everything or bool(only)),
        )
    )
    return int(_status(seen, results))


def _check_names(only: Sequence[str]) -> None:
    from gridwright.doctor.checks import all_checks

    known = [check.name for check in all_checks()]
    reader = Reader()
    for name in only:
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near}? " if near else ""
            reader.problem(
                f"there is no check {name!r}", "--only", f"{hint}all names: gridwright help doctor"
            )
    reader.finish(True)


def _see(spec: GridSpec | None, nodes: str | None, only: Sequence[str]) -> Observation:
    from gridwright.cli.data.desired_layouts import layout_wishes
    from gridwright.cli.data.repo_of_grid import refused_deletions
    from gridwright.cli.spec_file import note_this_machine
    from gridwright.doctor.access import access_to
    from gridwright.doctor.checks import needs_pairs
    from gridwright.doctor.examination import see
    from gridwright.grid.grid import Grid

    access = access_to(Grid.open(spec), nodes) if spec is not None else None
    if access is None and spec is not None:
        note_this_machine(spec)
    if access is None and nodes is not None:
        raise input_error(
            "this machine alone is looked at, and has no node set",
            where="--nodes",
            remedy="leave --nodes out, or name the spec of a grid of several nodes",
        )
    seen = see(spec, access, pairs=needs_pairs(only), wishes=layout_wishes(spec) if spec else None)
    return replace(seen, refused_deletions=refused_deletions(spec)) if spec else seen


def _judge(seen: Observation, only: Sequence[str]) -> list[CheckResult]:
    from gridwright.doctor.check import results_of
    from gridwright.doctor.checks import all_checks

    results = results_of(seen, [check for check in all_checks() if not only or check.name in only])
    return [result for result in results if not only or result.name in only]


def _status(seen: Observation, results: Sequence[CheckResult]) -> ExitStatus:
    from gridwright.doctor.check import counts

    if not seen.facts:
        return ExitStatus.ENVIRONMENT
    failed = any(counts(result) and result.level == "error" for result in results)
    return ExitStatus.MISSED if failed else ExitStatus.DONE


def document(results: Sequence[CheckResult]) -> dict[str, Any]:
    """The checks in plain values; `nodes` are folded."""
    from gridwright.doctor.check import counts

    return {
        "checks": [_record(result) for result in results],
        "silenced": [
            {"name": result.name, "nodes": _folded(result.nodes), "reason": result.silenced}
            for result in results
            if result.silenced is not None
        ],
        "met": not any(counts(result) and result.level == "error" for result in results),
    }


@cache
def _folded(nodes: tuple[str, ...]) -> str:
    """Of a large grid most checks have the same nodes, and folding takes its time."""
    from gridwright.spec.hosts import fold_hosts

    return fold_hosts(nodes)


def _record(result: CheckResult) -> dict[str, Any]:
    # `nodes` apart: asdict would copy the names of all nodes for each check.
    return {**asdict(replace(result, nodes=())), "nodes": _folded(result.nodes)}


def _text(results: Sequence[CheckResult], seen: Observation, *, everything: bool) -> str:
    from gridwright.report.terminal.frame import printed

    return printed(_print)(results, seen, everything=everything)


def _print(console: Console, results: Sequence[CheckResult], seen: Observation, *, everything: bool) -> None:
    """Print what is wrong, the gravest first, with reason and remedy; then what is not, in a line.

    Settings that drifted are a table, as one command mends them all, unless `everything` is to be shown.
    """
    from gridwright.doctor.check import counts
    from gridwright.doctor.checks.tuning import tuning_topic
    from gridwright.report.terminal.frame import say

    wrong = [each for each in results if counts(each)]
    settings = frozenset() if everything else {check.name for check in tuning_topic().checks}
    for result in wrong:
        if result.name not in settings:
            _print_wrong(console, result)
    _print_drift(console, [each for each in wrong if each.name in settings])
    for result in results:
        if result.silenced is not None:
            say(console, f"silenced {result.name}: {_where(result)}{result.found} ({result.silenced})", "dim")
    if everything:
        for result in results:
            if result.ok:
                word = "ok" if result.applies else "--"
                say(
                    console,
                    f"{word} {result.name}: {_where(result)}{result.found}",
                    "" if result.applies else "dim",
                )
    say(console, _sum(results, seen))


def _print_wrong(console: Console, result: CheckResult) -> None:
    from gridwright.report.terminal.frame import say

    say(console, f"{result.level} {result.name}: {_where(result)}{result.found}", _STYLES[result.level])
    if result.expected:
        say(console, f"expected: {result.expected}", indent=2)
    say(console, f"why: {result.reason} [{result.source}]", "dim", indent=2)
    say(console, f"mend: {with_named_spec(result.remedy)}", indent=2)


def _print_drift(console: Console, drifted: Sequence[CheckResult]) -> None:
    if not drifted:
        return
    from gridwright.report.table import Cell, Column, columns_of, rows_table
    from gridwright.report.terminal.frame import framed, say

    paths = (Column("found", words=True, wrap="anywhere"), Column("expected", words=True, wrap="anywhere"))
    rows = (
        (
            Cell(result.level, style=_STYLES[result.level]),
            result.name,
            _folded(result.nodes),
            result.found.removeprefix("sysctl "),
            result.expected.rpartition(" = ")[2],
        )
        for result in drifted
    )
    title = "Settings that differ from the tuning table"
    console.print(framed(rows_table(title, columns_of(["level", "check", "nodes", *paths]), rows), console))
    say(
        console,
        "why one matters, and what it costs: gridwright doctor --only CHECK, or gridwright help doctor",
        "dim",
    )
    mend = "mend: gridwright setup sets them all; --check --diff shows what it would change"
    say(console, with_named_spec(mend))


def _where(result: CheckResult) -> str:
    return f"{_folded(result.nodes)}: " if result.nodes else ""


def _sum(results: Iterable[CheckResult], seen: Observation) -> str:
    from gridwright.doctor.check import counts

    known = list(results)
    wrong = {level: sum(counts(result) and result.level == level for result in known) for level in _STYLES}
    names = {result.name for result in known}
    failed = {result.name for result in known if counts(result)}
    silenced = {result.name for result in known if result.silenced is not None} - failed
    idle = {result.name for result in known if result.ok and result.applies}
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
