"""Brings a directory of rendered files up to date, and knows which files in it are Gridwright's own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Literal

from gridwright.cli.output_file import write_output
from gridwright.errors import ExitStatus, GridwrightError, Problem, environment_error, input_error

LIST = ".gridwright-render.json"
"""Names the files that were written, each with the digests of what they may hold."""
_ELSEWHERE = "name an empty directory, or one that does not exist"

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
    system refuses.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        ours = _ours(directory)
        _check(directory, files, ours, overwrite)
        return _write(directory, files, ours)
    except FileExistsError:
        raise input_error(f"{directory} is no directory", where="--out", remedy=_ELSEWHERE) from None
    except OSError as error:
        raise environment_error(
            f"cannot be written: {error.strerror}", where=str(error.filename or directory), remedy=_ELSEWHERE
        ) from error


def _ours(directory: Path) -> dict[str, set[str]]:
    """Files of an earlier time, with the digests of what was written into them."""
    try:
        content = json.loads((directory / LIST).read_text("utf-8"))
        names = {str(name): {str(each) for each in digests} for name, digests in content["files"].items()}
        # Files that are not rendered any more are removed: none outside the directory.
        if any(PurePath(name).is_absolute() or ".." in PurePath(name).parts for name in names):
            raise ValueError
        return names
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise input_error(
            f"{LIST} is damaged, so nothing says which files are Gridwright's",
            where=str(directory),
            remedy=_ELSEWHERE,
        ) from None


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
            Problem(each.what, str(directory / (each.where or "")), remedy=each.remedy) for each in problems
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
    directory: Path, files: Mapping[str, str | bytes], ours: Mapping[str, set[str]]
) -> list[RenderedFile]:
    """The list is written first with what may be there, so that a render that was killed can be repeated."""
    wanted = {name: {_digest(_bytes(content))} for name, content in files.items()}
    if dict(ours) != wanted:
        _write_list(
            directory, {name: ours.get(name, set()) | wanted.get(name, set()) for name in {*ours, *wanted}}
        )
    done = []
    for name, content in files.items():
        path = directory / name
        if path.is_file() and not path.is_symlink() and path.read_bytes() == _bytes(content):
            done.append(RenderedFile(name, "unchanged"))
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        write_output(path, content)
        done.append(RenderedFile(name, "written"))
    for name in sorted(set(ours) - set(files)):
        (directory / name).unlink(missing_ok=True)
        done.append(RenderedFile(name, "removed"))
    if dict(ours) != wanted:
        _write_list(directory, wanted)
    return done


def _write_list(directory: Path, files: Mapping[str, set[str]]) -> None:
    content = {"schema": 1, "files": {name: sorted(files[name]) for name in sorted(files)}}
    write_output(directory / LIST, json.dumps(content, indent=2) + "\n")


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()
