"""`gridwright repo status | import | export | release | verify | duplicate | serve`: files and objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gridwright.cli.arguments import Reader
from gridwright.cli.data.repo_flags import (
    DuplicateFlags,
    ImportFlags,
    PathFlags,
    ReleaseFlags,
    StatusFlags,
    SyncFlags,
    chosen_paths,
    open_repository,
    settings_of,
    show,
    status_settings,
    transfer_progress,
)
from gridwright.cli.data.repo_migration import is_migration, run_migration
from gridwright.cli.data.serve import run_serve
from gridwright.cli.flags import options_of, read_flags, verb
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.verbs import plain_app
from gridwright.errors import ExitStatus, input_error

if TYPE_CHECKING:
    from gridwright.repository.settings import OpenRepository, RepositoryReport

repo = plain_app(
    "Move a library's files to object storage and back, compare both, and free space.", no_args_is_help=True
)


def _values(flags: PathFlags, opened: OpenRepository) -> Mapping[str, Any]:
    """What the flags say, for options. Raises GridwrightError with all that is wrong."""
    reader = Reader()
    values = reader.finish(read_flags(flags, reader))
    return {**values, "paths": chosen_paths(opened, flags.paths)}


def run_status(flags: StatusFlags) -> ExitStatus:
    """Show files and objects: how many, how many differ on which side, names only, and the last export.

    Example: gridwright repo status grid.yaml
    """
    from gridwright.repository.status import repository_status

    found = []
    for settings in status_settings(flags):
        with open_repository(flags, settings, alone=False) as opened:
            found.append(repository_status(opened))
    Output("repo status", json=flags.json).show(
        LazyResult(
            document=lambda: {"repositories": [each.document() for each in found]},
            text=lambda: "\n".join(each.text() for each in found),
        )
    )
    return ExitStatus.MISSED if any(each.finding for each in found) else ExitStatus.DONE


def run_export(flags: SyncFlags) -> ExitStatus:
    """Send to the bucket what was created or changed since the last export.

    Example: gridwright repo export archive --dry-run
    """
    from gridwright.repository.export import ExportOptions, export

    with open_repository(flags, settings_of(flags)) as opened, transfer_progress() as progress:
        report = export(opened, options_of(ExportOptions, _values(flags, opened)), progress)
    return show(report, json=flags.json)


def run_import(flags: ImportFlags) -> ExitStatus:
    """Make files of what was created or changed in the bucket: names at once, contents when asked for.

    With --from, of what was created or changed in the tree of another file system.

    Example: gridwright repo import archive --contents
    """
    if is_migration(flags):
        return run_migration(flags)
    from gridwright.repository.contents import ContentOptions, import_contents
    from gridwright.repository.importing import ImportOptions, import_names

    with open_repository(flags, settings_of(flags)) as opened, transfer_progress() as progress:
        values = _values(flags, opened)
        report = import_names(opened, options_of(ImportOptions, values))
        if flags.contents:
            contents = import_contents(opened, options_of(ContentOptions, values), progress)
            report = _together(report, contents)
    return show(report, json=flags.json)


def _together(names: RepositoryReport, contents: RepositoryReport) -> RepositoryReport:
    """Names and contents as one result."""
    contents.verb = names.verb
    contents.done = {**names.done, **contents.done}
    contents.problems = names.problems + contents.problems
    contents.notes = names.notes + contents.notes
    contents.seconds += names.seconds
    return contents


def run_release(flags: ReleaseFlags) -> ExitStatus:
    """Free the space of exported files, oldest access first; names stay, and contents come again.

    Example: gridwright repo release archive --until-free 20%
    """
    from gridwright.repository.release import ReleaseOptions, release

    with open_repository(flags, settings_of(flags)) as opened:
        report = release(opened, options_of(ReleaseOptions, _values(flags, opened)))
    return show(report, json=flags.json)


def run_verify(flags: PathFlags) -> ExitStatus:
    """Compare contents of files and objects: by checksums of the store, else by reading both.

    Example: gridwright repo verify archive
    """
    from gridwright.repository.verify import verify

    with open_repository(flags, settings_of(flags)) as opened:
        report = verify(opened, chosen_paths(opened, flags.paths))
    return show(report, json=flags.json)


def run_duplicate(flags: DuplicateFlags) -> ExitStatus:
    """Make another file system of the same bucket, by names first. What is there already stays.

    Example: gridwright repo duplicate archive --to /mnt/new
    """
    from dataclasses import replace

    from gridwright.repository.importing import ImportOptions, import_names

    settings = settings_of(flags)
    to = flags.to.absolute()
    if to == settings.directory:
        raise input_error("a file system is no duplicate of itself", where="--to", remedy="name another one")
    with open_repository(flags, replace(settings, directory=to)) as opened:
        report = import_names(opened, ImportOptions(dry_run=flags.dry_run))
    report.verb = "duplicate"
    return show(report, json=flags.json)


for name, run in (
    ("status", verb(run_status)),
    ("export", verb(run_export)),
    ("import", verb(run_import)),
    ("release", verb(run_release)),
    ("verify", verb(run_verify)),
    ("duplicate", verb(run_duplicate)),
    ("serve", verb(run_serve)),
):
    repo.command(name)(run)
