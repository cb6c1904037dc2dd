"""`gridwright render`: every file that `up` would use, readable and usable without Gridwright.

The directory of rendered files is brought up to date by what is known of it: which files are Gridwright's
own.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gridwright.cli.arguments import Json, SpecFile, read_path
from gridwright.cli.output import LazyResult, Output
from gridwright.errors import ExitStatus, GridwrightError, Problem, environment_error, input_error

if TYPE_CHECKING:
    from gridwright.beneath import Beneath

Out = Annotated[
    Path, typer.Option("--out", metavar="DIR", parser=read_path, help="The directory to write them to.")
]
Slurm = Annotated[
    str, typer.Option(metavar="RELEASE", help="The release of Slurm that they are for: 22.05 to 24.11.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Write over files that were edited, too.")]


Image = Annotated[
    bool,
    typer.Option("--image", help="Write what builds an image for the grid's machines instead, by Packer."),
]


def render(
    out: Out,
    file: SpecFile = None,
    slurm: Slurm = "22.05",
    image: Image = False,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Write what `up` would use: playbook, configuration of Slurm, a README with next commands.

    On AWS also two CloudFormation templates, the bundle that machines set themselves up from, and the bill.

    With --image, of a grid on AWS, what builds an image that has the packages of its machines: a template of
    Packer and the playbook that it runs. Machines that start from it are set up in a fraction of the time.

    The same spec gives the same files. A directory with anything that `render` did not write is refused.

    \b
    Examples:
      gridwright render grid.yaml --out rendered
      gridwright render grid.yaml --out rendered --slurm 23.11
      gridwright render grid.yaml --out image --image
    """  # noqa: D301 - \b keeps typer from filling the lines
    from gridwright.cli.spec_file import load_placed, render_here, render_image_here
    from gridwright.spec.findings import unsilenced

    spec = load_placed(file)
    rendering = render_image_here(spec, slurm) if image else render_here(spec, slurm)
    findings = unsilenced(rendering.findings, spec.silence)
    done = write_rendered(out, rendering.files, overwrite=overwrite)
    document = {
        "file": str(spec.file),
        "directory": str(out),
        "files": [asdict(each) for each in done],
        "findings": [asdict(finding) for finding in findings],
    }
    lines = [f"{each.state:<9} {out / each.path}" for each in done]
    lines += [f"\n{finding}" for finding in findings]
    Output("render", json=json).show(
        LazyResult(document=lambda: document, text=lambda: "\n".join(lines)),
        following=f"see {out / 'README.md'}",
    )


LIST = ".gridwright-render.json"
"""Names the files that were written, each with the digests of what they may hold."""
_ELSEWHERE = "name an empty directory, or one that does not exist"
_TRUSTED = "name a directory of your own that nobody else can write, and nobody else what is above it"
_MOST_LIST_BYTES = 16 << 20
_KEY, _KEY_MODE, _MODE = ".key", 0o600, 0o644
"""How names of keys end, which their owner alone may read; and what the umask takes from of other files."""

State = Literal["written", "unchanged", "removed"]


@dataclass(frozen=True, slots=True)
class RenderedFile:
    """What became of one file."""

    path: str
    state: State


def write_rendered(
    directory: Path, files: Mapping[str, str | bytes], *, overwrite: bool
) -> list[RenderedFile]:
    """Make the directory hold these files and no others of an earlier time; each file whole or not at all.

    What Terraform and its user keep in a root that was rendered here stays as it is.
    Raises GridwrightError: status INPUT, before anything is written, where the directory holds other files
    that were not written here, or, without `overwrite`, that were edited since; ENVIRONMENT where the file
    system refuses, or other users can write there.
    """
    from gridwright.beneath import Beneath, descriptor_path
    from gridwright.trusted import open_directory

    if os.path.lexists(directory) and not directory.is_dir():
        raise input_error(f"{directory} is no directory", where="--out", remedy=_ELSEWHERE)
    try:
        opened = open_directory(directory, make=0o755, remedy=_TRUSTED)
        try:
            ours = _ours(opened, directory)
            _check(directory, files, ours, overwrite)
            with Beneath(Path(descriptor_path(opened))) as beneath:
                for name in sorted({*files, *ours}):
                    _check_way(beneath, directory, name)
                return _write(beneath, files, ours)
        finally:
            os.close(opened)
    except OSError as error:
        raise environment_error(
            f"cannot be written: {error.strerror}",
            where=str(directory / str(error.filename or "")),
            remedy=_ELSEWHERE,
        ) from error


def _ours(opened: int, directory: Path) -> dict[str, set[str]]:
    """Files of an earlier time, with the digests of what was written into them.

    The list says what is overwritten and removed: it is believed where nobody else can have written it.
    """
    from gridwright.trusted import read_file

    try:
        content = json.loads(read_file(opened, LIST, _MOST_LIST_BYTES))
        names = {str(name): {str(digest) for digest in digests} for name, digests in content["files"].items()}
        # Files that are not rendered any more are removed: none outside the directory.
        if any(PurePath(name).is_absolute() or ".." in PurePath(name).parts for name in names):
            raise ValueError
        return names
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise input_error(
            f"{LIST} is damaged, so nothing says which files are Gridwright's",
            where=str(directory),
            remedy=_ELSEWHERE,
        ) from None


