"""The manifest: one Parquet file beside the objects that says of each what a listing does not.

Who makes a file system of the bucket, or compares with it, reads it instead of asking for each object. Rows
are in the order of paths. An object whose ETag differs from its row's was written since, and is asked for.

The native part writes and reads it (`native/manifest`). Whoever writes to the bucket writes the manifest:
what it says of its sizes is held to bounds before memory is taken for them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

from gridwright import _native
from gridwright.repository.admission import Admission
from gridwright.repository.extended import LONGEST_XATTRS
from gridwright.repository.known_file import COLUMNS, LONGEST_PATH, KnownFile, why_unfit

FORMAT = 2
"""1 had no `stored_ns`."""
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
_LAYOUT = [
    (
        name,
        "bytes" if name in _BINARY else "str" if name in _TEXT else "int",
        LONGEST_XATTRS if name == "xattrs" else LONGEST_PATH,
        name in ("stored_ns", "libraries"),
    )
    for name in _WRITTEN
]
"""Of each column of a row: its name, its type, the longest value that is read, and whether the first releases
did not write it; those leave columns that they do not know."""
_FORMAT, _FACTS = "gridwright.format", "gridwright.facts"
_values = attrgetter(*_WRITTEN)
_BATCH = 1_000
_NOT_READ = re.compile(r"Disabled feature at compile time: (\w+)")
"""What the reader of Parquet says of a compression that it was built without."""


class ManifestError(ValueError):
    """A file that is no manifest, is damaged, or is of a newer release."""


def write_manifest(file: Path, rows: Iterable[KnownFile], facts: Mapping[str, str]) -> int:
    """Write the rows, some in memory at a time; how many. Raises OSError."""
    head = [(_FORMAT, str(FORMAT)), (_FACTS, json.dumps(dict(facts)))]
    writer, left, count = _native.ManifestWriter(file, _LAYOUT, head), map(_values, rows), 0
    while some := list(islice(left, _BATCH)):
        writer.write(some)
        count += len(some)
    writer.finish()
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
    """A manifest that is read."""

    def __init__(self, file: Path) -> None:
        """Read what it says of itself. Raises ManifestError, OSError."""
        with _reading():
            self._reader = _native.ManifestReader(file, _LAYOUT)
            self.facts = _facts_of(dict(self._reader.head))
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
        names, absent = self._reader.columns, (0, "")
        values_of = itemgetter(
            *(names.index(each) if each in names else len(names) + (each in _TEXT) for each in COLUMNS)
        )
        last: bytes | None = None
        while (found := self._batch()) is not None:
            refused, batch = found
            if refused:
                admission.refuse_long(refused)
                _hold_refused(admission)
            for values in batch:
                row = admission.admitted(KnownFile(*values_of(values + absent)))
                if row is None:
                    _hold_refused(admission)
                    continue
                if last is not None and row.path <= last:
                    raise ManifestError("its rows are not in the order of paths")
                last = row.path
                yield row

    def _batch(self) -> tuple[int, list[tuple[Any, ...]]] | None:
        with _reading():
            return self._reader.batch(_BATCH)


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except ManifestError:
        raise
    except ValueError as error:
        if found := _NOT_READ.search(str(error)):
            why = f"its pages have the compression {found[1]}, which no release writes or reads"
            raise ManifestError(why) from error
        raise ManifestError(str(error)) from error


def _facts_of(head: Mapping[str, str]) -> dict[str, str]:
    if head.get(_FORMAT) not in ("1", str(FORMAT)):
        raise ManifestError(f"it has format {head.get(_FORMAT)!r:.40}, and this release reads {FORMAT}")
    try:
        return {str(name): str(value) for name, value in json.loads(head[_FACTS]).items()}
    except (AttributeError, KeyError, RecursionError) as error:
        raise ManifestError("its facts make no sense") from error


def read_manifest(file: Path, admission: Admission) -> Iterator[KnownFile]:
    """All rows of a manifest, as `Manifest.rows` has them."""
    yield from Manifest(file).rows(admission)


def _hold_refused(admission: Admission) -> None:
    if admission.refused > MOST_REFUSED:
        raise ManifestError(f"more than {MOST_REFUSED} of its rows make no sense")
