"""The files of a stack on this machine: those of its root, the state beside them, and the lock of all.

Files that Gridwright has not written stay: with a backend.tf of its own a site keeps the state elsewhere.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gridwright.atomic import write_atomically
from gridwright.beneath import Beneath, remove_tree
from gridwright.errors import GridwrightError, environment_error
from gridwright.refusals import refusal
from gridwright.trusted import open_directory, read_file

WRITTEN = "written-by-gridwright.json"
"""Names of the files that Gridwright has written, so that those which a newer root lacks are removed."""

_LEFT = (".terraform*", "terraform.tfstate*", "*.tfplan", "*.log")
"""What the tools and their runs leave beside a root."""
_TRUSTED = "Terraform runs what is there: name a directory that you alone can write as oci.state"


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
            self.lock = open_directory(self.directory, make=0o700, remedy=_TRUSTED)
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
            before = self._written(name, make=0o700)
            with Beneath(directory) as beneath:
                # First what is about to be there, so that no interruption leaves a file that nobody knows.
                _write(beneath, WRITTEN, _listed({*before, *files}))
                for path, content in files.items():
                    _write(beneath, path, content)
                for path in before - set(files):
                    _unlink(beneath, path)
                _write(beneath, WRITTEN, _listed(set(files)))
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
            written = self._written(name)
            for each in [found for left in _LEFT for found in directory.glob(left)]:
                if not remove_tree(each):
                    each.unlink()
            with Beneath(directory) as beneath:
                for path in (*written, WRITTEN):
                    _unlink(beneath, path)
        except OSError as error:
            raise self._unusable(error) from error
        for empty in (directory, self.directory):
            with contextlib.suppress(OSError):
                empty.rmdir()

    def _written(self, name: str, make: int | None = None) -> set[str]:
        """Files that the list in a stack's directory names, where nobody else can have written it.

        Raises GridwrightError and OSError.
        """
        opened = open_directory(name, directory=self.lock, make=make, remedy=_TRUSTED)
        try:
            return {str(each) for each in json.loads(read_file(opened, WRITTEN))}
        except (FileNotFoundError, ValueError, TypeError, RecursionError):
            return set()
        finally:
            os.close(opened)

    def _unusable(self, error: OSError) -> GridwrightError:
        where = self.directory / os.fsdecode(error.filename or "")
        why = refusal(where, error, "name another one as oci.state", writes=True)
        return environment_error(
            f"the directory of Terraform's state cannot be used: {why.reason}",
            where=str(where),
            remedy=why.remedy,
        )


def _listed(names: set[str]) -> bytes:
    return (json.dumps(sorted(names), indent=1) + "\n").encode()


def _write(beneath: Beneath, path: str, content: bytes) -> None:
    directory, name = beneath.parent(os.fsencode(path), make=True)
    write_atomically(os.fsdecode(name), content, directory=directory)


def _unlink(beneath: Beneath, path: str) -> None:
    """Remove a file of the list: none outside the directory, and nothing through a link."""
    with contextlib.suppress(FileNotFoundError):
        directory, name = beneath.parent(os.fsencode(path))
        os.unlink(name, dir_fd=directory)
