"""The manifest: one Parquet file beside the objects that says of each what a listing does not.

Who makes a file system of the bucket, or compares with it, reads it instead of asking for each object. Rows
are in the order of paths. An object whose ETag differs from its row's was written since, and is asked for.
"""

from __future__ import annotations

import errno
import marshal
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import IO, Any, cast

from gridwright.repository import manifest_program
from gridwright.repository.admission import Admission
from gridwright.repository.extended import LONGEST_XATTRS
from gridwright.repository.known_file import COLUMNS, LONGEST_PATH, KnownFile, why_unfit
from gridwright.repository.manifest_program import (
    DAMAGED,
    END,
    FACTS,
    FAILED,
    READ,
    WRITE,
    Layout,
    ManifestError,
    Values,
)

MOST_REFUSED = 1_000
"""Rows that are refused before the whole manifest is."""
_LATEST_S = 2**33
EXPORTED_OF = "exported of "
"""How facts begin that say when a library, by its identifier, was last exported as a whole."""
_HERE_ONLY = ("ctime_ns", "inode", "is_name_only")
"""Columns that are true on one file system alone."""
_BINARY = frozenset({"path", "target", "xattrs", "link_of"})
_TEXT = frozenset({"key", "etag", "version_id", "crc64", "libraries"})
_WRITTEN = tuple(name for name in COLUMNS if name not in _HERE_ONLY)
LAYOUT = Layout(
    {
        name: (
            "bytes" if name in _BINARY else "str" if name in _TEXT else "int",
            LONGEST_XATTRS if name == "xattrs" else LONGEST_PATH,
        )
        for name in _WRITTEN
    },
    ("stored_ns", "libraries"),
)
"""What a manifest has of each row."""
_values = attrgetter(*_WRITTEN)
_BATCH = 1_000
_PROGRAM = (sys.executable, "-P", "-m", "gridwright.repository.manifest_program")
_DEATH_S = 1.0
Writer = Callable[[str, Layout, Mapping[str, str], Iterable[Sequence[Values]]], None]
Reader = Callable[[str, Layout], Iterator[tuple[Any, ...]]]


def write_apart(
    file: str, layout: Layout, facts: Mapping[str, str], batches: Iterable[Sequence[Values]]
) -> None:
    """`manifest_program.write` in a process of its own, where this user may begin one. Raises OSError."""
    if not os.access(sys.executable, os.X_OK):
        manifest_program.write(file, layout, facts, batches)
        return
    with _program(WRITE, file, layout, facts) as process:
        # A process that has failed takes no more, and says why.
        with suppress(BrokenPipeError):
            for batch in batches:
                _tell(process, batch)
            _tell(process, None)
        for _ in _answers(process):
            pass


def read_apart(file: str, layout: Layout) -> Iterator[tuple[Any, ...]]:
    """`manifest_program.read` in a process of its own, where this user may begin one.

    Raises ManifestError, OSError.
    """
    if not os.access(sys.executable, os.X_OK):
        yield from manifest_program.read(file, layout)
        return
    with _program(READ, file, layout, {}) as process:
        yield from _answers(process)


def write_manifest(
    file: Path, rows: Iterable[KnownFile], facts: Mapping[str, str], write: Writer = write_apart
) -> int:
    """Write the rows, some in memory at a time, and flush them to disk; how many. Raises OSError."""
    count = 0

    def batches() -> Iterator[list[Values]]:
        nonlocal count
        left = map(_values, rows)
        while some := list(islice(left, _BATCH)):
            count += len(some)
            yield some

    write(str(file), LAYOUT, facts, batches())
    return count


def readable_rows(
    rows: Iterable[KnownFile], left_out: Callable[[KnownFile, str], None]
) -> Iterator[KnownFile]:
    """Rows that readers take; `left_out` is called for others, which earlier releases knew, with why."""
    for row in rows:
        if reason := why_unfit(row):
            left_out(row, reason)
        else:
            yield row


class Manifest:
    """A manifest that is read. Close it in the end."""

    def __init__(self, file: Path, read: Reader = read_apart) -> None:
        """Read what it says of itself. Raises ManifestError, OSError."""
        self._said = read(str(file), LAYOUT)
        kind, found = next(self._said, ("", {}))
        if kind != FACTS:
            raise ManifestError("it is empty")
        self.facts: dict[str, str] = found
        """What it says of itself, such as when its export began."""
        for name, exported in self.facts.items():
            if exported and (name == "exported" or name.startswith(EXPORTED_OF)):
                self._hold_moment(exported)

    @staticmethod
    def _hold_moment(exported: str) -> None:
        try:
            is_moment = 0 <= float(exported) < _LATEST_S
        except ValueError:
            is_moment = False
        if not is_moment:
            raise ManifestError(f"its export began at {exported:.40}, which is no time")

    def rows(self, admission: Admission) -> Iterator[KnownFile]:
        """Its rows that may become files, some in memory at a time. Raises ManifestError, OSError.

        Whoever writes to the bucket writes the manifest: rows are in the order of paths, so that a few bytes
        are no endless file.
        """
        here_only: dict[str, Any] = dict.fromkeys(_HERE_ONLY, 0)
        last: bytes | None = None
        for _, refused, names, batch in self._said:
            if refused:
                admission.refuse_long(refused)
                _hold_refused(admission)
            for values in batch:
                row = KnownFile(**dict(zip(names, values, strict=True)), **here_only)
                if isinstance(row.path, bytes) and last is not None and row.path <= last:
                    raise ManifestError("its rows are not in the order of paths")
                if (found := admission.admitted(row)) is not None:
                    last = found.path
                    yield found
                else:
                    _hold_refused(admission)

    def close(self) -> None:
        """End what reads it."""
        cast("Any", self._said).close()


def read_manifest(file: Path, admission: Admission, read: Reader = read_apart) -> Iterator[KnownFile]:
    """All rows of a manifest, as `Manifest.rows` has them."""
    with closing(Manifest(file, read)) as manifest:
        yield from manifest.rows(admission)


def _hold_refused(admission: Admission) -> None:
    if admission.refused > MOST_REFUSED:
        raise ManifestError(f"more than {MOST_REFUSED} of its rows make no sense")


@contextmanager
def _program(
    verb: str, file: str, layout: Layout, facts: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has its order, and has ended in the end."""
    process = subprocess.Popen(
        _PROGRAM,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        with suppress(BrokenPipeError):
            _tell(process, (verb, file, dict(layout.columns), tuple(layout.later), dict(facts)))
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_DEATH_S)
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]


def _tell(process: subprocess.Popen[bytes], what: Any) -> None:  # noqa: ANN401 - plain values
    pipe = cast("IO[bytes]", process.stdin)
    marshal.dump(what, pipe)
    pipe.flush()


def _answers(process: subprocess.Popen[bytes]) -> Iterator[tuple[Any, ...]]:
    """What it says, to the end. Raises ManifestError and OSError as it has."""
    while True:
        try:
            said = marshal.load(cast("IO[bytes]", process.stdout))  # noqa: S302 - of our own
        except (EOFError, ValueError, TypeError) as error:
            raise OSError(errno.EIO, "the process that works on it has ended too early") from error
        if said[0] == END:
            return
        if said[0] == DAMAGED:
            raise ManifestError(said[1])
        if said[0] == FAILED:
            raise OSError(said[1], said[2])
        yield said
