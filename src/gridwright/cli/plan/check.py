"""`gridwright check`: validates a grid spec and warns of what will hurt."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.arguments import DEFAULT_SPEC, SpecFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gridwright.errors import Finding, Problem
    from gridwright.spec import GridSpec


def check(
    file: SpecFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Validate a grid spec, and warn of what will hurt.

    Example: gridwright check grid.yaml
    """
    from gridwright.cli.output import LazyResult, Output
    from gridwright.cli.spec_file import load
    from gridwright.errors import GridwrightError
    from gridwright.spec import all_findings, warn

    output = Output("check", json=as_json)
    shown = file or DEFAULT_SPEC
    try:
        spec = load(file)
        if spec.is_placed and spec.is_cloud:
            _check_catalogue(spec)
        elif spec.is_placed:
            _check_layouts(spec)
        doubted = _check_roles(spec)
    except GridwrightError as error:
        if not as_json:
            raise
        problems = error.problems
        output.show(LazyResult(document=lambda: _document(shown, ok=False, problems=problems), text=str))
        raise typer.Exit(int(error.status)) from None
    findings = warn(spec)
    findings += [finding for finding in doubted if finding.name not in spec.silence]
    silenced = len(all_findings(spec)) + len(doubted) - len(findings)
    output.show(
        LazyResult(
            document=lambda: _document(shown, ok=True, findings=findings),
            text=lambda: "\n".join(_summary(shown, spec, findings, silenced)),
        )
    )


def _check_catalogue(spec: "GridSpec") -> None:
    """Raise GridwrightError for types, sizes and rates that the provider does not sell."""
    from gridwright.model.grid import check_against_catalogue

    check_against_catalogue(spec)


def _check_layouts(spec: "GridSpec") -> None:
    """Raise GridwrightError for layouts that no file can have."""
    from gridwright.model.grid_layouts import check_layouts

    check_layouts(spec)


def _check_roles(spec: "GridSpec") -> "list[Finding]":
    """What keeps set-up from running roles that others can write; here nothing is run.

    Raises GridwrightError for roles and certificates of the site that cannot be used.
    """
    from gridwright.errors import Finding

    doubted: list[Finding] = []
    if spec.setup != type(spec.setup)():  # the playbook takes long to import
        from gridwright.setup.playbook import site_roles

        doubted = [
            Finding("warning", "site-role-writable", f"{each.where}: {each.what}", str(each.remedy))
            for each in site_roles(spec, runs=False).doubts
        ]
    if spec.users is not None:
        from gridwright.setup.node_specs import users_configuration

        users_configuration(spec)
    return doubted


def _document(file: Path, *, ok: bool, **items: "Sequence[Finding | Problem]") -> dict[str, object]:
    from dataclasses import asdict

    lists = {name: [asdict(value) for value in values] for name, values in items.items()}
    return {"file": str(file), "ok": ok, **lists}


def _summary(file: Path, spec: "GridSpec", findings: "list[Finding]", silenced: int) -> list[str]:
    """Lines for people: what the grid is, then what will hurt."""
    nodes = spec.node_count()
    size = f"{nodes} node{'s'[: nodes != 1]}" if spec.is_placed else "yet to be planned: see gridwright plan"
    lines = [f"{file}: valid. Grid {spec.name}, provider {spec.provider}, {size}"]
    for role, library in spec.libraries.items():
        requires = f"{library.requires}" if library.requires else "no requirement"
        capacity = f", {library.capacity}" if library.capacity else ""
        place = f", on {library.filesystem}: {spec.library_directory(role)}" if spec.is_placed else ""
        lines.append(f"  {role:<5} {requires}{capacity}{place}")
    for finding in findings:
        lines += ["", str(finding)]
    if silenced:
        lines += ["", f"{silenced} finding{'s'[: silenced != 1]} silenced by the spec"]
    return lines
