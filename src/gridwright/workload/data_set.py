"""A data set on disk: its manifest, what of it is there, and what a launch needs to know of it.

    DATA/gridwright-workload/<scale>-seed<seed>-v<version>/
        manifest.json
        copy-0/transactions.arrow ...

It is kept from run to run. `gridwright workload clean` removes it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gridwright.runs.atomic import write_atomically
from gridwright.workload.scales import Scale
from gridwright.workload.table_facts import TableFacts

if TYPE_CHECKING:
    from gridwright.workload.messages import Made

HOME = "gridwright-workload"
MANIFEST = "manifest.json"
_LOCK = ".lock"
_IN_USE = ".in-use"
_PARTIAL = ".partial"
_FACTS = {"rows", "sha256", "checksum", "expected"}
_OURS = re.compile(r"[a-z]+-seed\d+-v\d+")
_OUR_FILES = re.compile(r"[a-z]+\.(arrow|csv)(\.partial)?|\.?manifest\.json(\.\d+\.part)?")
VERSION = 1
"""Goes up whenever the same seed and scale would give other bytes."""


class Locked(Exception):
    """Another process is making this data set, or uses it."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set of a scale and a seed, in the directory of a library; it need not be there yet."""

    directory: Path
    scale: Scale
    seed: int

    @classmethod
    def of(cls, library: Path, scale: Scale, seed: int) -> DataSet:
        """The data set that belongs to a scale and a seed."""
        return cls(library / HOME / f"{scale.name}-seed{seed}-v{VERSION}", scale, seed)

    def path(self, table: str, copy: int, suffix: str) -> Path:
        """Where a table of a copy lies."""
        return self.directory / f"copy-{copy}" / f"{table}.{suffix}"

    def entries(self) -> dict[str, Any]:
        """What the manifest says of each table that is whole, by `copy/table`. Raises OSError.

        A table whose file is gone, or of another size, counts as not there; so does a manifest
        that cannot be read.
        """
        try:
            manifest = json.loads((self.directory / MANIFEST).read_text())
            if manifest["units"] != self.scale.units:
                return {}
            found = manifest["tables"].items()
            return {name: entry for name, entry in found if self._is_there(entry)}
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError, AttributeError):
            return {}

    def _is_there(self, entry: dict[str, Any]) -> bool:
        with contextlib.suppress(OSError):
            same = (self.directory / entry["file"]).stat().st_size == entry["bytes"]
            return bool(same and entry.keys() >= _FACTS)
        return False

    def record(self, made: dict[str, tuple[Path, Made]]) -> None:
        """Add tables, by `copy/table`, to the manifest. Raises OSError."""
        tables = self.entries()
        for name, (path, facts) in made.items():
            fields = asdict(facts)
            fields["bytes"] = fields.pop("bytes_")
            tables[name] = {"file": str(path.relative_to(self.directory))} | fields
        manifest = {
            "schema": 1,
            "version": VERSION,
            "scale": self.scale.name,
            "seed": self.seed,
            "units": self.scale.units,
            "tables": dict(sorted(tables.items())),
        }
        write_atomically(self.directory / MANIFEST, json.dumps(manifest, indent=1) + "\n")

    def facts(self, copy: int) -> dict[str, TableFacts]:
        """What a launch needs to know of the tables of a copy, by table. Raises OSError."""
        return {
            name.split("/", 1)[1]: TableFacts(
                path=self.directory / entry["file"],
                rows=entry["rows"],
                bytes_=entry["bytes"],
                checksum=entry["checksum"],
                expected=entry["expected"],
            )
            for name, entry in self.entries().items()
            if name.startswith(f"{copy}/")
        }

    def evict(self) -> None:
        """Take its files out of this node's page cache, where the kernel agrees (posix_fadvise(2))."""
        for entry in self.entries().values():
            with contextlib.suppress(OSError):
                fd = os.open(self.directory / entry["file"], os.O_RDONLY | os.O_CLOEXEC)
                try:
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(fd)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keep others from making the same data set. Raises Locked, and OSError.

        A file system without flock(2), such as Lustre without that mount option, is not locked:
        tables are renamed into place, so that two makers only do the work twice.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        with self._locked(_LOCK, fcntl.LOCK_EX):
            yield

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep others from removing the data set meanwhile; any number may use it.

        Where this user may not write, and no user who may has used it, nothing is locked.
        Raises BlockingIOError if it is being removed now.
        """
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(self._locked(_IN_USE, fcntl.LOCK_SH))
            except Locked:
                what = "another process is removing the data set"
                raise BlockingIOError(errno.EWOULDBLOCK, what, str(self.directory)) from None
            except OSError:
                pass
            yield

    @contextlib.contextmanager
    def unused(self) -> Iterator[None]:
        """Keep others from using the data set. Raises Locked if someone does, and OSError."""
        with self._locked(_IN_USE, fcntl.LOCK_EX):
            yield

    @contextlib.contextmanager
    def _locked(self, name: str, kind: int) -> Iterator[None]:
        path = self.directory / name
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError:
            # A shared lock needs no more than to read.
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(fd, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Locked from None
            except OSError:
                pass
            yield
        finally:
            os.close(fd)

    def remove_partial(self) -> None:
        """Remove what a killed maker left half written; only with the lock."""
        for file in self.directory.glob(f"copy-*/*{_PARTIAL}"):
            with contextlib.suppress(OSError):
                file.unlink()


def remove_data(library: Path) -> list[Path]:
    """Remove all data sets in a library; returns their directories. Raises Locked and OSError.

    Only what has a name of ours is removed; a file of someone else stays, with its directory.
    """
    removed = []
    home = library / HOME
    for directory in sorted(home.iterdir()) if home.is_dir() else []:
        if directory.is_symlink() or not directory.is_dir() or not _OURS.fullmatch(directory.name):
            continue
        data = DataSet(directory, Scale("", 0, 0.0, {}, {}), 0)
        with data.lock(), data.unused():
            copies = [each for each in directory.glob("copy-*") if not each.is_symlink()]
            for place in (*copies, directory):
                for file in [each for each in place.iterdir() if _OUR_FILES.fullmatch(each.name)]:
                    file.unlink()
            for name in (_LOCK, _IN_USE):
                (directory / name).unlink()
            for place in (*copies, directory):
                with contextlib.suppress(OSError):
                    place.rmdir()
        removed.append(directory)
    with contextlib.suppress(OSError):
        home.rmdir()
    return removed
