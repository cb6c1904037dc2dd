"""Tells other machines, by the manifest, what this one knows: rows, and which library has which file.

Who publishes holds the lease of the repository, and has learned what others published since it got that.

The manifest is one Parquet file beside the objects, which says of each what a listing does not.
Who makes a file system of the bucket, or compares with it, reads it instead of asking for each object. Rows
are in the order of paths. An object whose ETag differs from its row's was written since, and is asked for.

The native part writes and reads it (`native/manifest`). Whoever writes to the bucket writes the manifest:
what it says of its sizes is held to bounds before memory is taken for them.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

from gridwright import _native
from gridwright.errors import input_error
from gridwright.repository.admission import Admission
from gridwright.repository.content import FileContent
from gridwright.repository.extended import LONGEST_XATTRS
from gridwright.repository.keys import MANIFEST, shown
from gridwright.repository.known import LIBRARY, Known
from gridwright.repository.known_file import COLUMNS, LONGEST_PATH, KnownFile, why_unfit
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.state_failures import state_failure

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
_MANIFEST_COLUMNS = tuple(name for name in COLUMNS if name not in _HERE_ONLY)
_LAYOUT = [
    (
        name,
        "bytes" if name in _BINARY else "str" if name in _TEXT else "int",
        LONGEST_XATTRS if name == "xattrs" else LONGEST_PATH,
        name in ("stored_ns", "libraries"),
    )
    for name in _MANIFEST_COLUMNS
]
"""Of each column of a row: its name, its type, the longest value that is read, and whether the first releases
did not write it; those leave columns that they do not know."""
_FORMAT, _FACTS = "gridwright.format", "gridwright.facts"
_values = attrgetter(*_MANIFEST_COLUMNS)
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


_WRITTEN = "manifest written"
RELEASES = "releases"
"""The fact of a manifest that is another one after each release, and empty while files may be leaving: what
was seen here since it said the same can only have been removed by a user."""
NAMES = "is_name_only <> 0 AND inode = 0"
"""Rows of names that no file here has."""
_MOST_LIBRARIES = 16
_PLACE_OF = "place of "
"""How facts begin that say where a library is, by its identifier: host and directory of its last export."""
_LONGEST_PLACE = 400
_OF_LIBRARY = re.compile(f"(?:{EXPORTED_OF}|{_PLACE_OF})[0-9a-f]{{32}}", re.ASCII)


@dataclass(frozen=True, slots=True)
class KnownLibrary:
    """A library of a repository, as its bucket's manifest knows it."""

    identifier: str | None
    """None for one of which nothing was exported or imported yet."""
    place: str
    """Host and directory of its last export; empty where an earlier release made that."""
    last_export: float | None
    """When its last whole export began, in seconds since 1970."""
    is_own: bool
    """Whether it is this one."""

    def text(self) -> str:
        """For people."""
        when = datetime.fromtimestamp(self.last_export or 0.0, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        exported = f"last whole export {when}" if self.last_export else "never exported as a whole"
        own = ", this one" if self.is_own else ""
        return f"{self.identifier or 'none yet'}{own}: {self.place or 'place not known'}, {exported}"


def library_of(known: Known) -> str:
    """The identifier of the library, on all machines that have it; of this machine's where it has none."""
    found = known.state.library or known.fact(LIBRARY)
    if not found:
        found = secrets.token_hex(16)
        known.set_fact(LIBRARY, found)
    return found


def learn_moments(known: Known, facts: Mapping[str, str], libraries: Collection[str]) -> None:
    """Learn from the facts of a manifest when each library was last exported as a whole.

    Earlier releases wrote one moment, of whichever library had exported; it is this library's where
    `libraries`, those that the manifest's rows name, are no others. Raises GridwrightError.
    """
    own = library_of(known)
    mine = {EXPORTED_OF + each for each in (own, *known.former_libraries)}
    told = {name: value for name, value in facts.items() if _OF_LIBRARY.fullmatch(name) and value}
    found = {name: when for name, when in told.items() if name.startswith(EXPORTED_OF)}
    if not found and facts.get("exported") and set(libraries) == {own}:
        found = {EXPORTED_OF + own: facts["exported"]}
    for name, when in found.items():
        fact = "exported" if name in mine else name
        if float(when) > (known.moment(fact) or 0.0):
            known.set_fact(fact, when)
    for name, place in told.items():
        if name.startswith(_PLACE_OF) and known.fact(name) != (text := shown(place)[:_LONGEST_PLACE]):
            known.set_fact(name, text)


def known_libraries(known: Known) -> list[KnownLibrary]:
    """All libraries that the manifest has named and nobody has had it forget; this one first."""
    own = library_of(known)
    moments = {name.removeprefix(EXPORTED_OF): float(when) for name, when in _moments(known).items()}
    others = sorted((moments.keys() | _libraries(known).keys()) - {own, *known.former_libraries})
    found = [
        KnownLibrary(each, known.fact(_PLACE_OF + each) or "", moments.get(each), each == own)
        for each in (own, *others)
    ]
    return found if known.is_named else [replace(found[0], identifier=None), *found[1:]]


def _places(known: Known, moments: Iterable[str]) -> dict[str, str]:
    """Where libraries are, of which it is known when they were exported."""
    names = (_PLACE_OF + each.removeprefix(EXPORTED_OF) for each in moments)
    found = {name: known.fact(name) or "" for name in names}
    return {name: place for name, place in found.items() if place}


def _moments(known: Known) -> dict[str, str]:
    """When each library was last exported as a whole, the latest ones."""
    query = "SELECT name FROM facts WHERE substr(name, 1, ?) = ?"
    names = known.database.execute(query, (len(EXPORTED_OF), EXPORTED_OF)).fetchall()
    found = {name: known.moment(name) or 0.0 for (name,) in names}
    if when := known.moment("exported"):
        found[EXPORTED_OF + library_of(known)] = when
    latest = sorted(found, key=lambda name: found[name], reverse=True)
    return {name: repr(found[name]) for name in latest[:_MOST_LIBRARIES]}


def published_rows(known: Known) -> Iterator[KnownFile]:
    """The rows as others are to know them: each with the libraries that have its file.

    Nothing may be written meanwhile: these are other rows than those that are known.
    """
    own, has_newer, has_leaving = library_of(known), bool(known.newer), bool(known.leaving)
    for row in known.rows():
        newer = known.newer.get(row.path) if has_newer else None
        if newer is not None and newer.is_later(row):
            yield newer
            continue
        told = newer if newer is not None and newer.is_version_of(row) else row
        others = row.other_libraries(own)
        is_here = bool(row.inode) or (own in row.libraries and not row.is_only_in_bucket)
        if is_here and not (has_leaving and row.path in known.leaving):
            others.insert(0, own)
        told.libraries = " ".join(others[:_MOST_LIBRARIES])
        yield told


def _facts(known: Known) -> dict[str, str]:
    """What a manifest says beside its rows."""
    moments = _moments(known)
    facts = {name: known.fact(name) or "" for name in ("exported", RELEASES)}
    return facts | {"written": repr(time.time())} | moments | _places(known, (*moments, library_of(known)))


def publish_manifest(opened: OpenRepository, report: RepositoryReport) -> None:
    """Write the manifest from what is known, and send it; what it cannot have is named.

    Raises GridwrightError.
    """
    known = opened.known
    known.set_fact(RELEASES, "" if known.leaving else known.fact(RELEASES) or secrets.token_hex(16))
    place = f"{socket.gethostname()}:{shown(os.fsencode(known.directory))}"[:_LONGEST_PLACE]
    known.set_fact(_PLACE_OF + library_of(known), place)
    facts = _facts(known)
    file = known.working / f"{MANIFEST}.{os.getpid()}.part"
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
    """Keep which known paths a manifest lacks, that another machine wrote later than the one before.

    `published` is the table of this run that has its paths. An older one, which somebody has set back, says
    nothing. What it lacks no other library has, whatever an earlier one said.
    """
    if not _is_later(written, known.fact(_WRITTEN)):
        return
    known.flush()
    with known.transaction():
        known.database.execute("DELETE FROM dropped")
        known.database.execute(
            f"INSERT INTO dropped SELECT path FROM files WHERE path NOT IN (SELECT path FROM {published})"  # noqa: S608 - names of our own
        )
        known.database.execute(
            "UPDATE files SET libraries = CASE WHEN instr(libraries, ?1) THEN ?1 ELSE '' END "
            "WHERE libraries NOT IN (?1, '') AND path IN (SELECT path FROM dropped)",
            (library_of(known),),
        )
        known.database.execute("DELETE FROM newer WHERE path IN (SELECT path FROM dropped)")
    known.set_fact(_WRITTEN, written)


def _keep_published(known: Known, written: str) -> None:
    """Note that the manifest is one's own, which has all paths."""
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


def forget_library(known: Known, name: str) -> int:
    """Have the manifest name a library no more, which is gone for good; how many files it had by that.

    `name` is its identifier, or how that alone begins. Raises GridwrightError, with all that there are.
    """
    own, had = library_of(known), _libraries(known)
    found = [each for each in had if name and each.startswith(name)]
    if len(found) != 1 or found[0] == own:
        there = "; ".join(f"{each} has {count}" for each, count in sorted(had.items()) if each != own)
        raise input_error(
            "that is this library itself"
            if found == [own]
            else f"not one other library is called {name!a:.80}",
            where="--forget-library",
            remedy=f"by the manifest, of files: {there}" if there else "the manifest names no other library",
        )
    known.flush()
    for table in ("files", "newer"):
        query = f"UPDATE {table} SET libraries = trim(replace(' ' || libraries || ' ', ?, ' '))"  # noqa: S608
        known.database.execute(query, (f" {found[0]} ",))
    for fact in (EXPORTED_OF, _PLACE_OF):
        known.database.execute("DELETE FROM facts WHERE name = ?", (fact + found[0],))
    return had[found[0]]


def _libraries(known: Known) -> Counter[str]:
    """The libraries that rows name, and how many each."""
    query = "SELECT libraries, count(*) FROM {} WHERE libraries <> '' GROUP BY 1"
    found = Counter[str]()
    for table in ("files", "newer"):
        for names, count in known.database.execute(query.format(table)):
            found.update(dict.fromkeys(names.split(), count))
    return found
