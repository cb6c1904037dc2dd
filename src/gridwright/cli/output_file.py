"""Files that verbs write where the user says: checked before the work, written whole after it."""

from __future__ import annotations

from pathlib import Path

from gridwright.cli.arguments import Reader
from gridwright.errors import environment_error


def check_output(reader: Reader, flag: str, path: Path | None, *, overwrite: bool = True) -> None:
    """Note what would keep `path` from being written; a flag that was not given is fine."""
    if path is None:
        return
    if path.is_dir():
        reader.problem(f"{path} is a directory", flag, "name a file in it")
    elif not path.parent.is_dir():
        reader.problem(f"there is no directory {path.parent}", flag, "make it, or name another")
    elif path.exists() and not overwrite:
        reader.problem(f"{path} is there already", flag, "name another, or add --overwrite")


def write_output(path: Path, content: str | bytes) -> None:
    """Write the file, or leave nothing. Raises GridwrightError where the file system refuses."""
    from gridwright.runs.atomic import write_atomically

    try:
        write_atomically(path, content)
    except OSError as error:
        raise environment_error(
            f"cannot be written: {error.strerror}", where=str(path), remedy="Name a place that can be"
        ) from error
