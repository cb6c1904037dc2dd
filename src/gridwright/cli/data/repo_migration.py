"""`gridwright repo import --from`: the tree of another file system moved into a library."""

from __future__ import annotations

from pathlib import Path

from gridwright.cli.arguments import Reader
from gridwright.cli.data.repo_flags import ImportFlags, below, settings_of, show
from gridwright.cli.data.transfer_bar import transfer_progress
from gridwright.cli.flags import options_of, read_flags
from gridwright.errors import ExitStatus

_OF_MIGRATIONS = {"verify": "--verify", "cut_over": "--cut-over", "bandwidth": "--bandwidth"}
_OF_BUCKETS = {
    "bucket": "--bucket",
    "endpoint": "--endpoint",
    "requester_pays": "--requester-pays",
    "requests_per_second": "--requests-per-second",
    "deletions": "--deletions",
    "prefer": "--prefer",
    "contents": "--contents",
    "restore": "--restore",
}


def is_migration(flags: ImportFlags) -> bool:
    """Whether a tree is to be moved in. Raises GridwrightError where flags of both kinds are given."""
    reader = Reader()
    others = _OF_MIGRATIONS if flags.from_ is None else _OF_BUCKETS
    for name, flag in others.items():
        if getattr(flags, name):
            if flags.from_ is None:
                reader.problem("this is for moving a tree in", flag, "add --from DIR")
            else:
                reader.problem("a tree that is moved in with --from has no bucket", flag, "leave it out")
    return bool(reader.finish(flags.from_ is not None))


def run_migration(flags: ImportFlags) -> ExitStatus:
    """Move it, and print what became of it. Raises GridwrightError."""
    from gridwright.repository.migration.migrate import MigrationOptions
    from gridwright.repository.migration.session import MigrationPlaces, migrate

    reader = Reader()
    values = reader.finish(read_flags(flags, reader))
    name, library = _library(flags)
    source: Path = flags.from_.absolute() if flags.from_ is not None else library
    places = MigrationPlaces(name, source, library, bytes_per_s=values["bytes_per_s"])
    options = options_of(MigrationOptions, {**values, "paths": below(library, flags.paths)})
    with transfer_progress() as progress:
        report = migrate(places, options, progress)
    return show(report, json=flags.json)


def _library(flags: ImportFlags) -> tuple[str, Path]:
    """The name and the directory that the flags name; no bucket is needed."""
    if flags.directory is not None:
        directory = flags.directory.absolute()
        return flags.name or directory.name, directory
    settings = settings_of(flags)
    return settings.name, settings.directory
