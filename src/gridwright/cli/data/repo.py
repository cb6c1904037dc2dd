"""`gridwright repo`: what moves a library's files to object storage and back, and compares both."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gridwright.cli.arguments import Reader
from gridwright.cli.data.repo_flags import (
    DuplicateFlags,
    ExportFlags,
    ImportFlags,
    PathFlags,
    ReleaseFlags,
    VerifyFlags,
    below,
    named,
    refuse_ambiguous,
    settings_of,
    show,
)
from gridwright.cli.data.repo_linked import linked_of, linked_report
from gridwright.cli.data.repo_ls import run_ls
from gridwright.cli.data.repo_migration import is_migration, run_migration
from gridwright.cli.data.repo_of_grid import duplicate_of_grid
from gridwright.cli.data.repo_opening import open_repository
from gridwright.cli.data.repo_status import run_status
from gridwright.cli.data.repo_trash import run_trash
from gridwright.cli.data.serve import run_serve
from gridwright.cli.data.transfer_bar import transfer_progress
from gridwright.cli.flags import options_of, read_flags, verb
from gridwright.cli.spec_file import load_placed
from gridwright.cli.verbs import plain_app
from gridwright.errors import ExitStatus, input_error

if TYPE_CHECKING:
    from gridwright.repository.settings import OpenRepository, RepositoryReport

repo = plain_app(
    "Move a library's files to object storage and back, compare both, and free space.", no_args_is_help=True
)


def _values_of(flags: PathFlags) -> Mapping[str, Any]:
    """What the flags say, for options. Raises GridwrightError with all that is wrong."""
    reader = Reader()
    return reader.finish(read_flags(flags, reader))


def _values(flags: PathFlags, opened: OpenRepository) -> Mapping[str, Any]:
    """The same, with paths of an opened repository."""
    return {**_values_of(flags), "paths": below(opened.settings.directory, flags.paths)}


def run_export(flags: ExportFlags) -> ExitStatus:
    """Send to the bucket what was created or changed since the last export.

    Example: gridwright repo export archive --dry-run
    """
    flags = named(flags, of_units=True)
    if (linked := linked_of(flags)) is not None:
        return show(linked_report("export", flags, *linked), json=flags.json)
    from gridwright.repository.export import ExportOptions, export

    settings = settings_of(flags)
    if flags.changelog is not None:
        settings = replace(settings, changelog=flags.changelog)
    looks = flags.dry_run
    with open_repository(flags, settings, looks=looks) as opened, transfer_progress() as progress:
        refuse_ambiguous(flags, opened, asks_bucket=False)
        report = export(opened, options_of(ExportOptions, _values(flags, opened)), progress)
        _timed(opened, report)
    return show(report, json=flags.json)


def run_import(flags: ImportFlags) -> ExitStatus:
    """Make files of what was created or changed in the bucket; with --from, in another file system's tree.

    On a Lustre with an HSM archive names are released files, whose contents come when they are read.

    Example: gridwright repo import archive
    """
    flags = named(flags, of_units=flags.from_ is None)
    if is_migration(flags):
        return run_migration(flags)
    if (linked := linked_of(flags)) is not None:
        return show(linked_report("import", flags, *linked), json=flags.json)
    if flags.names and flags.contents:
        raise input_error("names alone have no contents", where="--names", remedy="leave out one of both")
    from gridwright.repository.importing import ImportOptions, import_objects

    looks = flags.dry_run
    with open_repository(flags, settings_of(flags), looks=looks) as opened, transfer_progress() as progress:
        refuse_ambiguous(flags, opened, asks_bucket=True)
        values = _values(flags, opened)
        report = import_objects(
            opened,
            options_of(ImportOptions, values),
            restore=values["restore"],
            progress=progress,
            ended=_timed,
        )
    return show(report, json=flags.json)


def _timed(opened: OpenRepository, report: RepositoryReport) -> None:
    """Keep how fast a command was; in a dry run, say how long it would take at least."""
    from gridwright.repository.status import estimate, note_rate

    (estimate if report.is_dry_run else note_rate)(opened, report)


def run_release(flags: ReleaseFlags) -> ExitStatus:
    """Free the space of exported files, oldest access first. An import brings them again.

    On a Lustre with an HSM archive names stay as released files; elsewhere repo ls shows them.

    Example: gridwright repo release archive --until-free 20%
    """
    flags = named(flags)
    if (linked := linked_of(flags)) is not None:
        return show(
            linked_report("release", flags, *linked, _values_of(flags)["unread_for_s"] or 0.0),
            json=flags.json,
        )
    from gridwright.repository.release import ReleaseOptions, release
    from gridwright.repository.scan import name_unknown

    with open_repository(flags, settings_of(flags), looks=flags.dry_run) as opened:
        options = options_of(ReleaseOptions, _values(flags, opened))
        report = release(opened, options)
        name_unknown(opened, report, options.paths)
        _timed(opened, report)
    return show(report, json=flags.json)


def run_verify(flags: VerifyFlags) -> ExitStatus:
    """Compare contents of files and objects: by checksums of the store, else by reading both.

    Example: gridwright repo verify archive
    """
    flags = named(flags)
    if (linked := linked_of(flags)) is not None:
        return show(linked_report("verify", flags, *linked), json=flags.json)
    from gridwright.repository.verify import plan_verify, verify

    with open_repository(flags, settings_of(flags), looks=flags.dry_run) as opened:
        look = plan_verify if flags.dry_run else verify
        report = look(opened, below(opened.settings.directory, flags.paths))
        _timed(opened, report)
    return show(report, json=flags.json)


def run_duplicate(flags: DuplicateFlags) -> ExitStatus:
    """Make another file system of the same bucket. What is there already stays.

    Example: gridwright repo duplicate archive --to new-grid.yaml
    """
    from gridwright.repository.importing import ImportOptions, import_objects

    flags = named(flags)
    settings = settings_of(flags)
    if flags.to.is_dir():
        made = replace(settings, directory=flags.to.absolute())
    elif not flags.to.exists() and flags.to.suffix not in {".yaml", ".yml"}:
        remedy = f"mkdir -p {shlex.quote(str(flags.to))}; or name a grid spec"
        raise input_error(f"{flags.to}: no such directory", where="--to", remedy=remedy)
    else:
        made = duplicate_of_grid(load_placed(flags.to), settings)
    if made.directory.resolve() == settings.directory.resolve():
        raise input_error("a file system is no duplicate of itself", where="--to", remedy="name another one")
    with open_repository(flags, made, looks=flags.dry_run) as opened, transfer_progress() as progress:
        report = import_objects(opened, ImportOptions(dry_run=flags.dry_run), progress=progress, ended=_timed)
    report.verb = "duplicate"
    return show(report, json=flags.json)


for name, run in (
    ("status", verb(run_status)),
    ("export", verb(run_export)),
    ("import", verb(run_import)),
    ("ls", verb(run_ls)),
    ("release", verb(run_release)),
    ("verify", verb(run_verify)),
    ("duplicate", verb(run_duplicate)),
    ("serve", verb(run_serve)),
    ("trash", verb(run_trash)),
):
    repo.command(name)(run)
