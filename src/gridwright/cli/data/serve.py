"""`gridwright repo serve`: contents come when somebody reads them."""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from gridwright.cli.arguments import Json, Reader, read_path
from gridwright.cli.data.repo_flags import HsmArchive
from gridwright.cli.data.repo_of_grid import one_of_grid
from gridwright.cli.flags import Reads, read_flags
from gridwright.cli.grid_file import GridFile
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.spec_file import load_placed
from gridwright.errors import ExitStatus, environment_error, input_error
from gridwright.kernel_files import text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeFlags:
    """The flags of `serve`."""

    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="A repository of the grid spec.  [default: the only one]"),
    ] = None
    grid: GridFile = None
    directory: Annotated[
        Path | None, typer.Option(metavar="DIR", parser=read_path, help="Its directory, without a grid spec.")
    ] = None
    bucket: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="With --directory, on a Lustre of one's own: its bucket, s3://bucket/prefix.",
        ),
    ] = None
    hsm_archive: HsmArchive = None
    remove: Annotated[
        bool,
        typer.Option("--remove", help="Delete objects when Lustre's HSM asks for it (lfs hsm_remove)."),
    ] = False
    endpoint: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The store, if it is not AWS's own or that of AWS_ENDPOINT_URL."),
    ] = None
    patience: Annotated[
        str,
        typer.Option(metavar="TIME", help="How long a reader waits while nothing comes from the store."),
        Reads(Reader.seconds, "patience_s"),
    ] = "60s"
    close: Annotated[
        bool,
        typer.Option("--close", help="Close the directory to users until it is served, and end."),
    ] = False
    units: Annotated[
        bool, typer.Option("--units", help="Print the units of systemd that do both, and end.")
    ] = False
    json: Json = False


def run_serve(flags: ServeFlags) -> ExitStatus:
    """Load what is read in a directory of names, until SIGTERM. For root, on ext4, XFS and an own Lustre.

    Example: gridwright repo serve archive
    """
    from gridwright.repository.lazy.service import LazyService, close_directory, serve

    reader = Reader()
    values = reader.finish(read_flags(flags, reader))
    if flags.directory is None:
        found = one_of_grid(load_placed(flags.grid), flags.name)
        flags = replace(
            flags,
            name=found.name,
            directory=found.directory,
            bucket=found.bucket_url,
            hsm_archive=found.archive_id,
            endpoint=flags.endpoint or found.endpoint,
        )
    directory = str((flags.directory or Path()).absolute())
    if not 0 < values["patience_s"] <= 86400:
        raise input_error("a reader waits from 1 s to 24 h", where="--patience", remedy="write 60s")
    if flags.units:
        return _show_units(flags, directory)
    if flags.hsm_archive is not None:
        return _serve_lustre(flags, Path(directory), values["patience_s"])
    if flags.close:
        names = close_directory(directory)
        text = f"{directory}: {names} names" + (", closed to users" if names else "")
        Output("repo serve", json=flags.json).show(
            LazyResult(document=lambda: {"directory": directory, "names": names}, text=lambda: text)
        )
        return ExitStatus.DONE
    _refuse_clients(directory)
    serve(LazyService(directory, values["patience_s"], flags.endpoint))
    return ExitStatus.DONE


def _serve_lustre(flags: ServeFlags, directory: Path, patience_s: float) -> ExitStatus:
    """Be an agent of Lustre's HSM. Raises GridwrightError."""
    from gridwright.filesystems.mount_table import mount_of, parse_mounts
    from gridwright.repository.copytool.service import CopytoolService, end_process, serve_copytool
    from gridwright.repository.s3.connection import BucketLocation

    mount = mount_of(str(directory), parse_mounts(text_of(Path("/proc/mounts")) or ""))
    if mount is None or mount.type != "lustre":
        raise environment_error(
            "no Lustre is mounted there",
            where=str(directory),
            remedy="mount it first; without --hsm-archive directories of ext4 and XFS are served",
        )
    if flags.bucket is None or flags.hsm_archive is None:
        raise input_error("which bucket?", where="--bucket", remedy="write --bucket s3://bucket/prefix")
    if flags.close:
        raise input_error(
            "Lustre holds readers back by itself, so that nothing is closed",
            where="--close",
            remedy="leave it out",
        )
    url = BucketLocation.parse(flags.bucket).url
    serve_copytool(
        CopytoolService(
            directory, Path(mount.point), url, flags.hsm_archive, patience_s, flags.endpoint, flags.remove
        )
    )
    end_process()
    return ExitStatus.DONE


def _refuse_clients(directory: str) -> None:
    """Raise GridwrightError where a kind of file system is mounted that says why this is not its way."""
    from gridwright.filesystems.lazy_load import LazyLoadWay
    from gridwright.filesystems.mount_table import mount_of, parse_mounts
    from gridwright.filesystems.mounted_kind import kind_mounted_as

    mount = mount_of(directory, parse_mounts(text_of(Path("/proc/mounts")) or ""))
    kind = kind_mounted_as(mount.type) if mount is not None else None
    if kind is not None and (load := kind.lazy_load()).way is not LazyLoadWay.EVENTS:
        raise environment_error(
            f"contents cannot be loaded when they are read on {kind.title}: {load.why}",
            where=directory,
            remedy="load them beforehand: gridwright repo import --contents",
        )


def _show_units(flags: ServeFlags, directory: str) -> ExitStatus:
    from gridwright.setup.repository_services import copytool_unit, event_units

    name = flags.name or Path(directory).name
    if re.fullmatch(r"[A-Za-z0-9_.-]{1,80}", name) is None:
        raise input_error("this is no name of a unit", where="NAME", remedy="use letters, digits, - and _")
    program = shutil.which("gridwright") or str(Path(sys.argv[0]).absolute())
    more = ["--endpoint", flags.endpoint] if flags.endpoint else []
    if flags.hsm_archive is not None:
        more += ["--hsm-archive", str(flags.hsm_archive), "--bucket", flags.bucket or ""]
        more += ["--remove"] if flags.remove else []
    command = [program, "repo", "serve", name, "--directory", directory, "--patience", flags.patience, *more]
    units = event_units if flags.hsm_archive is None else copytool_unit
    files = units(name, directory, command)
    text = "\n".join(f"# /etc/systemd/system/{name}\n{unit}" for name, unit in files.items())
    Output("repo serve", json=flags.json).show(
        LazyResult(document=lambda: {"units": files}, text=text.rstrip)
    )
    return ExitStatus.DONE
