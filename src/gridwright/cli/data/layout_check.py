"""Checks the layouts of libraries, by the same look as the doctor's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gridwright.cli.data.desired_layouts import layout_wishes
from gridwright.cli.data.libraries import opened
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.verbosity import say
from gridwright.errors import ExitStatus, Finding, GridwrightError

if TYPE_CHECKING:
    from gridwright.doctor.access import RunOn
    from gridwright.spec import GridSpec


def check(file: Path | None, *, json: bool) -> int:
    """Print what is wrong; the exit status. Raises GridwrightError."""
    from gridwright.filesystems import kind_of
    from gridwright.filesystems.kind import Layouts
    from gridwright.filesystems.library_directories import directory_findings, layout_in_spec

    spec, run_on = opened(file)
    wishes = layout_wishes(spec)
    found: list[tuple[str, Finding]] = []
    for role, library in spec.libraries.items():
        described = spec.filesystems[library.filesystem or ""]
        kind, directory = kind_of(described), str(spec.library_directory(role))
        if not isinstance(kind, Layouts):
            continue
        wish = wishes.get(str(role)) or layout_in_spec(described, str(role), library)
        run = run_on(described)
        findings = directory_findings(described, run, directory, wish)
        findings += kind.library_findings(described, run, directory, wish)
        found += [(str(role), each) for each in findings]
    found += _unevenly_full(spec, run_on)
    found = [each for each in found if each[1].name not in spec.silence]
    Output("layout check", json=json).show(
        LazyResult(document=lambda: _document(found), text=lambda: _text(found))
    )
    return int(ExitStatus.MISSED if found else ExitStatus.DONE)


def _unevenly_full(spec: GridSpec, run_on: RunOn) -> list[tuple[str, Finding]]:
    """What it costs that OSTs are unevenly full now; where that is not told, a note says so."""
    from gridwright.filesystems import kind_of
    from gridwright.filesystems.kind import Layouts
    from gridwright.model.grid import grid_model
    from gridwright.model.uneven_space import uneven_findings

    try:
        space = {
            name: tuple(kind.target_space(filesystem, run_on(filesystem), str(filesystem.path)))
            for name, filesystem in spec.filesystems.items()
            if isinstance(kind := kind_of(filesystem), Layouts)
        }
        return list(uneven_findings(grid_model(spec), space)) if space else []
    except GridwrightError as error:
        say(f"what the free space of OSTs costs is not known: {error.problems[0].what}")
        return []


def _document(found: Sequence[tuple[str, Finding]]) -> dict[str, Any]:
    return {"findings": [{"library": role, **asdict(finding)} for role, finding in found]}


def _text(found: Sequence[tuple[str, Finding]]) -> str:
    if not found:
        return "nothing is wrong with the layouts of what was looked at"
    return "\n".join(
        f"{finding.level}: {finding.name} ({role}): {finding.text}\n  {finding.remedy}"
        for role, finding in found
    )
