"""What verbs print and write: results as text or as one JSON document, and files where the user says.

Files are checked before the work, and written whole after it.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gridwright.cli.arguments import Reader
from gridwright.errors import GridwrightError, environment_error

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gridwright.providers.provider import Result


SCHEMA = 1
"""Version of all documents; it rises when a key changes its meaning."""


class LazyResult:
    """A result that is put together where it is printed; only what is asked for is made."""

    def __init__(self, *, document: Callable[[], Mapping[str, Any]], text: Callable[[], str]) -> None:
        self.document = document
        self.text = text


def plain(record: BaseModel) -> dict[str, Any]:
    """A record in plain values, as its file has them."""
    import json

    values: dict[str, Any] = json.loads(record.model_dump_json(by_alias=True))
    return values


@dataclass(frozen=True, slots=True)
class Output:
    """Standard output of one command, such as `status` or `runs list`."""

    command: str | None
    """None where the user named none."""
    json: bool = False
    """Whether to print one JSON document, and nothing else."""

    def show(self, result: Result, *, following: str = "", indent: int | None = 2) -> None:
        """Print a result, and in text the command or file to go on with.

        Raises GridwrightError (status ENVIRONMENT) where standard output takes no more.
        """
        if self.json:
            import json

            from gridwright.cli.named_spec import with_named_remedies

            content = with_named_remedies(result.document())
            document = {"schema": SCHEMA, "command": self.command, **content}
            self.write(json.dumps(document, indent=indent))
            return
        self.write(result.text())
        if following:
            self.write(f"\nnext: {following}")

    def note(self, text: str) -> None:
        """Print a line that goes with the result: on stderr where stdout is for the document alone."""
        stream = sys.stderr if self.json else sys.stdout
        stream.write(f"{text}\n")
        stream.flush()

    def write(self, text: str) -> None:
        """Print text as it is, ended by a newline; empty text prints nothing."""
        if text:
            sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
            sys.stdout.flush()


def check_output(reader: Reader, flag: str, path: Path | None, *, overwrite: bool = True) -> None:
    """Note what would keep `path` from being written; a flag that was not given is fine.

    Raises GridwrightError (ENVIRONMENT) where the file system refuses a file beside it.
    """
    if path is None:
        return
    if path.is_dir():
        reader.problem(f"{path} is a directory", flag, f"name a file in it, such as {path / 'out'}")
    elif not path.parent.is_dir():
        reader.problem(f"there is no directory {path.parent}", flag, "make it, or name another")
    elif os.path.lexists(path) and not overwrite:
        remedy = f"write {next_name(path)}, or replace it with --overwrite"
        reader.problem(f"{path} is there already: {what_is_there(path)}", flag, remedy)
    else:
        _try_to_write(path)


def what_is_there(path: Path) -> str:
    """A file in a few words: the grid that it describes, or its size."""
    from gridwright.spec import load_spec

    if path.is_symlink() and not path.exists():
        return "a link that leads nowhere"
    try:
        spec = load_spec(path)
    except GridwrightError:
        return "no grid spec" if path.is_file() else "no file"
    return f"the spec of grid {spec.name}, provider {spec.provider}"


def next_name(path: Path) -> Path:
    """The first name like `grid-2.yaml` that is free."""
    plain, _, number = path.stem.rpartition("-")
    if not (plain and number.isdecimal()):
        plain, number = path.stem, "1"
    names = (path.with_name(f"{plain}-{each}{path.suffix}") for each in itertools.count(int(number) + 1))
    return next(name for name in names if not os.path.lexists(name))


def _try_to_write(path: Path) -> None:
    """Make a file without a name where `path` is to be: only that tells whether the file system lets us."""
    import tempfile  # reads eight modules

    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise _refused(path, error) from None


def write_output(path: Path, content: str | bytes) -> None:
    """Write the file, or leave nothing. Raises GridwrightError where the file system refuses."""
    from gridwright.atomic import write_atomically

    try:
        write_atomically(path, content)
    except OSError as error:
        raise _refused(path, error) from error


def _refused(path: Path, error: OSError) -> GridwrightError:
    from gridwright.refusals import refusal

    why = refusal(path, error, "name a place that can be", writes=True)
    return environment_error(f"cannot be written: {why.reason}", where=str(path), remedy=why.remedy)