def _check_way(beneath: Beneath, directory: Path, name: str) -> None:
    """Raise GridwrightError where another user can exchange a directory on the way to a file, or made it."""
    from gridwright.trusted import untrusted

    try:
        others = beneath.writers(os.fsencode(name)) - {0, os.geteuid()}
    except FileNotFoundError:
        return
    except OSError as error:
        where = str(directory / name)
        raise untrusted(where, f"what leads there is no directory: {error.strerror}", _TRUSTED) from error
    if others:
        raise untrusted(directory / name, "other users can write a directory on the way to it", _TRUSTED)


def _check(
    directory: Path, files: Mapping[str, str | bytes], ours: Mapping[str, set[str]], overwrite: bool
) -> None:
    problems = []
    for name in sorted(_there(directory)):
        path, is_known = PurePath(name), name in ours or name in files
        if _is_compiled(path, ours) or (not is_known and _is_of_root(path, ours)):
            continue
        if name not in ours:
            problems.append(Problem("it was not written by gridwright render", name, remedy=_ELSEWHERE))
        elif not overwrite and _digest((directory / name).read_bytes()) not in ours[name]:
            if name in files and (directory / name).read_bytes() == _bytes(files[name]):
                continue
            remedy = "keep what was changed elsewhere, then add --overwrite; or name another directory"
            problems.append(Problem("it was edited since gridwright render wrote it", name, remedy=remedy))
    if problems:
        found = [
            Problem(problem.what, str(directory / (problem.where or "")), remedy=problem.remedy)
            for problem in problems
        ]
        raise GridwrightError(*found, status=ExitStatus.INPUT)


def _is_compiled(path: PurePath, ours: Mapping[str, set[str]]) -> bool:
    """Whether it is what Python, which runs the playbook's plugins, keeps of a file of ours (PEP 3147)."""
    if path.parent.name != "__pycache__" or path.suffix != ".pyc":
        return False
    source = path.parent.parent / f"{path.name.partition('.')[0]}.py"
    return source.as_posix() in ours


def _is_of_root(path: PurePath, ours: Mapping[str, set[str]]) -> bool:
    """Whether it stands in a root of Terraform of ours: its state, provider, and the user's variables.

    Such a root is planned and applied where it was rendered, and rendered again for the next change.
    """
    return any((parent / "main.tf.json").as_posix() in ours for parent in path.parents)


def _there(directory: Path) -> Iterator[str]:
    for path in directory.rglob("*"):
        if not path.is_dir() or path.is_symlink():
            name = path.relative_to(directory).as_posix()
            if name != LIST:
                yield name


def _write(
    beneath: Beneath, files: Mapping[str, str | bytes], ours: Mapping[str, set[str]]
) -> list[RenderedFile]:
    """The list is written first with what may be there, so that a render that was killed can be repeated."""
    from gridwright.atomic import write_atomically

    wanted = {name: {_digest(_bytes(content))} for name, content in files.items()}
    if dict(ours) != wanted:
        _write_list(
            beneath, {name: ours.get(name, set()) | wanted.get(name, set()) for name in {*ours, *wanted}}
        )
    done = []
    for name, content in files.items():
        above, last = beneath.parent(os.fsencode(name), make=True)
        mode = _KEY_MODE if name.endswith(_KEY) else _MODE
        if _holds(above, os.fsdecode(last), _bytes(content), mode):
            done.append(RenderedFile(name, "unchanged"))
            continue
        write_atomically(os.fsdecode(last), content, mode, directory=above)
        done.append(RenderedFile(name, "written"))
    for name in sorted(set(ours) - set(files)):
        with suppress(FileNotFoundError):
            above, last = beneath.parent(os.fsencode(name))
            os.unlink(last, dir_fd=above)
        done.append(RenderedFile(name, "removed"))
    if dict(ours) != wanted:
        _write_list(beneath, wanted)
    return done


def _holds(directory: int, name: str, content: bytes, mode: int) -> bool:
    """Whether a file that is believed has this content, and lets in nobody beyond its mode."""
    from gridwright.trusted import open_file

    try:
        with os.fdopen(open_file(directory, name), "rb") as file:
            lets_in = stat.S_IMODE(os.fstat(file.fileno()).st_mode) & ~(mode | 0o111)
            return not lets_in and file.read(len(content) + 1) == content
    except (OSError, GridwrightError):
        return False


def _write_list(beneath: Beneath, files: Mapping[str, set[str]]) -> None:
    from gridwright.atomic import write_atomically

    content = {"schema": 1, "files": {name: sorted(files[name]) for name in sorted(files)}}
    write_atomically(LIST, json.dumps(content, indent=2) + "\n", _MODE, directory=beneath.root)


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def _digest(content: bytes) -> str:
    from hashlib import sha256

    return sha256(content).hexdigest()
