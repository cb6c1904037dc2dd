"""`gridwright repo trash`: what commands have taken out of a library, and its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from gridwright.beneath import Beneath
from gridwright.cli.arguments import Reader
from gridwright.cli.data.repo_flags import RepositoryFlags, named, settings_of
from gridwright.cli.data.repo_opening import unopened
from gridwright.cli.flags import Reads, read_flags
from gridwright.cli.output import LazyResult, Output
from gridwright.errors import ExitStatus, input_error


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashFlags(RepositoryFlags):
    """The flags of `trash`."""

    empty_older_than: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Remove for ever what was moved there longer ago, such as 30d; 0s for all."
        ),
        Reads(Reader.age, "older_than_s"),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be removed, and change nothing.")
    ] = False


def run_trash(flags: TrashFlags) -> ExitStatus:
    """Show the files that imports have moved to the trash of a library, and remove old ones.

    Example: gridwright repo trash archive --empty-older-than 30d
    """
    from gridwright.repository.keys import shown
    from gridwright.repository.trash import TrashReport, empty_trash, trashed, why_unseen
    from gridwright.repository.walking import renamed_at_top

    reader = Reader()
    older_than_s = reader.finish(read_flags(flags, reader))["older_than_s"]
    settings = settings_of(named(flags))
    if flags.dry_run and older_than_s is None:
        raise input_error("nothing would be removed", where="--dry-run", remedy="add --empty-older-than")
    report = TrashReport(settings.name, is_dry_run=flags.dry_run)
    try:
        with Beneath(settings.directory) as below:
            if older_than_s is not None:
                for files, is_gone in empty_trash(below.root, older_than_s, looks=flags.dry_run):
                    (report.removed if is_gone else report.stayed).append(files)
            report.there = [each for each in trashed(below.root) if each not in report.removed]
            report.of_another = why_unseen(below.root)
            report.elsewhere = [shown(each) for each in renamed_at_top(below.root)]
    except OSError as error:
        raise unopened(settings.directory, "the trash cannot be looked at", error) from error
    Output("repo trash", json=flags.json).show(LazyResult(document=report.document, text=report.text))
    return ExitStatus.MISSED if report.stayed or report.elsewhere or report.of_another else ExitStatus.DONE
