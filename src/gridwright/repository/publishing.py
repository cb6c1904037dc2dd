"""Tells other machines, by the manifest, what this one knows: rows, and which library has which file.

Who publishes holds the lease of the repository, and has learned what others published since it got that.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from operator import attrgetter

from gridwright.repository.content import FileContent
from gridwright.repository.keys import MANIFEST
from gridwright.repository.known import Known
from gridwright.repository.known_file import COLUMNS, KnownFile
from gridwright.repository.manifest import readable_rows, write_manifest
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.state_directory import identifier_of
from gridwright.repository.state_failures import state_failure

_LIBRARY = "library"
"""The fact that names a library whose directory has no identifier."""
_WRITTEN = "manifest written"
NAMES = "is_name_only <> 0 AND inode = 0"
"""Rows of names that no file here has."""
_MOST_LIBRARIES = 16
_values = attrgetter(*COLUMNS)


def library_of(known: Known) -> str:
    """The identifier of the library, on all machines that have it; of this machine's where it has none."""
    found = identifier_of(known.state.identity) or known.fact(_LIBRARY)
    if not found:
        found = secrets.token_hex(16)
        known.set_fact(_LIBRARY, found)
    return found


def forget_newer(known: Known) -> None:
    """Forget what the former manifest said of newer objects than those of the files here."""
    known.database.execute("DELETE FROM newer")


def keep_newer(known: Known, row: KnownFile) -> None:
    """Keep the row of another library, of an object that is newer than that of the file here."""
    places = ", ".join("?" * len(COLUMNS))
    known.database.execute(f"INSERT OR REPLACE INTO newer VALUES ({places})", _values(row))  # noqa: S608


def _newer(database: sqlite3.Connection, path: bytes) -> KnownFile | None:
    query = f"SELECT {', '.join(COLUMNS)} FROM newer WHERE path = ?"  # noqa: S608 - names of our own
    found = database.execute(query, (path,)).fetchone()
    return KnownFile(*found) if found else None


def published_rows(known: Known) -> Iterator[KnownFile]:
    """The rows as others are to know them: each with the libraries that have its file."""
    database, own = known.database, library_of(known)
    has_newer, has_leaving = (
        database.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None  # noqa: S608
        for table in ("newer", "leaving")
    )
    for row in known.rows():
        newer = _newer(database, row.path) if has_newer else None
        if newer is not None and newer.is_later(row):
            yield newer
            continue
        others = [each for each in row.libraries.split() if each != own]
        is_here = bool(row.inode) or (own in row.libraries and not row.is_only_in_bucket)
        if is_here and not (has_leaving and _is_leaving(database, row.path)):
            others.insert(0, own)
        yield replace(row, libraries=" ".join(others[:_MOST_LIBRARIES]))


def _is_leaving(database: sqlite3.Connection, path: bytes) -> bool:
    query = "SELECT 1 FROM leaving WHERE path = ? AND is_tried = 0"
    return database.execute(query, (path,)).fetchone() is not None


def publish_manifest(opened: OpenRepository, report: RepositoryReport) -> None:
    """Write the manifest from what is known, and send it; what it cannot have is named.

    Raises GridwrightError.
    """
    known = opened.known
    facts = {"exported": known.fact("exported") or "", "written": repr(time.time())}
    file = known.state.path / f"{MANIFEST}.{os.getpid()}.part"
    try:
        rows = readable_rows(
            published_rows(known),
            lambda row, why: report.problem(row.path, f"it is not in the manifest: {why}"),
        )
        write_manifest(file, rows, facts)
        with file.open("rb") as content:
            sent = opened.store.send(opened.keys.own(MANIFEST), FileContent(content.fileno()), {}).result()
        known.set_fact("manifest", sent.etag)
        _keep_published(known, facts["written"])
    except OSError as error:
        raise state_failure(error, file, what="the manifest") from error
    finally:
        file.unlink(missing_ok=True)


def keep_dropped(known: Known, published: str, written: str) -> None:
    """Keep which names a manifest lacks, that another machine wrote later than the one before.

    `published` is the table of this run that has its paths. An older one, which somebody has set back, says
    nothing.
    """
    if not _is_later(written, known.fact(_WRITTEN)):
        return
    known.flush()
    with known.transaction():
        known.database.execute("DELETE FROM dropped")
        known.database.execute(
            f"INSERT INTO dropped SELECT path FROM files WHERE {NAMES} "  # noqa: S608 - names of our own
            f"AND path NOT IN (SELECT path FROM {published})"
        )
    known.set_fact(_WRITTEN, written)


def _keep_published(known: Known, written: str) -> None:
    """Note that the manifest is one's own, which has all names."""
    known.database.execute("DELETE FROM dropped")
    known.set_fact(_WRITTEN, written)


def note_published(known: Known, paths: Iterable[bytes]) -> None:
    """Keep paths of a manifest, for this run."""
    known.database.executemany("INSERT OR IGNORE INTO published VALUES (?)", ((path,) for path in paths))


def _is_later(written: str, before: str | None) -> bool:
    """Whether a manifest says that it was written later than another one did."""
    try:
        return float(written) > float(before or 0.0)
    except ValueError:
        return False
