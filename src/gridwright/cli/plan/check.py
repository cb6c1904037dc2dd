"""`gridwright check | init | schema`: validates a grid spec, writes one, prints its JSON Schema."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.arguments import DEFAULT_SPEC, SpecFile, read_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gridwright.errors import Finding, GridwrightError, Problem
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


def _check_catalogue(spec: GridSpec) -> None:
    """Raise GridwrightError for types, sizes and rates that the provider does not sell."""
    from gridwright.model.grid import check_against_catalogue

    check_against_catalogue(spec)


def _check_layouts(spec: GridSpec) -> None:
    """Raise GridwrightError for layouts that no file can have."""
    from gridwright.model.grid_layouts import check_layouts

    check_layouts(spec)


def _check_roles(spec: GridSpec) -> list[Finding]:
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


def _document(file: Path, *, ok: bool, **items: Sequence[Finding | Problem]) -> dict[str, object]:
    from dataclasses import asdict

    lists = {name: [asdict(value) for value in values] for name, values in items.items()}
    return {"file": str(file), "ok": ok, **lists}


def _summary(file: Path, spec: GridSpec, findings: list[Finding], silenced: int) -> list[str]:
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


def init(
    file: Annotated[
        Path, typer.Argument(parser=read_path, help="The file to write.", show_default=True)
    ] = Path("grid.yaml"),
    provider: Annotated[str, typer.Option("--provider", help="Who provides the nodes.")] = "local",
    force: Annotated[bool, typer.Option("--force", help="Replace the file when it exists.")] = False,
) -> None:
    """Write a commented grid spec, to be edited.

    Example: gridwright init && gridwright check
    """
    from gridwright.cli.output import Output
    from gridwright.spec.provider import init_text

    text = init_text(provider)
    _write(file, text, force)
    Output("init").write(f"{file} written. Edit it, then run: gridwright check{_named(file)}")


def _named(file: Path) -> str:
    """How the next command names the spec: not at all where it is taken without."""
    from gridwright.cli.spec_file import has_default_spec
    from gridwright.errors import GridwrightError

    if file != DEFAULT_SPEC:
        return f" {file}"
    try:
        has_default_spec()
    except GridwrightError:
        return f" ./{file}"
    return ""


def _write(file: Path, text: str, force: bool) -> None:
    """Write whole or not at all; raise GridwrightError when the file exists or cannot be written."""
    from gridwright.atomic import write_atomically
    from gridwright.errors import environment_error, input_error

    if file.is_dir():
        raise input_error(
            "a directory, and a file is needed", where=str(file), remedy=f"Write {file / 'grid.yaml'}"
        )
    if file.exists() and not force:
        raise _exists(file)
    if not file.parent.is_dir():
        raise input_error("no such directory", where=str(file.parent), remedy=f"Run mkdir -p {file.parent}")
    try:
        write_atomically(file, text, replaces=force)
    except FileExistsError:
        raise _exists(file) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        remedy = "Name a file in a directory that you can write to"
        raise environment_error(f"cannot be written: {reason}", where=str(file), remedy=remedy) from None


def _exists(file: Path) -> GridwrightError:
    from gridwright.cli.output import next_name, what_is_there
    from gridwright.errors import input_error

    return input_error(
        f"the file exists: {what_is_there(file)}",
        where=str(file),
        remedy=f"Write {next_name(file)}, or replace it with --force",
    )


def schema() -> None:
    """Print the JSON Schema of grid.yaml, for editors and other tools.

    Example: gridwright schema > grid.schema.json
    """
    import json

    import typer

    from gridwright.cli.output import Output
    from gridwright.spec import FILESYSTEMS, PROVIDERS, SCHEDULERS, json_schema

    for problem in [*FILESYSTEMS.broken(), *PROVIDERS.broken(), *SCHEDULERS.broken()]:
        typer.echo(f"warning: {problem}", err=True)
    # A document of its own kind, without the keys of results.
    Output("schema").write(json.dumps(json_schema(), indent=2))
