"""The flags that verbs of repositories share, and the repository that they name."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from gridwright.cli.arguments import DEFAULT_SPEC, Json, Reader, Reads, one_of, read_path
from gridwright.cli.data.repo_of_grid import all_of_grid, one_of_grid
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.spec_file import GridFile, load_placed
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
ChangelogFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        parser=read_path,
        help="With --directory, on a Lustre of one's own: changes are found by changelogs, as the users in "
        "this file, which gridwright setup writes.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class NameFlags:
    """Which repository, of which grid spec: the same words for all verbs, which `named` reads."""

    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="A repository of the grid spec.  [default: the only one]"),
    ] = None
    label: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="The same as NAME; with --directory, what reports call it."
        ),
    ] = None
    grid: GridFile = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryFlags(NameFlags):
    """The same, or files and a bucket that no grid spec names, and how a bucket is reached."""

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
class StatusFlags(RepositoryFlags):
    """The flags of `status`."""

    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="A repository of the grid spec, or a grid spec.  [default: all]"),
    ] = None
    hot: Annotated[
        bool,
        typer.Option(
            "--hot",
            help="Show how long ago files were used, and what objects cost by storage class, instead.",
        ),
    ] = False
    changelog: ChangelogFile = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PathFlags(RepositoryFlags):
    """The same, and which files of it."""

    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH...",
            help="Files and directories of the repository; with --name or --directory, no NAME is before "
            "them.  [default: all]",
        ),
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

    changelog: ChangelogFile = None
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
        Reads(Reader.age, "unread_for_s"),
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


_SPECS = frozenset({".yaml", ".yml"})
_Named = TypeVar("_Named", bound=NameFlags)


def settings_of(flags: RepositoryFlags) -> RepositorySettings:
    """The repository that the flags name, of the grid spec or by itself. Raises GridwrightError."""
    if flags.directory is None and flags.bucket is None:
        return _with_grid(flags, one_of_grid(load_placed(flags.grid), flags.name))
    return _without_grid(flags, flags.name)


def _with_grid(flags: RepositoryFlags, settings: RepositorySettings) -> RepositorySettings:
    """The same, with the words that name it in a command."""
    if flags.grid is None:
        return settings
    return replace(settings, named_by=f"{settings.name} --grid {shlex.quote(str(flags.grid))}")


def named(flags: _Named, *, of_units: bool = False) -> _Named:
    """The flags, with the name of the repository in `name`, and all other words in `paths`.

    With --name or --directory all words are PATHs, where the verb takes such. Units of earlier releases give
    one name to `export` and `import` with --directory, which is taken as one `of_units`, unless
    `refuse_ambiguous` finds that it is a path. `status` takes the grid spec in place of NAME, too.
    Raises GridwrightError, also for an empty word: a path of a shell's variable that is not set is not all.
    """
    if "" in (flags.name, flags.label, *(getattr(flags, "paths", None) or ())):
        raise input_error(
            "a NAME or a PATH is empty",
            where="NAME, PATH",
            remedy="see whether a variable of the shell is set; leave the word out, or write ., for all",
        )
    if isinstance(flags, StatusFlags) and flags.name is not None and _may_be_spec(flags.name):
        flags = replace(flags, name=None, grid=read_path(flags.name))
    has_directory = getattr(flags, "directory", None) is not None
    if not isinstance(flags, PathFlags):
        if flags.name is not None and flags.label not in (None, flags.name):
            raise input_error(f"{flags.name} or {flags.label}?", where="NAME, --name", remedy="write one")
        flags = replace(flags, name=flags.name or flags.label)
    elif has_directory or flags.label is not None:
        is_name = flags.name is not None and not flags.paths and Path(flags.name).name == flags.name
        if not (has_directory and of_units and is_name and flags.label in (None, flags.name)):
            paths = [] if flags.name is None else [flags.name]
            flags = replace(flags, name=flags.label, paths=paths + (flags.paths or []))
    if not has_directory and flags.name is not None and Path(flags.name).suffix in _SPECS:
        raise input_error(
            f"{flags.name} is a grid spec, and no repository",
            where="NAME",
            remedy=f"write --grid {shlex.quote(flags.name)}",
        )
    if isinstance(flags, RepositoryFlags) and not (has_directory or flags.bucket or flags.grid):
        _refuse_without_spec()
    return flags


def _refuse_without_spec() -> None:
    if not DEFAULT_SPEC.exists():
        raise input_error(
            "no such file",
            where=str(DEFAULT_SPEC),
            remedy="run gridwright init to write one, or name one by --grid FILE; without any, write "
            "--directory DIR --bucket s3://bucket/prefix",
        )


def _may_be_spec(word: str) -> bool:
    """Whether what stands in place of a repository's name is a file; no name ends as specs do."""
    return Path(word).suffix in _SPECS or Path(word).is_file()


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
    """What Gridwright carries of a grid, or without one what the flags name. Raises GridwrightError."""
    if spec is not None:
        return [_with_grid(flags, each) for each in all_of_grid(spec, flags.name)]
    return [replace(_without_grid(flags, flags.name), changelog=flags.changelog)]


def _without_grid(flags: RepositoryFlags, name: str | None) -> RepositorySettings:
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
        named_by=_words(flags, name),
    )


def _words(flags: RepositoryFlags, name: str | None) -> str:
    """The flags that name a repository without a grid spec, as a shell takes them."""
    given: dict[str, object] = {"name": name, "directory": flags.directory, "bucket": flags.bucket}
    given |= {"endpoint": flags.endpoint, "ids": flags.ids, "hsm-archive": flags.hsm_archive}
    words = [word for flag, value in given.items() if value is not None for word in (f"--{flag}", str(value))]
    return shlex.join([*words, *(["--requester-pays"] if flags.requester_pays else [])])


def _ids(text: str) -> tuple[int, int]:
    from gridwright.spec.repository import read_ids

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
