"""The files of a stack on this machine: those of its root, the state beside them, and the lock of all.

Files that Gridwright has not written stay: with a backend.tf of its own a site keeps the state elsewhere.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gridwright.errors import GridwrightError, environment_error

WRITTEN = "written-by-gridwright.json"
"""Names of the files that Gridwright has written, so that those which a newer root lacks are removed."""

_LEFT = (".terraform*", "terraform.tfstate*", "*.tfplan", "*.log")
"""What the tools and their runs leave beside a root."""


class StackFiles:
    """The directory that a grid's stacks are below."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lock: int | None = None
        """The descriptor that holds the lock: a tool that keeps it open keeps the lock, too."""

    def of(self, name: str) -> Path:
        """The directory of a stack, there or not."""
        return self.directory / name

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock. Raises GridwrightError where another has it."""
        try:
            # Addresses and names of a site are in states.
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.lock = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self.lock)
            raise environment_error(
                "another gridwright, or a tool that it has started, changes this grid just now",
                where=str(self.directory),
                remedy="wait until it has ended, then run the same command",
            ) from None
        try:
            yield
        finally:
            os.close(self.lock)
            self.lock = None

    def put(self, name: str, files: Mapping[str, bytes]) -> Path:
        """Write the root, and remove what an earlier one had. Raises GridwrightError."""
        directory = self.of(name)
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            before = self._written(directory)
            # First what is about to be there, so that no interruption leaves a file that nobody knows.
            _write(directory / WRITTEN, _listed({*before, *files}))
            for path, content in files.items():
                _write(directory / path, content)
            for path in before - set(files):
                (directory / path).unlink(missing_ok=True)
            _write(directory / WRITTEN, _listed(set(files)))
        except OSError as error:
            raise self._unusable(error) from error
        return directory

    def is_there(self, name: str) -> bool:
        """Whether there is such a stack."""
        return (self.of(name) / WRITTEN).is_file()

    def has_backend(self, name: str) -> bool:
        """Whether a file of the site's own is there, which may say where the state is kept."""
        return any(self.of(name).glob("*.tf"))

    def remove(self, name: str) -> None:
        """Remove a stack that has nothing any more; files of the site's own stay. Raises GridwrightError."""
        directory = self.of(name)
        try:
            for each in [found for name in _LEFT for found in directory.glob(name)]:
                if each.is_dir():
                    shutil.rmtree(each)
                else:
                    each.unlink()
            for path in (*self._written(directory), WRITTEN):
                (directory / path).unlink(missing_ok=True)
        except OSError as error:
            raise self._unusable(error) from error
        for empty in (directory, self.directory):
            with contextlib.suppress(OSError):
                empty.rmdir()

    @staticmethod
    def _written(directory: Path) -> set[str]:
        try:
            return {str(each) for each in json.loads((directory / WRITTEN).read_bytes())}
        except (FileNotFoundError, ValueError):
            return set()

    def _unusable(self, error: OSError) -> GridwrightError:
        return environment_error(
            f"the directory of Terraform's state cannot be used: {error.strerror or error}",
            where=str(error.filename or self.directory),
            remedy="mend its rights or its disk, or name another one as oci.state",
        )


def _listed(names: set[str]) -> bytes:
    return (json.dumps(sorted(names), indent=1) + "\n").encode()


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
