"""`gridwright repo ls`: what a repository has, and whether its content is here."""

from __future__ import annotations

from dataclasses import dataclass

from gridwright.cli.data.repo_flags import PathFlags, below, named, settings_of
from gridwright.cli.data.repo_linked import linked_of
from gridwright.cli.data.repo_opening import open_repository
from gridwright.cli.output import LazyResult, Output
from gridwright.errors import ExitStatus, input_error


@dataclass(frozen=True, slots=True, kw_only=True)
class LsFlags(PathFlags):
    """The flags of `ls`."""


def run_ls(flags: LsFlags) -> ExitStatus:
    """List what the bucket has: size, time, and whether the content is here or in the bucket alone.

    Example: gridwright repo ls archive
    """
    flags = named(flags)
    from gridwright.repository.entries import list_entries

    if (linked := linked_of(flags)) is not None:
        raise input_error(
            "a service carries it, which has all names as files",
            where=linked[1].name,
            remedy=f"list them: ls -l {linked[1].mounted}",
        )
    with open_repository(flags, settings_of(flags), looks=True) as opened:
        report = opened.report("ls")
        entries = list(list_entries(opened, below(opened.settings.directory, flags.paths), report))
    Output("repo ls", json=flags.json).show(
        LazyResult(
            document=lambda: {
                "repository": report.repository,
                "entries": [entry.document() for entry in entries],
                "notes": report.all_notes,
                "problems": report.failed.document(),
            },
            text=lambda: "\n".join(
                [*(entry.text() for entry in entries), *report.all_notes, *report.failed.lines()]
            ),
        )
    )
    return ExitStatus.DONE if report.is_complete else ExitStatus.MISSED
