"""`gridwright repo serve`: an agent of Lustre's HSM brings contents when somebody reads them."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.arguments import Json, Reader, Reads, read_flags, read_path
from gridwright.cli.data.repo_flags import NameFlags, named
from gridwright.cli.data.repo_of_grid import nothing_holds_back, served_with
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.spec_file import load_placed
from gridwright.errors import ExitStatus, environment_error, input_error
from gridwright.kernel_files import text_of

if TYPE_CHECKING:
    from gridwright.setup.services import ServedDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeFlags(NameFlags):
    """The flags of `serve`."""

    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A repository of the grid spec, with all others of its Lustre; with --directory, what its "
            "unit is called.  [default: that of the only Lustre]",
        ),
    ] = None
    directory: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            parser=read_path,
            help="Its directory, without a grid spec; once for each repository of the Lustre.",
        ),
    ] = None
    bucket: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="With --directory, for each: its bucket, s3://bucket/prefix."),
    ] = None
    hsm_archive: Annotated[
        list[int] | None,
        typer.Option(
            metavar="N",
            min=1,
            max=32,
            help="With --directory, for each: the archive of Lustre's HSM that it is.",
        ),
    ] = None
    remove: Annotated[
        bool,
        typer.Option("--remove", help="Delete objects when Lustre's HSM asks for it (lfs hsm_remove)."),
    ] = False
    endpoint: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="The store, if it is not AWS's own or that of AWS_ENDPOINT_URL; once, or for each directory "
            "('' for those).",
        ),
    ] = None
    patience: Annotated[
        str,
        typer.Option(metavar="TIME", help="How long a reader waits while nothing comes from the store."),
        Reads(Reader.seconds, "patience_s"),
    ] = "60s"
    units: Annotated[
        bool, typer.Option("--units", help="Print the unit of systemd that does it, and end.")
    ] = False
    json: Json = False


def run_serve(flags: ServeFlags) -> ExitStatus:
    """Be this node's agent of the HSM of a Lustre of one's own: bring what is read, until SIGTERM. For root.

    Example: gridwright repo serve archive
    """
    flags, reader = named(flags), Reader()
    values = reader.finish(read_flags(flags, reader))
    if not 0 < values["patience_s"] <= 86400:
        raise input_error("a reader waits from 1 s to 24 h", where="--patience", remedy="write 60s")
    if flags.directory:
        served = _named(flags)
        name = flags.name or Path(served[0].directory).name
    else:
        name, served = served_with(load_placed(flags.grid), flags.name)
        if flags.endpoint:
            served = [
                directory._replace(endpoint=directory.endpoint or flags.endpoint[0]) for directory in served
            ]
    if flags.units:
        return _show_unit(flags, name, served)
    return _serve_lustre(flags, served, values["patience_s"])


def _named(flags: ServeFlags) -> list[ServedDirectory]:
    """The repositories that flags name. Raises GridwrightError."""
    from gridwright.setup.services import ServedDirectory

    directories = [each.absolute() for each in flags.directory or ()]
    buckets, archives, endpoints = flags.bucket or [], flags.hsm_archive or [], flags.endpoint or []
    if not archives:
        raise nothing_holds_back(directories[0])
    for flag, given in (("--bucket", buckets), ("--hsm-archive", archives)):
        if len(given) != len(directories):
            raise input_error(
                f"{len(directories)} directories have {len(given)} of it",
                where=flag,
                remedy="write it once for each --directory, in the same order",
            )
    if len(set(archives)) < len(archives):
        raise input_error("an archive is of one directory", where="--hsm-archive", remedy="write others")
    if len(endpoints) not in (0, 1, len(directories)):
        raise input_error("which is of which?", where="--endpoint", remedy="write one, or one for each")
    if len(endpoints) < 2:
        endpoints = (endpoints or [""]) * len(directories)
    return [
        ServedDirectory(str(directory), bucket, archive, endpoint or None)
        for directory, bucket, archive, endpoint in zip(
            directories, buckets, archives, endpoints, strict=True
        )
    ]


def _serve_lustre(flags: ServeFlags, served: Sequence[ServedDirectory], patience_s: float) -> ExitStatus:
    """Be an agent of Lustre's HSM. Raises GridwrightError."""
    from gridwright.filesystems.mounts import mount_of, parse_mounts
    from gridwright.repository.copytool.service import (
        CopytoolService,
        ServedRepository,
        end_process,
        serve_copytool,
    )
    from gridwright.repository.s3.connection import BucketLocation

    table = parse_mounts(text_of(Path("/proc/mounts")) or "")
    mounts = {each.directory: mount_of(each.directory, table) for each in served}
    for directory, mount in mounts.items():
        if mount is None or mount.type != "lustre":
            raise environment_error("no Lustre is mounted there", where=directory, remedy="mount it first")
    points = {mount.point for mount in mounts.values() if mount is not None}
    if len(points) > 1:
        raise input_error(
            f"they lie on different mounts: {', '.join(sorted(points))}",
            where="--directory",
            remedy="start an agent for each",
        )
    repositories = [
        ServedRepository(
            Path(each.directory), BucketLocation.parse(each.bucket).url, each.archive_id, each.endpoint
        )
        for each in served
    ]
    serve_copytool(CopytoolService(Path(points.pop()), repositories, patience_s, flags.remove))
    end_process()
    return ExitStatus.DONE


def _show_unit(flags: ServeFlags, name: str, served: Sequence[ServedDirectory]) -> ExitStatus:
    from gridwright.setup.services import copytool_unit, serve_command

    if re.fullmatch(r"[A-Za-z0-9_.-]{1,80}", name) is None:
        raise input_error("this is no name of a unit", where="NAME", remedy="use letters, digits, - and _")
    program = shutil.which("gridwright") or str(Path(sys.argv[0]).absolute())
    command = [*serve_command(program, name, served), "--patience", flags.patience]
    command += ["--remove"] if flags.remove else []
    files = copytool_unit(name, [directory.directory for directory in served], command)
    text = "\n".join(f"# /etc/systemd/system/{name}\n{unit}" for name, unit in files.items())
    Output("repo serve", json=flags.json).show(
        LazyResult(document=lambda: {"units": files}, text=text.rstrip)
    )
    return ExitStatus.DONE
