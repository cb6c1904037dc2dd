"""`gridwright repo serve`: an agent of Lustre's HSM brings contents when somebody reads them."""

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
    units: Annotated[
        bool, typer.Option("--units", help="Print the unit of systemd that does it, and end.")
    ] = False
    json: Json = False


def run_serve(flags: ServeFlags) -> ExitStatus:
    """Be an agent of the HSM of a Lustre of one's own: bring what is read, until SIGTERM. For root.

    Example: gridwright repo serve archive
    """
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
    if flags.hsm_archive is None:
        raise environment_error(
            "nothing there holds back who reads a file whose content is not here: only Lustre's HSM does",
            where=directory,
            remedy="bring contents beforehand: gridwright repo import",
        )
    if flags.units:
        return _show_unit(flags, directory)
    return _serve_lustre(flags, Path(directory), values["patience_s"])


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
            remedy="mount it first",
        )
    if flags.bucket is None or flags.hsm_archive is None:
        raise input_error("which bucket?", where="--bucket", remedy="write --bucket s3://bucket/prefix")
    url = BucketLocation.parse(flags.bucket).url
    serve_copytool(
        CopytoolService(
            directory, Path(mount.point), url, flags.hsm_archive, patience_s, flags.endpoint, flags.remove
        )
    )
    end_process()
    return ExitStatus.DONE


def _show_unit(flags: ServeFlags, directory: str) -> ExitStatus:
    from gridwright.setup.repository_services import copytool_unit

    name = flags.name or Path(directory).name
    if re.fullmatch(r"[A-Za-z0-9_.-]{1,80}", name) is None:
        raise input_error("this is no name of a unit", where="NAME", remedy="use letters, digits, - and _")
    program = shutil.which("gridwright") or str(Path(sys.argv[0]).absolute())
    more = ["--endpoint", flags.endpoint] if flags.endpoint else []
    more += ["--hsm-archive", str(flags.hsm_archive), "--bucket", flags.bucket or ""]
    more += ["--remove"] if flags.remove else []
    command = [program, "repo", "serve", name, "--directory", directory, "--patience", flags.patience, *more]
    files = copytool_unit(name, directory, command)
    text = "\n".join(f"# /etc/systemd/system/{name}\n{unit}" for name, unit in files.items())
    Output("repo serve", json=flags.json).show(
        LazyResult(document=lambda: {"units": files}, text=text.rstrip)
    )
    return ExitStatus.DONE
