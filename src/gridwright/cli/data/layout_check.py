"""Checks the layouts of libraries, by the same look as the doctor's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gridwright.cli.data.libraries import opened
from gridwright.cli.data.wanted_layouts import layout_wishes
from gridwright.cli.output import LazyResult, Output
from gridwright.errors import ExitStatus, Finding


def check(file: Path | None, *, json: bool) -> int:
    """Print what is wrong; the exit status. Raises GridwrightError."""
    from gridwright.filesystems import kind_of
    from gridwright.filesystems.directory_layout import directory_findings, stated_wish

    spec, run_on = opened(file)
    wishes = layout_wishes(spec)
    found: list[tuple[str, Finding]] = []
    for role, library in spec.libraries.items():
        described = spec.filesystems[library.filesystem or ""]
        kind, directory = kind_of(described), str(spec.library_directory(role))
        wish = wishes.get(str(role)) or stated_wish(kind, described, str(role), library)
        run = run_on(described)
        told = directory_findings(kind, described, run, directory, wish)
        told += kind.library_findings(described, run, directory, wish)
        found += [(str(role), each) for each in told if each.name not in spec.silence]
    Output("layout check", json=json).show(
        LazyResult(document=lambda: _document(found), text=lambda: _text(found))
    )
    return int(ExitStatus.MISSED if found else ExitStatus.DONE)


def _document(found: Sequence[tuple[str, Finding]]) -> dict[str, Any]:
    return {
        "findings": [
            {
                "library": role,
                "level": each.level,
                "name": each.name,
                "text": each.text,
                "remedy": each.remedy,
            }
            for role, each in found
        ]
    }


def _text(found: Sequence[tuple[str, Finding]]) -> str:
    if not found:
        return "nothing is wrong with the layouts of what was looked at"
    return "\n".join(
        f"{each.level}: {each.name} ({role}): {each.text}\n  {each.remedy}" for role, each in found
    )
