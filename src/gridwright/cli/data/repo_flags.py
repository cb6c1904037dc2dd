"""The flags that verbs of repositories share, and the repository that they name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from gridwright.cli.arguments import Json, Reader, read_path
from gridwright.cli.data.repo_of_grid import all_of_grid, one_of_grid
from gridwright.cli.flags import Reads, one_of
from gridwright.cli.grid_file import GridFile
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.spec_file import load_placed
from gridwright.errors import ExitStatus, input_error
from gridwright.yamltext.fields import FieldError

if TYPE_CHECKING:
    from gridwright.repository.settings import OpenRepository, RepositoryReport, RepositorySettings
    from gridwright.spec import GridSpec


def _percent(reader: Reader, flag: str, text: str) -> float | None:
    """A part of the whole, of a text such as `20%`."""
    digits = text.strip().removesuffix("%").strip()
    if digits.isascii() and digits.isdigit() and 0 < int(digits) < 100:
        return int(digits) / 100
    reader.problem(f"{text!r} is no part", flag, "write 1% to 99%")
    return None


def _rate(reader: Reader, flag: str, text: str) -> float | None:
    """A rate above nothing, in bytes a second."""
    rate = reader.rate(flag, text)
    if rate is not None and rate <= 0:
        reader.problem("nothing moves at that rate", flag, "write a rate such as 200MB/s")
        return None
    return rate


HsmArchive = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=32,
        help="With --directory: the archive of Lustre's HSM that it is, on a Lustre of one's own.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFlags:
    """Files and a bucket that no grid spec names, and how a bucket is reached."""

    directory: Annotated[
        Path | None, typer.Option(metavar="DIR", parser=read_path, help="Its directory, without a grid spec.")
    ] = None
    bucket: Annotated[
        str | None, typer.Option(metavar="URL", help="Its bucket, with --directory: s3://bucket/prefix.")
    ] = None
    hsm_archive: HsmArchive = None
    ids: Annotated[
        str | None,
        typer.Option(
            metavar="LOW-HIGH",
            help="With --directory: which users and groups root gives files to because the bucket says so. "
            "[default: 1000-2147483647]",
            show_default=False,
        ),
    ] = None
    endpoint: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The store, if it is not AWS's own or that of AWS_ENDPOINT_URL."),
    ] = None
    requester_pays: Annotated[
        bool, typer.Option("--requester-pays", help="Pay for requests to a bucket of somebody else.")
    ] = False
    requests_per_second: Annotated[
        float | None, typer.Option(metavar="N", help="Stay within so many requests a second.")
    ] = None
    json: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusFlags(StoreFlags):
    """The flags of `status`."""

    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            envvar="GRIDWRIGHT_GRID",
            parser=read_path,
            help="The grid spec.  [default: grid.yaml]",
            show_default=False,
        ),
    ] = None
    hot: Annotated[
        bool,
        typer.Option(
            "--hot",
            help="Show how long ago files were used, and what objects cost by storage class, instead.",
        ),
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryFlags(StoreFlags):
    """The same, and which repository of a grid spec."""

    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="A repository of the grid spec.  [default: the only one]"),
    ] = None
    grid: GridFile = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PathFlags(RepositoryFlags):
    """The same, and which files of it."""

    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH...",
            help="Files and directories of the repository; with --directory, no NAME is before them.  "
            "[default: all]",
        ),
    ] = None
    label: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="With --directory: what it is called in reports."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyFlags(PathFlags):
    """The flags of `verify`."""

    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be compared, and ask the store nothing.")
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncFlags(PathFlags):
    """The flags that `export` and `import` share."""

    deletions: Annotated[
        bool, typer.Option("--deletions", help="Delete on the other side what was deleted on this one.")
    ] = False
    delete_up_to: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Delete so many at most. Else more than 1000, a tenth of all if more than 10, and the last "
            "ones are refused.",
        ),
    ] = None
    prefer: Annotated[
        str | None,
        typer.Option(metavar="SIDE", help="Which side wins where both were changed: files or objects."),
        Reads(one_of("files", "objects")),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFlags(SyncFlags):
    """The flags of `export`."""

    changelog: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            parser=read_path,
            help="With --directory, on a Lustre of one's own: find changes by changelogs, as the users in "
            "this file, which gridwright setup writes.",
        ),
    ] = None
    forget_library: Annotated[
        str | None,
        typer.Option(
            "--forget-library",
            metavar="ID",
            help="Have the manifest name a library no more that is gone for good; an ID that none has "
            "lists all.",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportFlags(SyncFlags):
    """The flags of `import`."""

    contents: Annotated[
        bool,
        typer.Option(
            "--contents",
            help="Bring contents, too, where names are released files; elsewhere they come anyway.",
        ),
    ] = False
    names: Annotated[
        bool,
        typer.Option(
            "--names",
            help="Bring no content of files that are not here: names are released files on Lustre with HSM, "
            "and elsewhere shown by repo ls. Files that are here are brought up to date.",
        ),
    ] = False
    restore: Annotated[
        str | None,
        typer.Option(metavar="TIER", help="Have archived objects restored: Standard, Bulk or Expedited."),
        Reads(one_of("Standard", "Bulk", "Expedited")),
    ] = None
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="DIR",
            parser=read_path,
            help="Move the tree of another file system in, in place of objects.",
        ),
    ] = None
    verify: Annotated[
        bool, typer.Option("--verify", help="With --from: read all files on both sides again, and compare.")
    ] = False
    cut_over: Annotated[
        bool,
        typer.Option(
            "--cut-over",
            help="With --from: the last pass; removes what it has made and the source no longer has.",
        ),
    ] = False
    bandwidth: Annotated[
        str | None,
        typer.Option(metavar="RATE", help="With --from: at most so much, such as 200MB/s."),
        Reads(_rate, "bytes_per_s"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseFlags(PathFlags):
    """The flags of `release`."""

    until_free: Annotated[
        str | None,
        typer.Option(metavar="PERCENT", help="Stop when so much is free, such as 20%."),
        Reads(_percent),
    ] = None
    unread_for: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only what nobody has touched for so long, such as 30d."),
        Reads(Reader.seconds, "unread_for_s"),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateFlags(RepositoryFlags):
    """The flags of `duplicate`."""

    to: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            parser=read_path,
            help="The new grid's spec, or a directory of the new file system.",
        ),
    ]
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")
    ] = False


_Paths = TypeVar("_Paths", bound=PathFlags)


def settings_of(flags: RepositoryFlags) -> RepositorySettings:
    """The repository that the flags name, of the grid spec or by itself. Raises GridwrightError."""
    if flags.directory is None and flags.bucket is None:
        return one_of_grid(load_placed(flags.grid), flags.name)
    return _without_grid(flags, flags.name)


def with_paths(flags: _Paths, *, of_units: bool = False) -> _Paths:
    """The flags, where no grid spec says what a NAME is: all arguments are PATHs then.

    Units of earlier releases give one name to `export` and `import`, which is taken as one `of_units`, unless
    `refuse_ambiguous` finds that it is a path. Raises GridwrightError.
    """
    if flags.directory is None:
        if flags.label is not None:
            raise input_error("a grid spec has the name", where="--name", remedy="write NAME before any PATH")
        return flags
    is_name = flags.name is not None and not flags.paths and Path(flags.name).name == flags.name
    if of_units and is_name and flags.label in (None, flags.name):
        return flags
    paths = [] if flags.name is None else [flags.name]
    return replace(flags, name=flags.label, paths=paths + (flags.paths or []))


def refuse_ambiguous(flags: PathFlags, opened: OpenRepository, *, asks_bucket: bool) -> None:
    """Refuse an argument that units give as a name, where a file or an object has it.

    Raises GridwrightError.
    """
    if flags.directory is None or flags.name is None or flags.label is not None:
        return
    from gridwright.repository.below import is_there
    from gridwright.repository.keys import KeyRefusal

    path, keys = os.fsencode(flags.name), opened.keys
    is_path = opened.known.get(path) is not None or is_there(opened.below.root, path)
    if not is_path and asks_bucket:
        try:
            key = keys.key_of(path)
        except KeyRefusal as refusal:
            raise input_error(f"no file can be called {refusal}", where="PATH") from refusal
        first = next(iter(opened.store.list(key)), None)
        is_path = (first is not None and first.key == key) or any(True for _ in opened.store.list(f"{key}/"))
    if is_path:
        raise input_error(
            f"{flags.name} may be a name or a path, as {flags.directory} or its bucket has that path",
            where="PATH",
            remedy=f"write ./{flags.name} for the path, or --name {flags.name} for the name of all",
        )


def status_settings(flags: StatusFlags, spec: GridSpec | None) -> list[RepositorySettings]:
    """All that Gridwright carries of a grid, or without one what the flags name. Raises GridwrightError."""
    return [_without_grid(flags, None)] if spec is None else all_of_grid(spec)


def _without_grid(flags: StoreFlags, name: str | None) -> RepositorySettings:
    from gridwright.repository.s3.connection import BucketLocation
    from gridwright.repository.settings import DEFAULT_IDS, RepositorySettings

    if flags.directory is None or flags.bucket is None:
        raise input_error(
            "which files, and which bucket?",
            where="--directory, --bucket",
            remedy="write --directory DIR --bucket s3://bucket/prefix, or neither with a grid spec",
        )
    location = BucketLocation.parse(flags.bucket)
    return RepositorySettings(
        name or location.bucket,
        flags.directory.absolute(),
        location.url,
        archive_id=flags.hsm_archive,
        ids=DEFAULT_IDS if flags.ids is None else _ids(flags.ids),
    )


def _ids(text: str) -> tuple[int, int]:
    from gridwright.spec.repositories import read_ids

    try:
        return read_ids(text)
    except FieldError as error:
        raise input_error(error.text, where="--ids", remedy=error.remedy) from error


def below(directory: Path, paths: Sequence[str] | None) -> list[bytes]:
    """Paths, which are absolute or below a directory, as they are below it. Raises GridwrightError."""
    root = os.path.normpath(os.fsencode(directory))
    found = []
    for each in paths or ():
        path = os.path.normpath(os.fsencode(each))
        if path.startswith(b"/"):
            if path != root and not path.startswith(root.rstrip(b"/") + b"/"):
                raise input_error(f"{each} is not below {directory}", where="PATH")
            path = path[len(root) :].strip(b"/") or b"."
        if path == b".":
            return []
        if path.split(b"/")[0] == b"..":
            raise input_error(f"{each} leads out of {directory}", where="PATH")
        found.append(path)
    return found


def show(report: RepositoryReport, *, json: bool) -> ExitStatus:
    """Print a report; its exit status says whether all was done."""
    report.problems.sort()
    Output(f"repo {report.verb}", json=json).show(LazyResult(document=report.document, text=report.text))
    return ExitStatus.DONE if report.is_complete else ExitStatus.MISSED
